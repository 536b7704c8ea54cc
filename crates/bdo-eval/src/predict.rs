//! A fitted head on the people of a cohort.

use crate::conformal::Conformal;
use crate::error::EvalError;
use crate::features::ScanRow;
use crate::fitted::{FittedHead, Member, mean_of};
use crate::metric::{Metrics, most_probable};
use crate::score::{Summary, score_rows, summarise};
use bdo_data::cohort::{Cohort, Observer};
use bdo_data::target::{LabelScale, Target, TargetKind};
use bdo_model::control::{Encoded, encode_cohort};
use bdo_model::familiarity::{Familiarity, ScanFacts, Verdict};
use bdo_model::frozen::FrozenModel;
use bdo_model::weights::{PreprocessorConfig, TrainingPeople};
use burn::tensor::Device;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What a head says of one scan.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanPrediction {
    pub row: ScanRow,
    /// What each member says: the label, or the probabilities of all classes.
    pub members: Vec<Vec<f64>>,
    /// The person was among those a member was fitted on.
    pub seen_by_head: bool,
    /// The person was among those the model was pre-trained on.
    pub seen_by_model: bool,
    /// Whether the scan is like those the head was fitted on, where that is known.
    pub verdict: Option<Verdict>,
}

impl ScanPrediction {
    pub fn mean(&self) -> Vec<f64> {
        mean_of(&self.members)
    }

    /// The label, or the probability of the last class: all there is where there are two.
    pub fn said(&self) -> f64 {
        self.mean().last().copied().unwrap_or(f64::NAN)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Predictions {
    /// In the order of the cohort.
    pub scans: Vec<ScanPrediction>,
    /// Scans without a usable region.
    pub passed_over: Vec<String>,
    /// People with the ID of somebody the head was fitted on, who are taken for others since none of their scans was.
    pub namesakes: usize,
    /// Whether IDs of the head's people mean the same people in this cohort.
    pub same_study: bool,
}

/// What is taken for granted about a cohort that a model meets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trusting {
    /// An equal ID is the same person, whatever the scans say.
    pub same_people: bool,
    /// Numbered regions are those of the model.
    pub same_atlas: bool,
}

impl Trusting {
    /// Tells it to the parts of a model that decide who and what is the same.
    pub fn apply(self, people: &mut TrainingPeople, contract: &mut PreprocessorConfig) {
        people.by_id = self.same_people;
        if self.same_atlas {
            contract.trained_scans = None;
        }
    }

    /// A frozen model that takes it for granted.
    #[must_use]
    pub fn applied(self, mut frozen: FrozenModel) -> FrozenModel {
        self.apply(&mut frozen.people, &mut frozen.contract);
        frozen
    }
}

/// Applies the head in `folder` to every scan of a cohort, its models on a device.
pub fn predict(
    folder: &Path,
    head: &FittedHead,
    cohort: &Cohort,
    (trusting, device): (Trusting, &Device),
    observer: &dyn Observer,
) -> Result<Predictions, EvalError> {
    let mut models: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, member) in head.members.iter().enumerate() {
        models.entry(&member.model).or_default().push(i);
    }
    let scans: Vec<usize> = (0..cohort.len()).collect();
    let mut said = vec![vec![Vec::new(); head.members.len()]; cohort.len()];
    let (mut passed_over, mut known) = (Vec::new(), vec![false; cohort.len()]);
    let mut verdicts: Vec<Option<Verdict>> = vec![None; cohort.len()];
    for (model, members) in models {
        let frozen = trusting.applied(FrozenModel::read_on(&folder.join(model), device)?);
        is_of(&frozen, head, members[0])?;
        let trained = frozen.people.known_in(cohort);
        for (known, entry) in known.iter_mut().zip(cohort.index()) {
            *known |= trained.is_trained(&entry.id.subject);
        }
        let familiarity = Familiarity::read(folder, &frozen.blake3)?;
        let judge = |i: usize, encoded: &Encoded<'_>| {
            let facts = || ScanFacts::of_entry(&frozen, &cohort.index()[i], encoded);
            let verdict = familiarity.as_ref().and_then(|f| f.judge(&facts()));
            if verdict.is_some() {
                verdicts[i] = verdict;
            }
        };
        let spoken;
        (spoken, passed_over) = predict_scans(&frozen, head, &members, cohort, &scans, observer, judge)?;
        for (i, values) in spoken {
            members.iter().zip(values).for_each(|(&m, value)| said[i][m] = value);
        }
    }
    let mut fitted_on = TrainingPeople { by_id: trusting.same_people, ..TrainingPeople::default() };
    for people in head.members.iter().map(Member::people) {
        fitted_on.subjects.extend(people.subjects);
        fitted_on.scans.extend(people.scans);
        fitted_on.sources.extend(people.sources);
    }
    let fitted_on = fitted_on.known_in(cohort);
    let found = (0..cohort.len()).filter(|i| !passed_over.contains(i)).map(|i| ScanPrediction {
        row: ScanRow::of(&cohort.index()[i]),
        members: said[i].clone(),
        seen_by_head: fitted_on.is_trained(&cohort.index()[i].id.subject),
        seen_by_model: known[i],
        verdict: verdicts[i].clone(),
    });
    Ok(Predictions {
        scans: found.collect(),
        passed_over: passed_over.iter().map(|i| cohort.index()[*i].id.to_string()).collect(),
        namesakes: fitted_on.namesakes,
        same_study: fitted_on.is_same_study(),
    })
}

