//! A fitted head on the people of a cohort.

use crate::conformal::Conformal;
use crate::error::EvalError;
use crate::features::ScanRow;
use crate::fitted::FittedHead;
use crate::metric::Metrics;
use crate::score::{Summary, score, summarise};
use bdo_data::cohort::{Cohort, Observer};
use bdo_data::target::{LabelScale, Target, TargetKind};
use bdo_model::control::encode_cohort;
use bdo_model::frozen::FrozenModel;
use bdo_model::weights::TrainingPeople;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// What a head says of one scan.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanPrediction {
    /// The scan.
    pub row: ScanRow,
    /// What each member says: the label, or the probability of the second class.
    pub members: Vec<f64>,
    /// The person was among those a member was fitted on.
    pub seen_by_head: bool,
    /// The person was among those the model was pre-trained on.
    pub seen_by_model: bool,
}

impl ScanPrediction {
    /// Mean over the members.
    pub fn mean(&self) -> f64 {
        self.members.iter().sum::<f64>() / self.members.len() as f64
    }
}

/// All scans of a cohort.
#[derive(Clone, Debug, PartialEq)]
pub struct Predictions {
    /// In the order of the cohort.
    pub scans: Vec<ScanPrediction>,
    /// Scans without a usable region.
    pub passed_over: Vec<String>,
}

/// Applies the head in `folder` to every scan of a cohort.
pub fn predict(
    folder: &Path,
    head: &FittedHead,
    cohort: &Cohort,
    observer: &dyn Observer,
) -> Result<Predictions, EvalError> {
    let mut models: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, member) in head.members.iter().enumerate() {
        models.entry(&member.model).or_default().push(i);
    }
    let scans: Vec<usize> = (0..cohort.len()).collect();
    let mut said = vec![vec![f64::NAN; head.members.len()]; cohort.len()];
    let (mut passed_over, mut known) = (Vec::new(), vec![false; cohort.len()]);
    for (model, members) in models {
        let frozen = FrozenModel::read(&folder.join(model))?;
        let expected = &head.members[members[0]].model_blake3;
        frozen.able_to(head.pooling)?;
        let found = frozen.blake3_for(head.pooling);
        if found != *expected {
            return Err(EvalError::refused(
                &frozen.folder,
                format!("the model with BLAKE3 {expected} that the head was fitted on"),
                found,
            ));
        }
        for (known, entry) in known.iter_mut().zip(cohort.index()) {
            *known |= !frozen.people.overlap([entry.id.subject.as_str()]).is_empty();
        }
        let spoken = predict_scans(&frozen, head, &members, cohort, &scans, observer)?;
        for (i, values) in spoken.said {
            members.iter().zip(values).for_each(|(&m, value)| said[i][m] = value);
        }
        passed_over = spoken.passed_over;
    }
    let seen = |subject: &str| {
        let hash = TrainingPeople::subject_hash(subject);
        head.members.iter().any(|member| member.train_people.contains(&hash))
    };
    let found = (0..cohort.len()).filter(|i| !passed_over.contains(i)).map(|i| ScanPrediction {
        row: ScanRow::of(&cohort.index()[i]),
        members: said[i].clone(),
        seen_by_head: seen(&cohort.index()[i].id.subject),
        seen_by_model: known[i],
    });
    Ok(Predictions {
        scans: found.collect(),
        passed_over: passed_over.iter().map(|i| cohort.index()[*i].id.to_string()).collect(),
    })
}

/// What members of one model say of some scans.
pub(crate) struct Spoken {
    /// Number of the scan and one value a member.
    pub(crate) said: Vec<(usize, Vec<f64>)>,
    /// Scans without a usable region.
    pub(crate) passed_over: Vec<usize>,
}

/// Asks the members that share a model.
pub(crate) fn predict_scans(
    frozen: &FrozenModel,
    head: &FittedHead,
    members: &[usize],
    cohort: &Cohort,
    scans: &[usize],
    observer: &dyn Observer,
) -> Result<Spoken, EvalError> {
    let mut said = Vec::with_capacity(scans.len());
    let passed_over = encode_cohort(frozen, cohort, scans, observer, |i, encoded| {
        said.push((i, members.iter().map(|&m| head.say(&head.members[m], &encoded)).collect()));
    })?;
    Ok(Spoken { said, passed_over })
}

