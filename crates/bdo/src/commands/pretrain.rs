//! `bdo pretrain`: a cohort into a model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bdo_data::cohort::Cohort;
use bdo_data::division::Split;
use bdo_data::durable;
use bdo_data::record::{RunRecord, is_run};
use bdo_model::frozen::FrozenModel;
use bdo_model::intake::Timing;
use bdo_report::kind::Kind as PageKind;
use bdo_train::folder::settings_of;
use bdo_train::ranks::{Alone, Ranks};
use bdo_train::run::{Request, Summary, pretrain};
use bdo_train::settings::{Kind, Settings};
use burn::tensor::Device;
use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::evaluate::{People, Trained};
use super::peak_rss_mib;
use super::report::leave_page;
use crate::answer::{Answer, note};
use crate::args::{Configuration, Data, General, command_line};
use crate::cli::Common;
use crate::job::RankArgs;
use crate::progress::Progress;

/// Most validation scans on which a model is compared with others at its end.
const LOOKED_AT: usize = 32;

/// Train a model on a cohort, without labels
#[derive(Debug, Args, Serialize)]
#[command(
    after_help = "Examples:\n  bdo pretrain --data cohort --out run --max-minutes 15\n  bdo pretrain --data cohort --out run --resume\n  mpirun -n 4 bdo pretrain --data cohort --out run"
)]
pub(crate) struct PretrainArgs {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) cohort: Data,
    /// The run folder to make; RUN/model is the model
    #[arg(long, value_name = "RUN", help_heading = "Output")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) configuration: Configuration,
    /// Choose the number of epochs so that the run ends within this time
    #[arg(long, value_name = "M", help_heading = "Training")]
    pub(crate) max_minutes: Option<f64>,
    /// Go on with the run that is there
    #[arg(long, help_heading = "Training")]
    pub(crate) resume: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) ranks: RankArgs,
}

impl PretrainArgs {
    pub(crate) fn command(&self, general: General) -> String {
        command_line("pretrain", self, general)
    }
}

pub(crate) fn run(args: &PretrainArgs, common: &Common) -> anyhow::Result<Answer> {
    bdo_kernels::allocator::tune_allocator();
    args.ranks.train(common, |common, ranks| train(args, common, ranks))
}

fn train(args: &PretrainArgs, common: &Common, ranks: &dyn Ranks) -> anyhow::Result<Answer> {
    let request = Request {
        data: args.cohort.data.clone(),
        out: args.out.clone(),
        settings: settings(args, common)?,
        seed: common.seed,
        resume: args.resume,
        people: None,
        device: common.place()?,
    };
    if kind(&request)? != Kind::Bdo {
        return tokens(&request, common, ranks);
    }
    let summary = Progress::during("pretrain", 0, common, |progress| pretrain(&request, ranks, progress))?;
    let validation = summary.validation.as_ref();
    let json = json!({
        "run": args.out, "model": summary.model, "steps": summary.steps, "skipped_steps": summary.skipped,
        "epochs": summary.plan.total_steps as f64 / summary.plan.steps_per_epoch as f64,
        "train_scans": summary.train_scans, "validation": validation, "readout": summary.readout,
        "seconds": summary.seconds,
        "peak_rss_mib": peak_rss_mib(),
    });
    let found = validation.map_or_else(String::new, |v| {
        format!(
            "\nMasked frames of {} unseen scans: mean squared error {:.4}, predicting the mean costs {:.4}",
            v.scans,
            v.measures.get("mse"),
            v.measures.get("mean_square")
        )
    });
    let readout = summary.readout.as_ref().map_or_else(String::new, |readout| {
        format!(
            "\n{:.0} % of the variance of regions can be read out of the control, which moves in {:.1} directions",
            100.0 * readout.explained,
            readout.directions
        )
    });
    let work = work_done(&summary);
    let mut text = format!("{work}, {} skipped{found}{readout}", summary.skipped);
    if ranks.is_first() {
        match learned(&summary.model, &args.cohort.data, common.seed, &request.device) {
            Ok(Some(learned)) => {
                text += &learned.said();
                durable::write_json(&args.out.join("learned.json"), &learned)?;
            }
            Ok(None) => {}
            // The model is there; what it is worth can be asked for again.
            Err(error) => note(common, &format!("the model was not compared with kriging: {error:#}")),
        }
        leave_page(&args.out, PageKind::Run, None, common);
    }
    Ok(Answer::new(json, text))
}

/// Errors at hidden frames of validation people.
#[derive(Serialize)]
struct Learned {
    scans: usize,
    mask_ratio: f64,
    model: f64,
    kriging: f64,
    untrained: f64,
}

