//! Tests of the baselines against references nobody here wrote, and of what they promise.
#![allow(clippy::unwrap_used, missing_docs)]

mod connectivity;
mod counts;
mod golden;
mod learning;
mod pairwise;
mod reference;
mod token;
mod tokens_learn;
