//! What is computed and drawn from a cohort: connectivity, figures, pages.

#![forbid(unsafe_code)]

pub mod connectivity;
pub mod heatmap;
pub mod histogram;
pub mod page;
pub mod panel;
