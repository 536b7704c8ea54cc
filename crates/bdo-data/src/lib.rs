//! Scans, cohorts at rest, labels, splits, scaling and synthetic brains: the array world, without a tensor framework.
//!
//! Modules follow the data: a [`scan`] is read by [`ingest`] or made by [`synth`], a [`cohort`] keeps scans and
//! [`participants`] at rest, a [`division`] says who may be trained on, a [`scaler`] fitted on those makes scans ready for a model.

#![deny(unsafe_code)]
// A field or function has a comment where its name and type do not say enough.
#![allow(missing_docs)]

pub mod nifti;
pub mod atlas;
pub mod parcellate;
pub mod cifti;
pub mod region;
pub mod scan;
pub mod synth;
pub mod confound;
pub mod clean;
pub mod bids;
pub mod shard;
pub mod ingest;
pub mod participants;
pub mod pattern;
mod row;
pub mod cohort;
pub mod quality;
pub mod division;
pub mod target;
pub mod scaler;
pub mod quantile;
pub mod random;
pub mod record;
pub mod problem;
pub mod durable;
