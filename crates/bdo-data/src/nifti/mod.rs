//! NIfTI-1 and NIfTI-2 images, plain or gzipped, read as a stream of volumes.
//!
//! Nothing in a header is believed before it is checked against the file: sizes, offsets and extensions are bounded before a
//! byte is allocated, and a gzipped file is read to its end so that its checksum is known to hold.

mod datatype;
mod grid;
mod gzip;
mod header;
mod reader;
mod stream;

pub use datatype::Datatype;
pub use grid::{Affine, AffineSource, Grid, resample_nearest};
pub use header::{ByteOrder, Extension, Header, Scaling, Version};
pub use reader::{ImageSummary, NiftiReader, Volume};

pub(crate) use datatype::for_each_value;
pub(crate) use reader::{MOST_VOLUME_BYTES, open_header};
pub(crate) use stream::{ByteStream, most_inflated};
