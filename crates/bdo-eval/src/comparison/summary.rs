//! Results of repetitions into rows: mean and spread, intervals, chance, comparison, false discovery.

use std::collections::{BTreeMap, BTreeSet};

use bdo_data::division::Scheme;
use bdo_data::target::Target;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::result::TaskResult;
use crate::interval::normal_half_width;
use crate::metric::Metrics;
use crate::resample::{Comparison, Interval, bootstrap, corrected_comparison, false_discovery, permutation_p};
use crate::score::{FEW_PEOPLE, mean_and_spread};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummarySettings {
    pub bootstraps: usize,
    pub permutations: usize,
    /// Share of resamples inside the interval.
    pub level: f64,
    pub seed: u64,
    pub against: String,
    /// Further rows that all are compared with.
    #[serde(default)]
    pub more_against: Vec<String>,
    /// The rows that each row, by name, is judged by besides.
    #[serde(default)]
    pub own_references: BTreeMap<String, Vec<String>>,
}

impl SummarySettings {
    pub fn against(mut self, rows: &[String]) -> Self {
        if let Some((first, more)) = rows.split_first() {
            (self.against, self.more_against) = (first.clone(), more.to_vec());
        }
        self
    }

    /// The rows a row is compared with besides the first.
    fn further(&self, method: &str) -> Vec<&String> {
        let rows = self.more_against.iter().chain(self.own_references.get(method).into_iter().flatten());
        each_once(rows.filter(|row| *row != method && **row != self.against))
    }
}

