//! Acceptance tests of the model: goldens of an independent twin, finite differences, invariants, hostile files.
#![allow(clippy::unwrap_used)]

mod counts;
#[cfg(feature = "cube")]
mod device;
mod fuzz;
mod fused;
mod golden;
mod gradient;
mod invariant;
mod leakage;
mod moments;
mod recovery;
mod refusal;
mod sampling;
mod scan;
mod toy;
mod weights;
