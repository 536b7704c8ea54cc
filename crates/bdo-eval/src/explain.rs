//! Which regions a head uses. A linear head on features that are pairs of regions is taken apart exactly; any other is
//! followed through the encoder by integrated gradients between pairs of scans (Sundararajan et al. 2017; Erion et al. 2021).

use crate::error::EvalError;
use crate::fitted::{FittedHead, HeadKind, Member};
use crate::metric::pearson;
use crate::predict::Trusting;
use crate::score::mean_and_spread;
use bdo_data::cohort::{Cohort, Observer};
use bdo_data::random::{shuffle, stream};
use bdo_data::scaler::ScaledScan;
use bdo_data::target::TargetKind;
use bdo_model::control::encode_cohort;
use bdo_model::frozen::FrozenModel;
use bdo_model::intake::{Intake, PaddedBatch};
use bdo_model::model::Bdo;
use bdo_model::ops::Kernels;
use bdo_model::pooling::Pooling;
use bdo_model::weights::ModelDirectory;
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;

#[derive(Clone, Debug, PartialEq)]
pub struct ExplainSettings {
    /// The class whose logit is explained, where there are more than two.
    pub class: Option<String>,
    /// Scans looked at, evenly over the cohort.
    pub scans: usize,
    /// Points on the way from one scan to another.
    pub steps: usize,
    /// Heads with shuffled weights to compare with.
    pub shuffles: usize,
    /// Of pairs and shuffles.
    pub seed: u64,
}

/// Contents of `explanation.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    pub target: String,
    /// The class that is explained, where there are more than two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// `exact` or `integrated gradients`.
    pub method: String,
    pub pooling: Pooling,
    pub scans: usize,
    /// One for each region, in the order of the model.
    pub regions: Vec<Used>,
    pub networks: Vec<Used>,
    /// Mean difference between what the parts add up to and what the head says, over the spread of what it says.
    pub incompleteness: f64,
    /// What the map has in common with maps of shuffled heads.
    pub sanity: Sanity,
}

/// How a head uses a region, or a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Used {
    pub name: String,
    pub network: Option<String>,
    /// Centre of a region in MNI space, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub centroid_mm: Option<[f64; 3]>,
    /// Share of the differences between scans, in what the head says, that goes through it; shares add up to 1, and one is
    /// negative where the others are held back by it.
    pub share: f64,
    /// Mean size of its contribution.
    pub importance: f64,
}

/// A map that stays the same when the weights are shuffled says nothing about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sanity {
    pub shuffles: usize,
    /// Mean rank correlation of the importance of regions with theirs.
    pub mean: f64,
    pub largest: f64,
}

impl Sanity {
    /// Whether the map depends on the weights.
    pub fn is_passed(&self) -> bool {
        self.shuffles > 0 && self.mean < 0.5
    }
}

/// What regions contribute to what the head says of scans.
#[derive(Debug, Default)]
struct Contributions {
    /// One list for each scan.
    parts: Vec<Vec<f64>>,
    /// What the head says, relative to the same reference.
    said: Vec<f64>,
}

