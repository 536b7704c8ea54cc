//! From a scan of a cohort to what the model is given: regions matched by name, centred, scaled, cut and padded.
//! Training, evaluation, embedding and inference all go through here.

mod host_batch;
mod mask;
mod masked;
mod padded;
mod timing;
mod windows;

pub use host_batch::{HostBatch, NoiseShape, Sample, VisitKey};
pub use mask::{Centre, MaskSettings, Visit, target_count};
pub use masked::{Masked, Units};
pub use padded::padded;
pub use timing::Timing;
pub use windows::Windows;

use crate::weights::{ContractError, PreprocessorConfig};
use bdo_data::cohort::Cohort;
use bdo_data::scaler::ScaledScan;
use bdo_data::scan::Scan;

/// Brings scans of one cohort into the units of a model.
#[derive(Clone, Debug)]
pub struct Intake {
    /// For each region of the model, its column in the data.
    columns: Vec<usize>,
    medians: Vec<f64>,
    iqrs: Vec<f64>,
}

impl Intake {
    /// Matches regions by name; their order in the cohort is irrelevant.
    pub fn new(contract: &PreprocessorConfig, cohort: &Cohort) -> Result<Self, ContractError> {
        let names: Vec<String> = cohort.regions().iter().map(|r| r.name.clone()).collect();
        let columns = contract.match_regions(&names)?;
        Ok(Self { columns, medians: contract.medians.clone(), iqrs: contract.iqrs.clone() })
    }

    /// Number of regions of the model.
    pub fn regions(&self) -> usize {
        self.columns.len()
    }

    /// For each region of the model, its column in the data.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The whole scan, centred on all kept frames; `None` if no region carries a signal the model knows.
    pub fn scale(&self, scan: &Scan) -> Option<ScaledScan> {
        let frames: Vec<usize> = (0..scan.frames()).collect();
        let region_valid = self.region_valid(scan);
        let mut values = vec![0.0f32; frames.len() * self.regions()];
        for (r, column) in self.valid_columns(scan, &region_valid) {
            let mean = column.mean(&frames);
            // Rounded to f32 before the median is subtracted: the numbers the model was trained on.
            let (median, iqr) = (self.medians[r] as f32, self.iqrs[r] as f32);
            for &frame in &frames {
                values[frame * self.regions() + r] = ((column.at(frame) - mean) as f32 - median) / iqr;
            }
        }
        let first = scan.frame_times_seconds[0];
        let times_seconds = scan.frame_times_seconds.iter().map(|t| t - first).collect();
        region_valid.contains(&true).then_some(ScaledScan { times_seconds, values, region_valid })
    }

    /// The regions of the model that carry a signal in this scan.
    fn region_valid(&self, scan: &Scan) -> Vec<bool> {
        let usable = scan.valid_regions();
        self.columns.iter().zip(&self.iqrs).map(|(&column, &iqr)| usable[column] && iqr > 0.0).collect()
    }

    fn valid_columns<'a>(&'a self, scan: &'a Scan, valid: &'a [bool]) -> impl Iterator<Item = (usize, Column<'a>)> {
        let width = scan.series.len() / scan.frames().max(1);
        let column = move |(r, &at): (usize, &'a usize)| (r, Column { series: &scan.series, width, at });
        self.columns.iter().enumerate().filter(|(r, _)| valid[*r]).map(column)
    }
}

/// One region of a scan.
#[derive(Clone, Copy)]
struct Column<'a> {
    series: &'a [f32],
    width: usize,
    at: usize,
}

impl Column<'_> {
    fn at(self, frame: usize) -> f64 {
        f64::from(self.series[frame * self.width + self.at])
    }

    fn mean(self, frames: &[usize]) -> f64 {
        frames.iter().map(|&frame| self.at(frame)).sum::<f64>() / frames.len().max(1) as f64
    }
}
