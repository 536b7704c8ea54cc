//! Confounds of a scan, from the tables fMRIPrep writes: which columns to regress out, and which frames to leave out.
//!
//! Names, defaults and numbers are those of `load_confounds` in nilearn 0.14 (the reference in the tests):
//! - the columns of a strategy are taken as a set and sorted by name;
//! - `non_steady_state` columns of the table always censor their frames; `scrub` censors frames of high motion too;
//! - a missing value in the first row (derivatives have one) is replaced by the second row's;
//! - columns are centred on the frames that are kept.
//!
//! What nilearn does not do: a missing value anywhere else is an error here, since it would spread over the whole scan.

mod strategy;
mod table;

pub use strategy::{AromaKind, CompCorKind, Expansion, Preset, Strategy};
pub use table::ConfoundTable;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::problem::{InContent, Problem, ReadError, listed};
use table::lacking;

/// What is to be regressed out of a scan and which of its frames stay.
#[derive(Debug, Clone, PartialEq)]
pub struct Confounds {
    pub names: Vec<String>,
    /// Number of frames of the run, censored ones included.
    pub frames: usize,
    /// All frames of each regressor.
    pub columns: Vec<Vec<f64>>,
    /// The frames to keep, when some are censored (nilearn: `sample_mask`); `None` keeps all.
    pub kept: Option<Vec<usize>>,
}

impl Confounds {
    /// Without the first `volumes` frames, which are dropped from the scan too. Numbers of kept frames count from the new start.
    #[must_use]
    pub fn without_first(mut self, volumes: usize) -> Self {
        let dropped = volumes.min(self.frames);
        self.columns.iter_mut().for_each(|column| drop(column.drain(..dropped)));
        self.frames -= dropped;
        self.kept = self.kept.map(|kept| kept.into_iter().filter_map(|f| f.checked_sub(volumes)).collect());
        self
    }
}

pub fn load(table: &ConfoundTable, strategy: &Strategy) -> Result<Confounds, ReadError> {
    selected(table, strategy).in_content(&table.path)
}

fn selected(table: &ConfoundTable, strategy: &Strategy) -> Result<Confounds, Problem> {
    let names = regressors(table, strategy)?;
    let frames = table.frames();
    let kept = censored(table, strategy)?;
    let column = |name: &String| {
        let mut column = table.filled(name)?;
        let mean = if strategy.demean { mean_over(&column, kept.as_deref()) } else { 0.0 };
        column.iter_mut().for_each(|x| *x -= mean);
        Ok(column)
    };
    let columns = names.iter().map(column).collect::<Result<_, Problem>>()?;
    Ok(Confounds { names, frames, columns, kept })
}

/// The frames that stay: neither unsteady nor, where scrubbing is asked for, of high motion.
fn censored(table: &ConfoundTable, strategy: &Strategy) -> Result<Option<Vec<usize>>, Problem> {
    let frames = table.frames();
    let mut out = vec![false; frames];
    let mut any_column = false;
    for name in table.names.iter().filter(|n| n.contains("non_steady_state")) {
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

/// When a frame is left out. A comparison with a missing value is false: the first frame has neither measure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scrub {
    pub fd_threshold_mm: f64,
    pub std_dvars_threshold: f64,
    /// Stretches between censored frames shorter than this go too; 0 keeps them.
    pub shortest_segment: usize,
}

impl Default for Scrub {
    fn default() -> Self {
        Self { fd_threshold_mm: 0.5, std_dvars_threshold: 1.5, shortest_segment: 5 }
    }
}

impl Scrub {
    fn outliers(&self, table: &ConfoundTable) -> Result<Vec<usize>, Problem> {
        let measure = |name: &str| table.column(name).ok_or_else(|| lacking(&format!("{name} (for scrubbing)")));
        let (fd, dvars) = (measure("framewise_displacement")?, measure("std_dvars")?);
        let high = |t: &usize| fd[*t] > self.fd_threshold_mm || dvars[*t] > self.std_dvars_threshold;
        let outliers: Vec<usize> = (0..table.frames()).filter(high).collect();
        Ok(without_short_segments(&outliers, table.frames(), self.shortest_segment))
    }
}

/// Adds the frames of kept stretches shorter than `shortest`, at the ends and in between.
fn without_short_segments(outliers: &[usize], frames: usize, shortest: usize) -> Vec<usize> {
    if outliers.is_empty() || shortest == 0 {
        return outliers.to_vec();
    }
    let mut out = vec![false; frames];
    for t in outliers {
        out[*t] = true;
    }
    let mut start = 0;
    for end in outliers.iter().copied().chain([frames]) {
        if end - start < shortest {
            out[start..end].fill(true);
        }
        start = end + 1;
    }
    (0..frames).filter(|t| out[*t]).collect()
}

const MOTION: [&str; 6] = ["trans_x", "trans_y", "trans_z", "rot_x", "rot_y", "rot_z"];

/// Names of the regressors, sorted and without repetition. Everything the strategy needs must be there.
fn regressors(table: &ConfoundTable, strategy: &Strategy) -> Result<Vec<String>, Problem> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    let families = [
        (&MOTION[..], strategy.motion),
        (&["csf", "white_matter"][..], strategy.wm_csf),
        (&["global_signal"][..], strategy.global_signal),
    ];
    for (basic, expansion) in families {
        names.extend(expansion.into_iter().flat_map(|e| expanded(basic, e)));
    }
    if strategy.high_pass {
        names.extend(containing(table, "cosine"));
    }
    if let Some(kind) = strategy.compcor {
        names.extend(components(table, kind, strategy.n_compcor)?);
    }
    if strategy.ica_aroma == Some(AromaKind::Basic) {
        let aroma: Vec<String> = containing(table, "aroma").collect();
        if aroma.is_empty() {
            return Err(lacking("aroma_motion_* (for ica_aroma)"));
        }
        names.extend(aroma);
    }
    for wish in &strategy.columns {
        names.extend(own(table, wish)?);
    }
    let missing: Vec<&String> = names.iter().filter(|n| table.column(n).is_none()).collect();
    if !missing.is_empty() {
        return Err(lacking(&listed(missing.iter())));
    }
    // Frames that are censored are no regressors, whatever their column is called.
    names.retain(|n| !n.contains("motion_outlier") && !n.contains("non_steady_state"));
    Ok(names.into_iter().collect())
}

