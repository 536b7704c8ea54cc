//! A scan as inference sees it: rows in time, some visible, some hidden, some between or after the frames.

use crate::intake::{Intake, Masked, Units};
use bdo_data::scan::SeriesView;

/// Kind of a row of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// A frame the model looked at.
    Visible,
    /// A frame of the scan that was hidden from it.
    Hidden,
    /// A time at which a frame is missing: censored, or dropped.
    Missing,
    /// A time between frames, or after the last one.
    Asked,
}

impl RowKind {
    /// As tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Visible => "visible",
            Self::Hidden => "hidden",
            Self::Missing => "missing",
            Self::Asked => "asked",
        }
    }
}

/// Rows in the units of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// Since the first frame of the scan, increasing.
    pub times_seconds: Vec<f64>,
    /// Kind of each row.
    pub kinds: Vec<RowKind>,
    /// Row-major [rows, regions]; 0 wherever the model may not look.
    pub values: Vec<f32>,
    /// False at regions whose values are unknown in this scan.
    pub region_valid: Vec<bool>,
}

/// Two times closer than this are one.
const SAME_SECONDS: f64 = 1e-6;

impl Rows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.times_seconds.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.times_seconds.is_empty()
    }

    /// Number of regions.
    pub fn regions(&self) -> usize {
        self.region_valid.len()
    }

    /// Whether the model may look at a row.
    pub fn is_visible(&self, row: usize) -> bool {
        self.kinds[row] == RowKind::Visible
    }

    /// A visit of an evaluation; what is hidden does not come along.
    pub fn of_masked(masked: &Masked) -> Self {
        let regions = masked.region_valid.len();
        let mut values = masked.values.clone();
        for (row, _) in masked.context.iter().enumerate().filter(|(_, visible)| !**visible) {
            values[row * regions..(row + 1) * regions].fill(0.0);
        }
        let kind = |visible: &bool| if *visible { RowKind::Visible } else { RowKind::Hidden };
        Self {
            times_seconds: masked.times_seconds.clone(),
            kinds: masked.context.iter().map(kind).collect(),
            values,
            region_valid: masked.region_valid.clone(),
        }
    }

    /// A whole scan: its frames (those named in `hidden` not looked at, regions named in `unseen` taken as missing), and
    /// further times. `None` if no region is usable or no frame is left to look at.
    pub fn of_scan<'a>(
        scan: impl Into<SeriesView<'a>>,
        intake: &Intake,
        hidden: &[bool],
        unseen: &[bool],
        further: &[(f64, RowKind)],
    ) -> Option<(Self, Units)> {
        let scan = scan.into();
        let frames: Vec<usize> = (0..scan.frames()).collect();
        let context: Vec<bool> = hidden.iter().map(|h| !h).collect();
        if !context.contains(&true) {
            return None;
        }
        let mut masked = intake.masked(scan, &frames, context, scan.frame_times_seconds[0])?;
        for region in (0..intake.regions()).filter(|&r| unseen[r]) {
            masked.region_valid[region] = false;
            masked.values.iter_mut().skip(region).step_by(intake.regions()).for_each(|x| *x = 0.0);
        }
        if !masked.region_valid.contains(&true) {
            return None;
        }
        let units = intake.units(scan, &masked);
        let known = Self::of_masked(&masked);
        Some((known.with_times(further), units))
    }

    /// The same with further rows to be answered; a time that is there already is not added.
    fn with_times(self, further: &[(f64, RowKind)]) -> Self {
        let regions = self.regions();
        let is_new = |t: f64| {
            let at = self.times_seconds.partition_point(|x| *x < t - SAME_SECONDS);
            self.times_seconds.get(at).is_none_or(|x| (x - t).abs() > SAME_SECONDS)
        };
        let mut order: Vec<(f64, RowKind, Option<usize>)> =
            (0..self.len()).map(|row| (self.times_seconds[row], self.kinds[row], Some(row))).collect();
        order.extend(further.iter().filter(|(t, _)| *t >= 0.0 && is_new(*t)).map(|(t, kind)| (*t, *kind, None)));
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        order.dedup_by(|b, a| (b.0 - a.0).abs() <= SAME_SECONDS);
        let mut values = vec![0.0; order.len() * regions];
        for (row, (_, _, from)) in order.iter().enumerate() {
            if let Some(from) = from {
                values[row * regions..(row + 1) * regions]
                    .copy_from_slice(&self.values[from * regions..(from + 1) * regions]);
            }
        }
        Self {
            times_seconds: order.iter().map(|(t, _, _)| *t).collect(),
            kinds: order.iter().map(|(_, kind, _)| *kind).collect(),
            values,
            region_valid: self.region_valid,
        }
    }
}

/// Times at which a scan of this repetition time should have frames and has none.
pub fn missing_times(frame_times_seconds: &[f64], tr_seconds: f64) -> Vec<f64> {
    let first = frame_times_seconds[0];
    let mut missing = Vec::new();
    for pair in frame_times_seconds.windows(2) {
        let steps = ((pair[1] - pair[0]) / tr_seconds).round() as usize;
        // Evenly between the two, so that a TR that is off by a little does not drift.
        let step = (pair[1] - pair[0]) / steps.max(1) as f64;
        missing.extend((1..steps).map(|i| pair[0] - first + i as f64 * step));
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_filled_on_the_grid_of_the_scan() {
        assert_eq!(missing_times(&[4.0, 6.0, 12.0, 14.0], 2.0), [4.0, 6.0]);
        assert!(missing_times(&[0.0, 0.8, 1.6], 0.8).is_empty());
    }

    #[test]
    fn further_times_come_in_order_and_once() {
        let rows = Rows {
            times_seconds: vec![0.0, 2.0, 4.0],
            kinds: vec![RowKind::Visible, RowKind::Hidden, RowKind::Visible],
            values: vec![1.0, 0.0, 3.0],
            region_valid: vec![true],
        };
        let found = rows.with_times(&[
            (5.0, RowKind::Asked),
            (2.0, RowKind::Asked),
            (1.0, RowKind::Asked),
            (-1.0, RowKind::Asked),
        ]);
        assert_eq!(found.times_seconds, [0.0, 1.0, 2.0, 4.0, 5.0]);
        assert_eq!(found.values, [1.0, 0.0, 0.0, 3.0, 0.0]);
        assert_eq!(found.kinds[2], RowKind::Hidden);
    }
}
