//! How the regions of a visit go together, in a few coordinates: along the principal axes in which training people differ.
//! Fitted without labels before the first step and kept with the weights.
//!
//! Of [`FingerprintOf::Ridge`], what goes together is said by ridge regression of every region on all of them over the visible
//! frames: with correlations R and a penalty c, the coefficients are `R (R + c)^-1`. Correlations as they are differ most in the
//! global signal; the regression counts directions of regions nearly alike once they are well above the penalty.
//!
//! Coordinates have unit variance among the people the axes were fitted on. The control holds them weighted by how much they
//! tell of a person: their signal-to-noise ratio, from the halves of scans whose people had no part in the axes it is measured on. The
//! directions that go with repetition time, number of frames and length of the training people's scans are taken out.

use crate::config::{FingerprintOf, ModelConfig};
use crate::intake::NO_SIZE;
use crate::layer::{Linear, Source};
use crate::parameters::{ParameterError, Parameters, Start};
use bdo_kernels::linalg::{add_product, dot, inverse, leading_eigen, product, remove_directions};
use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};
use faer::Mat;
use rayon::prelude::*;

/// Scans the axes are fitted on at most: what bounds memory and time in large cohorts.
pub const MOST_SCANS: usize = 1000;
/// Scans of which halves are compared at most, and at most half of all.
pub const MOST_HALVED: usize = 250;
/// Fewer halved scans say too little about noise.
const FEWEST_HALVED: usize = 8;
/// Coordinates are cut here: a damaged scan can lie hundreds of standard deviations away.
const FARTHEST: f32 = 4.0;
/// Root mean square of the control per coordinate: little beside what frames ask for.
const CONTROL: f64 = 0.3;
/// Penalty of the regression per region: the sum of the eigenvalues of correlations is the number of regions. Chosen on
/// validation people (docs/results/learning.md).
const PENALTY: f64 = 1.0 / 40.0;
/// Rounds of Newton's iteration for an inverse. Each squares the error, which starts at `1 / (1 + 2 PENALTY)`: 3e-6 in the end
/// where one direction has all the variance, and rounding elsewhere.
const ROUNDS: usize = 9;
/// Reliabilities are kept within these: the weight of a coordinate is finite, and none is lost.
const RELIABLE: [f64; 2] = [0.02, 0.95];
/// Values multiplied at a time.
const BLOCK: usize = 2048;

/// Frames, repetition time and length in seconds of a scan.
pub type Acquisition = [f64; 3];

/// Principal axes of how regions go together, and how far to trust each.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedFingerprint {
    /// Of each pair of regions, in the order of [`together`].
    mean: Vec<f32>,
    /// Scaled so that coordinates have unit variance; at most `width`.
    axes: Vec<Vec<f32>>,
    /// From coordinates to the control, row-major [width, width].
    control: Vec<f64>,
    width: usize,
}

impl FittedFingerprint {
    /// Fits `width` axes on [`together`] of training people's scans, NaN where a region is missing; `halves` has that of the
    /// first and second half of the last scans, `acquired` how each was made. Too few scans leave the last coordinates 0.
    /// `None` if nothing differs.
    pub fn fit(
        mut scans: Vec<Vec<f32>>,
        halves: Vec<[Vec<f32>; 2]>,
        acquired: &[Acquisition],
        width: usize,
    ) -> Option<Self> {
        let (n, entries) = (scans.len(), scans.first()?.len());
        let halved = if halves.len() < FEWEST_HALVED { 0 } else { halves.len().min(n / 2) };
        let mean: Vec<f32> = (0..entries)
            .into_par_iter()
            .map(|k| {
                let known = scans.iter().map(|scan| f64::from(scan[k])).filter(|x| x.is_finite());
                let (sum, count) = known.fold((0.0, 0usize), |(sum, count), x| (sum + x, count + 1));
                (sum / count.max(1) as f64) as f32
            })
            .collect();
        scans.extend(halves.into_iter().rev().take(halved).flatten());
        scans.par_iter_mut().for_each(|scan| {
            scan.iter_mut().zip(&mean).for_each(|(x, m)| *x = if x.is_finite() { *x - m } else { 0.0 });
        });
        let block = |rows: usize, from: usize| {
            Mat::from_fn(rows, BLOCK.min(entries - from), |i, j| f64::from(scans[i][from + j]))
        };
        let mut products = Mat::<f64>::zeros(scans.len(), scans.len());
        for from in (0..entries).step_by(BLOCK) {
            let some = block(scans.len(), from);
            add_product(products.as_mut(), some.as_ref(), some.transpose());
        }
        let scaled = principal(&products, n, width)?;
        let mut axes = vec![vec![0.0f32; entries]; scaled.ncols()];
        for from in (0..entries).step_by(BLOCK) {
            let some = product(scaled.transpose(), block(n, from).as_ref());
            for (k, axis) in axes.iter_mut().enumerate() {
                (0..some.ncols()).for_each(|j| axis[from + j] = some[(k, j)] as f32);
            }
        }
        let weights = weights(&products, n, halved, width);
        let coordinates = product(products.as_ref().submatrix(0, 0, n, n), scaled.as_ref()); // [n, kept]
        let clock = clock_directions(&coordinates, acquired);
        let control = |i: usize, j: usize| {
            let known = clock.iter().map(|q| q.get(i).zip(q.get(j)).map_or(0.0, |(a, b)| a * b)).sum::<f64>();
            weights[i] * (f64::from(u8::from(i == j)) - known)
        };
        let control = (0..width * width).map(|k| control(k / width, k % width)).collect();
        Some(Self { mean, axes, control, width })
    }

