//! Scans, cohorts at rest, labels, splits, scaling and synthetic brains: the array world, without a tensor framework.
//!
//! Modules follow the data: a [`scan`] is read or simulated, a [`cohort`] keeps scans and [`participants`] at rest, a [`split`]
//! says who may be trained on, a [`scaler`] fitted on those makes scans ready for a model.

#![deny(unsafe_code)]

pub mod cohort;
pub mod durable;
pub mod participants;
pub mod quantile;
pub mod random;
pub mod region;
pub mod scaler;
pub mod scan;
pub mod ingest;
pub mod split;
