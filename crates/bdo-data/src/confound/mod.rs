//! Confounds of a scan, from the tables fMRIPrep writes: which columns to regress out, and which frames to leave out.
//!
//! Names, defaults and numbers are those of `load_confounds` in nilearn 0.14 (the reference in the tests):
//! - the columns of a strategy are taken as a set and sorted by name;
//! - `non_steady_state` columns of the table always censor their frames; `scrub` censors frames of high motion too;
//! - a missing value in the first row (derivatives have one) is replaced by the second row's;
//! - columns are centred on the frames that are kept.
//!
//! What nilearn does not do: a missing value anywhere else is an error here, since it would spread over the whole scan.

mod scrub;
mod select;
mod strategy;
mod table;

pub use scrub::Scrub;
pub use strategy::{Additions, AromaKind, CompCorKind, Expansion, Preset, Strategy};
pub use table::ConfoundTable;

use crate::problem::ReadError;

/// What is to be regressed out of a scan and which of its frames stay.
#[derive(Debug, Clone, PartialEq)]
pub struct Confounds {
    /// Names of the regressors, sorted.
    pub names: Vec<String>,
    /// Number of frames of the run, censored ones included.
    pub frames: usize,
    /// Row-major `[frames, regressors]`.
    pub values: Vec<f64>,
    /// The frames to keep, when some are censored (nilearn: `sample_mask`); `None` keeps all.
    pub kept: Option<Vec<usize>>,
}

impl Confounds {
    /// Without the first `volumes` frames, which are dropped from the scan too. Numbers of kept frames count from the new start.
    #[must_use]
    pub fn without_first(mut self, volumes: usize) -> Self {
        let columns = self.names.len();
        let dropped = volumes.min(self.frames);
        self.values.drain(..dropped * columns);
        self.frames -= dropped;
        self.kept = self.kept.map(|kept| kept.into_iter().filter_map(|f| f.checked_sub(volumes)).collect());
        self
    }
}

pub fn load(table: &ConfoundTable, strategy: &Strategy) -> Result<Confounds, ReadError> {
    let names = select::columns(table, strategy)?;
    let frames = table.frames();
    let kept = censored(table, strategy)?;
    let mut values = vec![0.0; frames * names.len()];
    for (c, name) in names.iter().enumerate() {
        let column = table.filled(name)?;
        let mean = if strategy.demean { mean_over(&column, kept.as_deref()) } else { 0.0 };
        for (t, x) in column.iter().enumerate() {
            values[t * names.len() + c] = x - mean;
        }
    }
    Ok(Confounds { names, frames, values, kept })
}

/// The frames that stay: neither unsteady nor, where scrubbing is asked for, of high motion.
fn censored(table: &ConfoundTable, strategy: &Strategy) -> Result<Option<Vec<usize>>, ReadError> {
    let frames = table.frames();
    let mut out = vec![false; frames];
    let mut any_column = false;
    for name in table.names().iter().filter(|n| n.contains("non_steady_state")) {
        any_column = true;
        for (out, x) in out.iter_mut().zip(table.column(name).unwrap_or_default()) {
            *out |= *x != 0.0 && !x.is_nan();
        }
    }
    if let Some(scrub) = &strategy.scrub {
        let motion = scrub.outliers(table)?;
        any_column |= !motion.is_empty();
        for frame in motion {
            out[frame] = true;
        }
    }
    Ok(any_column.then(|| (0..frames).filter(|t| !out[*t]).collect()))
}

fn mean_over(column: &[f64], kept: Option<&[usize]>) -> f64 {
    match kept {
        None => column.iter().sum::<f64>() / column.len() as f64,
        Some([]) => 0.0,
        Some(kept) => kept.iter().map(|t| column[*t]).sum::<f64>() / kept.len() as f64,
    }
}