/// Explains the head in a folder on scans of a cohort.
pub fn explain(
    folder: &Path,
    cohort: &Cohort,
    (trusting, device): (Trusting, &Device),
    settings: &ExplainSettings,
    observer: &dyn Observer,
) -> Result<Explanation, EvalError> {
    let head = FittedHead::read(folder)?;
    let class = class_of(&head.task, settings.class.as_deref())?;
    let first = &head.members[0];
    // Members of a probe share a model and are averaged; those of a fine-tuning have one each, and the first is explained.
    let members: Vec<&Member> = head.members.iter().filter(|m| m.model == first.model).collect();
    let frozen = trusting.applied(FrozenModel::read_on(&folder.join(&first.model), device)?);
    frozen.able_to(head.pooling)?;
    let some: Vec<usize> = (0..cohort.len()).step_by(cohort.len().div_ceil(settings.scans.max(2)).max(1)).collect();
    let exact = head.kind != HeadKind::Attention && head.pooling.needs_readout();
    let (found, shuffled) = if exact {
        let weights = mean_weights(&head, &members, class);
        let mut features = Vec::with_capacity(some.len());
        encode_cohort(&frozen, cohort, &some, observer, |_, encoded| features.push(head.pooling.apply(&encoded)))?;
        let pairs = pairs(head.pooling, frozen.contract.roi_names.len());
        let take_apart = |weights: &[f64]| exact_parts(&features, weights, &pairs, frozen.contract.roi_names.len());
        let shuffled = (0..settings.shuffles as u64).map(|k| take_apart(&shuffled(&weights, settings.seed, k)));
        (take_apart(&weights), shuffled.collect::<Vec<_>>())
    } else {
        let follow = Gradients::new(&frozen, &head, &members, class, settings.steps)?;
        let intake = Intake::new(&frozen.contract, cohort)?;
        let mut scans = vec![];
        for i in some {
            scans.extend(intake.scale(&cohort.scan(i)?));
        }
        let found = follow.through(&scans, &follow.weights, settings.seed, observer)?;
        // A few scans are enough to see whether a map follows the weights.
        let few = &scans[..scans.len().min(8)];
        let shuffles = settings.shuffles.min(4) as u64;
        let of = |k: u64| follow.through(few, &shuffled(&follow.weights, settings.seed, k), settings.seed, observer);
        (found, (0..shuffles).map(of).collect::<Result<Vec<_>, _>>()?)
    };
    if found.parts.len() < 2 {
        return Err(EvalError::named("explanation", "at least 2 scans", found.parts.len()));
    }
    let settled = (settings.class.clone(), exact);
    Ok(described(&head, settled, &frozen.contract.roi_names, cohort, (&found, &shuffled)))
}

fn described(
    head: &FittedHead,
    (class, exact): (Option<String>, bool),
    names: &[String],
    cohort: &Cohort,
    (found, shuffled): (&Contributions, &[Contributions]),
) -> Explanation {
    let region = |name: &String| cohort.regions().iter().find(|region| region.name == *name);
    let networks: Vec<Option<String>> = names.iter().map(|name| region(name)?.network.clone()).collect();
    let used = |name: &String, network: Option<String>, of: &dyn Fn(&Vec<f64>) -> f64| {
        let parts: Vec<f64> = found.parts.iter().map(of).collect();
        Used {
            name: name.clone(),
            network,
            centroid_mm: region(name).and_then(|region| region.centroid_mm),
            share: share(&parts, found),
            importance: parts.iter().map(|x| x.abs()).sum::<f64>() / parts.len() as f64,
        }
    };
    let of_network = |name: &String| {
        let inside = |r: &usize| networks[*r].as_ref() == Some(name);
        used(name, None, &|parts| (0..names.len()).filter(inside).map(|r| parts[r]).sum())
    };
    let known: BTreeSet<&String> = networks.iter().flatten().collect();
    let importance = importances(found);
    let alike: Vec<f64> = shuffled.iter().map(|other| rank_correlation(&importance, &importances(other))).collect();
    Explanation {
        target: head.target.clone(),
        class,
        method: if exact { "exact" } else { "integrated gradients" }.to_owned(),
        pooling: head.pooling,
        scans: found.parts.len(),
        regions: (0..names.len()).map(|r| used(&names[r], networks[r].clone(), &|parts| parts[r])).collect(),
        networks: known.into_iter().map(of_network).collect(),
        incompleteness: incompleteness(found),
        sanity: Sanity {
            shuffles: alike.len(),
            mean: alike.iter().sum::<f64>() / alike.len().max(1) as f64,
            largest: alike.iter().copied().fold(f64::NEG_INFINITY, f64::max).max(-1.0),
        },
    }
}

