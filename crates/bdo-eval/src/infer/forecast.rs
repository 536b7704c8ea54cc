//! What comes after the last frame, beside what simpler dynamics say.

use crate::error::EvalError;
use crate::infer::score::Question;
use crate::interval::{IntervalScore, IntervalTally};
use crate::resample::{PairedErrors, paired_errors};
use bdo_data::cohort::{Cohort, Observer};
use bdo_data::scaler::ScaledScan;
use bdo_data::scan::Scan;
use bdo_kernels::linalg::{cholesky, cholesky_solve};
use bdo_model::intake::{Intake, Masked};
use bdo_train::evaluate::Predictor;
use serde::Serialize;
use std::collections::BTreeMap;

/// Training scans a linear model is fitted on.
const MOST_SCANS: usize = 200;
/// Penalties tried, as shares of the mean variance.
const PENALTIES: [f64; 5] = [0.03, 0.1, 0.3, 1.0, 3.0];

/// Names of the simple forecasts, in the order of `HorizonScore::others`.
pub const OTHERS: [&str; 5] = ["persistence", "mean", "ar1", "var1", "kriging"];

/// How a forecast this many frames ahead fares.
#[derive(Clone, Debug, Serialize)]
pub struct HorizonScore {
    pub frames_ahead: usize,
    pub seconds_ahead: f64,
    pub model: IntervalScore,
    pub others: [f64; 5],
    /// The model's errors less those of each simple forecast, as shares of the variance of each scan's visible frames.
    pub against: [Option<PairedErrors>; 5],
}

/// `x' = A x` between neighbouring frames, one matrix for each repetition time, fitted on training people.
#[derive(Debug)]
pub struct VectorAutoregression {
    regions: usize,
    /// By repetition time in hundredths of a second.
    matrices: BTreeMap<u64, Vec<f64>>,
}

fn tr_key(tr_seconds: f64) -> u64 {
    (tr_seconds * 100.0).round() as u64
}

impl VectorAutoregression {
    /// From scans of training people; the penalty is chosen on every fourth of them, which the matrix then also uses.
    pub fn fit(cohort: &Cohort, training: &[usize], intake: &Intake, regions: usize) -> Result<Self, EvalError> {
        let mut groups: BTreeMap<u64, Vec<ScaledScan>> = BTreeMap::new();
        let step = training.len().div_ceil(MOST_SCANS).max(1);
        for &i in training.iter().step_by(step) {
            if let Some(scan) = intake.scale(&cohort.scan(i)?) {
                groups.entry(tr_key(cohort.index()[i].tr_seconds)).or_default().push(scan);
            }
        }
        let fitted = groups.into_iter().filter_map(|(key, scans)| Some((key, best_matrix(&scans, regions, key)?)));
        Ok(Self { regions, matrices: fitted.collect() })
    }

    /// The matrix for a repetition time; `None` where nobody was trained at it.
    pub fn matrix(&self, tr_seconds: f64) -> Option<&[f64]> {
        self.matrices.get(&tr_key(tr_seconds)).map(Vec::as_slice)
    }

    fn step(&self, matrix: &[f64], x: &[f64]) -> Vec<f64> {
        matrix.chunks_exact(self.regions).map(|row| row.iter().zip(x).map(|(a, b)| a * b).sum()).collect()
    }
}

/// Sums of products of neighbouring frames.
struct Products {
    own: Vec<f64>,
    next: Vec<f64>,
}

fn products<'a>(scans: impl Iterator<Item = &'a ScaledScan>, n: usize, key: u64) -> Products {
    let mut sums = Products { own: vec![0.0; n * n], next: vec![0.0; n * n] };
    for scan in scans {
        for (times, row) in scan.times_seconds.windows(2).zip(0..) {
            if tr_key(times[1] - times[0]) != key {
                continue;
            }
            let (now, then) = (&scan.values[row * n..(row + 1) * n], &scan.values[(row + 1) * n..(row + 2) * n]);
            for i in 0..n {
                let (a, b) = (f64::from(now[i]), f64::from(then[i]));
                let own = &mut sums.own[i * n..(i + 1) * n];
                own.iter_mut().zip(now).for_each(|(s, x)| *s += a * f64::from(*x));
                let next = &mut sums.next[i * n..(i + 1) * n];
                next.iter_mut().zip(now).for_each(|(s, x)| *s += b * f64::from(*x));
            }
        }
    }
    sums
}

