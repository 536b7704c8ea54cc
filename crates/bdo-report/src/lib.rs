//! Figures and pages: plain data in, SVG, CSV and self-contained HTML out. Knows folders and files, but no tensors, so it
//! compiles in seconds; what needs a model is computed at the rim and handed over as plain structs.

#![forbid(unsafe_code)]

pub mod bench;
pub mod brain;
pub mod chart;
pub mod cohort;
pub mod comparison;
pub mod confusion;
pub mod escape;
pub mod figure;
pub mod head_folder;
pub mod heatmap;
pub mod infer_folder;
pub mod journal;
pub mod live;
pub mod model_folder;
pub mod network;
pub mod page;
pub mod palette;
pub mod pca;
pub mod predictions;
pub mod projection;
pub mod reconstruction;
pub mod report;
pub mod run_folder;
pub mod scalability;
pub mod scale;
mod source;
pub mod splits;
pub mod sweep;
pub mod table;
pub mod terminal;
pub mod training;
pub mod umap;
