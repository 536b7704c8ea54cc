//! From an image to region series, with the semantics of nilearn's `NiftiLabelsMasker`.
//!
//! The atlas is brought to the grid of the data by nearest neighbour, every region's mean is taken over its voxels, and the
//! columns are always those of the atlas, in its order: a region the image does not cover is NaN and reported, not dropped.

mod extract;
mod masker;
mod measure;

pub use extract::RoiSeries;
pub use masker::{LabelsMasker, MaskerOptions, NonFinite};
pub use measure::{SpeedMeasurement, measure_speed};
