//! The correlations of a visit in a few coordinates: along the principal axes in which training people differ, each scaled to
//! unit variance among them. Fitted without labels. The fingerprint term teaches the mean control to tell the coordinates of
//! the very frames it saw: a function of the input, not of the person, so that it cannot be learned by heart.
//!
//! Differences are measured as between matrix square roots, to first order around the mean of the training people: along its
//! eigenvectors i and j, with eigenvalues m, a difference is divided by `sqrt(m_i) + sqrt(m_j)`. Taken as they are, correlations
//! differ most in the global signal.

use crate::config::ModelConfig;
use crate::intake::NO_SIZE;
use crate::layer::{Linear, LinearStart, Source};
use crate::parameters::{Array, ParameterError, Parameters, Start};
use bdo_kernels::linalg::{add_product, leading_eigen, product, symmetric_eigen};
use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};
use faer::Mat;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Scans the axes are fitted on at most: what bounds memory and time in large cohorts.
pub const MOST_SCANS: usize = 1000;
/// Coordinates are cut here: a damaged scan can lie hundreds of standard deviations away.
const FARTHEST: f32 = 4.0;
/// Control per coordinate before training: little beside what frames ask for.
const CONTROL: f64 = 0.3;
/// Share of the identity in the mean that differences are measured around: eigenvalues near 0 are rounding.
const SHRINKAGE: f64 = 0.1;
/// Correlations multiplied at a time.
const BLOCK: usize = 2048;

/// Principal axes of correlations.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedFingerprint {
    /// Of each pair of regions, in the order of [`correlations`].
    mean: Vec<f32>,
    /// Scaled so that coordinates have unit variance; at most `width`.
    axes: Vec<Vec<f32>>,
    width: usize,
}

impl FittedFingerprint {
    /// Fits `width` axes on the correlations of training people's scans, NaN where a region is missing. Fewer than that many
    /// plus one scans leave the last coordinates 0. `None` if nothing differs between them.
    pub fn fit(mut scans: Vec<Vec<f32>>, regions: usize, width: usize) -> Option<Self> {
        let (n, pairs) = (scans.len(), scans.first()?.len());
        let mean: Vec<f32> = (0..pairs)
            .into_par_iter()
            .map(|k| {
                let known = scans.iter().map(|scan| f64::from(scan[k])).filter(|x| x.is_finite());
                let (sum, count) = known.fold((0.0, 0usize), |(sum, count), x| (sum + x, count + 1));
                (sum / count.max(1) as f64) as f32
            })
            .collect();
        let roots = Roots::around(&mean, regions)?;
        scans.par_iter_mut().for_each(|scan| {
            scan.iter_mut().zip(&mean).for_each(|(x, m)| *x = if x.is_finite() { *x - m } else { 0.0 });
            *scan = roots.difference(scan);
        });
        let entries = regions * regions;
        let block = |from: usize| Mat::from_fn(n, BLOCK.min(entries - from), |i, j| f64::from(scans[i][from + j]));
        let mut gram = Mat::<f64>::zeros(n, n);
        for from in (0..entries).step_by(BLOCK) {
            let some = block(from);
            add_product(gram.as_mut(), some.as_ref(), some.transpose());
        }
        let (values, directions) = leading_eigen(gram.as_ref())?;
        let least = values.first().copied().filter(|most| *most > 0.0)? * 1e-9;
        let kept = values.iter().take(width.min(n.saturating_sub(1))).take_while(|value| **value > least).count();
        // X^T v / w times the root of n: coordinates of the fitted scans are then the root of n times v.
        let scaled = Mat::from_fn(n, kept, |i, k| directions[(i, k)] * (n as f64).sqrt() / values[k]);
        let mut axes = vec![vec![0.0f32; entries]; kept];
        for from in (0..entries).step_by(BLOCK) {
            let some = product(scaled.transpose(), block(from).as_ref());
            for (k, axis) in axes.iter_mut().enumerate() {
                (0..some.ncols()).for_each(|j| axis[from + j] = some[(k, j)] as f32);
            }
        }
        axes.par_iter_mut().for_each(|axis| *axis = roots.on_correlations(axis));
        Some(Self { mean, axes, width })
    }

    /// The values a model starts with, by name; axes that were not found are 0.
    pub fn parameters(&self) -> Parameters {
        let pairs = self.mean.len();
        let mut axes = self.axes.concat();
        axes.resize(self.width * pairs, 0.0);
        Parameters(BTreeMap::from([
            (MEAN.to_owned(), Array { shape: vec![pairs], values: self.mean.clone() }),
            (AXES.to_owned(), Array { shape: vec![self.width, pairs], values: axes }),
        ]))
    }
}

const MEAN: &str = "fingerprint.mean";
const AXES: &str = "fingerprint.axes";

/// The fingerprint inside a model: fixed axes, and the trained map from coordinates to the control.
#[derive(Module, Debug)]
pub struct Fingerprint {
    /// Mean correlations of the training people, one a pair of regions.
    pub mean: Param<Tensor<1>>,
    /// [d, pairs].
    pub axes: Param<Tensor<2>>,
    /// d -> d.
    pub control: Linear,
}

