//! A fitted head on disk, with its model: everything needed to say something about new people, and what it was fitted
//! on. One member for each seed; what a head says is the mean over its members.

use crate::closed_form::FittedProbe;
use crate::error::EvalError;
use crate::fit::loss_of;
use crate::head::{AttentionHead, FittedTransform, Head, LinearHead, widened};
use crate::part::Parts;
use bdo_data::cohort::Cohort;
use bdo_data::division::Split;
use bdo_data::durable;
use bdo_data::target::{LabelScale, Target, TargetKind};
use bdo_model::control::Encoded;
use bdo_model::parameters::{Array, ParameterSpec, Parameters, Start};
use bdo_model::pooling::Pooling;
use bdo_model::weights::{TrainingPeople, read_parameters, write_parameters};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const FORMAT: &str = "bdo-head/1";
const HEAD_FILE: &str = "head.json";

/// What stands on the features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadKind {
    /// One linear layer trained by Adam.
    #[default]
    Linear,
    /// A learned query over the frames, then a linear layer.
    Attention,
    /// Ridge or logistic regression in closed form, its penalty chosen by cross-validation inside the training people.
    Ridge,
}

impl HeadKind {
    fn numbers_file(self) -> &'static str {
        if self == Self::Ridge { "head_closed_form.json" } else { "head.safetensors" }
    }
}

/// The head of one seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Seed of split, start and order.
    pub seed: u64,
    /// Folder of its model, below that of the head.
    pub model: String,
    pub model_blake3: String,
    /// Hash of the readout of that model, where it has a part in the features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readout_blake3: Option<String>,
    pub label_mean: f64,
    pub label_spread: f64,
    pub split_blake3: String,
    /// BLAKE3 of the ids of the people it was fitted on.
    pub train_people: BTreeSet<String>,
    /// BLAKE3 of their scans.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub train_scans: BTreeSet<String>,
    /// BLAKE3 of the files of these scans.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub train_sources: BTreeSet<String>,
    /// The chosen configuration and epoch.
    pub chosen: serde_json::Value,
    /// Applied to features first.
    #[serde(skip)]
    pub transform: FittedTransform,
    /// Weights, bias, and the query of attention.
    #[serde(skip)]
    pub parameters: Vec<f32>,
    #[serde(skip)]
    pub closed_form: Option<FittedProbe>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedHead {
    format: String,
    pub version: String,
    pub target: String,
    pub task: TargetKind,
    /// How frames become one vector; attention has its own.
    pub pooling: Pooling,
    pub kind: HeadKind,
    /// Numbers the head reads of a scan.
    pub width: usize,
    /// Whether features are shifted and scaled first.
    pub transformed: [bool; 2],
    pub cohort_blake3: String,
    /// One for each seed.
    pub members: Vec<Member>,
    pub numbers_blake3: String,
}

