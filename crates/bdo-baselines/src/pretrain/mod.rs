//! Training without labels of the two token models, in one loop.

pub mod learner;
pub mod recipe;
pub mod run;