impl Fingerprint {
    pub(crate) fn take(config: &ModelConfig, source: &mut Source) -> Result<Self, ParameterError> {
        let (d, pairs) = (config.width, config.regions * (config.regions - 1) / 2);
        // Coordinates of untrained models are of about unit size too.
        let random = Start::Uniform((3.0 / pairs.max(1) as f64).sqrt());
        Ok(Self {
            mean: source.parameter(MEAN, [pairs], Start::Zeros, false)?,
            axes: source.parameter(AXES, [d, pairs], random, false)?,
            control: source.linear_from(
                "fingerprint.control",
                d,
                d,
                LinearStart::Weight(Start::Identity(CONTROL)),
                true,
            )?,
        })
    }

    /// The coordinates [B, d] of visible rows [B, C, N] with weights [B, C, 1] that sum to 1 over the rows of each sample. A
    /// region without a signal says nothing.
    pub fn coordinates(&self, visible: &Tensor<3>, weights: &Tensor<3>) -> Tensor<2> {
        let [batch, _, regions] = visible.dims();
        let weighted = visible.clone() * weights.clone();
        let products = weighted.clone().swap_dims(1, 2).matmul(visible.clone()); // [B, N, N]
        let variance = (weighted * visible.clone()).sum_dim(1); // [B, 1, N]
        let silent = variance.clone().lower_elem(NO_SIZE * NO_SIZE);
        let scale = variance.clamp_min(NO_SIZE * NO_SIZE).sqrt().recip().mask_fill(silent.clone(), 0.0);
        let heard = silent.bool_not().float().cast(visible.dtype()); // [B, 1, N]
        let list: Vec<i32> = pairs(regions).map(|(i, j)| (i * regions + j) as i32).collect();
        let list = Tensor::<1, Int>::from_data(list.as_slice(), &visible.device());
        let triangle = |x: Tensor<3>| x.reshape([batch, regions * regions]).select(1, list.clone()); // [B, pairs]
        let correlations = triangle(products * scale.clone().swap_dims(1, 2) * scale);
        let known = triangle(heard.clone().swap_dims(1, 2) * heard);
        let from_mean = (correlations - self.mean.val().unsqueeze_dim::<2>(0)) * known;
        from_mean.matmul(self.axes.val().transpose()).clamp(-FARTHEST, FARTHEST)
    }

    /// Coordinates [B, d] -> the constant part of the control [B, 1, d].
    pub fn part(&self, coordinates: &Tensor<2>) -> Tensor<3> {
        self.control.forward(coordinates.clone().unsqueeze_dim::<3>(1))
    }
}

/// How matrix square roots differ where correlations differ a little from a mean.
struct Roots {
    /// Eigenvectors of the mean, one a column.
    vectors: Mat<f64>,
    /// Roots of its eigenvalues.
    roots: Vec<f64>,
}

impl Roots {
    /// Around the mean of correlations in the order of [`correlations`].
    fn around(mean: &[f32], regions: usize) -> Option<Self> {
        let whole = symmetric(regions, |k| (1.0 - SHRINKAGE) * f64::from(mean[k]), 1.0);
        let (values, vectors) = symmetric_eigen(whole.as_ref())?;
        Some(Self { vectors, roots: values.iter().map(|x| x.max(SHRINKAGE).sqrt()).collect() })
    }

    /// The difference of square roots, N x N in the eigenbasis, of differences of correlations.
    fn difference(&self, correlations: &[f32]) -> Vec<f32> {
        let whole = symmetric(self.roots.len(), |k| f64::from(correlations[k]), 0.0);
        self.divided(product(self.vectors.transpose(), product(whole.as_ref(), self.vectors.as_ref()).as_ref()))
    }

    /// What has the same product with differences of correlations as `axis` has with the differences of their square roots.
    fn on_correlations(&self, axis: &[f32]) -> Vec<f32> {
        let n = self.roots.len();
        let divided = self.divided(Mat::from_fn(n, n, |i, j| f64::from(axis[i * n + j])));
        let divided = Mat::from_fn(n, n, |i, j| f64::from(divided[i * n + j]));
        let whole = product(self.vectors.as_ref(), product(divided.as_ref(), self.vectors.transpose()).as_ref());
        pairs(n).map(|(i, j)| (whole[(i, j)] + whole[(j, i)]) as f32).collect()
    }

    fn divided(&self, matrix: Mat<f64>) -> Vec<f32> {
        let n = self.roots.len();
        (0..n * n).map(|k| (matrix[(k / n, k % n)] / (self.roots[k / n] + self.roots[k % n])) as f32).collect()
    }
}

