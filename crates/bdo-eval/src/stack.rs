//! Several tables of features as one row: a weighted sum of their linear kernels.
//!
//! Each member is standardised on the people fitted on, its kernel divided by the mean of its diagonal over them, so that
//! members of any width start equal. The penalty of each sum is chosen by validation people: an encoder knows the people it was
//! trained on, so that their features say little about how far to trust it. The weights are the mean of a small grid, each
//! point as likely as validation people are under its fit: they are too few to pick one. Where validation people are fitted
//! on, the inner cross-validation of the closed-form probe takes their place. All of it happens in people x people products: a member's width matters
//! once, for its kernel, and every weight costs one decomposition.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use faer::Mat;
use rayon::prelude::*;

use crate::closed_form::{Choice, Labels, fit};
use crate::design::{Coordinates, products};
use crate::error::EvalError;
use crate::features::{FeatureTable, ScanRow};
use crate::logistic::says;
use crate::method::{Method, Outcome, Task};
use crate::problem::Problem;
use crate::standardise::FittedStandardiser;

/// Changes whenever a stack would give other numbers, so that stored results of an older one are not used again.
const STACK: &str = "stack/3";

/// A table of features with the kernel that was last computed of it, which stacks and labels share.
pub struct Member {
    name: String,
    /// What made the features (settings, the hash of a model).
    pub source: String,
    pub table: Arc<FeatureTable>,
    kept: Mutex<Option<Kept>>,
}

struct Kept {
    /// Rows that were standardised on, and rows with products.
    of: (Vec<usize>, Vec<usize>),
    kernel: Arc<Mat<f64>>,
}

impl Member {
    pub fn new(name: &str, table: Arc<FeatureTable>, source: &str) -> Self {
        Self { name: name.to_owned(), source: source.to_owned(), table, kept: Mutex::new(None) }
    }

    /// Products of all given rows, standardised on the fitted ones and divided by the mean of their diagonal there.
    fn kernel(&self, fitted: &[usize], all: &[usize]) -> Arc<Mat<f64>> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kept().as_ref().filter(|kept| kept.of.0 == fitted && kept.of.1 == all) {
            return found.kernel.clone();
        }
        // Not under the lock: a thread that waits for parts of this may take up other work that wants the same.
        let features = &self.table.features;
        let mut kernel = products(features, all, &FittedStandardiser::fit(features, fitted));
        let mean = (0..fitted.len()).map(|i| kernel[(i, i)]).sum::<f64>() / fitted.len().max(1) as f64;
        if mean > 0.0 {
            kernel.col_iter_mut().for_each(|column| column.iter_mut().for_each(|x| *x /= mean));
        }
        let kernel = Arc::new(kernel);
        *kept() = Some(Kept { of: (fitted.to_vec(), all.to_vec()), kernel: kernel.clone() });
        kernel
    }
}

/// A row whose kernel is the weighted sum of those of its members.
pub struct Stack {
    name: String,
    members: Vec<Arc<Member>>,
    /// The scans all members have, and where each member has them.
    rows: Vec<ScanRow>,
    places: Vec<Vec<usize>>,
}

impl Stack {
    /// A row of this name. Scans that a member lacks are left out.
    pub fn new(name: &str, members: Vec<Arc<Member>>) -> Self {
        let place = |member: &Arc<Member>| -> HashMap<String, usize> {
            member.table.rows.iter().enumerate().map(|(i, row)| (row.scan.clone(), i)).collect()
        };
        let found: Vec<HashMap<String, usize>> = members.iter().map(place).collect();
        let mut rows: Vec<ScanRow> = members.first().map(|m| m.table.rows.clone()).unwrap_or_default();
        rows.retain(|row| found.iter().all(|places| places.contains_key(&row.scan)));
        let places = found.iter().map(|places| rows.iter().map(|row| places[&row.scan]).collect()).collect();
        Self { name: name.to_owned(), members, rows, places }
    }
}

impl Method for Stack {
    fn name(&self) -> &str {
        &self.name
    }

    fn fingerprint(&self) -> String {
        let sources: Vec<&str> = self.members.iter().map(|m| m.source.as_str()).collect();
        format!("{STACK} {}", sources.join(" + "))
    }