    /// The values a model starts with, by name; axes that were not found are 0.
    pub fn parameters(&self) -> Parameters {
        let (pairs, d) = (self.mean.len(), self.width);
        let mut axes = self.axes.concat();
        axes.resize(d * pairs, 0.0);
        let control = self.control.iter().map(|x| *x as f32).collect();
        Parameters::of([
            (MEAN, vec![pairs], self.mean.clone()),
            (AXES, vec![d, pairs], axes),
            (CONTROL_WEIGHT, vec![d, d], control),
        ])
    }
}

/// Coefficients [n, at most width] of the first n rows for the principal axes of those rows, scaled so that their coordinates
/// have unit variance; from the products of rows that have mean 0.
fn principal(products: &Mat<f64>, n: usize, width: usize) -> Option<Mat<f64>> {
    let (values, directions) = leading_eigen(products.as_ref().submatrix(0, 0, n, n))?;
    let least = values.first().copied().filter(|most| *most > 0.0)? * 1e-9;
    let kept = values.iter().take(width.min(n.saturating_sub(1))).take_while(|value| **value > least).count();
    // X^T v / w times the root of n: coordinates of the fitted rows are then the root of n times v.
    Some(Mat::from_fn(n, kept, |i, k| directions[(i, k)] * (n as f64).sqrt() / values[k]))
}

/// Weights of coordinates in the control. Rows of the products are n scans, then both halves of the last `halved` of them,
/// from the last scan on. Axes of the other scans' people say how much of a coordinate's variance in new people both halves
/// share; its weight is the ratio of that to the rest, in units of its standard deviation in new people.
fn weights(products: &Mat<f64>, n: usize, halved: usize, width: usize) -> Vec<f64> {
    let Some(axes) = (halved > 0).then(|| principal(products, n - halved, width)).flatten() else {
        return vec![CONTROL; width];
    };
    let told = product(products.as_ref().subcols(0, n - halved), axes.as_ref()); // [rows, kept]
    let (mut variances, mut shares) = (vec![], vec![]);
    for k in 0..told.ncols() {
        let of = |row: &dyn Fn(usize) -> usize| -> Vec<f64> {
            let values: Vec<f64> = (0..halved).map(|i| told[(row(i), k)]).collect();
            let mean = values.iter().sum::<f64>() / halved as f64;
            values.into_iter().map(|x| x - mean).collect()
        };
        let shared = |a: &[f64], b: &[f64]| dot(a, b) / halved as f64;
        let whole = of(&|i| n - 1 - i);
        let [first, second] = [of(&|i| n + 2 * i), of(&|i| n + 2 * i + 1)];
        variances.push(shared(&whole, &whole).max(f64::MIN_POSITIVE));
        shares.push(shared(&first, &second) / variances[k]);
    }
    let (variances, shares) = (smooth(&variances), smooth(&shares));
    let weight = |k: usize| {
        let k = k.min(shares.len() - 1);
        let share = shares[k].clamp(RELIABLE[0], RELIABLE[1]);
        share / (1.0 - share) / variances[k].sqrt()
    };
    let weights: Vec<f64> = (0..width).map(weight).collect();
    let size = (weights.iter().map(|w| w * w).sum::<f64>() / width as f64).sqrt();
    weights.into_iter().map(|w| w * CONTROL / size).collect()
}

