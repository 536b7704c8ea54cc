//! `bdo evaluate`: masked reconstruction beside simple predictors.

use std::path::Path;

use anyhow::{Context, bail};
use bdo_data::cohort::Cohort;
use bdo_data::shard::Shard;
use bdo_eval::resample::{PairedErrors, paired_errors};
use bdo_model::init::initial_parameters;
use bdo_model::intake::{MaskSettings, Timing};
use bdo_model::model::Bdo;
use bdo_model::weights::{ModelDirectory, PreprocessorConfig, TrainingNotes, TrainingPeople};
use bdo_train::evaluate::{Evaluation, Predictor, RatioResult};
use bdo_train::settings::PrecisionName;
use burn::tensor::Device;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::predict::note_namesakes;
use crate::answer::Answer;
use crate::args::{ModelAndData, shard};
use crate::cli::Common;

/// Score a model on masked frames of people it has not seen, beside simple predictors
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  bdo evaluate --model run/model --data cohort --mask-ratio 0.5 --mask-ratio 0.75 --other-timings"
)]
pub(crate) struct EvaluateArgs {
    #[command(flatten)]
    from: ModelAndData,
    #[command(flatten)]
    scoring: Scoring,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Scoring")]
struct Scoring {
    /// Whom to score
    #[arg(long, value_enum, default_value_t = People::Test)]
    people: People,
    /// Share of hidden frames; may be given several times [default: that of the training]
    #[arg(long, value_name = "R")]
    mask_ratio: Vec<f64>,
    /// Draw frames from a stretch of this many times as many frames, 0 for the whole scan [default: that of the training]
    #[arg(long, value_name = "K")]
    stretch: Option<f64>,
    /// Frames drawn per visit [default: that of the training]
    #[arg(long, value_name = "N")]
    frames: Option<usize>,
    /// Only part I of N of those scans; auto for the task of a Slurm array
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<Shard>,
    /// Also with frames left out: every second one, one of two at random, 30 % dropped
    #[arg(long)]
    other_timings: bool,
}

/// Whose scans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum People {
    /// Neither trained on nor validated on
    Test,
    /// Those the run was validated on
    Validation,
    /// Everybody the model was not trained on
    Unseen,
    /// Everybody, training people too
    All,
}

impl People {
    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

pub(crate) fn run(EvaluateArgs { from, scoring: args }: &EvaluateArgs, common: &Common) -> anyhow::Result<Answer> {
    let mut trained = Trained::open(&from.model, &common.place()?)?;
    from.same.trusting().apply(&mut trained.people, &mut trained.contract);
    let notes = &trained.notes;
    let cohort = Cohort::open(&from.cohort.data)?;
    let mut scans = trained.scans_of(args.people, &cohort);
    if let Some(shard) = args.shard {
        scans = scans[shard.range(scans.len())].to_vec();
    }
    let known = trained.people.known_in(&cohort);
    note_namesakes(known.namesakes, common);
    if scans.is_empty() {
        bail!(
            "{}: expected scans of {} people, found none; hint: --people unseen takes everybody the model was not trained on",
            from.cohort.data.display(),
            args.people.name()
        );
    }
    if scans.len() < cohort.len() {
        let left_out = cohort.len() - scans.len();
        let trained_on = cohort.index().iter().filter(|entry| known.is_trained(&entry.id.subject)).count();
        common.note(format!(
            "{} of {} scans are scored, those of {} people; of the {left_out} others {trained_on} were trained on",
            scans.len(),
            cohort.len(),
            args.people.name()
        ));
    }
    let ratios = if args.mask_ratio.is_empty() { vec![notes.mask.ratio] } else { args.mask_ratio.clone() };
    let timings: &[Timing] = if args.other_timings { &Timing::OTHERS } else { &[] };
    let mut results = Vec::new();
    let mut text = String::new();
    for ratio in ratios {
        if !(0.0..1.0).contains(&ratio) {
            bail!("--mask-ratio: expected at least 0 and below 1, found {ratio}");
        }
        let mask = MaskSettings {
            frames: args.frames.unwrap_or(notes.mask.frames),
            stretch: args.stretch.unwrap_or(notes.mask.stretch),
            ..notes.mask.at_ratio(ratio)
        };
        for timing in std::iter::once(Timing::AsScanned).chain(timings.iter().copied()) {
            let result = trained.score(&cohort, &scans, &mask, timing, common.seed)?;
            let against = against_kriging(&result, &cohort);
            text += &said(&result, timing, against);
            let scores: serde_json::Map<String, serde_json::Value> =
                result.scores.iter().map(|(name, score)| ((*name).to_owned(), json!(score))).collect();
            results.push(json!({"mask_ratio": ratio, "timing": timing.name(), "frames": mask.frames,
                                "stretch": mask.stretch, "scans": result.scans.len(), "against_kriging": against,
                                "mean_square": result.mean_square, "loss": result.loss, "scores": scores}));
        }
    }
    let regions = &trained.contract.roi_names;
    let json = json!({"model": from.model, "data": from.cohort.data, "regions": regions, "shard": args.shard, "results": results});
    Ok(Answer::new(json, text))
}

/// A model directory with what its training left for evaluation.
pub(crate) struct Trained {
    pub(crate) notes: TrainingNotes,
    model: Bdo,
    contract: PreprocessorConfig,
    people: TrainingPeople,
}

impl Trained {
    pub(crate) fn open(folder: &Path, device: &Device) -> anyhow::Result<Self> {
        let directory = ModelDirectory::read(folder)?;
        let notes = directory
            .notes
            .with_context(|| format!("{}: expected training.json, which kriging needs", folder.display()))?;
        let kernels = PrecisionName::Auto.kernels(device);
        let model = Bdo::from_parameters(&directory.config, directory.parameters, kernels, device)?;
        Ok(Self { notes, model, contract: directory.preprocessor, people: directory.people })
    }

