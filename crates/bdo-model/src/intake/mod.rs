//! From a scan of a cohort to what the model is given: regions matched by name, centred, scaled, cut and padded.
//! Training, evaluation, embedding and inference all go through here.

mod host_batch;
mod mask;
mod masked;
mod micro_batch;
mod padded;
mod timing;
mod windows;

pub use host_batch::{HostBatch, Kin, NoiseShape, PlannedVisit, Sample, VisitKey, unit_sized};
pub(crate) use host_batch::{NO_SIZE, means_of_rows};
pub use mask::{Centre, MaskSettings, Part, Visit, target_count};
pub use masked::{Masked, Units};
pub use micro_batch::MicroBatches;
pub use padded::PaddedBatch;
pub use timing::Timing;
pub use windows::{CutScan, Window, Windows};

use crate::weights::{ContractError, PreprocessorConfig};
use bdo_data::cohort::Cohort;
use bdo_data::scaler::{ScaledScan, Scaling};
use bdo_data::scan::SeriesView;

/// Brings scans of one cohort into the units of a model.
#[derive(Clone, Debug)]
pub struct Intake {
    /// For each region of the model, its column in the data.
    columns: Vec<usize>,
    scaling: Scaling,
    medians: Vec<f64>,
    iqrs: Vec<f64>,
}

impl Intake {
    /// Matches regions by name; their order in the cohort is irrelevant.
    pub fn new(contract: &PreprocessorConfig, cohort: &Cohort) -> Result<Self, ContractError> {
        Ok(Self::of_columns(contract, contract.match_cohort(cohort)?))
    }

    /// The same for series of which no more is known than the names of their columns.
    pub fn of_names(contract: &PreprocessorConfig, names: &[String]) -> Result<Self, ContractError> {
        Ok(Self::of_columns(contract, contract.match_names(names)?))
    }

    fn of_columns(contract: &PreprocessorConfig, columns: Vec<usize>) -> Self {
        let (medians, iqrs) = (contract.medians.clone(), contract.iqrs.clone());
        Self { columns, scaling: contract.scaling, medians, iqrs }
    }

    /// Number of regions of the model.
    pub fn regions(&self) -> usize {
        self.columns.len()
    }

    /// For each region of the model, its column in the data.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The whole scan, centred on all kept frames where the model was trained so; `None` if no region carries a signal the model knows.
    pub fn scale<'a>(&self, scan: impl Into<SeriesView<'a>>) -> Option<ScaledScan> {
        // In single precision, as the scaler of pre-training does: the numbers the model was trained on.
        let narrow = |values: &[f64]| values.iter().map(|x| *x as f32).collect::<Vec<_>>();
        let scaled = ScaledScan::new(scan, &self.columns, self.scaling, &narrow(&self.medians), &narrow(&self.iqrs));
        scaled.region_valid.contains(&true).then_some(scaled)
    }
}