impl FittedHead {
    /// One without members.
    pub fn of(target: &Target, pooling: Pooling, kind: HeadKind, width: usize, cohort_blake3: String) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            target: target.name.clone(),
            task: target.kind.clone(),
            pooling,
            kind,
            width,
            transformed: [false; 2],
            cohort_blake3,
            members: vec![],
            numbers_blake3: String::new(),
        }
    }

    pub fn with(self, members: Vec<Member>) -> Self {
        let transform = members.first().map(|m| &m.transform);
        let transformed = [transform.is_some_and(|t| t.centre.is_some()), transform.is_some_and(|t| t.scale.is_some())];
        Self { transformed, members, ..self }
    }

    /// Writes numbers, then the description.
    pub fn write(&mut self, folder: &Path) -> Result<(), EvalError> {
        let path = folder.join(self.kind.numbers_file());
        if self.kind == HeadKind::Ridge {
            let fits: Vec<&FittedProbe> = self.members.iter().filter_map(|m| m.closed_form.as_ref()).collect();
            let text = serde_json::to_string(&fits).expect("a fit holds only finite numbers") + "\n";
            durable::write(&path, text.as_bytes())?;
        } else {
            self.write_numbers(&path)?;
        }
        self.numbers_blake3 = blake3::hash(&durable::read(&path)?).to_hex().to_string();
        Ok(durable::write_json(&folder.join(HEAD_FILE), self)?)
    }

    fn write_numbers(&self, path: &Path) -> Result<(), EvalError> {
        let mut parameters = BTreeMap::new();
        for member in &self.members {
            let transform = [&member.transform.centre, &member.transform.scale].into_iter().flatten().flatten();
            let mut numbers = member.parameters.iter().chain(transform).copied();
            for ParameterSpec { name, shape, .. } in self.layout(member.seed) {
                let values = numbers.by_ref().take(shape[0]).collect();
                parameters.insert(name, Array { shape, values });
            }
        }
        Ok(write_parameters(path, &self.table(), &Parameters(parameters))?)
    }

    pub fn read(folder: &Path) -> Result<Self, EvalError> {
        let path = folder.join(HEAD_FILE);
        let bytes = durable::read(&path)?;
        let mut head: Self = serde_json::from_slice(&bytes)
            .map_err(|error| EvalError::refused(&path, "the description of a head", error))?;
        if head.format != FORMAT {
            return Err(EvalError::refused(&path, FORMAT, &head.format));
        }
        if head.task != TargetKind::Regression && head.task.classes().len() < 2 {
            return Err(EvalError::refused(&path, "at least two classes", head.task.classes().len()));
        }
        if head.members.is_empty() {
            return Err(EvalError::refused(&path, "at least one member", "none"));
        }
        let numbers = folder.join(head.kind.numbers_file());
        let bytes = durable::read(&numbers)?;
        let found = blake3::hash(&bytes).to_hex().to_string();
        if found != head.numbers_blake3 {
            return Err(EvalError::refused(&numbers, format!("BLAKE3 {}", head.numbers_blake3), found));
        }
        if head.kind == HeadKind::Ridge {
            let fits: Vec<FittedProbe> = serde_json::from_slice(&bytes)
                .map_err(|error| EvalError::refused(&numbers, "closed-form fits", error))?;
            if fits.len() != head.members.len() {
                return Err(EvalError::refused(&numbers, format!("{} fits", head.members.len()), fits.len()));
            }
            head.members.iter_mut().zip(fits).for_each(|(member, fit)| member.closed_form = Some(fit));
            return Ok(head);
        }
        let mut parameters = read_parameters(&numbers, &head.table())?;
        for member in &mut head.members {
            let seed = member.seed;
            let mut take = |name: &str| parameters.0.remove(&format!("seed{seed}.{name}")).map(|array| array.values);
            member.transform = FittedTransform { centre: take("centre"), scale: take("scale") };
            member.parameters = ["weight", "bias", "query"].into_iter().filter_map(take).flatten().collect();
        }
        Ok(head)
    }

    /// What a member says of one scan: the label, or the probabilities of all classes.
    pub fn say(&self, member: &Member, encoded: &Encoded<'_>) -> Vec<f64> {
        let parameters = widened(&member.parameters);
        let outputs = match self.kind {
            HeadKind::Linear => {
                let feature = member.transform.apply(&self.pooling.apply(encoded));
                self.linear().outputs(&parameters, &feature)
            }
            HeadKind::Attention => AttentionHead { linear: self.linear() }.outputs(&parameters, &encoded.control),
            HeadKind::Ridge => {
                let fit = member.closed_form.as_ref().expect("a closed-form head is read with its fits");
                return fit.says(&widened(&self.pooling.apply(encoded)));
            }
        };
        member.units().said(loss_of(&self.task).says(&outputs))
    }

    fn linear(&self) -> LinearHead {
        LinearHead { width: self.width, outputs: loss_of(&self.task).outputs() }
    }

    /// Weights of a linear head on features as they are, in units of what it says: the label, the logit of the second of two
    /// classes, or the logit of one of many above the mean of all.
    pub(crate) fn feature_weights(&self, member: &Member, class: usize) -> Vec<f64> {
        if let Some(fit) = &member.closed_form {
            return fit.feature_weights(class);
        }
        let spread = if self.task == TargetKind::Regression { member.label_spread } else { 1.0 };
        let scale = |j: usize| member.transform.scale.as_ref().map_or(1.0, |scale| f64::from(scale[j]));
        let rows = widened(&member.parameters[..self.width * self.linear().outputs]);
        let weights = contrast(&rows, self.width, class);
        weights.iter().enumerate().map(|(j, w)| spread * w / scale(j)).collect()
    }

    /// Names and shapes of a member's numbers, in the order of its parameters.
    fn layout(&self, seed: u64) -> Vec<ParameterSpec> {
        let spec = |name: &str, length: usize| ParameterSpec {
            name: format!("seed{seed}.{name}"),
            shape: vec![length],
            start: Start::Zeros,
            trainable: false,
        };
        let outputs = self.linear().outputs;
        let mut layout = vec![spec("weight", outputs * self.width), spec("bias", outputs)];
        let [centre, scale] = self.transformed;
        let further = [(self.kind == HeadKind::Attention, "query"), (centre, "centre"), (scale, "scale")];
        layout.extend(further.into_iter().filter(|(present, _)| *present).map(|(_, name)| spec(name, self.width)));
        layout
    }

    fn table(&self) -> Vec<ParameterSpec> {
        self.members.iter().flat_map(|member| self.layout(member.seed)).collect()
    }
}