/// The output that is explained: the only one, or that of the named class.
fn class_of(task: &TargetKind, named: Option<&str>) -> Result<usize, EvalError> {
    let refuse = |expected: String, found: &str| Err(EvalError::named("class", &expected, found));
    match (task, named) {
        (TargetKind::Classification { classes }, named) if classes.len() > 2 => {
            let place = named.and_then(|name| classes.iter().position(|class| class == name));
            place.map_or_else(|| refuse(format!("one of {}", classes.join(", ")), named.unwrap_or("none")), Ok)
        }
        (_, None) => Ok(0),
        (_, Some(name)) => refuse("none, since the head has one output".to_owned(), name),
    }
}

/// Covariance of a part with the sum of all parts, over the variance of the sum: over all parts these add up to 1.
fn share(part: &[f64], found: &Contributions) -> f64 {
    let sums: Vec<f64> = found.parts.iter().map(|parts| parts.iter().sum()).collect();
    let n = sums.len() as f64;
    let (mean, middle) = (sums.iter().sum::<f64>() / n, part.iter().sum::<f64>() / n);
    let variance = sums.iter().map(|s| (s - mean).powi(2)).sum::<f64>();
    let together = part.iter().zip(&sums).map(|(p, s)| (p - middle) * (s - mean)).sum::<f64>();
    if variance > 0.0 { together / variance } else { 0.0 }
}

fn importances(found: &Contributions) -> Vec<f64> {
    let n = found.parts.len().max(1) as f64;
    let regions = found.parts.first().map_or(0, Vec::len);
    (0..regions).map(|r| found.parts.iter().map(|parts| parts[r].abs()).sum::<f64>() / n).collect()
}

fn incompleteness(found: &Contributions) -> f64 {
    let off = found.parts.iter().zip(&found.said).map(|(parts, said)| (parts.iter().sum::<f64>() - said).abs());
    off.sum::<f64>() / found.said.len() as f64 / mean_and_spread(&found.said).1.max(f64::MIN_POSITIVE)
}

/// Spearman's correlation, ties in their order.
fn rank_correlation(a: &[f64], b: &[f64]) -> f64 {
    let ranks = |values: &[f64]| {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|i, j| values[*i].total_cmp(&values[*j]));
        let mut ranks = vec![0.0; values.len()];
        order.into_iter().enumerate().for_each(|(rank, i)| ranks[i] = rank as f64);
        ranks
    };
    pearson(&ranks(a), &ranks(b)).unwrap_or(0.0)
}

/// Weights on features before any transform, in units of what the head says (logits for classes), mean over members.
fn mean_weights(head: &FittedHead, members: &[&Member], class: usize) -> Vec<f64> {
    let mut mean = vec![0.0; head.width];
    for member in members {
        let weights = head.feature_weights(member, class);
        mean.iter_mut().zip(weights).for_each(|(m, w)| *m += w / members.len() as f64);
    }
    mean
}

fn shuffled(weights: &[f64], seed: u64, number: u64) -> Vec<f64> {
    let mut weights = weights.to_vec();
    shuffle(&mut weights, &mut stream("shuffled weights", &[seed, number]));
    weights
}

/// Regions of every feature.
fn pairs(pooling: Pooling, n: usize) -> Vec<(usize, usize)> {
    match pooling {
        Pooling::Coupling => (0..n).flat_map(|r| (0..n).map(move |s| (r, s))).collect(),
        _ => (0..n).flat_map(|r| (r + 1..n).map(move |s| (r, s))).collect(),
    }
}

/// What the head says of a scan minus what it says of the mean scan is a sum over features; each goes in halves to the two
/// regions it is of.
fn exact_parts(features: &[Vec<f32>], weights: &[f64], pairs: &[(usize, usize)], regions: usize) -> Contributions {
    let n = features.len().max(1) as f64;
    let mut mean = vec![0.0; weights.len()];
    for row in features {
        mean.iter_mut().zip(row).for_each(|(m, x)| *m += f64::from(*x) / n);
    }
    let mut found = Contributions::default();
    for row in features {
        let (mut parts, mut said) = (vec![0.0; regions], 0.0);
        for (((x, m), w), (r, s)) in row.iter().zip(&mean).zip(weights).zip(pairs) {
            let part = w * (f64::from(*x) - m);
            parts[*r] += 0.5 * part;
            parts[*s] += 0.5 * part;
            said += part;
        }
        found.parts.push(parts);
        found.said.push(said);
    }
    found
}

