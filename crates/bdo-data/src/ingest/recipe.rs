//! What is done to a series between the file and the cohort.

use serde::Serialize;

use super::raw::RawSeries;
use crate::clean::{Band, Cleaning, clean};
use crate::confound::{Confounds, Preset, Scrub, Strategy};
use crate::problem::Problem;

/// The steps, in order: drop the first volumes, censor, detrend, band-pass, regress confounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recipe {
    /// Volumes dropped from the start; the others keep their true times.
    pub drop_volumes: usize,
    /// What is regressed out and censored; `None` leaves the confounds alone.
    pub denoise: Option<Strategy>,
    /// Detrending and band-pass.
    pub cleaning: Cleaning,
    /// Regions with a smaller share of their voxels in the image are missing.
    pub coverage_threshold: f64,
}

/// What the user asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Wishes {
    /// A preset of confounds.
    pub denoise: Option<Preset>,
    /// Scrubbing, whatever the preset.
    pub scrub: Option<Scrub>,
    /// A band-pass.
    pub band_pass: Option<Band>,
    /// Detrending; by default together with any of the others.
    pub detrend: Option<bool>,
    /// Least coverage of a region; 0.5 by default.
    pub coverage_threshold: Option<f64>,
}

impl Recipe {
    /// Resolves wishes and defaults.
    pub(super) fn of(drop_volumes: usize, wishes: &Wishes) -> Self {
        let mut denoise = wishes.denoise.map(Preset::strategy);
        if let Some(scrub) = wishes.scrub {
            denoise = Some(Strategy { scrub: Some(scrub), ..denoise.unwrap_or_else(Strategy::nothing) });
        }
        let regresses = wishes.denoise.is_some() || wishes.band_pass.is_some();
        let cleaning = Cleaning { detrend: wishes.detrend.unwrap_or(regresses), band_pass: wishes.band_pass };
        Self { drop_volumes, denoise, cleaning, coverage_threshold: wishes.coverage_threshold.unwrap_or(0.5) }
    }

    /// Whether a confound table is needed.
    pub fn needs_confounds(&self) -> bool {
        self.denoise.is_some()
    }

    /// Applies the steps to a series.
    pub(super) fn apply(
        &self,
        mut raw: RawSeries,
        tr_seconds: f64,
        confounds: Option<Confounds>,
    ) -> Result<RawSeries, Problem> {
        raw.hide_poorly_covered(self.coverage_threshold);
        let total = raw.frame_numbers.len();
        let confounds = match confounds {
            Some(c) if c.frames != total => {
                return Err(Problem::new("confounds", format!("{total} frames as in the series"), c.frames));
            }
            other => other.map(|c| c.without_first(self.drop_volumes)),
        };
        raw.drop_before(self.drop_volumes);
        if raw.frame_numbers.len() < 2 {
            let expected = format!("at least {} volumes ({} are dropped)", self.drop_volumes + 2, self.drop_volumes);
            return Err(Problem::new("length", expected, total));
        }
        if confounds.is_none() && self.cleaning == Cleaning::default() {
            return Ok(raw);
        }
        if self.cleaning.band_pass.is_some() && !raw.is_contiguous() {
            let found = "a series with censored frames already taken out";
            return Err(Problem::new("band-pass", "evenly spaced frames", found));
        }
        let cleaned = clean(&raw.values, raw.regions, tr_seconds, confounds.as_ref(), &self.cleaning)?;
        raw.keep_rows(&cleaned.kept);
        raw.values = cleaned.series;
        Ok(raw)
    }
}
