//! The best linear smoother of a visit, as a part of the model: along principal directions of the training people, each with
//! the autocorrelation of directions as slow as itself. It holds what is linear in the visible frames; the network answers for
//! the rest. Nothing in it is trained: it is fitted before the first step.

use crate::autocorrelation::Autocorrelation;
use crate::config::ModelConfig;
use crate::device::{download, upload};
use crate::dynamics::{Frames, UnionGrid};
use crate::layer::Source;
use crate::parameters::{ParameterError, Parameters, Start};
use bdo_data::scaler::ScaledScan;
use bdo_kernels::linalg::{add_product, leading_eigen, product};
use burn::module::{Module, Param};
use burn::tensor::{Float, Tensor, TensorData};
use faer::Mat;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Sets of directions with an autocorrelation each: eight explain as much of hidden frames as one for every direction.
const GROUPS: usize = 8;
/// Scans it is fitted on at most; more would not change the second digit.
pub const MOST_SCANS: usize = 200;
/// Entries of an autocorrelation.
const LAGS: usize = 256;

const DIRECTIONS: &str = "smoother.directions";
const CORRELATIONS: &str = "smoother.correlations";
const LAG_SECONDS: &str = "smoother.lag_seconds";

/// The smoother inside a model.
#[derive(Module, Debug)]
pub struct Smoother {
    /// [N, N], one a column, slow ones first; the g-th of equal shares of the columns has the g-th autocorrelation.
    pub directions: Param<Tensor<2>>,
    /// [groups, lags] from lag 0 on.
    pub correlations: Param<Tensor<2>>,
    /// [1] distance of two lags.
    pub lag_seconds: Param<Tensor<1>>,
    /// The two as they are used on the host, read once: they are fitted before training and stay.
    #[module(skip)]
    curves: Curves,
}

/// Shared by all copies of a model.
#[derive(Clone, Debug, Default)]
struct Curves(Arc<OnceLock<Vec<Autocorrelation>>>);

/// The columns that share the autocorrelation of a group.
fn columns(group: usize, regions: usize) -> Range<usize> {
    let groups = GROUPS.min(regions);
    group * regions / groups..(group + 1) * regions / groups
}

impl Smoother {
    pub(crate) fn take(config: &ModelConfig, source: &mut Source) -> Result<Self, ParameterError> {
        let (n, groups) = (config.regions, GROUPS.min(config.regions));
        Ok(Self {
            directions: source.parameter(DIRECTIONS, [n, n], Start::Orthogonal, false)?,
            // An unfitted one knows nothing of hidden frames.
            correlations: source.parameter(CORRELATIONS, [groups, LAGS], Start::Zeros, false)?,
            lag_seconds: source.parameter(LAG_SECONDS, [1], Start::Ones, false)?,
            curves: Curves::default(),
        })
    }

    /// Visible rows [B, C, N] -> every row of the grid [B, K, N]; visible rows stay as they are, padding is 0.
    pub fn forward(&self, visible: Tensor<3>, frames: &Frames, grid: &UnionGrid) -> Tensor<3> {
        let [_, _, regions] = visible.dims();
        let curves = self.curves.0.get_or_init(|| self.curves());
        let place = (&visible.device(), visible.dtype());
        let along = visible.matmul(self.directions.val().unsqueeze_dim::<3>(0)); // [B, C, N]
        let weights: Vec<Vec<Vec<f32>>> =
            (0..grid.batch).into_par_iter().map(|sample| weights(curves, frames, grid, sample)).collect();
        let shape = [grid.batch, grid.frames, grid.context.slots];
        let parts = (0..curves.len()).map(|group| {
            let all: Vec<f32> = weights.iter().flat_map(|sample| sample[group].iter().copied()).collect();
            let all = upload::<3, Float>(TensorData::new(all, shape), place); // [B, K, C]
            let range = columns(group, regions);
            all.matmul(along.clone().narrow(2, range.start, range.len()))
        });
        let smoothed = Tensor::cat(parts.collect(), 2); // [B, K, N]
        smoothed.matmul(self.directions.val().transpose().unsqueeze_dim::<3>(0))
    }

    fn curves(&self) -> Vec<Autocorrelation> {
        let lag_seconds = download(self.lag_seconds.val()).first().map_or(1.0, |x| f64::from(*x));
        let values = download(self.correlations.val());
        let curve = |row: &[f32]| {
            let after = row.iter().skip(1).map(|x| f64::from(*x));
            Autocorrelation { lag_seconds, values: std::iter::once(1.0).chain(after).collect() }
        };
        values.chunks_exact(LAGS).map(curve).collect()
    }
}