/// A head on a model whose input has gradients.
struct Gradients {
    model: Bdo,
    pooling: Option<Pooling>,
    steps: usize,
    longest: usize,
    /// Of the features; for attention followed by its query.
    weights: Vec<f64>,
}

impl Gradients {
    fn new(
        frozen: &FrozenModel,
        head: &FittedHead,
        members: &[&Member],
        class: usize,
        steps: usize,
    ) -> Result<Self, EvalError> {
        let (pooling, weights) = match (head.kind, head.pooling) {
            (HeadKind::Attention, _) => {
                let numbers = &members[0].parameters;
                let query = numbers[numbers.len() - head.width..].iter().map(|x| f64::from(*x));
                (None, head.feature_weights(members[0], class).into_iter().chain(query).collect())
            }
            (_, pooling @ (Pooling::Mean | Pooling::MeanStd | Pooling::MeanMovement | Pooling::Covariance)) => {
                (Some(pooling), mean_weights(head, members, class))
            }
            (_, other) => {
                let expected = "a head on mean, mean-std, mean-movement, covariance, regions or coupling";
                return Err(EvalError::named("pooling", expected, other.name()));
            }
        };
        let directory = ModelDirectory::read(&frozen.folder)?;
        let device = frozen.model.device().autodiff();
        let model = Bdo::from_parameters(&directory.config, directory.parameters, Kernels::Composed, &device)?;
        Ok(Self { model, pooling, steps: steps.max(1), longest: frozen.windows.longest_whole, weights })
    }

    /// From each scan to the one of somebody else: gradients along the straight line between them, times their difference.
    fn through(
        &self,
        scans: &[ScaledScan],
        weights: &[f64],
        seed: u64,
        observer: &dyn Observer,
    ) -> Result<Contributions, EvalError> {
        let mut order: Vec<usize> = (0..scans.len()).collect();
        shuffle(&mut order, &mut stream("explained pairs", &[seed]));
        let mut found = Contributions::default();
        for (k, &i) in order.iter().enumerate() {
            if observer.stop_requested() {
                return Err(EvalError::Interrupted);
            }
            let (here, there) = (&scans[i], &scans[order[(k + 1) % order.len()]]);
            let (parts, said) = self.between(here, there, weights)?;
            found.parts.push(parts);
            found.said.push(said);
            observer.advance(k + 1, 0);
        }
        Ok(found)
    }

    fn between(&self, here: &ScaledScan, there: &ScaledScan, weights: &[f64]) -> Result<(Vec<f64>, f64), EvalError> {
        let regions = here.region_valid.len();
        let frames = here.times_seconds.len().min(there.times_seconds.len()).min(self.longest);
        let valid: Vec<bool> = here.region_valid.iter().zip(&there.region_valid).map(|(a, b)| *a && *b).collect();
        let at = |scan: &ScaledScan, share: f32| ScaledScan {
            times_seconds: here.times_seconds[..frames].to_vec(),
            values: (0..frames * regions)
                .map(|k| there.values[k] + share * (scan.values[k] - there.values[k]))
                .collect(),
            region_valid: valid.clone(),
        };
        let mut gradient = vec![0.0f64; frames * regions];
        for step in 0..self.steps {
            let share = (step as f32 + 0.5) / self.steps as f32;
            let (_, slopes) = self.output(&at(here, share), weights, true)?;
            gradient.iter_mut().zip(slopes).for_each(|(g, s)| *g += f64::from(s) / self.steps as f64);
        }
        let mut parts = vec![0.0; regions];
        for (k, g) in gradient.iter().enumerate() {
            parts[k % regions] += g * f64::from(here.values[k] - there.values[k]);
        }
        let said = self.output(&at(here, 1.0), weights, false)?.0 - self.output(&at(here, 0.0), weights, false)?.0;
        Ok((parts, said))
    }

