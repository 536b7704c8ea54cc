//! Training without labels of the two token models: one step, one loop.

pub mod recipe;
pub mod settings;

pub mod learner;
pub mod scans;
pub mod step;

pub mod directory;
pub mod run;
