//! A series as read: rows with their frame numbers.

use super::repetition::HeaderTime;

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
        self.values = rows.iter().flat_map(|r| self.row(*r).to_vec()).collect();
        self.keep_rows(rows);
    }

    /// Drops the frames before number `first`.
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

    /// Whether no frame is missing between the first and the last.
    pub(super) fn is_contiguous(&self) -> bool {
        self.frame_numbers.windows(2).all(|w| w[1] == w[0] + 1)
    }

    fn row(&self, r: usize) -> &[f32] {
        &self.values[r * self.regions..(r + 1) * self.regions]
    }
}
