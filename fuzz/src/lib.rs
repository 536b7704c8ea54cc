//! The targets of the fuzzer.

pub mod targets;
