//! Arguments that several verbs share, the parsers of their values, and the command line that repeats a request.

use std::ffi::OsString;
use std::fmt::{Display, Formatter};
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, bail};
use bdo_data::confound::{Expansion, Preset as Regression};
use bdo_data::durable;
use bdo_data::ingest::Format;
use bdo_data::shard::Shard;
use bdo_eval::fitted::HeadKind;
use bdo_eval::method::FitOn;
use bdo_eval::outcome::HeadRequest;
use bdo_eval::predict::Trusting;
use bdo_kernels::Precision;
use bdo_model::device::DeviceChoice;
use bdo_model::frozen::FrozenModel;
use bdo_model::pooling::Pooling;
use bdo_model::posterior::spread::Uncertainty;
use bdo_train::settings::{Kind, Preset, Resolved, Settings, Size};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, Command};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::cli::Common;

// The groups below have no doc comments: clap would show them as the description of the verb.

#[derive(Debug, Clone, PartialEq, Args, Serialize)]
#[command(next_help_heading = "Input")]
pub(crate) struct Data {
    /// The cohort
    #[arg(long, value_name = "COHORT")]
    pub(crate) data: PathBuf,
}

// What a cohort shares with the one a model was trained on, where its scans do not say it.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize)]
#[command(next_help_heading = "Input")]
pub(crate) struct Same {
    /// People with the IDs of training people are those people, though none of these scans was trained on
    #[arg(long)]
    pub(crate) same_people: bool,
    /// Regions that have only numbers are those of the model
    #[arg(long)]
    pub(crate) same_atlas: bool,
}

impl Same {
    pub(crate) fn trusting(&self) -> Trusting {
        Trusting { same_people: self.same_people, same_atlas: self.same_atlas }
    }
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct ModelAndData {
    /// The model directory
    #[arg(long, value_name = "DIR", value_parser = model_folder)]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) cohort: Data,
    #[command(flatten)]
    pub(crate) same: Same,
}

impl ModelAndData {
    /// The model on its device, with what is taken for granted about the cohort.
    pub(crate) fn frozen(&self, common: &Common) -> anyhow::Result<FrozenModel> {
        Ok(self.same.trusting().applied(FrozenModel::read_on(&self.model, &common.place()?)?))
    }
}

/// A file to make: the folder it goes into is looked for before work begins.
pub(crate) fn out_file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let folder = durable::parent(&path);
    if !folder.is_dir() {
        return Err(format!("expected a file in a folder that is there, found no folder {}", folder.display()));
    }
    Ok(path)
}

/// A model directory; the folder of a run is one step away from its model.
pub(crate) fn model_folder(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let inner = path.join("model");
    if !path.join("config.json").is_file() && inner.join("config.json").is_file() {
        return Err(format!("expected a model directory, found a run; its model is {}", inner.display()));
    }
    Ok(path)
}

/// The folder of a head; of a run or a model a head has yet to be made.
fn head_folder(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let models = [path.clone(), path.join("model")];
    let has = |name: &str| path.join(name).is_file();
    match models.iter().find(|model| model.join("config.json").is_file()) {
        Some(model) if !has("head.json") && !has("request.json") => Err(format!(
            "expected the folder of a probe or a fine-tuning, found a model; make a head with bdo probe --model {}",
            model.display()
        )),
        _ => Ok(path),
    }
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct HeadAndData {
    /// The folder of `bdo probe` or `bdo finetune`
    #[arg(long, value_name = "DIR", value_parser = head_folder)]
    pub(crate) head: PathBuf,
    #[command(flatten)]
    pub(crate) cohort: Data,
    #[command(flatten)]
    pub(crate) same: Same,
}

// The input and output of fitting a head.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct Labelled {
    #[command(flatten)]
    pub(crate) from: ModelAndData,
    /// The label to predict: a column of the cohort's participants table
    #[arg(long, value_name = "NAME")]
    pub(crate) target: String,
    /// Further people to score with what was fitted
    #[arg(long, value_name = "COHORT")]
    pub(crate) test_data: Option<PathBuf>,
    /// The folder for results, splits and the fitted head; a fine-tuning that is there is continued
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) repetitions: Seeds,
}

impl Labelled {
    pub(crate) fn request<S>(&self, settings: S, common: &Common) -> anyhow::Result<HeadRequest<S>> {
        let (model, data) = (self.from.model.clone(), self.from.cohort.data.clone());
        let (test_data, out, trusting) = (self.test_data.clone(), self.out.clone(), self.from.same.trusting());
        Ok(HeadRequest { model, data, test_data, out, trusting, settings, device: common.place()? })
    }
}