/// Orthonormal directions of coordinates [n, kept], which have unit variance, that go with how scans were made.
fn clock_directions(coordinates: &Mat<f64>, acquired: &[Acquisition]) -> Vec<Vec<f64>> {
    let n = acquired.len().min(coordinates.nrows());
    let mut directions: Vec<Vec<f64>> = vec![];
    for about in 0..3 {
        let mean = acquired.iter().map(|scan| scan[about]).sum::<f64>() / n.max(1) as f64;
        let slope = |k: usize| (0..n).map(|i| coordinates[(i, k)] * (acquired[i][about] - mean)).sum::<f64>();
        let mut direction: Vec<f64> = (0..coordinates.ncols()).map(slope).collect();
        let before = dot(&direction, &direction).sqrt();
        remove_directions(&mut direction, &directions);
        let size = dot(&direction, &direction).sqrt();
        // Where all scans are alike, or differ in one of these as in another, only rounding is left.
        if size > 1e-6 * before.max(mean.abs()) {
            directions.push(direction.into_iter().map(|x| x / size).collect());
        }
    }
    directions
}

/// Means over neighbours, the wider the further down.
fn smooth(values: &[f64]) -> Vec<f64> {
    let mean = |k: usize| {
        let near = &values[k - k / 4..(k + k / 4 + 1).min(values.len())];
        near.iter().sum::<f64>() / near.len() as f64
    };
    (0..values.len()).map(mean).collect()
}

const MEAN: &str = "fingerprint.mean";
const AXES: &str = "fingerprint.axes";
const CONTROL_WEIGHT: &str = "fingerprint.control.weight";

/// The fingerprint inside a model. Its map to the control is trained only where the identity term asks something of the mean
/// control; nothing else does.
#[derive(Module, Debug)]
pub struct Fingerprint {
    /// Mean of the training people, one a pair of regions.
    pub mean: Param<Tensor<1>>,
    /// [d, pairs].
    pub axes: Param<Tensor<2>>,
    /// d -> d, from coordinates to the control.
    pub control: Linear,
    #[module(skip)]
    of: FingerprintOf,
}

impl Fingerprint {
    pub(crate) fn take(config: &ModelConfig, source: &mut Source) -> Result<Self, ParameterError> {
        let (d, pairs) = (config.width, pairs(config.fingerprint_of, config.regions).count());
        let trained = config.loss.identity > 0.0;
        // Coordinates of untrained models are of about unit size too.
        let random = Start::Uniform((3.0 / pairs.max(1) as f64).sqrt());
        Ok(Self {
            mean: source.parameter(MEAN, [pairs], Start::Zeros, false)?,
            axes: source.parameter(AXES, [d, pairs], random, false)?,
            control: source.square_linear("fingerprint.control", d, Start::Identity(CONTROL), trained)?,
            of: config.fingerprint_of,
        })
    }

    /// The coordinates [B, d] of visible rows [B, C, N] with weights [B, C, 1] that sum to 1 over the rows of each sample. A
    /// region without a signal says nothing.
    pub fn coordinates(&self, visible: &Tensor<3>, weights: &Tensor<3>) -> Tensor<2> {
        let [batch, _, regions] = visible.dims();
        let weighted = visible.clone() * weights.clone().sqrt();
        let variance = weighted.clone().square().sum_dim(1); // [B, 1, N]
        let silent = variance.clone().lower_elem(NO_SIZE * NO_SIZE);
        let scale = variance.clamp_min(NO_SIZE * NO_SIZE).sqrt().recip().mask_fill(silent.clone(), 0.0);
        let unit = weighted * scale; // columns of length 1
        let together = match self.of {
            FingerprintOf::Correlations => unit.clone().swap_dims(1, 2).matmul(unit),
            FingerprintOf::Ridge => regression(unit),
        }; // [B, N, N]
        let heard = silent.bool_not().float().cast(visible.dtype()); // [B, 1, N]
        let list: Vec<i32> = pairs(self.of, regions).map(|(i, j)| (i * regions + j) as i32).collect();
        let list = Tensor::<1, Int>::from_data(list.as_slice(), &visible.device());
        let triangle = |x: Tensor<3>| x.reshape([batch, regions * regions]).select(1, list.clone()); // [B, pairs]
        let known = triangle(heard.clone().swap_dims(1, 2) * heard);
        let from_mean = (triangle(together) - self.mean.val().unsqueeze_dim::<2>(0)) * known;
        from_mean.matmul(self.axes.val().transpose()).clamp(-FARTHEST, FARTHEST)
    }

    /// Coordinates [B, d] -> the constant part of the control [B, 1, d].
    pub fn part(&self, coordinates: &Tensor<2>) -> Tensor<3> {
        self.control.forward(coordinates.clone().unsqueeze_dim::<3>(1))
    }
}