    fn run(&self, task: &Task<'_>) -> Result<Outcome, EvalError> {
        let problem = Problem::of(task, &self.rows)?;
        let all: Vec<usize> = [&problem.fitted[..], &problem.choosing, &problem.tested].concat();
        let kernels: Vec<Arc<Mat<f64>>> = (self.members.iter().zip(&self.places))
            .map(|(member, places)| {
                let placed = |rows: &[usize]| -> Vec<usize> { rows.iter().map(|i| places[*i]).collect() };
                member.kernel(&placed(&problem.fitted), &placed(&all))
            })
            .collect();
        let fitted = FittedStack::fit(&kernels, &problem, task.seed)?;
        let tested = problem.fitted.len() + problem.choosing.len()..all.len();
        let (predictions, flags) = problem.answer(&fitted.predict(&kernels, tested));
        let mut chosen = BTreeMap::from([("penalty".to_owned(), fitted.penalty)]);
        chosen.extend(self.members.iter().zip(&fitted.weights).map(|(m, w)| (format!("weight of {}", m.name), *w)));
        let hashes: Vec<String> = (self.members.iter().zip(&self.places))
            .map(|(m, places)| m.table.rows_blake3(&problem.fitted.iter().map(|i| places[*i]).collect::<Vec<_>>()))
            .collect();
        let width: usize = self.members.iter().map(|m| m.table.features.width()).sum();
        Ok(Outcome {
            predictions,
            parameters: (width + 1) * fitted.outputs.len() + self.members.len(),
            fitted_on_blake3: blake3::hash(hashes.join(" ").as_bytes()).to_hex().to_string(),
            chosen,
            flags,
        })
    }
}

/// Weights of members and of training rows.
struct FittedStack {
    weights: Vec<f64>,
    penalty: f64,
    /// Weights of products with the training rows, and an intercept, for each output.
    outputs: Vec<(Vec<f64>, f64)>,
    classes: usize,
}

impl FittedStack {
    /// Fits on the rows of a problem that are fitted on, which come first in the kernels.
    fn fit(kernels: &[Arc<Mat<f64>>], problem: &Problem<'_>, seed: u64) -> Result<Self, EvalError> {
        let rows = problem.fitted.len();
        let choosing = rows..rows + problem.choosing.len();
        let one = |weights: &Vec<f64>| -> Result<(f64, Self), EvalError> {
            let sum = Mat::from_fn(rows, rows, |i, j| weighted(kernels, weights, i, j));
            let coordinates = Coordinates::of_products(&sum)?;
            let at = |penalty: f64| Self::at(&coordinates, weights.clone(), penalty, &problem.labels);
            let choice = if choosing.is_empty() {
                Choice::inside(&coordinates, &problem.labels, &problem.groups, seed)
            } else {
                Choice::by(&coordinates, |penalty| problem.loss(&at(penalty).predict(kernels, choosing.clone())))
            };
            Ok((choice.loss, at(choice.penalty)))
        };
        let grid = grid(kernels.len());
        let losses = grid.par_iter().map(|weights| Ok(one(weights)?.0)).collect::<Result<Vec<f64>, EvalError>>()?;
        let asked = if choosing.is_empty() { rows } else { choosing.len() };
        Ok(one(&mean_weights(&grid, &losses, asked, problem.labels.classes()))?.1)
    }

    fn at(coordinates: &Coordinates, weights: Vec<f64>, penalty: f64, labels: &Labels) -> Self {
        let outputs = fit(coordinates, labels, penalty);
        let outputs = outputs.iter().map(|o| (coordinates.row_weights(&o.weights), o.intercept)).collect();
        Self { weights, penalty, outputs, classes: labels.classes() }
    }

    /// What is said of some rows: one number each, or the probabilities of all classes.
    fn predict(&self, kernels: &[Arc<Mat<f64>>], rows: Range<usize>) -> Vec<f64> {
        let fitted = self.outputs.first().map_or(0, |(w, _)| w.len());
        let of_row = |i: usize| {
            let products: Vec<f64> = (0..fitted).map(|j| weighted(kernels, &self.weights, i, j)).collect();
            let output = |(weights, intercept): &(Vec<f64>, f64)| {
                intercept + weights.iter().zip(&products).map(|(w, k)| w * k).sum::<f64>()
            };
            says(&self.outputs.iter().map(output).collect::<Vec<f64>>(), self.classes)
        };
        rows.flat_map(of_row).collect()
    }
}

/// The mean of a grid of weights, each point as likely as `count` people are whose mean log loss or mean squared error it has.
pub(crate) fn mean_weights(grid: &[Vec<f64>], losses: &[f64], count: usize, classes: usize) -> Vec<f64> {
    let least = losses.iter().copied().fold(f64::INFINITY, f64::min);
    let unit = if classes > 0 { 1.0 } else { 2.0 * least.max(f64::MIN_POSITIVE) };
    let likely: Vec<f64> = losses.iter().map(|loss| ((least - loss) * count as f64 / unit).exp()).collect();
    let all: f64 = likely.iter().sum();
    let members = grid.first().map_or(0, Vec::len);
    let mean = |m: usize| grid.iter().zip(&likely).map(|(point, share)| point[m] * share).sum::<f64>() / all;
    (0..members).map(mean).collect()
}