#[derive(Debug, Clone, Default, PartialEq, Args, Serialize)]
#[command(next_help_heading = "Training")]
pub(crate) struct Configuration {
    /// Configuration to start from; `bdo inspect --preset NAME` prints it [default: default, or that of model.kind]
    #[arg(long, value_name = "NAME", value_parser = one_of::<Preset>(), hide_possible_values = true)]
    pub(crate) preset: Option<Preset>,
    /// Configuration (TOML) that changes the preset
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// One key of the configuration, e.g. `loss.tau=0`; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

impl Configuration {
    /// Preset, then file, then `--set`, then further keys.
    pub(crate) fn resolve(&self, more: &[String]) -> anyhow::Result<Resolved> {
        let text = match &self.config {
            Some(path) => {
                String::from_utf8(durable::read(path)?).with_context(|| format!("{}: expected text", path.display()))?
            }
            None => String::new(),
        };
        Ok(Settings::resolve(self.preset, &text, &[self.set.as_slice(), more].concat())?)
    }

    /// The same where only BDO can be trained.
    pub(crate) fn resolve_bdo(&self, more: &[String]) -> anyhow::Result<Settings> {
        let settings = self.resolve(more)?.settings;
        if settings.method.kind != Kind::Bdo {
            bail!("model.kind: expected bdo, found {}", settings.method.kind.name());
        }
        Ok(settings)
    }
}

/// One seed, or all from one to another: `3` or `0-9`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeedSpan {
    first: u64,
    last: u64,
}

impl SeedSpan {
    pub(crate) const fn one(seed: u64) -> Self {
        Self { first: seed, last: seed }
    }

    /// All seeds of several spans as given; a verb refuses one that is there twice.
    pub(crate) fn seeds(spans: &[Self]) -> Vec<u64> {
        spans.iter().flat_map(|span| span.first..=span.last).collect()
    }
}

impl FromStr for SeedSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<u64>().ok();
        let span = match text.split_once('-') {
            Some((first, last)) => number(first).zip(number(last)).map(|(first, last)| Self { first, last }),
            None => number(text).map(Self::one),
        };
        match span {
            Some(span) if span.first <= span.last && span.last - span.first < 1000 => Ok(span),
            _ => Err("expected a seed or a span of at most 1000, for example 0-9".to_owned()),
        }
    }
}

impl Display for SeedSpan {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        if self.first == self.last { write!(f, "{}", self.first) } else { write!(f, "{}-{}", self.first, self.last) }
    }
}

impl Serialize for SeedSpan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Seeds of the protocol.
pub(crate) const SEEDS: [SeedSpan; 3] = [SeedSpan::one(0), SeedSpan::one(1), SeedSpan::one(2)];

#[derive(Debug, Clone, Args, Serialize)]
#[command(next_help_heading = "Training")]
pub(crate) struct Seeds {
    /// One repetition per seed: it decides the split, the start and the order of training
    #[arg(long, value_name = "N,N-M", value_delimiter = ',', default_values_t = SEEDS)]
    seeds: Vec<SeedSpan>,
}

impl Seeds {
    pub(crate) fn list(&self) -> Vec<u64> {
        SeedSpan::seeds(&self.seeds)
    }
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Uncertainty")]
pub(crate) struct Spread {
    /// How the variance of the latent state passes the decoder, where no calibration says it
    #[arg(long, value_parser = one_of::<Uncertainty>(), default_value = "sampled")]
    uncertainty: Uncertainty,
    /// States drawn, where no calibration says it
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u64).range(2..=4096))]
    draws: u64,
}

impl Spread {
    pub(crate) fn uncertainty(&self) -> Uncertainty {
        match self.uncertainty {
            Uncertainty::Sampled { .. } => Uncertainty::Sampled { draws: self.draws as usize },
            Uncertainty::Linearised => Uncertainty::Linearised,
        }
    }
}

/// Values, each with its name as typed and what it means.
pub(crate) type Choices<T> = &'static [(T, &'static str, &'static str)];

/// A closed choice.
pub(crate) trait Choice: Copy + PartialEq + Send + Sync + 'static {
    const CHOICES: Choices<Self>;

    /// As typed and printed.
    fn typed(self) -> &'static str {
        Self::CHOICES.iter().find(|(value, ..)| *value == self).map_or("", |(_, name, _)| name)
    }
}

/// An option that has a name for `None`. Under this name clap takes it as a value like any other.
pub(crate) type Maybe<T> = Option<T>;

