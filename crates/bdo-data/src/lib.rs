//! Scans, cohorts, labels, splits and synthetic brains.

pub mod atlas;
pub mod synth;
