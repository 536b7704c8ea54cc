//! What is done to a series between the file and the cohort.

use serde::Serialize;

use super::raw::RawSeries;
use crate::clean::{Cleaning, clean};
use crate::confound::{Confounds, Strategy};
use crate::problem::{Problem, ensure};
use crate::scan::valid_regions;

/// The steps, in order: drop the first volumes, censor, detrend, band-pass, regress confounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recipe {
    /// Volumes dropped from the start; the others keep their true times.
    pub drop_volumes: usize,
    /// What is regressed out and censored; `None` leaves the confounds alone.
    pub denoise: Option<Strategy>,
    pub cleaning: Cleaning,
    /// Regions with a smaller share of their voxels in the image are missing.
    pub coverage_threshold: f64,
    /// A scan with a smaller share of regions that have a signal is rejected.
    pub least_regions: f64,
}

impl Default for Recipe {
    fn default() -> Self {
        let cleaning = Cleaning::default();
        Self { drop_volumes: 0, denoise: None, cleaning, coverage_threshold: 0.5, least_regions: 0.5 }
    }
}

/// Degrees of freedom that regression and filter must leave: with fewer, what is stored is mostly rounding.
const LEAST_FREEDOM: usize = 10;

impl Recipe {
    /// Applies the steps to a series; also says how many degrees of freedom are left, where something takes them.
    pub(super) fn apply(
        &self,
        mut raw: RawSeries,
        tr_seconds: f64,
        confounds: Option<Confounds>,
    ) -> Result<(RawSeries, Option<usize>), Problem> {
        raw.hide_poorly_covered(self.coverage_threshold);
        let total = raw.frame_numbers.len();
        if let Some(c) = confounds.as_ref().filter(|c| c.frames != total) {
            return Err(Problem::new("confounds", format!("{total} frames as in the series"), c.frames));
        }
        let confounds = confounds.map(|c| c.without_first(self.drop_volumes));
        raw.drop_before(self.drop_volumes);
        let expected = format_args!("at least {} volumes ({} are dropped)", self.drop_volumes + 2, self.drop_volumes);
        ensure(raw.frame_numbers.len() >= 2, "length", expected, total)?;
        if confounds.is_none() && self.cleaning == Cleaning::default() {
            self.check_regions(&raw)?;
            return Ok((raw, None));
        }
        let found = "a series with censored frames already taken out";
        ensure(self.cleaning.band_pass.is_none() || raw.is_contiguous(), "band-pass", "evenly spaced frames", found)?;
        check_band(&self.cleaning, tr_seconds)?;
        let cleaned = clean(&raw.values, raw.regions, tr_seconds, confounds.as_ref(), &self.cleaning)?;
        raw.keep_rows(&cleaned.kept);
        raw.values = cleaned.series;
        if let Some(left) = cleaned.degrees_of_freedom.filter(|left| *left < LEAST_FREEDOM) {
            let frames = raw.frame_numbers.len();
            let expected = format!("at least {LEAST_FREEDOM} left after regression and filter");
            return Err(Problem::new("degrees of freedom", expected, format!("{left} of {frames} frames")));
        }
        self.check_regions(&raw)?;
        Ok((raw, cleaned.degrees_of_freedom))
    }

    /// A scan of which hardly a region is left is no scan of this atlas.
    fn check_regions(&self, raw: &RawSeries) -> Result<(), Problem> {
        let valid = valid_regions(&raw.values, raw.frame_numbers.len()).iter().filter(|v| **v).count();
        if valid == 0 || (valid as f64) < self.least_regions * raw.regions as f64 {
            let expected =
                format!("a signal in at least {:.0} % of {} regions", 100.0 * self.least_regions, raw.regions);
            return Err(Problem::new("regions", expected, format!("{valid} that are neither missing nor constant")));
        }
        Ok(())
    }
}

/// A limit above half of the sampling rate would do nothing, or let nothing through.
pub(super) fn check_band(cleaning: &Cleaning, tr_seconds: f64) -> Result<(), Problem> {
    let nyquist_hz = 0.5 / tr_seconds;
    let limits = cleaning.band_pass.map_or([None, None], |b| [b.high_pass_hz, b.low_pass_hz]);
    let Some(hz) = limits.into_iter().flatten().find(|hz| *hz >= nyquist_hz) else { return Ok(()) };
    let expected = format!("limits below {nyquist_hz} Hz, half of one frame per {tr_seconds} s");
    Err(Problem::new("band-pass", expected, format!("{hz} Hz")))
}
