//! The evaluation against references nobody here wrote, and against cohorts whose truth is known.
#![allow(clippy::unwrap_used)]

mod chance;
mod cohorts;
mod embed;
mod finetune;
mod fixture;
mod goldens;
mod harmonise;
mod infer;
mod probe;
mod probe_golden;
mod resume;
mod simulated;
mod tuned;
