//! Figures and pages: records and plain numbers in, SVG, CSV and self-contained HTML out. What needs a model is computed
//! elsewhere and handed over as plain structs.

#![forbid(unsafe_code)]
// A field or function has a comment where its name and type do not say enough.
#![allow(missing_docs)]

mod escape;
pub mod palette;
mod scale;
mod source;
mod svg;
pub mod table;

pub mod chart;
pub mod figure;
mod heatmap;

mod brain;
pub mod network;

mod umap;
pub mod projection;

pub mod reconstruction;
pub mod training;

mod predictions;
mod splits;

pub mod page;
pub mod kind;
pub mod report;

pub mod bench;
mod cohort;
mod comparison;
pub mod explanation;
mod head;
mod inference;
mod model;
pub mod run;
pub mod sweep;

pub mod live;
pub mod terminal;