fn best_matrix(scans: &[ScaledScan], n: usize, key: u64) -> Option<Vec<f64>> {
    if scans.len() < 8 {
        return None;
    }
    let held = |wanted: bool| scans.iter().enumerate().filter(move |(i, _)| (i % 4 == 3) == wanted).map(|(_, s)| s);
    let (fit, check, all) =
        (products(held(false), n, key), products(held(true), n, key), products(scans.iter(), n, key));
    let cost = |matrix: &[f64]| {
        // tr(A own A') - 2 tr(next A'), the part of the one-step error that depends on A.
        (0..n)
            .map(|i| {
                let row = &matrix[i * n..(i + 1) * n];
                let quadratic: f64 = (0..n)
                    .map(|j| row[j] * check.own[j * n..(j + 1) * n].iter().zip(row).map(|(c, a)| c * a).sum::<f64>())
                    .sum();
                let linear: f64 = check.next[i * n..(i + 1) * n].iter().zip(row).map(|(c, a)| c * a).sum();
                quadratic - 2.0 * linear
            })
            .sum::<f64>()
    };
    let candidates = PENALTIES.iter().filter_map(|p| Some((*p, cost(&solve(&fit, n, *p)?))));
    let (penalty, _) = candidates.min_by(|a, b| a.1.total_cmp(&b.1))?;
    solve(&all, n, penalty)
}

/// `next (own + penalty I)^-1` by Cholesky.
fn solve(sums: &Products, n: usize, penalty: f64) -> Option<Vec<f64>> {
    let ridge = penalty * (0..n).map(|i| sums.own[i * n + i]).sum::<f64>() / n as f64;
    let l = cholesky(n, 0.0, |i, j| sums.own[i * n + j] + if i == j { ridge } else { 0.0 })?;
    let mut out = sums.next.clone();
    out.chunks_exact_mut(n).for_each(|row| cholesky_solve(&l, row));
    Some(out)
}

/// The last stretch of a scan with its last frames hidden; `None` if the scan is too short for it.
pub fn tail_visit(intake: &Intake, scan: &Scan, horizon: usize, most: usize) -> Option<Masked> {
    let frames = scan.frames();
    let length = frames.min(most);
    if length < horizon + 10 {
        return None;
    }
    let chosen: Vec<usize> = (frames - length..frames).collect();
    let context = (0..length).map(|i| i < length - horizon).collect();
    let origin = scan.frame_times_seconds[chosen[0]];
    intake.masked(scan, &chosen, context, origin)
}

