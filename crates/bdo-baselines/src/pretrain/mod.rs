//! Training without labels of the two token models.

pub mod recipe;
pub mod features;
pub mod model;
pub mod scans;
pub mod learner;
pub mod directory;
pub mod run;
