//! Why an image cannot be parcellated.

use std::path::PathBuf;

use crate::atlas::image::AtlasError;
use crate::nifti::ImageError;

/// Why an image cannot be parcellated.
#[derive(Debug, thiserror::Error)]
pub enum ParcellateError {
    /// An image could not be read.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The atlas does not fit.
    #[error(transparent)]
    Atlas(#[from] AtlasError),
    /// The header does not say where the image lies.
    #[error(
        "{}: affine: expected an sform or qform in the header, found neither; --assume-affine takes the grid as centred on the origin",
        .path.display()
    )]
    NoAffine {
        /// The image.
        path: PathBuf,
    },
    /// The affine cannot be inverted.
    #[error("{}: affine: expected an invertible matrix, found {found}", .path.display())]
    SingularAffine {
        /// The image.
        path: PathBuf,
        /// The matrix.
        found: String,
    },
    /// Atlas and data do not lie on each other.
    #[error(
        "overlap: expected at least {least_percent:.0} % of the atlas inside the {within}, found {found_percent:.1} %"
    )]
    Overlap {
        /// The mask, or the field of view.
        within: &'static str,
        /// The least share that is accepted.
        least_percent: f64,
        /// The share there is.
        found_percent: f64,
    },
    /// The masker was made for another grid.
    #[error("{}: grid: expected {expected}, found {found}", .path.display())]
    Grid {
        /// The image.
        path: PathBuf,
        /// The grid of the masker.
        expected: String,
        /// The grid of the image.
        found: String,
    },
}
