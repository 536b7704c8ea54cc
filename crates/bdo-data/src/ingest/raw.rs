//! A series as read: rows with their frame numbers, without the frames that its maker has censored.

use super::SeriesTable;
use super::files;
use super::repetition::HeaderTime;
use super::table_run::{column, read_table};
use crate::bids::Companions;
use crate::problem::{Problem, ensure};

/// Columns of an outliers table that say which frames were taken out of, or interpolated in, the series, surest first.
const CENSORED: [&str; 3] = ["interpolation", "framewise_displacement", "denoising"];

/// Region series before cleaning, whatever file they came from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RawSeries {
    pub(super) regions: usize,
    /// Row-major `[rows, regions]`.
    pub(super) values: Vec<f32>,
    /// The frame of the run each row is; increasing, with gaps where frames were censored before.
    pub(super) frame_numbers: Vec<usize>,
    pub(super) framewise_displacement_mm: Option<Vec<f32>>,
    pub(super) coverage: Option<Vec<f32>>,
    pub(super) header_time: Option<HeaderTime>,
    pub(super) blake3: String,
}

impl RawSeries {
    /// Gives the frames their true numbers and motion, and leaves out those that were interpolated.
    pub(super) fn without_censored(mut self, beside: &Companions) -> Result<Self, Problem> {
        let rows = self.frame_numbers.len();
        let motion = beside.motion.as_deref().map(read_table).transpose()?;
        let motion = motion.and_then(|m| column(&m, "framewise_displacement"));
        let filled = |x: f32| if x.is_nan() { 0.0 } else { x };
        let Some(outliers) = &beside.outliers else {
            let motion = motion.filter(|fd| fd.len() == rows);
            self.framewise_displacement_mm = motion.map(|fd| fd.into_iter().map(filled).collect());
            return Ok(self);
        };
        let outlier_table = read_table(outliers)?;
        let frames = kept_frames(&files::name(outliers), &outlier_table, rows)?;
        if rows == outlier_table.frames {
            // Frames the producer has interpolated are no measurements: they are left out like censored ones.
            self.keep(&frames);
        }
        let motion = motion.filter(|fd| fd.len() == outlier_table.frames);
        self.framewise_displacement_mm = motion.map(|fd| frames.iter().map(|t| filled(fd[*t])).collect());
        self.frame_numbers = frames;
        Ok(self)
    }

    /// A region with too little coverage is missing: NaN throughout, never dropped or shifted.
    pub(super) fn hide_poorly_covered(&mut self, threshold: f64) {
        let Some(coverage) = &self.coverage else { return };
        for (r, share) in coverage.iter().enumerate() {
            // A share that is unknown hides nothing.
            if f64::from(*share) < threshold {
                self.values.iter_mut().skip(r).step_by(self.regions).for_each(|x| *x = f32::NAN);
            }
        }
    }

    pub(super) fn keep(&mut self, rows: &[usize]) {
        let row = |r: &usize| &self.values[r * self.regions..(r + 1) * self.regions];
        self.values = rows.iter().flat_map(row).copied().collect();
        self.keep_rows(rows);
    }

    pub(super) fn drop_before(&mut self, first: usize) {
        let rows: Vec<usize> = (0..self.frame_numbers.len()).filter(|r| self.frame_numbers[*r] >= first).collect();
        self.keep(&rows);
    }

    /// Keeps these rows' numbers and motion; the values are the caller's.
    pub(super) fn keep_rows(&mut self, rows: &[usize]) {
        self.frame_numbers = rows.iter().map(|r| self.frame_numbers[*r]).collect();
        if let Some(fd) = &mut self.framewise_displacement_mm {
            *fd = rows.iter().map(|r| fd[*r]).collect();
        }
    }

    pub(super) fn is_contiguous(&self) -> bool {
        self.frame_numbers.windows(2).all(|w| w[1] == w[0] + 1)
    }
}

/// The frames of the run that are neither censored nor interpolated; the series has these, or all.
fn kept_frames(name: &str, outliers: &SeriesTable, rows: usize) -> Result<Vec<usize>, Problem> {
    let problem = |expected: String, found: String| Problem::new("outliers table", expected, found);
    let mut candidates: Vec<Vec<usize>> = vec![];
    for flags in CENSORED.iter().filter_map(|column_name| column(outliers, column_name)) {
        if let Some(other) = flags.iter().find(|x| **x != 0.0 && **x != 1.0) {
            return Err(problem(format!("0 and 1 in {name}"), other.to_string()));
        }
        candidates.push((0..flags.len()).filter(|t| flags[*t] == 0.0).collect());
    }
    let Some(surest) = candidates.first() else {
        let found = outliers.names.as_ref().map_or_else(|| "no header".into(), |n| n.join(", "));
        return Err(problem(format!("a column {} in {name}", CENSORED.join(" or ")), found));
    };
    let all = outliers.frames;
    if rows == all {
        return Ok(surest.clone());
    }
    let mut fitting = candidates.iter().filter(|kept| kept.len() == rows);
    let Some(one) = fitting.next() else {
        let expected = format!("{all} frames of the run or {} that are not censored", surest.len());
        return Err(Problem::new("length", expected, rows));
    };
    let expected = "one column that tells which frames are left";
    ensure(fitting.all(|other| other == one), "outliers table", expected, "several that disagree")?;
    Ok(one.clone())
}