/// Parses a choice; help and completions list its values.
pub(crate) fn one_of<T: Choice>() -> impl TypedValueParser<Value = T> {
    let values = T::CHOICES.iter().map(|(_, name, help)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(values).map(|typed| {
        let chosen = T::CHOICES.iter().find(|(_, name, _)| *name == typed);
        chosen.expect("only these values pass the parser").0
    })
}

impl Choice for Pooling {
    const CHOICES: Choices<Self> = &[
        (Self::Mean, "mean", "Mean of the control over time: d numbers"),
        (Self::MeanStd, "mean-std", "Mean and standard deviation: 2 d numbers"),
        (Self::MeanMovement, "mean-movement", "Mean, and how far and how fast the control moves: 3 d numbers"),
        (Self::Covariance, "covariance", "Covariance over time, with the diagonal: d (d + 1) / 2 numbers"),
        (Self::Correlation, "correlation", "Fisher-transformed correlation over time: d (d - 1) / 2 numbers"),
        (Self::LogCovariance, "log-covariance", "Logarithm of the shrunk covariance: d (d + 1) / 2 numbers"),
        (Self::Tangent, "tangent", "The same minus its mean over training people (probe only)"),
        (
            Self::Regions,
            "regions",
            "Correlation of the regions that are read out of the control: N (N - 1) / 2 numbers",
        ),
        (Self::Coupling, "coupling", "Correlation of measured regions with those read out of the control: N N numbers"),
    ];
}

impl Choice for HeadKind {
    const CHOICES: Choices<Self> = &[
        (Self::Linear, "linear", "One linear layer trained by Adam: the protocol"),
        (Self::Attention, "attention", "A learned query over the frames, then a linear layer"),
        (Self::Ridge, "ridge", "Ridge or logistic regression in closed form, penalty by cross-validation (probe only)"),
    ];
}

impl Choice for Uncertainty {
    const CHOICES: Choices<Self> = &[
        (Self::Sampled { draws: 0 }, "sampled", "States are drawn and decoded"),
        (Self::Linearised, "linearised", "The decoder is taken as linear around the mean state"),
    ];
}

impl Choice for FitOn {
    const CHOICES: Choices<Self> = &[
        (Self::Train, "train", "Training people, as methods have that select by validation people"),
        (Self::TrainAndValidation, "train-and-validation", "Training and validation people"),
    ];
}

impl Choice for Format {
    const CHOICES: Choices<Self> = &[
        (
            Self::AbidePcp,
            "abide-pcp",
            "ABIDE or ADHD-200 series of the Preprocessed Connectomes Project and their table",
        ),
        (Self::Bids, "bids", "Derivatives of fMRIPrep, XCP-D or giga_connectome"),
        (Self::Cifti, "cifti", "CIFTI series: .dtseries.nii with a .dlabel.nii atlas, or .ptseries.nii"),
        (Self::Nifti, "nifti", "Volume images with a label image as atlas"),
        (Self::Series, "series", "One table per scan: TSV, CSV, .1D, .txt, .npy, .npz, .mat, .h5"),
    ];
}

impl Choice for Option<Regression> {
    const CHOICES: Choices<Self> = &[
        (None, "none", "Nothing is regressed out"),
        (Some(Regression::Simple), "simple", "Cosines, 24 motion parameters, white matter and fluid"),
        (Some(Regression::Scrubbing), "scrubbing", "The same with all terms of white matter and fluid, and scrubbing"),
        (Some(Regression::Compcor), "compcor", "Cosines, 24 motion parameters, anatomical CompCor"),
        (Some(Regression::IcaAroma), "ica_aroma", "White matter and fluid, on images cleaned by ICA-AROMA"),
        (Some(Regression::ThirtySix), "36p", "Motion, white matter, fluid and global signal with all terms"),
    ];
}

impl Choice for Expansion {
    const CHOICES: Choices<Self> = &[
        (Self::Basic, "basic", "The signal alone"),
        (Self::Power2, "power2", "And its square"),
        (Self::Derivatives, "derivatives", "And its first difference"),
        (Self::Full, "full", "And the difference and the squares of both"),
    ];
}

impl Choice for Preset {
    const CHOICES: Choices<Self> = &[
        (Self::Default, "default", "BDO with settings chosen on validation people"),
        (Self::Paper, "paper", "BDO with the values of its paper"),
        (Self::BrainLm, "brainlm", "BrainLM as trained by its public code"),
        (Self::BrainJepa, "brainjepa", "Brain-JEPA as trained by its public code"),
    ];
}

impl Choice for Size {
    const CHOICES: Choices<Self> =
        &[(Self::Tiny, "tiny", "Width 192"), (Self::Small, "small", "Width 384"), (Self::Base, "base", "Width 768")];
}

impl Choice for Option<Precision> {
    const CHOICES: Choices<Self> = &[
        (None, "fastest", "bf16 where the processor has tiles for it, else f32"),
        (Some(Precision::F32), "f32", "Single precision"),
        (Some(Precision::Bf16), "bf16", "Operands rounded to bfloat16, sums in f32"),
    ];
}

/// Serialises a choice as it is typed.
pub(crate) fn as_typed<T: Choice, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value.typed())
}