/// The row of one output; of many classes, what the row of one has above the mean of all, since softmax knows no more.
pub(crate) fn contrast(rows: &[f64], width: usize, class: usize) -> Vec<f64> {
    let outputs = rows.len() / width.max(1);
    if outputs < 2 {
        return rows.to_vec();
    }
    let mean = |j: usize| rows.iter().skip(j).step_by(width).sum::<f64>() / outputs as f64;
    (0..width).map(|j| rows[class * width + j] - mean(j)).collect()
}

pub fn mean_of(rows: &[Vec<f64>]) -> Vec<f64> {
    let n = rows.len() as f64;
    let mut mean = vec![0.0; rows.first().map_or(0, Vec::len)];
    rows.iter().for_each(|row| mean.iter_mut().zip(row).for_each(|(m, x)| *m += x / n));
    mean
}

impl Member {
    /// A member without its numbers, whose model is in a folder below that of the head.
    pub fn new<I: ?Sized>(model: &str, split: &Split, parts: &Parts<'_, I>, chosen: serde_json::Value) -> Self {
        Self {
            seed: split.seed(),
            model: model.to_owned(),
            label_mean: parts.units.mean,
            label_spread: parts.units.spread,
            split_blake3: split.blake3.clone(),
            train_people: parts.train.people.iter().map(|person| TrainingPeople::subject_hash(person)).collect(),
            chosen,
            ..Self::default()
        }
    }

    /// Lists the scans of the people it was fitted on.
    pub(crate) fn know_scans(&mut self, cohort: &Cohort) {
        for entry in cohort.index() {
            if self.train_people.contains(&TrainingPeople::subject_hash(&entry.id.subject)) {
                self.train_scans.insert(entry.blake3.clone());
                self.train_sources.extend(Some(entry.source_blake3.clone()).filter(|hash| !hash.is_empty()));
            }
        }
    }

    /// Whom it was fitted on.
    pub fn people(&self) -> TrainingPeople {
        TrainingPeople {
            subjects: self.train_people.clone(),
            scans: self.train_scans.clone(),
            sources: self.train_sources.clone(),
            by_id: false,
        }
    }

    pub fn units(&self) -> LabelScale {
        LabelScale { mean: self.label_mean, spread: self.label_spread }
    }
}