    /// What the head says of a scan, and its gradient by the values.
    fn output(&self, scan: &ScaledScan, weights: &[f64], slopes: bool) -> Result<(f64, Vec<f32>), EvalError> {
        let device = self.model.device().autodiff();
        let (series, frames, valid) = PaddedBatch::of_scans(&[scan]).on(&device);
        let series = series.require_grad();
        let controls = self.model.controls(&series, &frames, &valid)?;
        let control = controls.control.clone();
        let [_, count, d] = control.dims();
        let control: Tensor<2> = control.reshape([count, d]); // [T, d]
        let row = |values: &[f64]| {
            let values: Vec<f32> = values.iter().map(|x| *x as f32).collect();
            let length = values.len();
            Tensor::<2>::from_data(TensorData::new(values, [1, length]), &device)
        };
        let mean = || control.clone().mean_dim(0); // [1, d]
        let output = match self.pooling {
            None => {
                let query = row(&weights[d..]).transpose(); // [d, 1]
                let shares = softmax(control.clone().matmul(query) / (d as f32).sqrt(), 0); // [T, 1]
                ((control.clone() * shares).sum_dim(0) * row(&weights[..d])).sum()
            }
            Some(Pooling::Mean) => (mean() * row(weights)).sum(),
            Some(Pooling::MeanStd) => {
                let centred = control.clone() - mean();
                let deviation = (centred.clone() * centred).mean_dim(0).add_scalar(1e-12).sqrt();
                (mean() * row(&weights[..d])).sum() + (deviation * row(&weights[d..])).sum()
            }
            Some(Pooling::MeanMovement) => {
                (mean() * row(&weights[..d])).sum()
                    + (controls.movement(std::slice::from_ref(&scan.times_seconds)) * row(&weights[d..])).sum()
            }
            Some(_) => {
                let centred = control.clone() - mean();
                let covariance = centred.clone().transpose().matmul(centred) / count as f32; // [d, d]
                let mut full = vec![0.0; d * d];
                let mut next = weights.iter();
                for i in 0..d {
                    for j in i..d {
                        full[i * d + j] = *next.next().expect("one weight a pair");
                    }
                }
                (covariance * row(&full).reshape([d, d])).sum()
            }
        };
        let said = f64::from(output.clone().into_scalar::<f32>());
        if !slopes {
            return Ok((said, vec![]));
        }
        let gradients = output.backward();
        let found = series.grad(&gradients).map(|g| g.into_data().try_to_vec::<f32>().expect("series are f32"));
        Ok((said, found.unwrap_or_else(|| vec![0.0; scan.values.len()])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_parts_add_up_to_what_the_head_says() {
        let pairs = pairs(Pooling::Regions, 4);
        let features: Vec<Vec<f32>> =
            (0..5).map(|i| (0..6).map(|j| ((i * 7 + j * 3) % 5) as f32 * 0.1).collect()).collect();
        let mut weights = vec![0.0; 6];
        // Only the pair of regions 1 and 3 counts.
        weights[pairs.iter().position(|p| *p == (1, 3)).unwrap_or(0)] = 2.0;
        let found = exact_parts(&features, &weights, &pairs, 4);
        assert!(incompleteness(&found) < 1e-12);
        let shares: Vec<f64> =
            (0..4).map(|r| share(&found.parts.iter().map(|p| p[r]).collect::<Vec<_>>(), &found)).collect();
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
        assert!((shares[1] - 0.5).abs() < 1e-9 && (shares[3] - 0.5).abs() < 1e-9 && shares[0].abs() < 1e-9);
        assert!((rank_correlation(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]) - 1.0).abs() < 1e-12);
    }
}
