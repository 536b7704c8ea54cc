//! The evaluation against references nobody here wrote, and against cohorts whose truth is known.
#![allow(clippy::unwrap_used)]

mod chance;
mod cohorts;
mod goldens;
mod harmonise;
mod resume;
mod simulated;
