//! Tests of the optimiser, the step and the checkpoints.
#![allow(clippy::unwrap_used)]

mod checkpoint;
mod golden;
mod learning;
mod preset;
mod source;
mod step;