fn weighted(kernels: &[Arc<Mat<f64>>], weights: &[f64], i: usize, j: usize) -> f64 {
    kernels.iter().zip(weights).map(|(kernel, w)| w * kernel[(i, j)]).sum()
}

/// Weights that are not negative and sum to 1, in steps of a quarter for two members and of a half for more; the last
/// member alone comes first.
pub(crate) fn grid(members: usize) -> Vec<Vec<f64>> {
    let steps = if members <= 2 { 4 } else { 2 };
    let mut points: Vec<Vec<usize>> = vec![vec![]];
    for _ in 1..members {
        points = points
            .into_iter()
            .flat_map(|point| {
                let left = steps - point.iter().sum::<usize>();
                (0..=left).map(move |next| [point.clone(), vec![next]].concat())
            })
            .collect();
    }
    let share = |k: usize| k as f64 / steps as f64;
    let whole = |point: Vec<usize>| {
        let rest = steps - point.iter().sum::<usize>();
        point.into_iter().chain([rest]).map(share).collect()
    };
    points.into_iter().map(whole).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::Value;

    fn floats(value: &Value) -> Vec<f64> {
        value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    }

    #[test]
    fn weights_are_shares() {
        assert_eq!(grid(2), [[0.0, 1.0], [0.25, 0.75], [0.5, 0.5], [0.75, 0.25], [1.0, 0.0]]);
        let three = grid(3);
        assert_eq!((three.len(), three[0].clone()), (6, vec![0.0, 0.0, 1.0]));
        assert!(three.iter().all(|w| w.iter().sum::<f64>() == 1.0));
    }

    #[test]
    fn weights_are_averaged_by_how_likely_they_make_people() {
        let grid = grid(2);
        let even = mean_weights(&grid, &[0.6; 5], 100, 2);
        assert!((even[0] - 0.5).abs() < 1e-12 && (even[1] - 0.5).abs() < 1e-12);
        // A point that is better by 0.2 a person, over 100 people, stands alone.
        let one = mean_weights(&grid, &[0.6, 0.6, 0.6, 0.4, 0.6], 100, 2);
        assert!((one[0] - 0.75).abs() < 1e-6, "{one:?}");
        // Of numbers: two fits with errors 1 and 1.02, 100 people: exp(-1) as likely.
        let two = mean_weights(&[vec![0.0, 1.0], vec![1.0, 0.0]], &[1.0, 1.02], 100, 0);
        assert!((two[0] - (-1f64).exp() / (1.0 + (-1f64).exp())).abs() < 1e-9, "{two:?}");
    }

    /// scikit-learn: see `tools/reference/make_connectivity_goldens.py`.
    #[test]
    fn sums_of_kernels_as_scikit_learn() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/golden/connectivity.json");
        let golden: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let golden = &golden["stack"];
        let train = golden["train"].as_u64().unwrap() as usize;
        let (fitted, number) = ((0..train).collect::<Vec<usize>>(), floats(&golden["number"]));
        let all: Vec<usize> = (0..number.len()).collect();
        let codes: Vec<usize> = floats(&golden["code"])[..train].iter().map(|x| *x as usize).collect();
        let kernel = |member: &Value| {
            let (width, values) = (member["width"].as_u64().unwrap() as usize, floats(&member["values"]));
            let row = |k: usize| ScanRow { scan: k.to_string(), subject: k.to_string(), session: None };
            let rows = all.iter().map(|k| row(*k)).collect();
            let table = FeatureTable::new(rows, width, values).unwrap();
            Member::new("", Arc::new(table), "").kernel(&fitted, &all)
        };
        let kernels: Vec<Arc<Mat<f64>>> = golden["members"].as_array().unwrap().iter().map(kernel).collect();
        for case in golden["cases"].as_array().unwrap() {
            let (w, penalty) = (case["weight"].as_f64().unwrap(), case["penalty"].as_f64().unwrap());
            let weights = vec![w, 1.0 - w];
            let sum = Mat::from_fn(train, train, |i, j| weighted(&kernels, &weights, i, j));
            let coordinates = Coordinates::of_products(&sum).unwrap();
            let said = |labels| {
                FittedStack::at(&coordinates, weights.clone(), penalty, &labels).predict(&kernels, train..number.len())
            };
            for (found, expected) in said(Labels::Number(number[..train].to_vec())).iter().zip(floats(&case["number"]))
            {
                assert!((found - expected).abs() < 1e-9, "weight {w}: {found} against {expected}");
            }
            let probabilities = said(Labels::Class { codes: codes.clone(), classes: 2 });
            for (found, expected) in probabilities.chunks_exact(2).zip(floats(&case["probability"])) {
                // As far as scikit-learn's solver goes.
                assert!((found[1] - expected).abs() < 1e-6, "weight {w}: {} against {expected}", found[1]);
            }
        }
    }
}