/// Columns of length 1 or 0, unit [B, C, N] -> coefficients [B, N, N] of ridge regression of each region on all. With fewer
/// frames than regions the inverse is that of products of frames, by `X^T X (X^T X + c)^-1 = X^T (X X^T + c)^-1 X`.
fn regression(unit: Tensor<3>) -> Tensor<3> {
    let [_, frames, regions] = unit.dims();
    let turned = unit.clone().swap_dims(1, 2); // [B, N, C]
    if frames < regions {
        let products = unit.clone().matmul(turned.clone()); // [B, C, C]
        return turned.matmul(penalised_inverse(products, regions)).matmul(unit);
    }
    let correlations = turned.matmul(unit); // [B, N, N]
    correlations.clone().matmul(penalised_inverse(correlations, regions))
}

/// `(A + c)^-1` [B, n, n] of matrices whose eigenvalues lie between 0 and `regions`, by Newton's iteration: products alone, so
/// that it runs and is differentiated on any device.
fn penalised_inverse(matrix: Tensor<3>, regions: usize) -> Tensor<3> {
    let n = matrix.dims()[1];
    let (least, most) = (PENALTY * regions as f64, (PENALTY + 1.0) * regions as f64);
    let start = 2.0 / (least + most);
    let identity = Tensor::<2>::eye(n, &matrix.device()).cast(matrix.dtype()).unsqueeze_dim::<3>(0);
    let positive = matrix + identity.clone() * least;
    // The first round, from a multiple of the identity.
    let mut out = (identity * 2.0 - positive.clone() * start) * start;
    for _ in 1..ROUNDS {
        out = out.clone() * 2.0 - out.clone().matmul(positive.clone()).matmul(out);
    }
    out
}

/// Pairs of regions, the first not after the second, row by row; a region with itself only where that says something.
fn pairs(of: FingerprintOf, regions: usize) -> impl Iterator<Item = (usize, usize)> {
    let next = usize::from(of == FingerprintOf::Correlations);
    (0..regions).flat_map(move |i| (i + next..regions).map(move |j| (i, j)))
}

