//! CIFTI-2 files: series on grey matter, dense or parcellated, and the label maps that turn one into the other.
//!
//! A CIFTI file is a NIfTI-2 file whose XML extension says what the rows and columns of its matrix are. Both are checked
//! against each other before the data is read, and the data is read row by row.

mod file;
mod labels;
mod series;
mod xml;

pub use file::CiftiFile;
pub use labels::CiftiLabels;
pub use series::read_series;
pub use xml::{Axes, Axis, BrainModel, LabelMap, Places, VolumeGrid, parse_axes};