/// The columns a wish stands for: one, or all whose names begin with what comes before `*`.
fn own(table: &ConfoundTable, wish: &str) -> Result<Vec<String>, Problem> {
    let Some(start) = wish.strip_suffix('*') else { return Ok(vec![wish.to_owned()]) };
    let found: Vec<String> = table.names.iter().filter(|n| n.starts_with(start)).cloned().collect();
    if found.is_empty() { Err(lacking(wish)) } else { Ok(found) }
}

fn expanded(basic: &[&str], expansion: Expansion) -> Vec<String> {
    basic.iter().flat_map(|b| expansion.suffixes().iter().map(move |s| format!("{b}{s}"))).collect()
}

fn containing<'a>(table: &'a ConfoundTable, keyword: &'a str) -> impl Iterator<Item = String> + 'a {
    table.names.iter().filter(move |n| n.contains(keyword)).cloned()
}

/// Components are numbered within their kind; the JSON says how many there are and which mask each one is of.
fn components(table: &ConfoundTable, kind: CompCorKind, most: Option<usize>) -> Result<Vec<String>, Problem> {
    let (prefixes, masks): (&[char], &[&str]) = match kind {
        CompCorKind::AnatCombined => (&['a'], &["combined"]),
        CompCorKind::AnatSeparated => (&['a', 'w', 'c'], &["WM", "CSF"]),
        CompCorKind::Temporal => (&['t'], &[]),
        CompCorKind::TemporalAnatCombined => (&['t', 'a'], &["combined"]),
        CompCorKind::TemporalAnatSeparated => (&['t', 'a', 'w', 'c'], &["WM", "CSF"]),
    };
    let absent = |expected: String| Problem::new("JSON beside the table", expected, "none");
    if table.components.is_empty() {
        return Err(absent("descriptions of the CompCor components".into()));
    }
    let most = most.unwrap_or(usize::MAX);
    let mut chosen = vec![];
    for prefix in prefixes {
        let described = table.components.iter().filter(|(n, _)| n.contains(&format!("{prefix}_comp_cor"))).count();
        let numbered = (0..described).map(|i| format!("{prefix}_comp_cor_{i:02}"));
        if *prefix != 'a' {
            chosen.extend(numbered.take(most));
            continue;
        }
        let with_mask = |name: String| {
            let mask = table.components.iter().find(|(n, _)| *n == name).and_then(|(_, mask)| mask.as_deref());
            mask.map(|mask| (name.clone(), mask)).ok_or_else(|| absent(format!("the mask of {name}")))
        };
        let of_masks: Vec<(String, &str)> = numbered.map(with_mask).collect::<Result<_, _>>()?;
        for wanted in masks {
            chosen.extend(of_masks.iter().filter(|(_, mask)| mask == wanted).map(|(n, _)| n.clone()).take(most));
        }
    }
    if chosen.is_empty() {
        return Err(lacking("CompCor components of the chosen kind"));
    }
    Ok(chosen)
}

#[cfg(test)]
mod scrub_tests {
    use super::*;

    #[test]
    fn short_stretches_go_with_their_neighbours() {
        // Kept stretches: 0-2 (3 frames), 4-8 (5), 10-12 (3), 14-19 (6).
        assert_eq!(without_short_segments(&[3, 9, 13], 20, 5), [0, 1, 2, 3, 9, 10, 11, 12, 13]);
        assert_eq!(without_short_segments(&[3, 9, 13], 20, 0), [3, 9, 13]);
        assert_eq!(without_short_segments(&[], 3, 5), [0usize; 0]);
        assert_eq!(without_short_segments(&[17], 20, 5), [17, 18, 19]);
    }
}