/// A head means nothing with another model than its own.
fn is_of(frozen: &FrozenModel, head: &FittedHead, member: usize) -> Result<(), EvalError> {
    frozen.able_to(head.pooling)?;
    let member = &head.members[member];
    let readout = frozen.readout_blake3(head.pooling);
    if frozen.blake3 != member.model_blake3 || readout != member.readout_blake3 {
        let named = |model: &str, readout: &Option<String>| match readout {
            Some(readout) => format!("{model} and readout {readout}"),
            None => model.to_owned(),
        };
        return Err(EvalError::refused(
            &frozen.folder,
            format!(
                "the model with BLAKE3 {} that the head was fitted on",
                named(&member.model_blake3, &member.readout_blake3)
            ),
            named(&frozen.blake3, &readout),
        ));
    }
    Ok(())
}

/// Number of each scan and what each member says of it.
type Said = Vec<(usize, Vec<Vec<f64>>)>;

/// Asks the members that share a model; returns also the scans without a usable region.
pub(crate) fn predict_scans(
    frozen: &FrozenModel,
    head: &FittedHead,
    members: &[usize],
    cohort: &Cohort,
    scans: &[usize],
    observer: &dyn Observer,
    mut look: impl FnMut(usize, &Encoded<'_>),
) -> Result<(Said, Vec<usize>), EvalError> {
    let mut said = Vec::with_capacity(scans.len());
    let passed_over = encode_cohort(frozen, cohort, scans, observer, |i, encoded| {
        look(i, &encoded);
        said.push((i, members.iter().map(|&m| head.say(&head.members[m], &encoded)).collect()));
    })?;
    Ok((said, passed_over))
}

impl Predictions {
    /// One row a scan: what the head says, what each member says, and whether the person was trained on.
    /// With a calibrated head also an interval, or the set of classes that cannot be ruled out and whether to abstain.
    pub fn to_tsv(&self, head: &FittedHead, conformal: Option<&Conformal>) -> String {
        let mut out = String::from("scan\tsubject\tprediction");
        let classes = head.task.classes();
        out.push_str(&probability_columns(classes));
        head.members.iter().for_each(|member| out.push_str(&format!("\tseed{}", member.seed)));
        if conformal.is_some() {
            out.push_str(if classes.is_empty() { "\tlower\tupper" } else { "\tclasses\tabstain" });
        }
        out.push_str("\tseen\ttrust\treasons\n");
        for scan in &self.scans {
            let mean = scan.mean();
            let named = |said: &[f64]| match said {
                [number] => spelled(&head.task, *number),
                [_, second] => spelled(&head.task, f64::from(u8::from(*second >= 0.5))),
                many => spelled(&head.task, most_probable(many) as f64),
            };
            out.push_str(&format!("{}\t{}\t{}", scan.row.scan, scan.row.subject, named(&mean)));
            mean.iter().take(classes.len()).for_each(|p| out.push_str(&format!("\t{p}")));
            for said in &scan.members {
                match said.as_slice() {
                    [.., last] if said.len() <= 2 => out.push_str(&format!("\t{last}")),
                    many => out.push_str(&format!("\t{}", named(many))),
                }
            }
            if let Some(conformal) = conformal {
                out.push_str(&bounds(conformal, classes, &mean));
            }
            let seen = match (scan.seen_by_head, scan.seen_by_model) {
                (false, false) => "no",
                (true, false) => "head",
                (false, true) => "model",
                (true, true) => "head,model",
            };
            let (trust, reasons) = match &scan.verdict {
                None => ("n/a", "n/a".to_owned()),
                Some(verdict) if verdict.reasons.is_empty() => (verdict.trust.name(), "n/a".to_owned()),
                Some(verdict) => (verdict.trust.name(), verdict.reasons.join("; ")),
            };
            out.push_str(&format!("\t{seen}\t{trust}\t{reasons}\n"));
        }
        out
    }

    /// People whom a member was fitted on, and people the model was pre-trained on.
    pub fn seen(&self) -> (usize, usize) {
        let count = |flag: fn(&ScanPrediction) -> bool| {
            let people: BTreeSet<&String> = self.scans.iter().filter(|s| flag(s)).map(|s| &s.row.subject).collect();
            people.len()
        };
        (count(|s| s.seen_by_head), count(|s| s.seen_by_model))
    }

    /// Scores the people with a label whom the head was not fitted on.
    pub fn score(&self, head: &FittedHead, target: &Target) -> Option<PeopleScore> {
        self.score_of(head, target, |scan| !scan.seen_by_head)
    }

    /// Scores the people with a label whom the head was fitted on, which says nothing of new people.
    pub fn score_of_seen(&self, head: &FittedHead, target: &Target) -> Option<PeopleScore> {
        self.score_of(head, target, |scan| scan.seen_by_head)
    }

    /// Each member by itself, their summary, and the mean of the members.
    fn score_of(
        &self,
        head: &FittedHead,
        target: &Target,
        wanted: impl Fn(&ScanPrediction) -> bool,
    ) -> Option<PeopleScore> {
        let mut people: BTreeMap<&str, Vec<&ScanPrediction>> = BTreeMap::new();
        for scan in self.scans.iter().filter(|s| wanted(s) && target.value(&s.row.subject).is_some()) {
            people.entry(&scan.row.subject).or_default().push(scan);
        }
        if people.is_empty() {
            return None;
        }
        let labels: Vec<f64> = people.keys().map(|person| target.values[*person]).collect();
        let scored = |units: LabelScale, pick: &dyn Fn(&ScanPrediction) -> Vec<f64>| {
            let mean = |scans: &Vec<&ScanPrediction>| mean_of(&scans.iter().map(|s| pick(s)).collect::<Vec<_>>());
            let said: Vec<Vec<f64>> = people.values().map(mean).collect();
            score_rows(&head.task, &said, &labels, units)
        };
        let alone = |(m, member): (usize, &Member)| scored(member.units(), &|s| s.members[m].clone());
        let members: Vec<Metrics> = head.members.iter().enumerate().map(alone).collect();
        let mean = |of: fn(&Member) -> f64| head.members.iter().map(of).sum::<f64>() / head.members.len() as f64;
        let units = LabelScale { mean: mean(|m| m.label_mean), spread: mean(|m| m.label_spread) };
        Some(PeopleScore {
            people: people.len(),
            summary: summarise(&members),
            members,
            together: scored(units, &ScanPrediction::mean),
        })
    }
}

/// The heads of the columns of probabilities.
pub(crate) fn probability_columns(classes: &[String]) -> String {
    classes.iter().fold(String::new(), |text, class| text + "\tprobability_" + &class.replace('\t', " "))
}

/// A label as the cell of a table: the number, or the name of the class.
pub(crate) fn spelled(task: &TargetKind, label: f64) -> String {
    task.classes().get(label as usize).map_or_else(|| label.to_string(), |class| class.replace('\t', " "))
}

/// The cells of a calibrated prediction.
fn bounds(conformal: &Conformal, classes: &[String], mean: &[f64]) -> String {
    if classes.is_empty() {
        let cell = |x: f64| if x.is_finite() { x.to_string() } else { "n/a".to_owned() };
        let [low, high] = conformal.interval(mean[0]).map(cell);
        return format!("\t{low}\t{high}");
    }
    let held: Vec<String> = conformal.set(mean).iter().map(|i| classes[*i].replace(['\t', ','], " ")).collect();
    let named = if held.is_empty() { "n/a".to_owned() } else { held.join(",") };
    format!("\t{named}\t{}", if held.len() == 1 { "no" } else { "yes" })
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeopleScore {
    /// People with a scan and a label.
    pub people: usize,
    pub members: Vec<Metrics>,
    pub summary: Vec<Summary>,
    /// The mean of the members' predictions.
    pub together: Metrics,
}
