//! Training without labels of the two token models.

pub mod scans;
pub mod model;
pub mod learner;
pub mod directory;
pub mod run;