impl Default for SummarySettings {
    fn default() -> Self {
        Self {
            bootstraps: 2000,
            permutations: 2000,
            level: 0.95,
            seed: 0,
            against: "fc".into(),
            more_against: vec![],
            own_references: BTreeMap::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub metric: String,
    /// Mean over the repetitions in which it is defined; none where it never is.
    pub mean: Option<f64>,
    /// Population spread over them; none of a single one.
    pub spread: Option<f64>,
    pub values: Vec<Option<f64>>,
}

/// A method on a target under one kind of split.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub method: String,
    pub target: String,
    /// `random` or `leave_site_out`.
    pub scheme: String,
    /// Names of the classes; empty for a number.
    pub classes: Vec<String>,
    /// The repetitions (seeds, or groups of sites).
    pub repetitions: Vec<u64>,
    /// Mean number of people fitted on.
    pub fitted_people: f64,
    /// Mean number of people tested.
    pub tested_people: f64,
    pub cells: Vec<Cell>,
    /// The score that interval, chance and comparison are about.
    pub primary: String,
    /// Interval of the primary score over resamples of people.
    pub interval: Option<Interval>,
    /// Chance of as high a primary score without any relation of label and prediction.
    pub p: Option<f64>,
    /// The same, controlled for the false discovery rate over the targets of the method.
    pub q: Option<f64>,
    /// Difference of the primary score from the row compared with, over the same repetitions.
    pub comparison: Option<Comparison>,
    /// The p of it, controlled for the false discovery rate over the targets of the method.
    pub comparison_q: Option<f64>,
    /// The same with further rows: those asked for, and those it is judged by.
    #[serde(default)]
    pub further: Vec<Against>,
    pub parameters: usize,
    /// Numbers of a pre-trained model that are used as they are.
    #[serde(default)]
    pub frozen_parameters: usize,
    /// Time of fitting and predicting, all repetitions together.
    pub wall_seconds: f64,
    /// Most memory the process took for one of them in addition to what it held before, where the system says it.
    #[serde(default)]
    pub own_mib: Option<f64>,
    pub flags: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Against {
    pub row: String,
    /// The difference of the primary score.
    pub comparison: Comparison,
    /// Its p, controlled for the false discovery rate over the targets of the method.
    pub q: Option<f64>,
}

impl Row {
    /// A cell of the table that could not be computed: dashes, and the reason as its flag.
    pub fn without_result(method: &str, target: &Target, scheme: Scheme, reason: String) -> Self {
        let classes = target.kind.classes().to_vec();
        Self {
            method: method.to_owned(),
            target: target.name.clone(),
            scheme: scheme.name().to_owned(),
            primary: primary_metric(classes.len()).to_owned(),
            classes,
            flags: vec![format!("no result: {reason}")],
            ..Self::default()
        }
    }

    pub fn cell(&self, metric: &str) -> Option<&Cell> {
        self.cells.iter().find(|c| c.metric == metric)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub settings: SummarySettings,
    /// One a scheme, target and method.
    pub rows: Vec<Row>,
    /// What must be known of rows, whatever they are scored on.
    #[serde(default)]
    pub footnotes: Vec<Footnote>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footnote {
    pub methods: Vec<String>,
    pub text: String,
}

impl Summary {
    /// The name of a method with the numbers of its footnotes.
    pub fn marked(&self, method: &str) -> String {
        let numbers = self.footnotes.iter().enumerate().filter(|(_, note)| note.methods.iter().any(|m| m == method));
        numbers.fold(method.to_owned(), |name, (i, _)| format!("{name} [{}]", i + 1))
    }
}

/// Without repetitions, in the order in which they first appear.
pub(super) fn each_once<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    items.fold(vec![], |mut seen, item| {
        if !seen.contains(&item) {
            seen.push(item);
        }
        seen
    })
}

/// The score that decides: correlation for a number, area under the curve for two classes, balanced accuracy for more.
pub fn primary_metric(classes: usize) -> &'static str {
    match classes {
        0 => "rho",
        2 => "auc",
        _ => "balanced_accuracy",
    }
}

/// Rows in the order in which schemes, targets and methods first appear.
pub fn summarise(results: &[TaskResult], settings: &SummarySettings) -> Summary {
    fn group(result: &TaskResult) -> (&str, &str, &str) {
        (result.scheme.name(), &result.target, &result.method)
    }
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&TaskResult>> = BTreeMap::new();
    results.iter().for_each(|result| groups.entry(group(result)).or_default().push(result));
    let order = each_once(results.iter().map(group));
    let one = |group: &(&str, &str, &str)| {
        let same = |name: &str| groups.iter().find(|(other, _)| **other == (group.0, group.1, name));
        let other = |name: &str| same(name).map(|(_, results)| results.as_slice());
        row(&groups[group], &other, settings)
    };
    let mut rows: Vec<Row> = order.par_iter().map(one).collect();
    control(&mut rows, |r| r.p, |r, q| r.q = Some(q));
    control(&mut rows, |r| r.comparison.and_then(|c| c.p), |r, q| r.comparison_q = Some(q));
    let others: BTreeSet<String> = rows.iter().flat_map(|r| &r.further).map(|against| against.row.clone()).collect();
    for other in others {
        let p = |r: &Row| r.further.iter().find(|against| against.row == other)?.comparison.p;
        let set = |r: &mut Row, q| {
            r.further.iter_mut().filter(|against| against.row == other).for_each(|against| against.q = Some(q));
        };
        control(&mut rows, p, set);
    }
    Summary { settings: settings.clone(), rows, footnotes: vec![] }
}

/// Which repetition of its scheme a result is.
fn repetition(result: &TaskResult) -> u64 {
    match result.scheme {
        Scheme::LeaveSiteOut { fold } => fold as u64,
        _ => result.seed,
    }
}

fn row<'a>(
    results: &[&TaskResult],
    other: &dyn Fn(&str) -> Option<&'a [&'a TaskResult]>,
    settings: &SummarySettings,
) -> Row {
    let first = results[0];
    let n = results.len() as f64;
    let primary = primary_metric(first.classes.len());
    let cells = first.metrics.named().into_iter().map(|(name, _)| cell(results, name)).collect();
    let people = People::of(results);
    // People drawn with replacement; everybody with the label of another.
    let drawn = |drawn: &[usize]| {
        let mut times = vec![0usize; people.count];
        drawn.iter().for_each(|i| times[*i] += 1);
        people.mean_score(results, primary, |person, truth| (truth, times[person]))
    };
    let permuted = |order: &[usize]| people.mean_score(results, primary, |person, _| (people.truths[order[person]], 1));
    // A score that does not vary with the labels (a constant prediction) has no chance level to be compared with.
    let constant = results.iter().all(|r| r.outcome.predictions.windows(2).all(|w| w[0].predicted == w[1].predicted));
    let tested: f64 = results.iter().map(|r| r.outcome.predictions.len() as f64).sum::<f64>() / n;
    let fitted: f64 = results.iter().map(|r| r.fitted_people as f64).sum::<f64>() / n;
    let compared = |name: &str| {
        if name == first.method {
            return None;
        }
        let value = |r: &TaskResult| r.metrics.get(primary);
        let other = other(name)?;
        let pairs = results.iter().filter_map(|r| {
            let same = other.iter().find(|o| o.split_blake3 == r.split_blake3 && o.seed == r.seed)?;
            Some(value(r)? - value(same)?)
        });
        corrected_comparison(&pairs.collect::<Vec<f64>>(), tested / fitted)
    };
    let further = settings
        .further(&first.method)
        .into_iter()
        .filter_map(|name| Some(Against { row: name.clone(), comparison: compared(name)?, q: None }));
    let few = (people.count < FEW_PEOPLE)
        .then(|| format!("only {} people were tested: read the interval, not the mean", people.count));
    let flags = each_once(few.into_iter().chain(results.iter().flat_map(|r| r.outcome.flags.iter().cloned())));
    Row {
        method: first.method.clone(),
        target: first.target.clone(),
        scheme: first.scheme.name().to_owned(),
        classes: first.classes.clone(),
        repetitions: results.iter().map(|r| repetition(r)).collect(),
        fitted_people: fitted,
        tested_people: tested,
        cells,
        primary: primary.to_owned(),
        interval: if constant {
            None
        } else if people.count < FEW_PEOPLE {
            people.wide_interval(results, primary, settings.level)
        } else {
            bootstrap(people.count, settings.bootstraps, settings.level, settings.seed, drawn)
        },
        p: if constant { None } else { permutation_p(people.count, settings.permutations, settings.seed, permuted) },
        comparison: compared(&settings.against),
        further: further.collect(),
        parameters: results.iter().map(|r| r.outcome.parameters).max().unwrap_or(0),
        wall_seconds: results.iter().map(|r| r.wall_seconds).sum(),
        frozen_parameters: results.iter().map(|r| r.frozen_parameters).max().unwrap_or(0),
        own_mib: results.iter().filter_map(|r| r.own_mib).reduce(f64::max),
        flags,
        ..Row::default()
    }
}