/// How the regions of a row-major [frames, regions] series go together, a number for every pair: the upper triangle row by row. NaN
/// where a region is constant or not finite.
pub fn together(of: FingerprintOf, series: &[f32], regions: usize) -> Vec<f32> {
    let frames = series.len().checked_div(regions).unwrap_or(0);
    let mut unit = Mat::<f64>::zeros(frames, regions);
    let mut heard = vec![false; regions];
    for (region, heard) in heard.iter_mut().enumerate() {
        let column = || (0..frames).map(|frame| f64::from(series[frame * regions + region]));
        let mean = column().sum::<f64>() / frames.max(1) as f64;
        let norm = column().map(|x| (x - mean) * (x - mean)).sum::<f64>().sqrt();
        // Rounding of a constant series is not a signal.
        *heard = norm.is_finite() && norm > 1e-6 * (mean.abs() * (frames as f64).sqrt()).max(1e-30);
        if *heard {
            column().enumerate().for_each(|(frame, x)| unit[(frame, region)] = (x - mean) / norm);
        }
    }
    let turned = unit.transpose();
    let penalised = |mut products: Mat<f64>| {
        (0..products.nrows()).for_each(|i| products[(i, i)] += PENALTY * regions as f64);
        inverse(products)
    };
    let whole = match of {
        FingerprintOf::Correlations => product(turned, unit.as_ref()),
        FingerprintOf::Ridge if frames < regions => {
            let inverse = penalised(product(unit.as_ref(), turned));
            product(product(turned, inverse.as_ref()).as_ref(), unit.as_ref())
        }
        FingerprintOf::Ridge => {
            let correlations = product(turned, unit.as_ref());
            product(correlations.as_ref(), penalised(correlations.clone()).as_ref())
        }
    };
    pairs(of, regions).map(|(i, j)| if heard[i] && heard[j] { whole[(i, j)] as f32 } else { f32::NAN }).collect()
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
        [FingerprintOf::Correlations, FingerprintOf::Ridge].into_iter().for_each(told_apart);
    }

    fn told_apart(of: FingerprintOf) {
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
        let scans: Vec<Vec<f32>> = people.iter().map(|series| together(of, series, regions)).collect();
        let fitted = FittedFingerprint::fit(scans, vec![], &[], 8).expect("people differ");
        let config = ModelConfig {
            regions,
            width: 8,
            heads: 2,
            fingerprint: true,
            fingerprint_of: of,
            ..ModelConfig::default()
        };
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
        let found = together(FingerprintOf::Correlations, &series(3.0), 3);
        assert!(found[0].is_finite() && found[1].is_nan() && found[2].is_nan(), "{found:?}");
    }

    /// Directions in which halves of a scan agree weigh more than those in which they do not, and all of them something.
    #[test]
    fn coordinates_weigh_as_much_as_they_can_be_trusted() {
        let (people, entries) = (60, 40);
        let mut stream = Stream::named(3, "weights");
        let mut normal = || stream.normal();
        // Entry 0 belongs to the person, entry 1 to the half.
        let (mut scans, mut halves) = (vec![], vec![]);
        for _ in 0..people {
            let own = 15.0 * normal();
            let half = [0, 1].map(|_| {
                let mut values: Vec<f32> = (0..entries).map(|_| 0.1 * normal() as f32).collect();
                values[0] += own as f32;
                values[1] += 6.0 * normal() as f32;
                values
            });
            scans.push(half[0].iter().zip(&half[1]).map(|(a, b)| f32::midpoint(*a, *b)).collect());
            halves.push(half);
        }
        let fitted = FittedFingerprint::fit(scans, halves.split_off(people / 2), &[], 4).expect("people differ");
        let weights: Vec<f64> = (0..4).map(|k| fitted.control[5 * k]).collect();
        assert!(weights[0] > 5.0 * weights[1] && weights.iter().all(|w| *w > 0.0), "{weights:?}");
        let size = (weights.iter().map(|w| w * w).sum::<f64>() / 4.0).sqrt();
        assert!((size - CONTROL).abs() < 1e-9, "{size}");
    }

    /// What goes with the repetition time is not in the control; what does not, stays.
    #[test]
    fn the_clock_is_taken_out() {
        let (people, entries) = (50, 12);
        let mut stream = Stream::named(9, "clock");
        let (mut scans, mut acquired) = (vec![], vec![]);
        for person in 0..people {
            let tr = 1.0 + f64::from(person % 3);
            let mut values: Vec<f32> = (0..entries).map(|_| stream.normal() as f32).collect();
            values[0] += 4.0 * tr as f32;
            scans.push(values);
            acquired.push([200.0, tr, 200.0 * tr]);
        }
        let fitted = FittedFingerprint::fit(scans.clone(), vec![], &acquired, 4).expect("people differ");
        let told = |scan: &Vec<f32>| -> Vec<f64> {
            let away: Vec<f64> = scan.iter().zip(&fitted.mean).map(|(x, m)| f64::from(x - m)).collect();
            let coordinate = |axis: &Vec<f32>| axis.iter().zip(&away).map(|(a, x)| f64::from(*a) * x).sum::<f64>();
            let coordinates: Vec<f64> = fitted.axes.iter().map(coordinate).collect();
            (0..4).map(|i| (0..4).map(|j| fitted.control[4 * i + j] * coordinates[j]).sum()).collect()
        };
        let told: Vec<Vec<f64>> = scans.iter().map(told).collect();
        for k in 0..4 {
            let slope: f64 = told.iter().zip(&acquired).map(|(x, a)| x[k] * (a[1] - 1.98)).sum::<f64>() / 50.0;
            assert!(slope.abs() < 1e-4, "coordinate {k} goes with the repetition time: {slope}");
        }
        let size = told.iter().flatten().map(|x| x * x).sum::<f64>() / 50.0;
        assert!(size > 2.5 * CONTROL * CONTROL, "three directions of unit variance are left: {size}");
    }

    /// Newton's iteration beside a factorisation, where one direction has nearly all the variance and where none has.
    #[test]
    fn the_inverse_is_that_of_a_factorisation() {
        let (frames, regions) = (60, 8);
        for shared in [0.0, 30.0] {
            let mut stream = Stream::named(5, &shared.to_string());
            let series: Vec<f32> = (0..frames)
                .flat_map(|_| {
                    let common = shared * stream.normal();
                    (0..regions).map(|_| (common + stream.normal()) as f32).collect::<Vec<f32>>()
                })
                .collect();
            for frames in [5, frames] {
                let series = &series[..frames * regions];
                let rows =
                    Tensor::<3>::from_data(TensorData::new(series.to_vec(), [1, frames, regions]), &Device::flex());
                let rows = rows.clone() - rows.mean_dim(1);
                let unit = rows.clone() / rows.square().sum_dim(1).sqrt();
                let found: Vec<f32> = regression(unit).into_data().try_to_vec().expect("f32");
                let expected = together(FingerprintOf::Ridge, series, regions);
                for ((i, j), e) in pairs(FingerprintOf::Ridge, regions).zip(expected) {
                    let f = found[i * regions + j];
                    assert!((f - e).abs() < 2e-5, "shared {shared}, {frames} frames, {i} and {j}: {f} against {e}");
                }
            }
        }
    }
}
