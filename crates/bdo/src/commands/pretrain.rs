//! `bdo pretrain`: a cohort into a model.

use std::path::{Path, PathBuf};

use bdo_data::cohort::Cohort;
use bdo_data::division::Split;
use bdo_data::durable;
use bdo_data::record::{RunRecord, ValidationEntry, is_run};
use bdo_eval::memory::peak_mib;
use bdo_model::frozen::FrozenModel;
use bdo_model::intake::Timing;
use bdo_report::kind::Kind as PageKind;
use bdo_train::evaluate::RatioResult;
use bdo_train::folder::settings_of;
use bdo_train::ranks::{Alone, Ranks};
use bdo_train::run::{Request, Summary, pretrain};
use bdo_train::settings::{Kind, Settings};
use burn::tensor::Device;
use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::evaluate::{People, Trained};
use super::report::leave_page;
use crate::answer::Answer;
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
    pub(crate) cohort: Data,
    /// The run folder to make; RUN/model is the model
    #[arg(long, value_name = "RUN", help_heading = "Output")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) configuration: Configuration,
    /// Choose the number of epochs so that the run ends within this time
    #[arg(long, value_name = "M", help_heading = "Training")]
    pub(crate) max_minutes: Option<f64>,
    /// Go on with the run that is there
    #[arg(long, help_heading = "Training")]
    pub(crate) resume: bool,
    #[command(flatten)]
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
    let kind = kind(&request)?;
    let progress = Progress::start("pretrain", 0, common)?;
    let summary = match kind {
        Kind::Bdo => pretrain(&request, ranks, &progress)?,
        _ => bdo_baselines::pretrain::run::pretrain(&request, ranks, &progress)?,
    };
    drop(progress);
    let Summary { model, steps, train_scans, validation, readout, loss, seconds, .. } = &summary;
    let json = json!({
        "run": args.out, "model": model, "steps": steps, "skipped_steps": summary.skipped,
        "epochs": summary.plan.epochs(), "train_scans": train_scans, "validation": validation, "readout": readout,
        "loss": loss, "notes": summary.notes, "seconds": seconds, "peak_rss_mib": peak_mib(),
    });
    let mut text = format!("{}: {steps} steps on {train_scans} scans in {:.1} min", model.display(), seconds / 60.0);
    if kind != Kind::Bdo {
        text += &loss.map_or_else(String::new, |loss| format!(", loss {loss:.4}"));
        return Ok(Answer::new(json, text));
    }
    text += &format!(", {} skipped", summary.skipped);
    if let Some(ValidationEntry { scans, measures, .. }) = validation {
        text += &format!(
            "\nMasked frames of {scans} unseen scans: mean squared error {:.4}, predicting the mean costs {:.4}",
            measures.get("mse"),
            measures.get("mean_square")
        );
    }
    if let Some(readout) = readout {
        text += &format!(
            "\n{:.0} % of the variance of regions can be read out of the control, which moves in {:.1} directions",
            100.0 * readout.explained,
            readout.directions
        );
    }
    if ranks.is_first() {
        match learned(model, &args.cohort.data, common.seed, &request.device) {
            Ok(Some(learned)) => {
                text += &learned.said();
                durable::write_json(&args.out.join("learned.json"), &learned)?;
            }
            Ok(None) => {}
            // The model is there; what it is worth can be asked for again.
            Err(error) => common.note(format!("the model was not compared with kriging: {error:#}")),
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
    let score = |of: &Trained| of.score(&cohort, &scans, &mask, Timing::AsScanned, seed);
    let (found, untrained) = (score(&trained)?, score(&trained.untrained()?)?);
    let mse = |of: &RatioResult, name: &str| of.score(name).map_or(f64::NAN, |score| score.mse);
    Ok(Some(Learned {
        scans: scans.len(),
        mask_ratio: mask.ratio,
        model: mse(&found, "model"),
        kriging: mse(&found, "kriging"),
        untrained: mse(&untrained, "model"),
    }))
}

/// The model of a run that ended as it was asked for, or is trained to its end now. A run that the clock ended has steps left,
/// which a second look must not take: other weights would be other results.
pub(crate) fn trained_model(request: &Request, common: &Common) -> anyhow::Result<PathBuf> {
    let model = request.out.join("model");
    let found = || RunRecord::read(&request.out).and_then(|record| settings_of(&record)).ok();
    // A finished pre-training has a readout.
    if FrozenModel::read(&model).is_ok_and(|model| model.readout.is_some()) && found() == request.settings {
        return Ok(model);
    }
    bdo_kernels::allocator::tune_allocator();
    Ok(pretrain(request, &Alone, &Progress::start("pretrain", 0, common)?)?.model)
}

/// A run that begins, or goes on where there is one.
pub(crate) fn continued(
    data: &Path,
    out: &Path,
    settings: Settings,
    seed: u64,
    people: Option<Split>,
    common: &Common,
) -> anyhow::Result<Request> {
    let (data, out, resume, settings) = (data.to_path_buf(), out.to_path_buf(), out.exists(), Some(settings));
    Ok(Request { data, out, settings, seed, resume, people, device: common.place()? })
}

/// The method that is trained: what is asked for, or that of the run that is resumed.
fn kind(request: &Request) -> anyhow::Result<Kind> {
    Ok(match &request.settings {
        Some(settings) => settings.method.kind,
        None if is_run(&request.out) => settings_of(&RunRecord::read(&request.out)?)?.method.kind,
        None => Kind::Bdo,
    })
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
        common.note(format!("keys that {kind} has no use for: {}", resolved.unused.join(", ")));
    }
    Ok(Some(resolved.settings))
}
