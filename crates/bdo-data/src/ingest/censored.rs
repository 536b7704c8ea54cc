//! Frames that the maker of a series has censored: which are left, and when they were acquired.

use std::path::{Path, PathBuf};

use super::SeriesTable;
use super::raw::RawSeries;
use super::table_run::{column, read_table};
use crate::problem::Problem;

/// Columns of an outliers table that say which frames were taken out of, or interpolated in, the series, surest first.
const CENSORED: [&str; 3] = ["interpolation", "framewise_displacement", "denoising"];

/// XCP-D's tables of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunTables {
    /// Which frames are censored: one row a frame of the run, 1 where it is.
    pub outliers: Option<PathBuf>,
    pub motion: Option<PathBuf>,
}

impl RunTables {
    /// Gives a series the true frame numbers and the motion of its frames, and leaves out frames that were interpolated.
    pub(super) fn apply(&self, raw: &mut RawSeries) -> Result<(), Problem> {
        let rows = raw.frame_numbers.len();
        let motion = self.motion.as_deref().map(read_table).transpose()?;
        let motion = motion.and_then(|m| column(&m, "framewise_displacement"));
        let Some(outliers) = &self.outliers else {
            if let Some(fd) = motion.filter(|fd| fd.len() == rows) {
                raw.framewise_displacement_mm = Some(filled(fd));
            }
            return Ok(());
        };
        let kept = kept_frames(outliers, &read_table(outliers)?, rows)?;
        if kept.series_is_whole {
            // Frames the producer has interpolated are no measurements: they are left out like censored ones.
            raw.keep(&kept.frames);
        }
        raw.framewise_displacement_mm = motion
            .filter(|fd| fd.len() == kept.frames_of_run)
            .map(|fd| filled(kept.frames.iter().map(|t| fd[*t]).collect()));
        raw.frame_numbers = kept.frames;
        Ok(())
    }
}

fn filled(fd: Vec<f32>) -> Vec<f32> {
    fd.into_iter().map(|x| if x.is_nan() { 0.0 } else { x }).collect()
}

struct Kept {
    frames: Vec<usize>,
    frames_of_run: usize,
    series_is_whole: bool,
}

/// The frames of the run that are neither censored nor interpolated, and whether the series still has the others.
fn kept_frames(path: &Path, outliers: &SeriesTable, rows: usize) -> Result<Kept, Problem> {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let frames_of_run = outliers.frames;
    let mut candidates: Vec<Vec<usize>> = vec![];
    for flags in CENSORED.iter().filter_map(|column_name| column(outliers, column_name)) {
        if let Some(other) = flags.iter().find(|x| **x != 0.0 && **x != 1.0) {
            return Err(Problem::new("outliers table", format!("0 and 1 in {name}"), other));
        }
        candidates.push((0..flags.len()).filter(|t| flags[*t] == 0.0).collect());
    }
    let Some(first) = candidates.first() else {
        let found = outliers.names.as_ref().map_or_else(|| "no header".into(), |n| n.join(", "));
        return Err(Problem::new("outliers table", format!("a column {} in {name}", CENSORED.join(" or ")), found));
    };
    if rows == frames_of_run {
        return Ok(Kept { frames: first.clone(), frames_of_run, series_is_whole: true });
    }
    let fitting: Vec<&Vec<usize>> = candidates.iter().filter(|kept| kept.len() == rows).collect();
    match fitting.as_slice() {
        [] => {
            let expected = format!("{frames_of_run} frames of the run or {} that are not censored", first.len());
            Err(Problem::new("length", expected, rows))
        }
        [one, rest @ ..] if rest.iter().all(|other| other == one) => {
            Ok(Kept { frames: (*one).clone(), frames_of_run, series_is_whole: false })
        }
        _ => {
            Err(Problem::new("outliers table", "one column that tells which frames are left", "several that disagree"))
        }
    }
}