fn cell(results: &[&TaskResult], name: &str) -> Cell {
    let values: Vec<Option<f64>> = results.iter().map(|r| r.metrics.get(name)).collect();
    let known: Vec<f64> = values.iter().copied().flatten().collect();
    let (mean, spread) = (!known.is_empty()).then(|| mean_and_spread(&known)).unzip();
    Cell { metric: name.to_owned(), mean, spread: spread.filter(|_| known.len() > 1), values }
}

/// The tested people of all repetitions: somebody may be tested in several, and is then drawn, or relabelled, in all of them.
struct People {
    count: usize,
    /// For every result, the number of each of its predictions' people.
    numbers: Vec<Vec<usize>>,
    truths: Vec<f64>,
}

impl People {
    fn of(results: &[&TaskResult]) -> Self {
        let mut truths: BTreeMap<&str, f64> = BTreeMap::new();
        for p in results.iter().flat_map(|r| &r.outcome.predictions) {
            truths.insert(&p.subject, p.truth);
        }
        let number: BTreeMap<&str, usize> = truths.keys().enumerate().map(|(k, s)| (*s, k)).collect();
        let of = |r: &&TaskResult| r.outcome.predictions.iter().map(|p| number[p.subject.as_str()]).collect();
        Self {
            count: truths.len(),
            numbers: results.iter().map(of).collect(),
            truths: truths.values().copied().collect(),
        }
    }

    /// An interval for a score of few people, whom resampling would only repeat: of a share of the smallest class (Wilson), or
    /// of a correlation (Fisher). The area under the curve counts as such a share.
    fn wide_interval(&self, results: &[&TaskResult], metric: &str, level: f64) -> Option<Interval> {
        let mean = cell(results, metric).mean?;
        let z = normal_half_width(level);
        if metric == "rho" {
            let free = self.count.checked_sub(3).filter(|free| *free > 0)? as f64;
            let middle = mean.clamp(-0.999_999, 0.999_999).atanh();
            let reach = z / free.sqrt();
            return Some(Interval { low: (middle - reach).tanh(), high: (middle + reach).tanh() });
        }
        let classes = results[0].classes.len();
        let smallest =
            (0..classes).map(|k| self.truths.iter().filter(|t| **t as usize == k).count()).min()?.max(1) as f64;
        let (share, square) = (mean.clamp(0.0, 1.0), z * z / smallest);
        let middle = (share + square / 2.0) / (1.0 + square);
        let reach = z / (1.0 + square) * (share * (1.0 - share) / smallest + square / (4.0 * smallest)).sqrt();
        Some(Interval { low: (middle - reach).max(0.0), high: (middle + reach).min(1.0) })
    }

    /// Mean over repetitions of a score with the label of each person, and how often the person counts, changed.
    fn mean_score(
        &self,
        results: &[&TaskResult],
        metric: &str,
        change: impl Fn(usize, f64) -> (f64, usize),
    ) -> Option<f64> {
        let mut scores = vec![];
        for (result, numbers) in results.iter().zip(&self.numbers) {
            let (mut truths, mut said) = (vec![], vec![]);
            for (p, number) in result.outcome.predictions.iter().zip(numbers) {
                let (truth, times) = change(*number, p.truth);
                for _ in 0..times {
                    truths.push(truth);
                    said.extend_from_slice(&p.predicted);
                }
            }
            let metrics = Metrics::of(result.classes.len(), &truths, &said, result.label_spread);
            scores.extend(metrics.and_then(|m| m.get(metric)));
        }
        (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64)
    }
}

/// Adjusts a p-value of every row over the targets of the same method and scheme.
fn control(rows: &mut [Row], p: impl Fn(&Row) -> Option<f64>, set: impl Fn(&mut Row, f64)) {
    let mut families: BTreeMap<(String, String), Vec<(usize, f64)>> = BTreeMap::new();
    for (i, row) in rows.iter().enumerate() {
        let family = (row.scheme.clone(), row.method.clone());
        families.entry(family).or_default().extend(p(row).map(|p| (i, p)));
    }
    for family in families.into_values() {
        let adjusted = false_discovery(&family.iter().map(|(_, p)| *p).collect::<Vec<f64>>());
        family.iter().zip(adjusted).for_each(|((i, _), q)| set(&mut rows[*i], q));
    }
}
