//! Moments of the latent state and decoded values at every row, window by window: memory does not grow with the scan.

use crate::batch::BatchError;
use crate::control::runs;
use crate::device::download;
use crate::frozen::FrozenModel;
use crate::intake::{PaddedBatch, Window, Windows, means_of_rows};
use crate::posterior::rows::{RowKind, Rows};
use burn::tensor::Tensor;
use std::ops::Range;

/// Rows (with padding) that are inferred at once.
const ROWS_AT_ONCE: usize = 2048;

/// The answer at a range of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// Which rows.
    pub rows: Range<usize>,
    /// Row-major [rows, regions], decoded from the mean state, in the units of the model.
    pub decoded: Vec<f32>,
    /// Mean of every region that was subtracted from the window; to be added to any decoded value.
    pub centre: Vec<f32>,
    /// Factor of each region on the decoder's output in this window; 1 for models that do not divide their input.
    pub size: Vec<f32>,
    /// Row-major [rows, d] mean of the state in the eigenbasis.
    pub mean: Vec<f32>,
    /// Row-major [rows, d] variance of the state in the eigenbasis.
    pub variance: Vec<f32>,
    /// Row-major [rows, d] control that acts on the step ending at each row.
    pub control: Vec<f32>,
    /// Row-major [rows, d] decay rates that act on it, per unit of the model's time.
    pub rates: Vec<f32>,
    /// Time each row's step takes, in the model's time.
    pub delta: Vec<f32>,
}

/// A model ready to be asked.
#[derive(Debug)]
pub struct Engine<'a> {
    frozen: &'a FrozenModel,
    /// V, computed once.
    basis: Tensor<2>,
}

impl<'a> Engine<'a> {
    /// With windows as the model has seen scans in training.
    pub fn new(frozen: &'a FrozenModel) -> Self {
        Self { frozen, basis: frozen.model.dynamics.basis() }
    }

    /// The eigenbasis of the process, [d, d].
    pub fn basis(&self) -> Tensor<2> {
        self.basis.clone()
    }

    /// The model.
    pub fn frozen(&self) -> &'a FrozenModel {
        self.frozen
    }

    /// Hands on the answer piece by piece, rows in order, each once.
    pub fn infer<E: From<BatchError>>(
        &self,
        rows: &Rows,
        mut take: impl FnMut(Piece) -> Result<(), E>,
    ) -> Result<(), E> {
        let windows = cut(rows, self.frozen.windows);
        let fit = |some: &[Window]| some.len() * longest(some) <= ROWS_AT_ONCE;
        for some in runs(&windows, fit) {
            self.batch(rows, some)?.into_iter().try_for_each(&mut take)?;
        }
        Ok(())
    }

    /// The answers of windows of rows.
    fn batch(&self, rows: &Rows, windows: &[Window]) -> Result<Vec<Piece>, BatchError> {
        let (batch, regions) = (windows.len(), rows.regions());
        let longest = longest(windows);
        let mut padded = PaddedBatch::new(batch, longest, rows.region_valid.repeat(batch));
        // On their own clock and centred on their own visible frames, where visits of training were.
        let own = self.frozen.windows.own_clock;
        let mut centres = Vec::with_capacity(batch);
        for (b, window) in windows.iter().enumerate() {
            let visible = window.frames.clone().filter(|&row| own && rows.is_visible(row));
            let centre = means_of_rows(&rows.values, regions, visible);
            let origin = if own { rows.times_seconds[window.frames.start] } else { 0.0 };
            for (place, row) in window.frames.clone().enumerate() {
                let to = padded.set(b, place, rows.times_seconds[row] - origin, rows.is_visible(row));
                if rows.is_visible(row) {
                    let from = &rows.values[row * regions..(row + 1) * regions];
                    to.iter_mut().zip(from).zip(&centre).for_each(|((to, from), mean)| *to = from - mean);
                }
            }
            centres.push(centre);
        }
        let (series, frames, valid) = padded.on(&self.frozen.model.device());
        let found = self.frozen.model.reconstruct(&series, &frames, &valid)?;
        let width = self.frozen.model.config().width;
        let (decoded, mean, variance) =
            (download(found.series), download(found.moments.mean), download(found.moments.variance));
        let sizes = found.size.map_or_else(|| vec![1.0; batch], download);
        let each = sizes.len() / batch.max(1);
        let (control, rates) = (download(found.latents.control), download(found.latents.rates));
        let piece = |(b, window): (usize, &Window)| {
            let from = b * longest + (window.taken.start - window.frames.start);
            let span = |values: &[f32], last: usize| values[from * last..(from + window.taken.len()) * last].to_vec();
            let by_driver = |values: &[f32]| {
                let drivers = &found.grid.driver[from..from + window.taken.len()];
                drivers.iter().flat_map(|&token| values[token * width..(token + 1) * width].iter().copied()).collect()
            };
            let mut decoded = span(&decoded, regions);
            for row in decoded.chunks_exact_mut(regions) {
                row.iter_mut().zip(&centres[b]).for_each(|(x, mean)| *x += mean);
            }
            Piece {
                rows: window.taken.clone(),
                decoded,
                centre: centres[b].clone(),
                size: (0..regions).map(|region| sizes[b * each + region.min(each - 1)]).collect(),
                mean: span(&mean, width),
                variance: span(&variance, width),
                control: by_driver(&control),
                rates: by_driver(&rates),
                delta: span(&found.grid.delta, 1),
            }
        };
        Ok(windows.iter().enumerate().map(piece).collect())
    }
}