impl Predictions {
    /// One row a scan: what the head says, what each member says, and whether the person was trained on.
    /// With a calibrated head also an interval, or the set of classes that cannot be ruled out and whether to abstain.
    pub fn to_tsv(&self, head: &FittedHead, conformal: Option<&Conformal>) -> String {
        let mut out = String::from("scan\tsubject\tprediction");
        if let TargetKind::Classification { classes } = &head.task {
            classes.iter().for_each(|class| out.push_str(&format!("\tprobability_{}", class.replace('\t', " "))));
        }
        head.members.iter().for_each(|member| out.push_str(&format!("\tseed{}", member.seed)));
        match (conformal, &head.task) {
            (None, _) => {}
            (Some(_), TargetKind::Regression) => out.push_str("\tlower\tupper"),
            (Some(_), TargetKind::Classification { .. }) => out.push_str("\tclasses\tabstain"),
        }
        out.push_str("\tseen\n");
        for scan in &self.scans {
            let mean = scan.mean();
            let said = match &head.task {
                TargetKind::Regression => mean.to_string(),
                TargetKind::Classification { classes } => {
                    format!("{}\t{}\t{mean}", classes[usize::from(mean >= 0.5)].replace('\t', " "), 1.0 - mean)
                }
            };
            out.push_str(&format!("{}\t{}\t{said}", scan.row.scan, scan.row.subject));
            scan.members.iter().for_each(|value| out.push_str(&format!("\t{value}")));
            if let Some(conformal) = conformal {
                out.push_str(&bounds(conformal, &head.task, mean));
            }
            let seen = match (scan.seen_by_head, scan.seen_by_model) {
                (false, false) => "no",
                (true, false) => "head",
                (false, true) => "model",
                (true, true) => "head,model",
            };
            out.push_str(&format!("\t{seen}\n"));
        }
        out
    }

    /// People whom a member was fitted on, and people the model was pre-trained on.
    pub fn seen(&self) -> (usize, usize) {
        let count = |flag: fn(&ScanPrediction) -> bool| {
            self.scans
                .iter()
                .filter(|s| flag(s))
                .map(|s| &s.row.subject)
                .collect::<std::collections::BTreeSet<_>>()
                .len()
        };
        (count(|s| s.seen_by_head), count(|s| s.seen_by_model))
    }

    /// Scores everybody who has a label: each member by itself, their summary, and the mean of the members.
    pub fn score(&self, head: &FittedHead, target: &Target) -> Option<PeopleScore> {
        let mut people: BTreeMap<&str, Vec<&ScanPrediction>> = BTreeMap::new();
        for scan in self.scans.iter().filter(|s| target.value(&s.row.subject).is_some()) {
            people.entry(&scan.row.subject).or_default().push(scan);
        }
        if people.is_empty() {
            return None;
        }
        let labels: Vec<f64> = people.keys().map(|person| target.values[*person]).collect();
        let scored = |units: LabelScale, pick: &dyn Fn(&ScanPrediction) -> f64| {
            let mean = |scans: &Vec<&ScanPrediction>| scans.iter().map(|s| pick(s)).sum::<f64>() / scans.len() as f64;
            let said: Vec<f64> = people.values().map(mean).collect();
            score(&head.task, &said, &labels, units)
        };
        let members: Vec<Metrics> =
            head.members.iter().enumerate().map(|(m, member)| scored(member.units(), &|s| s.members[m])).collect();
        let n = head.members.len() as f64;
        let units = LabelScale {
            mean: head.members.iter().map(|m| m.label_mean).sum::<f64>() / n,
            spread: head.members.iter().map(|m| m.label_spread).sum::<f64>() / n,
        };
        Some(PeopleScore {
            people: people.len(),
            summary: summarise(&members),
            members,
            together: scored(units, &ScanPrediction::mean),
        })
    }
}

/// The cells of a calibrated prediction.
fn bounds(conformal: &Conformal, task: &TargetKind, mean: f64) -> String {
    match task {
        TargetKind::Regression => {
            let [low, high] = conformal.interval(mean);
            let cell = |x: f64| if x.is_finite() { x.to_string() } else { "n/a".to_owned() };
            format!("\t{}\t{}", cell(low), cell(high))
        }
        TargetKind::Classification { classes } => {
            let set = conformal.set(mean);
            let held: Vec<String> =
                (0..2).filter(|i| set.holds(*i == 1)).map(|i| classes[i].replace(['\t', ','], " ")).collect();
            let held = if held.is_empty() { "n/a".to_owned() } else { held.join(",") };
            format!("\t{held}\t{}", if set.is_decided() { "no" } else { "yes" })
        }
    }
}

/// How well a head does on labelled people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeopleScore {
    /// People with a scan and a label.
    pub people: usize,
    /// Each member by itself.
    pub members: Vec<Metrics>,
    /// Over the members.
    pub summary: Vec<Summary>,
    /// The mean of the members' predictions.
    pub together: Metrics,
}