/// What every verb takes and results depend on.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct General {
    pub(crate) seed: u64,
    pub(crate) device: DeviceChoice,
}

/// The command line that repeats a request: its verb and every argument that is not at its default.
pub(crate) fn command_line<T: Args + Serialize>(verb: &str, request: &T, General { seed, device }: General) -> String {
    let given = serde_json::to_value(request).expect("a request is paths, words and numbers");
    let mut line = format!("bdo {verb}");
    for arg in T::augment_args(Command::new("bdo")).get_arguments() {
        let words = value_of(&given, arg.get_id().as_str()).map_or_else(Vec::new, words);
        let default: Vec<String> = arg.get_default_values().iter().map(|v| v.to_string_lossy().into_owned()).collect();
        if words.is_empty() || words == default {
            continue;
        }
        let flag = arg.get_long().map(|long| format!("--{long} ")).unwrap_or_default();
        match (arg.get_action(), arg.get_value_delimiter()) {
            (ArgAction::SetTrue, _) => line += &format!(" {}", flag.trim_end()),
            (_, Some(_)) => line += &format!(" {flag}{}", quoted(&words.join(","))),
            _ => words.iter().for_each(|word| line += &format!(" {flag}{}", quoted(word))),
        }
    }
    if seed != 0 {
        line += &format!(" --seed {seed}");
    }
    if device == DeviceChoice::CPU { line } else { format!("{line} --device {device}") }
}

/// The request that words make, everything else at its default.
pub(crate) fn parsed<T: Args>(words: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> T {
    let command = T::augment_args(Command::new("bdo").no_binary_name(true));
    let parsed = command.try_get_matches_from(words).and_then(|matches| T::from_arg_matches(&matches));
    parsed.expect("words of our own are a request")
}

/// The value of an argument by its name, which may be in a group.
fn value_of<'a>(given: &'a Value, name: &str) -> Option<&'a Value> {
    let given = given.as_object()?;
    given.get(name).or_else(|| given.values().find_map(|group| value_of(group, name)))
}

/// The values of an argument as they are typed; none where it is left out.
fn words(value: &Value) -> Vec<String> {
    match value {
        Value::Null | Value::Bool(false) => vec![],
        Value::Array(values) => values.iter().flat_map(words).collect(),
        Value::String(text) => vec![text.clone()],
        // As Rust prints it: 15.0 is typed as 15.
        Value::Number(number) if number.is_f64() => vec![number.as_f64().unwrap_or(f64::NAN).to_string()],
        other => vec![other.to_string()],
    }
}

/// A word as a shell takes it.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:@%,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

pub(crate) fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if n > 0 && n <= 1_000_000 => Ok(n),
        _ => Err("expected a number from 1 to 1000000".to_owned()),
    }
}

pub(crate) fn above_zero(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if x > 0.0 && x.is_finite() => Ok(x),
        _ => Err("expected a number above 0".to_owned()),
    }
}

/// Part I of N of the work, or that of this task of a Slurm array.
pub(crate) fn shard(text: &str) -> Result<Shard, String> {
    if text == "auto" { Shard::of_slurm(|name| std::env::var(name).ok()) } else { text.parse() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_numbers_and_spans() {
        let spans: Vec<SeedSpan> = ["7", "0-3", "2"].iter().filter_map(|text| text.parse().ok()).collect();
        assert_eq!(SeedSpan::seeds(&spans), [7, 0, 1, 2, 3, 2]);
        assert_eq!(spans.iter().map(ToString::to_string).collect::<Vec<_>>(), ["7", "0-3", "2"]);
        for wrong in ["", "-1", "3-1", "a-b", "0-5000"] {
            assert!(wrong.parse::<SeedSpan>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("run/model"), "run/model");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's; rm -rf /"), r"'it'\''s; rm -rf /'");
    }
}
