//! Integration tests of training: one binary.
#![allow(clippy::unwrap_used)]

mod goldens;
mod learning;
