//! Robust scaling: each region by a median and an inter-quartile range of the training people, either of their centred series or of
//! their means over time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::cohort::{Cohort, CohortError};
use crate::division::TrainPeople;
use crate::quantile::{PASSES, QuantileSearch, mean, quantile};
use crate::scan::{Scan, SeriesView, valid_regions};
use crate::shard::spread;

/// A region whose range is this much smaller than the usual one carries no signal; dividing by it would only raise noise.
const LEAST_RELATIVE_IQR: f64 = 1e-6;

/// Means over time must differ between people by this share of the standard deviation over time. Where series were centred before,
/// what is left of their means is rounding, or a trace of frames dropped since.
const LEAST_SPREAD_OF_MEANS: f64 = 0.1;

/// Scans counted at once by each thread of the search.
const SCANS_AT_ONCE: usize = 16;

/// Scans that are fitted on at most. So many people give the quantiles of all of them to a percent, in a time that does not
/// depend on the size of the cohort.
const MOST_SCANS: usize = 2000;

/// What medians and inter-quartile ranges are of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scaling {
    /// Of the values of all scans, each region centred on its mean over the scan.
    #[default]
    Pooled,
    /// Of the means over time, one number per person and region; scans are not centred. As in the public code of Brain-JEPA.
    Means,
}

impl Scaling {
    /// Whether it is the one that files of earlier versions do not name.
    #[allow(clippy::trivially_copy_pass_by_ref)] // Called by serde.
    pub fn is_pooled(&self) -> bool {
        *self == Self::Pooled
    }
}

/// Scaling by means over time is impossible.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum MeansError {
    #[error(transparent)]
    Cohort(#[from] CohortError),
    /// People do not differ in their means.
    #[error(
        "expected means over time whose inter-quartile range over people is at least {LEAST_SPREAD_OF_MEANS} of the standard \
         deviation over time, found {found:.1e} of it in the middle region of {people} people: these series were centred before"
    )]
    Centred { found: f64, people: usize },
}

/// Medians and inter-quartile ranges, fitted on training people. There is no other way to make one than [`fit`](Self::fit),
/// [`fit_means`](Self::fit_means) or reading one that was fitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedRobustScaler {
    /// Names of the regions, in order.
    region_names: Vec<String>,
    /// Median of each region's centred values; 0 where the region is missing everywhere.
    medians: Vec<f32>,
    /// Inter-quartile range of each region; 0 marks a region that is missing.
    iqrs: Vec<f32>,
    scans: usize,
    /// BLAKE3 of the names and content of those scans.
    scans_blake3: String,
    #[serde(default, skip_serializing_if = "Scaling::is_pooled")]
    scaling: Scaling,
}

/// A scan ready for a model: centred, scaled, without a NaN.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaledScan {
    /// Seconds since the first kept frame.
    pub times_seconds: Vec<f64>,
    /// Row-major `[frames, regions]`; 0 where the region is not valid.
    pub values: Vec<f32>,
    /// Regions that are neither missing nor constant; the others stay outside losses and metrics.
    pub region_valid: Vec<bool>,
}

impl FittedRobustScaler {
    /// Fits on the scans of the training people, where there are very many on some of them, evenly spread over the cohort; in
    /// three passes over these scans.
    pub fn fit(cohort: &Cohort, people: &TrainPeople) -> Result<Self, CohortError> {
        let scans = scans_of(cohort, people);
        let regions = cohort.regions().len();
        let mut search = QuantileSearch::new(regions, &[0.25, 0.5, 0.75]);
        for _ in 0..PASSES {
            let current = &search;
            let counts = scans
                .par_chunks(SCANS_AT_ONCE)
                .try_fold(
                    || current.counts(),
                    |mut counts, chunk| {
                        for &i in chunk {
                            let scan = cohort.scan(i)?;
                            let (means, valid) = means((&scan).into());
                            for row in scan.series.chunks_exact(regions) {
                                for (r, x) in row.iter().enumerate().filter(|(r, _)| valid[*r]) {
                                    current.count(&mut counts, r, centred(*x, means[r]));
                                }
                            }
                        }
                        Ok::<_, CohortError>(counts)
                    },
                )
                .try_reduce(|| current.counts(), |a, b| Ok(a.plus(&b)))?;
            search.end_pass(&counts);
        }
        let found: Vec<(f64, f64)> =
            (0..regions).map(|r| search.result(r).map_or((0.0, 0.0), |q| (q[1], q[2] - q[0]))).collect();
        Ok(Self::from_statistics(cohort, &scans, Scaling::Pooled, &found))
    }

