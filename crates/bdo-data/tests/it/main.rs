//! Integration tests of the data crate: one binary.
#![allow(clippy::unwrap_used)]

mod corruption;
mod division;
mod fixed;
mod fixture;
mod goldens;
mod images;
mod merge;
mod resume;
mod scaler;
mod source;
mod trees;