impl Learned {
    fn said(&self) -> String {
        let Self { scans, model, kriging, untrained, .. } = self;
        format!(
            "\nHidden frames of {scans} validation scans, as bdo evaluate scores them: model {model:.4}, kriging {kriging:.4}, the same network untrained {untrained:.4}"
        )
    }
}

/// What a model learned, beside what needs no training; `None` where nobody validated.
fn learned(model: &Path, data: &Path, seed: u64, device: &Device) -> anyhow::Result<Option<Learned>> {
    let (trained, cohort) = (Trained::open(model, device)?, Cohort::open(data)?);
    let scans = trained.scans_of(People::Validation, &cohort);
    let scans: Vec<usize> = scans.iter().copied().step_by(scans.len().div_ceil(LOOKED_AT).max(1)).collect();
    if scans.is_empty() {
        return Ok(None);
    }
    let mask = trained.notes.mask.at_ratio(trained.notes.mask.ratio);
    let errors = |of: &Trained| -> anyhow::Result<BTreeMap<&'static str, f64>> {
        let result = of.score(&cohort, &scans, &mask, Timing::AsScanned, seed)?;
        Ok(result.scores.iter().map(|(name, score)| (*name, score.mse)).collect())
    };
    let (found, untrained) = (errors(&trained)?, errors(&trained.untrained()?)?);
    Ok(Some(Learned {
        scans: scans.len(),
        mask_ratio: mask.ratio,
        model: found["model"],
        kriging: found["kriging"],
        untrained: untrained["model"],
    }))
}

/// The model of a run that ended as it was asked for, or is trained to its end now. A run that the clock ended has steps left,
/// which a second look must not take: other weights would be other results.
pub(crate) fn trained_model(
    data: &Path,
    out: &Path,
    settings: Settings,
    seed: u64,
    people: Option<Split>,
    common: &Common,
) -> anyhow::Result<PathBuf> {
    let model = out.join("model");
    let same = || RunRecord::read(out).and_then(|record| settings_of(&record)).is_ok_and(|found| found == settings);
    // A finished pre-training has a readout.
    if FrozenModel::read(&model).is_ok_and(|model| model.readout.is_some()) && same() {
        return Ok(model);
    }
    let (data, out, resume) = (data.to_path_buf(), out.to_path_buf(), out.exists());
    let request = Request { data, out, settings: Some(settings), seed, resume, people, device: common.place()? };
    bdo_kernels::allocator::tune_allocator();
    Ok(Progress::during("pretrain", 0, common, |progress| pretrain(&request, &Alone, progress))?.model)
}

/// The method that is trained: what is asked for, or that of the run that is resumed.
fn kind(request: &Request) -> anyhow::Result<Kind> {
    Ok(match &request.settings {
        Some(settings) => settings.method.kind,
        None if is_run(&request.out) => settings_of(&RunRecord::read(&request.out)?)?.method.kind,
        None => Kind::Bdo,
    })
}

/// The same for BrainLM and Brain-JEPA.
fn tokens(request: &Request, common: &Common, ranks: &dyn Ranks) -> anyhow::Result<Answer> {
    let train = bdo_baselines::pretrain::run::pretrain;
    let summary = Progress::during("pretrain", 0, common, |progress| train(request, ranks, progress))?;
    let json = json!({
        "run": request.out, "model": summary.model, "steps": summary.steps,
        "epochs": summary.plan.total_steps as f64 / summary.plan.steps_per_epoch as f64,
        "train_scans": summary.train_scans, "loss": summary.loss, "notes": summary.notes,
        "seconds": summary.seconds, "peak_rss_mib": peak_rss_mib(),
    });
    let loss = summary.loss.map_or_else(String::new, |loss| format!(", loss {loss:.4}"));
    let work = work_done(&summary);
    Ok(Answer::new(json, work + &loss))
}

fn work_done(run: &Summary) -> String {
    let minutes = run.seconds / 60.0;
    format!("{}: {} steps on {} scans in {minutes:.1} min", run.model.display(), run.steps, run.train_scans)
}

/// The keys, then the flags; nothing given means the configuration of the run that is resumed.
fn settings(args: &PretrainArgs, common: &Common) -> anyhow::Result<Option<Settings>> {
    if args.resume && args.configuration == Configuration::default() && args.max_minutes.is_none() {
        return Ok(None);
    }
    let minutes: Vec<String> = args.max_minutes.iter().map(|m| format!("train.max_minutes={m:?}")).collect();
    let resolved = args.configuration.resolve(&minutes)?;
    if !resolved.unused.is_empty() {
        let kind = resolved.settings.method.kind.name();
        note(common, &format!("keys that {kind} has no use for: {}", resolved.unused.join(", ")));
    }
    Ok(Some(resolved.settings))
}
