//! How long a parcellation takes, beside the decompression it cannot avoid.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use super::masker::{LabelsMasker, MaskerOptions};
use crate::atlas::image::AtlasImage;
use crate::nifti::{Limits, NiftiReader};
use crate::problem::ReadError;

/// Times of one image.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpeedMeasurement {
    /// Reading and decompressing alone, on one thread.
    pub inflate_only_ms: f64,
    /// From opening the file to region series, the atlas being in memory.
    pub total_ms: f64,
    /// Largest resident memory of this process so far; absent where the system does not say.
    pub peak_rss_mb: Option<f64>,
    /// Volumes of the image.
    pub frames: usize,
    /// Columns of the result.
    pub regions: usize,
}

/// Parcellates `image` once, then decompresses it once more for comparison.
pub fn measure_speed(image: &Path, atlas: &AtlasImage, limits: &Limits) -> Result<SpeedMeasurement, ReadError> {
    let started = Instant::now();
    let reader = NiftiReader::open(image, limits)?;
    let options = MaskerOptions { assume_affine: true, ..MaskerOptions::default() };
    let series = LabelsMasker::new(atlas, &reader, None, &options)?.extract(reader)?;
    let total_ms = started.elapsed().as_secs_f64() * 1e3;
    let started = Instant::now();
    let mut reader = NiftiReader::open(image, limits)?;
    let mut volume = vec![0; reader.header().voxels() * reader.header().datatype.bytes()];
    for _ in 0..reader.volumes() {
        reader.next_bytes(&mut volume)?;
    }
    reader.end()?;
    let inflate_only_ms = started.elapsed().as_secs_f64() * 1e3;
    Ok(SpeedMeasurement {
        inflate_only_ms,
        total_ms,
        peak_rss_mb: peak_rss_mb(),
        frames: series.frames,
        regions: series.regions,
    })
}

/// The high-water mark of resident memory, as Linux keeps it.
fn peak_rss_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<f64>().ok().map(|kib| kib / 1024.0)
}
