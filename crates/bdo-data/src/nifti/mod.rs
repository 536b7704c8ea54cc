//! NIfTI-1 and NIfTI-2 images, plain or gzipped, read as a stream of volumes.
//!
//! Nothing in a header is believed before it is checked against the file: sizes, offsets and extensions are bounded before a
//! byte is allocated, and a gzipped file is read to its end so that its checksum is known to hold.

mod affine;
mod datatype;
mod extension;
mod grid;
mod gzip;
mod header;
mod limits;
mod reader;
mod stream;

pub use affine::{Affine, AffineSource};
pub use datatype::Datatype;
pub use extension::Extension;
pub use grid::{Grid, resample_nearest};
pub use header::{ByteOrder, Header, Scaling, Version};
pub use limits::Limits;
pub use reader::{ImageSummary, NiftiReader, Volume};

pub(crate) use datatype::for_each_value;
pub(crate) use reader::open_header;
pub(crate) use stream::ByteStream;