/// Rows of the longest window.
fn longest(windows: &[Window]) -> usize {
    windows.iter().map(|window| window.frames.len()).max().unwrap_or(0)
}

/// Windows of rows. Only frames (seen, hidden or missing) count for their length: times asked for between frames go
/// with the frame before them.
fn cut(rows: &Rows, windows: Windows) -> Vec<Window> {
    let frames: Vec<usize> = (0..rows.len()).filter(|&row| rows.kinds[row] != RowKind::Asked).collect();
    let row = |frame: usize| match frame {
        0 => 0,
        frame => frames.get(frame).copied().unwrap_or(rows.len()),
    };
    let of_rows = |window: &Window| Window {
        frames: with_a_visible_row(rows, row(window.frames.start)..row(window.frames.end)),
        taken: row(window.taken.start)..row(window.taken.end),
    };
    windows.cut(frames.len()).iter().map(of_rows).collect()
}

/// Widened to the nearest visible rows where a long gap leaves a window without any.
fn with_a_visible_row(rows: &Rows, range: Range<usize>) -> Range<usize> {
    if range.clone().any(|row| rows.is_visible(row)) {
        return range;
    }
    let before = (0..range.start).rev().find(|&row| rows.is_visible(row)).unwrap_or(range.start);
    let after = (range.end..rows.len()).find(|&row| rows.is_visible(row)).map_or(range.end, |row| row + 1);
    before..after
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(kinds: Vec<RowKind>) -> Rows {
        Rows {
            times_seconds: (0..kinds.len()).map(|i| i as f64).collect(),
            values: vec![0.0; kinds.len()],
            kinds,
            region_valid: vec![true],
        }
    }

    #[test]
    fn every_row_is_answered_once_and_in_order() {
        let windows = Windows { longest_whole: 10, frames: 10, own_clock: true };
        for count in [3, 10, 11, 15, 16, 40, 101] {
            let mut kinds = vec![RowKind::Visible; count];
            kinds.extend([RowKind::Asked; 3]);
            let rows = rows(kinds);
            let found = cut(&rows, windows);
            let answered: Vec<usize> = found.iter().flat_map(|w| w.taken.clone()).collect();
            assert_eq!(answered, (0..count + 3).collect::<Vec<_>>(), "{count}");
            assert!(found.iter().all(|w| w.frames.start <= w.taken.start && w.taken.end <= w.frames.end));
            assert!(found.iter().all(|w| w.frames.len() <= 13));
        }
    }

    #[test]
    fn a_window_inside_a_gap_reaches_out_for_something_to_look_at() {
        let mut kinds = vec![RowKind::Missing; 60];
        kinds[0] = RowKind::Visible;
        kinds[59] = RowKind::Visible;
        let rows = rows(kinds);
        let found = cut(&rows, Windows { longest_whole: 10, frames: 10, own_clock: true });
        assert!(found.iter().all(|w| w.frames.clone().any(|row| rows.is_visible(row))));
    }
}