/// Row-major [K, C] weights of the visible rows of a sample for each autocorrelation.
fn weights(curves: &[Autocorrelation], frames: &Frames, grid: &UnionGrid, sample: usize) -> Vec<Vec<f32>> {
    let (rows, slots) = (grid.frames, grid.context.slots);
    let seen = &grid.context.row[sample * slots..][..grid.context.count[sample]];
    let seconds = |row: usize| frames.times_seconds[row];
    let visible: Vec<f64> = seen.iter().map(|&row| seconds(row)).collect();
    let all = sample * rows..(sample + 1) * rows;
    let asked: Vec<usize> = all.filter(|&row| frames.valid[row] && !frames.context[row]).collect();
    let times: Vec<f64> = asked.iter().map(|&row| seconds(row)).collect();
    let of_curve = |curve: &Autocorrelation| {
        let mut out = vec![0.0f32; rows * slots];
        for (slot, row) in seen.iter().enumerate() {
            out[(row - sample * rows) * slots + slot] = 1.0;
        }
        let found = curve.kriging(&visible, &times); // [C, asked]
        for (j, row) in asked.iter().enumerate() {
            (0..visible.len()).for_each(|i| out[(row - sample * rows) * slots + i] = found[(i, j)] as f32);
        }
        out
    };
    curves.iter().map(of_curve).collect()
}

/// Fits the values of a smoother on scans of training people, as the model sees them.
pub fn fit_smoother(scans: &[ScaledScan], regions: usize) -> Option<Parameters> {
    let rotated =
        |directions: &Mat<f64>, scan: &ScaledScan| product(rows_of(scan, regions).as_ref(), directions.as_ref());
    let mut covariance = Mat::<f64>::zeros(regions, regions);
    for scan in scans {
        let rows = rows_of(scan, regions);
        add_product(covariance.as_mut(), rows.transpose(), rows.as_ref());
    }
    let (_, directions) = leading_eigen(covariance.as_ref())?;
    let along: Vec<Mat<f64>> = scans.par_iter().map(|scan| rotated(&directions, scan)).collect();
    // Slow directions first.
    let slowness = |k: usize| {
        let products = |lag: usize| -> f64 {
            let of_scan = |x: &Mat<f64>| (lag..x.nrows()).map(|t| x[(t, k)] * x[(t - lag, k)]).sum::<f64>();
            along.iter().map(of_scan).sum()
        };
        products(1) / products(0).max(f64::MIN_POSITIVE)
    };
    let slow: Vec<f64> = (0..regions).into_par_iter().map(slowness).collect();
    let mut order: Vec<usize> = (0..regions).collect();
    order.sort_by(|a, b| slow[*b].total_cmp(&slow[*a]));
    let step = |scan: &ScaledScan| scan.times_seconds.windows(2).map(|w| w[1] - w[0]).fold(f64::INFINITY, f64::min);
    // Half of the shortest repetition time, as for the autocorrelation of single regions.
    let lag_seconds = scans.iter().map(step).fold(f64::INFINITY, f64::min) / 2.0;
    if !lag_seconds.is_finite() || lag_seconds <= 0.0 {
        return None;
    }
    let curve = |group: usize| {
        let some: Vec<usize> = columns(group, regions).map(|place| order[place]).collect();
        let series = scans.iter().zip(&along).map(|(scan, x)| {
            let values = (0..x.nrows()).flat_map(|t| some.iter().map(move |&k| x[(t, k)] as f32)).collect();
            (scan.times_seconds.clone(), values)
        });
        Autocorrelation::pooled(&series.collect::<Vec<_>>(), some.len(), lag_seconds, LAGS).values
    };
    let groups = GROUPS.min(regions);
    let correlations: Vec<f32> = (0..groups).flat_map(curve).map(|x| x as f32).collect();
    let columns = (0..regions * regions).map(|k| directions[(k / regions, order[k % regions])] as f32).collect();
    Some(Parameters::of([
        (DIRECTIONS, vec![regions, regions], columns),
        (CORRELATIONS, vec![groups, LAGS], correlations),
        (LAG_SECONDS, vec![1], vec![lag_seconds as f32]),
    ]))
}