    /// The same network before its first step.
    pub(crate) fn untrained(&self) -> anyhow::Result<Self> {
        let config = self.model.config();
        let (device, parameters) = (self.model.device(), initial_parameters(config, self.notes.seed));
        let model = Bdo::from_parameters(config, parameters, PrecisionName::Auto.kernels(&device), &device)?;
        let (notes, contract, people) = (self.notes.clone(), self.contract.clone(), self.people.clone());
        Ok(Self { notes, model, contract, people })
    }

    /// The scans of the people that are asked for.
    pub(crate) fn scans_of(&self, people: People, cohort: &Cohort) -> Vec<usize> {
        scans_of(people, &self.people, Some(&self.notes), cohort)
    }

    pub(crate) fn score(
        &self,
        cohort: &Cohort,
        scans: &[usize],
        mask: &MaskSettings,
        timing: Timing,
        seed: u64,
    ) -> anyhow::Result<RatioResult> {
        let evaluation = Evaluation {
            model: &self.model,
            contract: &self.contract,
            autocorrelation: &self.notes.autocorrelation,
            cohort,
            scans,
            seed,
            timing,
        };
        Ok(evaluation.run(mask)?)
    }
}

/// The scans of people as a model knows them. A model without notes has no validation people.
pub(crate) fn scans_of(
    wanted: People,
    trained: &TrainingPeople,
    notes: Option<&TrainingNotes>,
    cohort: &Cohort,
) -> Vec<usize> {
    let known = trained.known_in(cohort);
    let is_trained = |subject: &str| known.is_trained(subject);
    let is_validated = |subject: &str| notes.is_some_and(|notes| known.is_listed(&notes.validation_people, subject));
    let is_wanted = |subject: &str| match wanted {
        People::Test => !is_trained(subject) && !is_validated(subject),
        People::Validation => is_validated(subject),
        People::Unseen => !is_trained(subject),
        People::All => true,
    };
    let index = cohort.index();
    (0..cohort.len()).filter(|&i| index[i].frames >= 2 && is_wanted(&index[i].id.subject)).collect()
}

/// The model's errors less those of kriging, over the people of the scored scans.
fn against_kriging(result: &RatioResult, cohort: &Cohort) -> Option<PairedErrors> {
    let people: Vec<&str> = result.scans.iter().map(|&i| cohort.index()[i].id.subject.as_str()).collect();
    paired_errors(&people, &result.score("model")?.relative, &result.score(Predictor::Kriging.name())?.relative)
}

fn said(result: &RatioResult, timing: Timing, against_kriging: Option<PairedErrors>) -> String {
    let RatioResult { mask_ratio, scans, mean_square, loss, scores } = result;
    let (timing, scans) = (timing.name(), scans.len());
    let mut text = format!("mask ratio {mask_ratio}, {timing}, {scans} scans, mean square {mean_square:.4}\n");
    text += &format!(
        "  loss {:.4} = reconstruction {:.4} + latent {:.4} + energy {:.4}\n",
        loss.total,
        loss.term("reconstruction"),
        loss.term("latent"),
        loss.term("energy")
    );
    for (name, score) in scores {
        text += &format!("  {name:<14} mse {:.4}   rho {:.4}\n", score.mse, score.rho);
    }
    if let Some(found) = against_kriging {
        text += &format!("  model less kriging, as a share of each scan's variance: {found}\n");
    }
    text
}