/// The symmetric matrix of numbers in the order of [`correlations`].
fn symmetric(regions: usize, entry: impl Fn(usize) -> f64, diagonal: f64) -> Mat<f64> {
    let mut whole = Mat::zeros(regions, regions);
    for (k, (i, j)) in pairs(regions).enumerate() {
        whole[(i, j)] = entry(k);
        whole[(j, i)] = entry(k);
    }
    (0..regions).for_each(|i| whole[(i, i)] = diagonal);
    whole
}

/// Pairs of regions, the first before the second, row by row.
fn pairs(regions: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..regions).flat_map(move |i| (i + 1..regions).map(move |j| (i, j)))
}

/// Correlations of a row-major [frames, regions] series: the upper triangle without its diagonal, row by row. NaN where a
/// region is constant or not finite.
pub fn correlations(series: &[f32], regions: usize) -> Vec<f32> {
    let frames = series.len().checked_div(regions).unwrap_or(0);
    let unit = |region: usize| -> Vec<f32> {
        let column = || (0..frames).map(|frame| f64::from(series[frame * regions + region]));
        let mean = column().sum::<f64>() / frames.max(1) as f64;
        let norm = column().map(|x| (x - mean) * (x - mean)).sum::<f64>().sqrt();
        // Rounding of a constant series is not a signal.
        let signal = norm.is_finite() && norm > 1e-6 * (mean.abs() * (frames as f64).sqrt()).max(1e-30);
        column().map(|x| if signal { ((x - mean) / norm) as f32 } else { f32::NAN }).collect()
    };
    let columns: Vec<Vec<f32>> = (0..regions).map(unit).collect();
    pairs(regions).map(|(i, j)| dot(&columns[i], &columns[j])).collect()
}

/// Sixteen running sums, which the compiler keeps in vector registers.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 16];
    let (x, y) = (a.chunks_exact(16), b.chunks_exact(16));
    let rest: f32 = x.remainder().iter().zip(y.remainder()).map(|(a, b)| a * b).sum();
    for (x, y) in x.zip(y) {
        sums.iter_mut().zip(x).zip(y).for_each(|((sum, a), b)| *sum += a * b);
    }
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::init::{Stream, draw_parameters};
    use crate::ops::Kernels;
    use burn::tensor::{Device, TensorData};

    /// People who differ along one pattern of coupling get coordinates of unit variance along it, in their order.
    #[test]
    fn people_are_told_apart_along_the_axis_they_differ_in() {
        let (frames, regions) = (400, 5);
        let person = |coupling: f64| -> Vec<f32> {
            let mut stream = Stream::named(7, &coupling.to_string());
            (0..frames)
                .flat_map(|_| {
                    let shared = stream.normal();
                    let own: Vec<f64> = (0..regions).map(|_| stream.normal()).collect();
                    own.into_iter().enumerate().map(move |(r, x)| x + if r < 2 { coupling * shared } else { 0.0 })
                })
                .map(|x| x as f32)
                .collect()
        };
        let people: Vec<Vec<f32>> = (0..20).map(|k| person(0.1 * f64::from(k))).collect();
        let scans: Vec<Vec<f32>> = people.iter().map(|series| correlations(series, regions)).collect();
        let fitted = FittedFingerprint::fit(scans, regions, 8).expect("people differ");
        let config = ModelConfig { regions, width: 8, heads: 2, fingerprint: true, ..ModelConfig::default() };
        let mut parameters = draw_parameters(&Source::list(|source| Fingerprint::take(&config, source)), 1);
        parameters.0.extend(fitted.parameters().0);
        let device = Device::flex();
        let inside =
            Source::build(parameters, &device, Kernels::default(), |source| Fingerprint::take(&config, source));
        let inside = inside.expect("the values fit the configuration");
        let told: Vec<Vec<f32>> = people
            .iter()
            .map(|series| {
                let rows = Tensor::<3>::from_data(TensorData::new(series.clone(), [1, frames, regions]), &device);
                let rows = rows.clone() - rows.mean_dim(1);
                let weights = Tensor::<3>::ones([1, frames, 1], &device) / frames as f64;
                inside.coordinates(&rows, &weights).into_data().try_to_vec().expect("coordinates are f32")
            })
            .collect();
        assert_eq!(told[0].len(), 8);
        let first: Vec<f64> = told.iter().map(|row| f64::from(row[0])).collect();
        let mean = first.iter().sum::<f64>() / 20.0;
        let variance = first.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 20.0;
        assert!(mean.abs() < 1e-4 && (variance - 1.0).abs() < 1e-3, "mean {mean}, variance {variance}");
        let ends = (first[..5].iter().sum::<f64>() - first[15..].iter().sum::<f64>()).abs() / 5.0;
        assert!(ends > 1.5, "{first:?}");
    }

    #[test]
    fn a_constant_region_has_no_correlations_and_counts_as_the_mean() {
        let series = |x: f32| vec![1.0, 2.0, x, 2.0, 1.0, x, 3.0, 5.0, x, 4.0, 0.0, x];
        let found = correlations(&series(3.0), 3);
        assert!(found[0].is_finite() && found[1].is_nan() && found[2].is_nan(), "{found:?}");
    }
}
