//! How long a parcellation takes, beside the decompression it cannot avoid.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use super::masker::{LabelsMasker, MaskerOptions};
use crate::atlas::image::AtlasImage;
use crate::nifti::NiftiReader;
use crate::problem::ReadError;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpeedMeasurement {
    /// Reading and decompressing alone, on one thread: by the clock.
    pub inflate_wall_s: f64,
    /// The same, processor time of all threads; absent where the system does not say.
    pub inflate_cpu_s: Option<f64>,
    /// From opening the file to region series, the atlas being in memory: by the clock.
    pub masker_wall_s: f64,
    /// The same, processor time of all threads.
    pub masker_cpu_s: Option<f64>,
    pub frames: usize,
    pub regions: usize,
}

/// Parcellates `image` once, then decompresses it once more for comparison.
pub fn measure_speed(image: &Path, atlas: &AtlasImage) -> Result<SpeedMeasurement, ReadError> {
    let (series, masker_wall_s, masker_cpu_s) = timed(|| {
        let reader = NiftiReader::open(image)?;
        let options = MaskerOptions { assume_affine: true, ..MaskerOptions::default() };
        LabelsMasker::new(atlas, &reader, None, &options)?.extract(reader)
    })?;
    let (_, inflate_wall_s, inflate_cpu_s) = timed(|| {
        let mut reader = NiftiReader::open(image)?;
        let mut volume = vec![0; reader.header.voxels() * reader.header.datatype.bytes()];
        for _ in 0..reader.header.volumes() {
            reader.next_bytes(&mut volume)?;
        }
        reader.end()
    })?;
    Ok(SpeedMeasurement {
        inflate_wall_s,
        inflate_cpu_s,
        masker_wall_s,
        masker_cpu_s,
        frames: series.frames,
        regions: series.regions,
    })
}

/// What `work` gives, with its seconds by the clock and of the processor.
fn timed<T>(work: impl FnOnce() -> Result<T, ReadError>) -> Result<(T, f64, Option<f64>), ReadError> {
    let (started, before) = (Instant::now(), processor_seconds());
    let given = work()?;
    let spent = processor_seconds().zip(before).map(|(after, before)| after - before);
    Ok((given, started.elapsed().as_secs_f64(), spent))
}

/// Processor time of this process so far, as Linux counts it: in hundredths of a second.
fn processor_seconds() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in brackets may hold anything; user and system time are the 12th and 13th word after it.
    let words: Vec<&str> = status.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| words.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}
