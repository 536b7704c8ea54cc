//! `bdo infer`: the posterior put to work.

mod answer;
mod calibrate;
mod check;
mod conformal;
mod scores;

pub(crate) use conformal::read as read_conformal;

use std::path::Path;

use anyhow::{Context, bail};
use bdo_data::cohort::Cohort;
use bdo_data::ingest::{self, Format, IngestOptions};
use bdo_eval::folder::WorkFolder;
use bdo_eval::infer::calibration::Calibration;
use bdo_model::frozen::FrozenModel;
use bdo_model::intake::Intake;
use bdo_model::posterior::engine::Engine;
use bdo_model::posterior::spread::Uncertainty;
use bdo_model::weights::{TrainingNotes, read_notes};
use serde_json::json;

use super::evaluate::scans_of;
use super::note;
use crate::Outcome;
use crate::cli::Common;
use crate::infer_args::{Asked, InferVerb, UncertaintyName};
use crate::progress::Progress;
use crate::training_args::People;

pub(crate) fn run(verb: &InferVerb, common: &Common) -> anyhow::Result<Outcome> {
    bdo_kernels::allocator::tune_allocator();
    match verb {
        InferVerb::Calibrate(args) => calibrate::run(args, common),
        InferVerb::Reconstruct(args) => answer::reconstruct(args, common),
        InferVerb::Impute(args) if args.missing.is_empty() => answer::impute(args, common),
        InferVerb::Impute(args) => scores::impute(args, common),
        InferVerb::Forecast(args) if args.score => scores::forecast(args, common),
        InferVerb::Forecast(args) => answer::forecast(args, common),
        InferVerb::Trajectory(args) => answer::trajectory(args, common),
        InferVerb::Check(args) => check::run(args, common),
        InferVerb::Conformal(args) => conformal::run(args, common),
    }
}

fn uncertainty(name: UncertaintyName, draws: u64) -> Uncertainty {
    match name {
        UncertaintyName::Sampled => Uncertainty::Sampled { draws: draws as usize },
        UncertaintyName::Linearised => Uncertainty::Linearised,
    }
}

/// What every kind of inference begins with.
struct Setup {
    frozen: FrozenModel,
    notes: Option<TrainingNotes>,
    cohort: Cohort,
    scans: Vec<usize>,
    intake: Intake,
    folder: WorkFolder,
    /// Bands, where they could be had.
    calibration: Option<Calibration>,
    uncertainty: Uncertainty,
}

impl Setup {
    fn new(asked: &Asked, verb: &str, details: &serde_json::Value, common: &Common) -> anyhow::Result<Self> {
        let frozen = FrozenModel::read(&asked.model)?;
        let notes = read_notes(&asked.model);
        let request = json!({
            "verb": verb, "model_blake3": frozen.blake3, "data": asked.data, "people": format!("{:?}", asked.people),
            "calibration": asked.calibration, "uncertainty": uncertainty(asked.uncertainty, asked.draws),
            "seed": common.seed, "details": details,
        });
        // What can be refused is refused before anything is made.
        let given = match &asked.calibration {
            Some(path) => Some(Calibration::read(path, &frozen.blake3, frozen.contract.roi_names.len())?),
            None => None,
        };
        if asked.data.is_dir() {
            Intake::new(&frozen.contract, &Cohort::open(&asked.data)?)?;
        }
        let folder = WorkFolder::open(&asked.out, &request)?;
        let cohort = open_data(asked, folder.path(), common)?;
        let intake = Intake::new(&frozen.contract, &cohort)?;
        let scans = scans_of(asked.people, &frozen.people, notes.as_ref(), &cohort);
        if scans.is_empty() {
            bail!(
                "{}: expected scans of {} people, found none; --people all takes everybody",
                asked.data.display(),
                format!("{:?}", asked.people).to_lowercase()
            );
        }
        let mut uncertainty = uncertainty(asked.uncertainty, asked.draws);
        let calibration = match (given, &notes) {
            (Some(calibration), _) => Some(calibration),
            (None, Some(notes)) if calibrate::has_people(&frozen, notes, &cohort) => {
                note(common, "bands are fitted on the model's validation people, who are in this cohort");
                Some(calibrate::fit(&frozen, notes, &cohort, uncertainty, common)?)
            }
            _ => None,
        };
        match &calibration {
            Some(calibration) => {
                uncertainty = calibration.uncertainty;
                calibration.write(&folder.join("calibration.json"))?;
            }
            None => note(
                common,
                "no calibration: spreads are those of the latent state alone, far too narrow; see bdo infer calibrate",
            ),
        }
        Ok(Self { frozen, notes, cohort, scans, intake, folder, calibration, uncertainty })
    }

    fn engine(&self) -> Engine<'_> {
        Engine::new(&self.frozen)
    }

    /// What scoring needs, or why it cannot be done.
    fn scoring(&self) -> anyhow::Result<(&TrainingNotes, &Calibration)> {
        let notes = self.notes.as_ref().context("expected a model with training.json, which kriging needs")?;
        let calibration = self
            .calibration
            .as_ref()
            .context("expected --calibration FILE, or a cohort with the model's validation people to fit one on")?;
        Ok((notes, calibration))
    }

    /// The scans that are scored: of people the bands were not fitted on either, unless others were asked for.
    fn unseen(&self, asked: People) -> Vec<usize> {
        let wanted = if asked == People::All { People::Test } else { asked };
        scans_of(wanted, &self.frozen.people, self.notes.as_ref(), &self.cohort)
    }
}

/// A cohort as it is; a single series file becomes one first.
fn open_data(asked: &Asked, out: &Path, common: &Common) -> anyhow::Result<Cohort> {
    if !asked.data.is_file() {
        return Ok(Cohort::open(&asked.data)?);
    }
    let options = IngestOptions {
        format: Some(Format::Series),
        labels: asked.labels.clone(),
        tr_seconds: asked.tr,
        ..IngestOptions::default()
    };
    let plan = ingest::plan(&asked.data, &options)?;
    for warning in &plan.warnings {
        note(common, warning);
    }
    let place = out.join("cohort");
    let progress = Progress::start("read", 1, common.quiet)?;
    let report = ingest::ingest(&plan, &place, &progress);
    progress.finish();
    if let Some(r) = report?.rejected.first() {
        bail!("{}: {}: expected {}, found {}", r.file, r.reason, r.expected, r.found);
    }
    Ok(Cohort::open(&place)?)
}