    /// Fits on the means over time of the same scans; of a person with several, on the mean of these. Refuses people who do not
    /// differ in them. A region that differs as little as that is missing.
    pub fn fit_means(cohort: &Cohort, people: &TrainPeople) -> Result<Self, MeansError> {
        let scans = scans_of(cohort, people);
        let regions = cohort.regions().len();
        let of_scan = |&i: &usize| Ok(moments((&cohort.scan(i)?).into()));
        let moments = scans.par_iter().map(of_scan).collect::<Result<Vec<_>, CohortError>>()?;
        let mut persons: BTreeMap<&str, Vec<&Moments>> = BTreeMap::new();
        for (&i, found) in scans.iter().zip(&moments) {
            persons.entry(&cohort.index()[i].id.subject).or_default().push(found);
        }
        let of_region = |r: usize| {
            let valid = |found: &&&Moments| found.valid[r];
            let mean_over = |scans: &Vec<&Moments>| mean(scans.iter().filter(valid).map(|found| found.means[r]));
            let mut means: Vec<f64> = persons.values().filter_map(mean_over).collect();
            means.sort_by(f64::total_cmp);
            let variance = mean(moments.iter().filter(|found| found.valid[r]).map(|found| found.variances[r]));
            let iqr = quantile(&means, 0.75)? - quantile(&means, 0.25)?;
            Some((quantile(&means, 0.5)?, iqr, iqr / variance?.sqrt()))
        };
        let found: Vec<Option<(f64, f64, f64)>> = (0..regions).map(of_region).collect();
        let mut spreads: Vec<f64> = found.iter().flatten().map(|(_, _, spread)| *spread).collect();
        spreads.sort_by(f64::total_cmp);
        let middle = spreads.get(spreads.len() / 2).copied().unwrap_or(0.0);
        if middle < LEAST_SPREAD_OF_MEANS {
            return Err(MeansError::Centred { found: middle, people: persons.len() });
        }
        let kept = |of_region: &Option<(f64, f64, f64)>| match of_region {
            Some((median, iqr, spread)) if *spread >= LEAST_SPREAD_OF_MEANS => (*median, *iqr),
            _ => (0.0, 0.0),
        };
        let found: Vec<(f64, f64)> = found.iter().map(kept).collect();
        Ok(Self::from_statistics(cohort, &scans, Scaling::Means, &found))
    }

    fn from_statistics(cohort: &Cohort, scans: &[usize], scaling: Scaling, found: &[(f64, f64)]) -> Self {
        let mut iqrs: Vec<f64> = found.iter().map(|(_, iqr)| *iqr).filter(|iqr| *iqr > 0.0).collect();
        iqrs.sort_by(f64::total_cmp);
        let least = iqrs.get(iqrs.len() / 2).copied().unwrap_or(0.0) * LEAST_RELATIVE_IQR;
        let usable = |iqr: f64| iqr > 0.0 && iqr >= least;
        let mut hasher = blake3::Hasher::new();
        let names: BTreeSet<(String, &str)> =
            scans.iter().map(|i| &cohort.index()[*i]).map(|e| (e.id.to_string(), e.blake3.as_str())).collect();
        for (name, hash) in names {
            hasher.update(name.as_bytes()).update(b"\t").update(hash.as_bytes()).update(b"\n");
        }
        Self {
            region_names: cohort.regions().iter().map(|r| r.name.clone()).collect(),
            medians: found.iter().map(|(m, iqr)| if usable(*iqr) { *m as f32 } else { 0.0 }).collect(),
            iqrs: found.iter().map(|(_, iqr)| if usable(*iqr) { *iqr as f32 } else { 0.0 }).collect(),
            scans: scans.len(),
            scans_blake3: hasher.finalize().to_hex().to_string(),
            scaling,
        }
    }

    pub fn region_names(&self) -> &[String] {
        &self.region_names
    }

    pub fn medians(&self) -> &[f32] {
        &self.medians
    }

