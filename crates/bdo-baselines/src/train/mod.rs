//! One way to train every network over connectomes: same loop, same selection, same checkpoints.

pub mod checkpoint;
pub mod example;
pub mod fit;
pub mod objective;
pub mod recipe;
pub mod select;