/// Hides the last frames of every scan and forecasts them; also the number of scans scored and of those whose repetition
/// time the vector autoregression knows.
pub fn forecast_skill(
    question: &Question<'_>,
    autoregression: &VectorAutoregression,
    horizon: usize,
    most_frames: usize,
    observer: &dyn Observer,
) -> Result<(Vec<HorizonScore>, usize), EvalError> {
    let contract = &question.engine.frozen().contract;
    let intake = Intake::new(contract, question.cohort)?;
    let mut tallies = vec![IntervalTally::new(question.calibration.half_widths); horizon];
    // By frames ahead, then by scan: those of the simple forecasts, then of the model.
    let mut errors = vec![Vec::<[f64; 6]>::new(); horizon];
    let mut seconds = vec![0.0; horizon];
    let (mut people, mut sizes) = (vec![], vec![]);
    for (done, &i) in question.scans.iter().enumerate() {
        if observer.stop_requested() {
            return Err(EvalError::Interrupted);
        }
        observer.advance(done + 1, 0);
        let scan = question.cohort.scan(i)?;
        let Some(masked) = tail_visit(&intake, &scan, horizon, most_frames) else { continue };
        let Some(matrix) = autoregression.matrix(scan.tr_seconds) else { continue };
        people.push(question.cohort.index()[i].id.subject.as_str());
        sizes.push(masked.visible_mean_square().max(f64::MIN_POSITIVE));
        let regions = masked.region_valid.len();
        let valid = masked.region_valid.iter().filter(|v| **v).count() as f64;
        let first_hidden = masked.context.len() - horizon;
        let mut squares = vec![[0.0f64; 6]; horizon];
        for found in question.hidden(&masked, i as u64)? {
            question.add(&found, &mut tallies[found.row - first_hidden]);
            squares[found.row - first_hidden][5] += found.error.powi(2);
        }
        let last: Vec<f64> =
            masked.values[(first_hidden - 1) * regions..first_hidden * regions].iter().map(|x| f64::from(*x)).collect();
        let kriging = Predictor::Kriging.predict(&masked, regions, question.correlation);
        let mut state = last.clone();
        for (ahead, squares) in squares.iter_mut().enumerate() {
            state = autoregression.step(matrix, &state);
            let row = first_hidden + ahead;
            let since = masked.times_seconds[row] - masked.times_seconds[first_hidden - 1];
            let decay = question.correlation.at(scan.tr_seconds).clamp(0.0, 1.0).powf(since / scan.tr_seconds);
            seconds[ahead] += since;
            for region in (0..regions).filter(|&r| masked.region_valid[r]) {
                let truth = f64::from(masked.values[row * regions + region]);
                let said = [
                    last[region],
                    0.0,
                    decay * last[region],
                    state[region],
                    f64::from(kriging[row * regions + region]),
                ];
                squares.iter_mut().zip(said).for_each(|(sum, x)| *sum += (x - truth).powi(2));
            }
            errors[ahead].push(squares.map(|sum| sum / valid));
        }
    }
    let count = people.len();
    let score = |ahead: usize| {
        let of = |which: usize| errors[ahead].iter().map(move |scan| scan[which]);
        let relative = |which: usize| of(which).zip(&sizes).map(|(error, size)| error / size).collect::<Vec<f64>>();
        let against = |which: usize| paired_errors(&people, &relative(5), &relative(which));
        HorizonScore {
            frames_ahead: ahead + 1,
            seconds_ahead: seconds[ahead] / count.max(1) as f64,
            model: tallies[ahead].score(),
            others: std::array::from_fn(|which| of(which).sum::<f64>() / count.max(1) as f64),
            against: std::array::from_fn(against),
        }
    };
    Ok(((0..horizon).map(score).collect(), count))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use bdo_data::random::stream;
    use bdo_model::noise::fill_normal;

    #[test]
    fn a_known_rotation_is_found_again() {
        // x' = 0.9 R x + noise with R a quarter turn.
        let scans: Vec<ScaledScan> = (0..40)
            .map(|s| {
                let mut noise = vec![0.0f32; 400];
                fill_normal(&mut stream("var test", &[s]), &mut noise);
                let (mut x, mut values) = ([0.0f32; 2], Vec::new());
                for e in noise.chunks_exact(2) {
                    x = [-0.9 * x[1] + e[0], 0.9 * x[0] + e[1]];
                    values.extend(x);
                }
                ScaledScan {
                    times_seconds: (0..200).map(|i| f64::from(i) * 2.0).collect(),
                    values,
                    region_valid: vec![true; 2],
                }
            })
            .collect();
        let found = best_matrix(&scans, 2, tr_key(2.0)).unwrap();
        // 8,000 steps: a standard error of 0.005 each, and the smallest penalty shrinks by 3 %.
        for (a, b) in found.iter().zip([0.0, -0.9, 0.9, 0.0]) {
            assert!((a - b).abs() < 0.05, "{found:?}");
        }
    }
}