    pub fn iqrs(&self) -> &[f32] {
        &self.iqrs
    }

    pub fn scans(&self) -> usize {
        self.scans
    }

    pub fn scans_blake3(&self) -> &str {
        &self.scans_blake3
    }

    /// What the medians and ranges are of.
    pub fn scaling(&self) -> Scaling {
        self.scaling
    }

    /// Scales, after centring on all kept frames unless means over time are what is scaled by; a constant, missing or unusable
    /// region becomes 0 and not valid.
    pub fn apply(&self, scan: &Scan) -> ScaledScan {
        let columns: Vec<usize> = (0..self.iqrs.len()).collect();
        ScaledScan::new(scan, &columns, self.scaling, &self.medians, &self.iqrs)
    }
}

impl ScaledScan {
    /// The given columns of a scan, centred on all kept frames if the scaling wants it and scaled; what is constant, missing or
    /// has an inter-quartile range of 0 becomes 0 and not valid.
    pub fn new<'a>(
        scan: impl Into<SeriesView<'a>>,
        columns: &[usize],
        scaling: Scaling,
        medians: &[f32],
        iqrs: &[f32],
    ) -> Self {
        let scan = scan.into();
        let (mut means, usable) = means(scan);
        if scaling == Scaling::Means {
            means.fill(0.0);
        }
        let region_valid: Vec<bool> =
            columns.iter().zip(iqrs).map(|(&column, &iqr)| usable[column] && iqr > 0.0).collect();
        let mut values = vec![0.0; scan.frames() * columns.len()];
        let width = usable.len().max(1);
        for (out, row) in values.chunks_exact_mut(columns.len().max(1)).zip(scan.series.chunks_exact(width)) {
            for (r, &column) in columns.iter().enumerate().filter(|(r, _)| region_valid[*r]) {
                out[r] = (centred(row[column], means[column]) - medians[r]) / iqrs[r];
            }
        }
        let first = scan.frame_times_seconds.first().copied().unwrap_or(0.0);
        let times_seconds = scan.frame_times_seconds.iter().map(|t| t - first).collect();
        Self { times_seconds, values, region_valid }
    }

    /// Some consecutive frames; their clock starts at `origin_seconds`.
    pub fn cut(&self, frames: Range<usize>, origin_seconds: f64) -> Self {
        let regions = self.region_valid.len();
        Self {
            times_seconds: self.times_seconds[frames.clone()].iter().map(|t| t - origin_seconds).collect(),
            values: self.values[frames.start * regions..frames.end * regions].to_vec(),
            region_valid: self.region_valid.clone(),
        }
    }
}

/// The scans of the training people, or some of them if there are very many.
fn scans_of(cohort: &Cohort, people: &TrainPeople) -> Vec<usize> {
    let all: Vec<usize> = (0..cohort.len()).filter(|i| people.contains(&cohort.index()[*i].id.subject)).collect();
    spread(&all, MOST_SCANS)
}

/// Of a scan, over time, by region.
struct Moments {
    means: Vec<f64>,
    variances: Vec<f64>,
    valid: Vec<bool>,
}

fn moments(scan: SeriesView<'_>) -> Moments {
    let (means, valid) = means(scan);
    let mut variances = vec![0.0f64; means.len()];
    for row in scan.series.chunks_exact(means.len().max(1)) {
        for ((variance, mean), x) in variances.iter_mut().zip(&means).zip(row) {
            *variance += (f64::from(*x) - mean).powi(2);
        }
    }
    variances.iter_mut().for_each(|variance| *variance /= scan.frames() as f64);
    Moments { means, variances, valid }
}

/// Each region's mean over all kept frames, and which regions are valid.
fn means(scan: SeriesView<'_>) -> (Vec<f64>, Vec<bool>) {
    let mut means = vec![0.0f64; scan.regions()];
    for row in scan.series.chunks_exact(means.len().max(1)) {
        for (m, x) in means.iter_mut().zip(row) {
            *m += f64::from(*x);
        }
    }
    for m in &mut means {
        *m /= scan.frames() as f64;
    }
    (means, valid_regions(scan.series, scan.frames()))
}

/// A value minus the mean of its region.
fn centred(x: f32, mean: f64) -> f32 {
    (f64::from(x) - mean) as f32
}