fn rows_of(scan: &ScaledScan, regions: usize) -> Mat<f64> {
    Mat::from_fn(scan.times_seconds.len(), regions, |t, r| f64::from(scan.values[t * regions + r]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::init::{Stream, draw_parameters};
    use crate::ops::Kernels;
    use burn::tensor::Device;

    const REGIONS: usize = 4;
    const FRAMES: usize = 200;

    /// Two slow and two fast processes, mixed over the regions.
    fn scan(seed: u64) -> ScaledScan {
        let mut stream = Stream::named(seed, "two speeds");
        let mut state = [0.0f64; REGIONS];
        let mix = [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, -1.0, -1.0], [1.0, -1.0, 1.0, -1.0], [1.0, -1.0, -1.0, 1.0]];
        let values = (0..FRAMES).flat_map(|_| {
            for (k, x) in state.iter_mut().enumerate() {
                let (stays, size) = if k < 2 { (0.95, 2.0) } else { (0.1, 1.0) };
                *x = stays * *x + size * (1.0f64 - stays * stays).sqrt() * stream.normal();
            }
            let now = state;
            (0..REGIONS).map(move |r| (0..REGIONS).map(|k| 0.5 * mix[k][r] * now[k]).sum::<f64>() as f32)
        });
        ScaledScan {
            values: values.collect(),
            times_seconds: (0..FRAMES).map(|t| t as f64).collect(),
            region_valid: vec![true; REGIONS],
        }
    }

    #[test]
    fn fast_and_slow_directions_are_smoothed_each_in_its_way() {
        let scans: Vec<ScaledScan> = (0..40).map(scan).collect();
        let config = ModelConfig { regions: REGIONS, smoother: true, ..ModelConfig::tiny() };
        let mut parameters = draw_parameters(&Source::list(|source| Smoother::take(&config, source)), 1);
        parameters.0.extend(fit_smoother(&scans, REGIONS).expect("scans move").0);
        let device = Device::flex();
        let smoother = Source::build(parameters, &device, Kernels::default(), |source| Smoother::take(&config, source));
        let smoother = smoother.expect("the values fit the configuration");
        let pooled = |scan: &ScaledScan| (scan.times_seconds.clone(), scan.values.clone());
        let common = Autocorrelation::pooled(&scans.iter().map(pooled).collect::<Vec<_>>(), REGIONS, 0.5, LAGS);
        let (mut own, mut same, mut nothing) = (0.0f64, 0.0f64, 0.0f64);
        for seed in 100..110 {
            let scan = scan(seed);
            let context: Vec<bool> = (0..FRAMES).map(|t| t % 3 == 0).collect();
            let frames = Frames {
                batch: 1,
                frames: FRAMES,
                times_seconds: scan.times_seconds.clone(),
                valid: vec![true; FRAMES],
                context: context.clone(),
            };
            let grid = UnionGrid::new(&frames, &config).expect("times increase");
            let seen: Vec<usize> = (0..FRAMES).filter(|t| context[*t]).collect();
            let visible: Vec<f32> = seen.iter().flat_map(|t| scan.values[t * REGIONS..][..REGIONS].to_vec()).collect();
            let shape = [1, seen.len(), REGIONS];
            let rows = Tensor::<3>::from_data(TensorData::new(visible.clone(), shape), &device);
            let told = smoother.forward(rows, &frames, &grid).into_data().try_to_vec::<f32>().expect("f32");
            let times: Vec<f64> = seen.iter().map(|t| *t as f64).collect();
            let weights = common.kriging(&times, &scan.times_seconds);
            for t in 0..FRAMES {
                for r in 0..REGIONS {
                    let (truth, found) = (f64::from(scan.values[t * REGIONS + r]), f64::from(told[t * REGIONS + r]));
                    if context[t] {
                        assert!((truth - found).abs() < 1e-4, "visible frames stay as they are");
                        continue;
                    }
                    let kriged: f64 =
                        (0..seen.len()).map(|i| weights[(i, t)] * f64::from(visible[i * REGIONS + r])).sum();
                    own += (truth - found).powi(2);
                    same += (truth - kriged).powi(2);
                    nothing += truth.powi(2);
                }
            }
        }
        // The fast half, a fifth of the variance, is worth nothing two frames away; the slow half nearly all.
        assert!(own < 0.95 * same && same < 0.6 * nothing, "{own} {same} {nothing}");
    }
}
