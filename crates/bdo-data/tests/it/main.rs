//! Integration tests of the data crate: one binary.
#![allow(clippy::unwrap_used)]

mod corruption;
mod fixture;
mod goldens;
mod merge;
mod resume;
mod scaler;
mod division;
