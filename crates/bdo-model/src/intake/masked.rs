//! Frames of a scan of which some are hidden, centred on the visible ones: the mean of a whole scan would tell the model
//! about what is hidden.

use super::{Intake, MaskSettings, PaddedBatch, Timing, Visit};
use bdo_data::scan::{SeriesView, valid_regions};
use rand_chacha::rand_core::Rng;

/// Some frames of a scan, centred on what is visible; one row per frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Masked {
    /// Since the clock of the visit began, increasing.
    pub times_seconds: Vec<f64>,
    /// Whether a row is visible.
    pub context: Vec<bool>,
    /// Row-major [rows, regions], in the units of the model, hidden rows included: what predictions are compared with.
    pub values: Vec<f32>,
    /// False at regions without a signal, whose values are 0.
    pub region_valid: Vec<bool>,
}

/// From the units of the model back to those of the scan.
#[derive(Clone, Debug, PartialEq)]
pub struct Units {
    /// Added to every region; NaN where the mean of a region was never seen.
    pub centre: Vec<f64>,
    /// Multiplies every region.
    pub scale: Vec<f64>,
}

impl Masked {
    /// Mean square of the visible rows over valid regions: the size of the scan, as far as a predictor knows it.
    pub fn visible_mean_square(&self) -> f64 {
        let regions = self.region_valid.len();
        let rows = self.values.chunks_exact(regions.max(1)).zip(&self.context).filter(|(_, seen)| **seen);
        let (sum, count) = rows.fold((0.0, 0usize), |(sum, count), (row, _)| {
            let valid = row.iter().zip(&self.region_valid).filter(|(_, valid)| **valid);
            valid.fold((sum, count), |(sum, count), (x, _)| (sum + f64::from(x * x), count + 1))
        });
        sum / count.max(1) as f64
    }
}

impl Intake {
    /// Draws a visit; `None` if no region is usable.
    pub fn draw<'a>(
        &self,
        scan: impl Into<SeriesView<'a>>,
        timing: Timing,
        mask: &MaskSettings,
        rng: &mut impl Rng,
    ) -> Option<Masked> {
        let scan = scan.into();
        let first = scan.frame_times_seconds[0];
        let kept = timing.kept(scan.frames(), rng);
        let times: Vec<f64> = kept.iter().map(|&frame| scan.frame_times_seconds[frame] - first).collect();
        let visit = Visit::draw(mask, &times, rng);
        let frames: Vec<usize> = visit.frames.iter().map(|&frame| kept[frame]).collect();
        self.masked(scan, &frames, visit.context, first + visit.origin_seconds)
    }

    /// The given frames of a scan, scaled around the mean of the visible ones; `None` if no region is usable.
    pub fn masked<'a>(
        &self,
        scan: impl Into<SeriesView<'a>>,
        frames: &[usize],
        context: Vec<bool>,
        origin_seconds: f64,
    ) -> Option<Masked> {
        let scan = scan.into();
        let usable = valid_regions(scan.series, scan.frames());
        let region_valid: Vec<bool> =
            self.columns.iter().zip(&self.iqrs).map(|(&column, &iqr)| usable[column] && iqr > 0.0).collect();
        let visible: Vec<usize> = frames.iter().zip(&context).filter(|(_, seen)| **seen).map(|(f, _)| *f).collect();
        let mut values = vec![0.0; frames.len() * self.regions()];
        for r in (0..self.regions()).filter(|&r| region_valid[r]) {
            let mean = self.mean(scan, r, &visible);
            for (row, &frame) in frames.iter().enumerate() {
                let centred = self.value(scan, r, frame) - mean;
                values[row * self.regions() + r] = ((centred - self.medians[r]) / self.iqrs[r]) as f32;
            }
        }
        // An origin that was worked out from other differences can lie a rounding after the first frame.
        let since = |&frame: &usize| (scan.frame_times_seconds[frame] - origin_seconds).max(0.0);
        let times_seconds = frames.iter().map(since).collect();
        region_valid.contains(&true).then_some(Masked { times_seconds, context, values, region_valid })
    }

    /// The way back from `masked`, whose rows are all frames of the scan.
    pub(crate) fn units(&self, scan: SeriesView<'_>, masked: &Masked) -> Units {
        let visible: Vec<usize> = (0..scan.frames()).filter(|&row| masked.context[row]).collect();
        let centre = |(r, &valid): (usize, &bool)| {
            if valid { self.mean(scan, r, &visible) + self.medians[r] } else { f64::NAN }
        };
        Units { centre: masked.region_valid.iter().enumerate().map(centre).collect(), scale: self.iqrs.clone() }
    }

    /// A region of the model at a frame of the scan, in the units of the scan.
    fn value(&self, scan: SeriesView<'_>, region: usize, frame: usize) -> f64 {
        f64::from(scan.series[frame * scan.regions() + self.columns[region]])
    }

    fn mean(&self, scan: SeriesView<'_>, region: usize, frames: &[usize]) -> f64 {
        frames.iter().map(|&frame| self.value(scan, region, frame)).sum::<f64>() / frames.len().max(1) as f64
    }
}

impl Masked {
    /// A batch of one sample, hidden rows included.
    pub fn batch(&self) -> PaddedBatch {
        let mut batch = PaddedBatch::new(1, self.context.len(), self.region_valid.clone());
        for (row, (&seconds, &context)) in self.times_seconds.iter().zip(&self.context).enumerate() {
            batch.set(0, row, seconds, context);
        }
        batch.series.copy_from_slice(&self.values);
        batch
    }
}

impl Units {
    /// A value in the units of the scan; a region without a known mean is given around 0.
    pub fn value(&self, region: usize, x: f32) -> f32 {
        let centre = self.centre[region];
        (f64::from(x) * self.scale[region] + if centre.is_nan() { 0.0 } else { centre }) as f32
    }

    /// A standard deviation in the units of the scan.
    pub fn spread(&self, region: usize, sd: f32) -> f32 {
        (f64::from(sd) * self.scale[region]) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bdo_data::random::stream;
    use bdo_data::scaler::Scaling;
    use bdo_data::scan::{Scan, ScanId, Source};

    /// Frames dropped at the start leave a first time whose sums and differences round.
    #[test]
    fn no_visit_begins_before_its_clock() {
        let frames = 120;
        let scan = Scan {
            id: ScanId { subject: "1".into(), session: None, task: None, run: None },
            site: None,
            tr_seconds: 1.656,
            frame_times_seconds: (10..10 + frames).map(|k| 1.656 * f64::from(k)).collect(),
            series: (0..frames).map(|k| (k as f32).sin()).collect(),
            framewise_displacement_mm: None,
            coverage: None,
            source: Source::default(),
        };
        let first = scan.frame_times_seconds[0];
        let rounds = |t: &&f64| first + (**t - first) > **t;
        assert!(scan.frame_times_seconds.iter().filter(rounds).count() > 0, "these times show nothing");
        let intake = Intake { columns: vec![0], scaling: Scaling::Pooled, medians: vec![0.0], iqrs: vec![1.0] };
        let mask = MaskSettings { frames: 20, stretch: 1.0, ratio: 0.5, ..MaskSettings::default() };
        for visit in 0..200 {
            let masked = intake.draw(&scan, Timing::AsScanned, &mask, &mut stream("visit", &[visit]));
            let times = masked.expect("the region moves").times_seconds;
            assert!(times[0] >= 0.0 && times.is_sorted_by(|a, b| a < b), "visit {visit}: {times:?}");
        }
    }
}
