//! `bdo infer`: questions to the posterior.

mod answer;
mod calibrate;
mod check;
mod conformal;
mod scores;

pub(crate) use conformal::read as read_conformal;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bdo_data::cohort::Cohort;
use bdo_data::durable;
use bdo_data::ingest::{self, Format, IngestOptions};
use bdo_data::shard::Shard;
use bdo_eval::folder::WorkFolder;
use bdo_eval::infer::calibration::Calibration;
use bdo_eval::infer::scan_answer::Answerer;
use bdo_eval::infer::score::Question;
use bdo_model::frozen::FrozenModel;
use bdo_model::intake::Intake;
use bdo_model::posterior::engine::Engine;
use bdo_model::posterior::spread::Uncertainty;
use bdo_model::weights::TrainingNotes;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::evaluate::{People, scans_of};
use crate::answer::Answer;
use crate::args::{HeadAndData, ModelAndData, Spread, above_zero, out_file, shard};
use crate::cli::Common;
use crate::progress::Progress;

#[derive(Debug, Subcommand)]
pub(crate) enum InferVerb {
    Calibrate(CalibrateArgs),
    Reconstruct(ReconstructArgs),
    Impute(ImputeArgs),
    Forecast(ForecastArgs),
    /// Write the latent path: mean, variance, control energy and time constants by network
    #[command(after_help = "Example:\n  bdo infer trajectory --model run/model --data cohort --out path")]
    Trajectory(Asked),
    Check(CheckArgs),
    Conformal(ConformalArgs),
}

// Shared by all answers about scans.
#[derive(Debug, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct Asked {
    #[command(flatten)]
    from: ModelAndData,
    /// Whose scans
    #[arg(long, value_enum, default_value = "all")]
    people: People,
    /// Only part I of N of those scans, for bdo merge; auto for the task of a Slurm array
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<Shard>,
    /// Repetition time, where the data are one series file instead of a cohort
    #[arg(long, value_name = "S")]
    tr: Option<f64>,
    /// Region names of a series file without a header
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// The folder to make
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: PathBuf,
    /// Leave out the tables of each scan and write only the Parquet table
    #[arg(long, help_heading = "Output")]
    no_bids: bool,
    /// Bands from `bdo infer calibrate` [default: fitted on the model's validation people if the cohort has them]
    #[arg(long, value_name = "FILE", help_heading = "Uncertainty")]
    calibration: Option<PathBuf>,
    #[command(flatten)]
    spread: Spread,
}

/// Fit observation noise, temperature and bands on validation people, and check them on test people
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bdo infer calibrate --model run/model --data cohort --out calibration.json")]
pub(crate) struct CalibrateArgs {
    #[command(flatten)]
    from: ModelAndData,
    /// The file to make
    #[arg(long, value_name = "FILE", value_parser = out_file, help_heading = "Output")]
    out: PathBuf,
    #[command(flatten)]
    spread: Spread,
}

/// Reconstruct every frame from all frames, or times between them, with standard deviations
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bdo infer reconstruct --model run/model --data cohort --out rec --calibration calibration.json\n  bdo infer reconstruct --model run/model --data cohort --out fine --every 0.5"
)]
pub(crate) struct ReconstructArgs {
    #[command(flatten)]
    asked: Asked,
    /// Also at times this far apart, between the frames
    #[arg(long, value_name = "S", value_parser = above_zero, help_heading = "Question")]
    every: Option<f64>,
}

/// Fill censored frames and regions that a scan does not cover; or hide frames and see how well they are filled
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bdo infer impute --model run/model --data cohort --out filled --fd-above 0.5\n  bdo infer impute --model run/model --data cohort --out scores --missing 0.25,0.5,0.75,0.9"
)]
pub(crate) struct ImputeArgs {
    #[command(flatten)]
    asked: Asked,
    /// Take frames with more motion than this as missing
    #[arg(long, value_name = "MM", value_parser = above_zero, help_heading = "Question")]
    fd_above: Option<f64>,
    /// Take regions with a smaller share of covered voxels as missing
    #[arg(long, value_name = "SHARE", value_parser = above_zero, help_heading = "Question")]
    coverage_below: Option<f64>,
    /// Score instead: hide these shares of the frames and fill them
    #[arg(long, value_name = "R,R,...", value_delimiter = ',', help_heading = "Question")]
    missing: Vec<f64>,
}

/// Predict frames after the last one; or hide the last frames and see how well they are forecast
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bdo infer forecast --model run/model --data cohort --out next --horizon 20\n  bdo infer forecast --model run/model --data cohort --out skill --horizon 10 --score"
)]
pub(crate) struct ForecastArgs {
    #[command(flatten)]
    asked: Asked,
    /// Frames ahead
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    #[arg(help_heading = "Question")]
    horizon: u64,
    /// Score instead: hide the last frames and forecast them
    #[arg(long, help_heading = "Question")]
    score: bool,
}

/// Check a model: other timings, a simulation of the same equation, test and retest, known truth
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bdo infer check --model run/model --data cohort --out checks")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    asked: Asked,
    /// Most scans looked at
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = "Question")]
    scans: usize,
    /// Paths of the simulation
    #[arg(long, value_name = "N", default_value_t = 200, help_heading = "Question")]
    paths: usize,
}

/// Fit intervals or sets of classes around a head's predictions that hold for new people
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  bdo probe --model run/model --data cohort --target age --seeds 0 --out age\n  bdo infer conformal --head age --data cohort --out age-90.json --level 0.9\n  bdo predict --head age --data others --conformal age-90.json --out predictions.tsv"
)]
pub(crate) struct ConformalArgs {
    #[command(flatten)]
    from: HeadAndData,
    /// The file to make
    #[arg(long, value_name = "FILE", value_parser = out_file, help_heading = "Output")]
    out: PathBuf,
    /// Wanted chance that the truth is inside
    #[arg(long, value_name = "P", default_value_t = 0.9, help_heading = "Uncertainty")]
    level: f64,
    /// Random halvings of the people over which the coverage is checked
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = "Uncertainty")]
    splits: u64,
}

pub(crate) fn run(verb: &InferVerb, common: &Common) -> anyhow::Result<Answer> {
    bdo_kernels::allocator::tune_allocator();
    match verb {
        InferVerb::Impute(ImputeArgs { asked, missing, .. }) if !missing.is_empty() => refuse_shard(asked)?,
        InferVerb::Forecast(ForecastArgs { asked, score: true, .. }) | InferVerb::Check(CheckArgs { asked, .. }) => {
            refuse_shard(asked)?;
        }
        _ => {}
    }
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

/// Scores are of all scans together.
fn refuse_shard(asked: &Asked) -> anyhow::Result<()> {
    match asked.shard {
        Some(shard) => bail!("--shard: expected an answer for each scan, which can be cut, found scores ({shard})"),
        None => Ok(()),
    }
}

/// The model, the scans and the bands of an inference.
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
    fn new(asked: &Asked, verb: &str, details: &Value, common: &Common) -> anyhow::Result<Self> {
        let frozen = asked.from.frozen(common)?;
        let notes = frozen.notes.clone();
        let mut request = json!({
            "verb": verb, "model_blake3": frozen.blake3, "data": asked.from.cohort.data, "people": format!("{:?}", asked.people), "same": asked.from.same,
            "calibration": asked.calibration, "uncertainty": asked.spread.uncertainty(),
            "seed": common.seed, "details": details,
        });
        if let Some(shard) = asked.shard {
            request["shard"] = json!(shard);
        }
        // Wrong requests are refused before a folder is made.
        let given = match &asked.calibration {
            Some(path) => Some(Calibration::read(path, &frozen.blake3, frozen.contract.roi_names.len())?),
            None => None,
        };
        if asked.from.cohort.data.is_dir() {
            Intake::new(&frozen.contract, &Cohort::open(&asked.from.cohort.data)?)?;
        }
        let folder = WorkFolder::open(&asked.out, &request)?;
        let cohort = open_data(asked, folder.path(), common)?;
        let intake = Intake::new(&frozen.contract, &cohort)?;
        let mut scans = scans_of(asked.people, &frozen.people, notes.as_ref(), &cohort);
        if scans.is_empty() {
            bail!(
                "{}: expected scans of {} people, found none; hint: --people all takes everybody",
                asked.from.cohort.data.display(),
                asked.people.name()
            );
        }
        if let Some(shard) = asked.shard {
            scans = scans[shard.range(scans.len())].to_vec();
        }
        let mut uncertainty = asked.spread.uncertainty();
        let calibration = match (given, &notes) {
            (Some(calibration), _) => Some(calibration),
            (None, Some(notes)) if calibrate::has_people(&frozen, notes, &cohort) => {
                common.note("bands are fitted on the model's validation people, who are in this cohort");
                Some(calibrate::fit(&frozen, notes, &cohort, uncertainty, common)?)
            }
            _ => None,
        };
        match &calibration {
            Some(calibration) => {
                uncertainty = calibration.uncertainty;
                calibration.write(&folder.join("calibration.json"))?;
            }
            None => common.note(
                "no calibration: spreads are those of the latent state alone, far too narrow; see bdo infer calibrate",
            ),
        }
        Ok(Self { frozen, notes, cohort, scans, intake, folder, calibration, uncertainty })
    }

    fn engine(&self) -> Engine<'_> {
        Engine::new(&self.frozen)
    }

    /// With `keep_observed`, what was measured stays as it is.
    fn answerer(&self, keep_observed: bool) -> Answerer<'_> {
        let (calibration, uncertainty) = (self.calibration.as_ref(), self.uncertainty);
        Answerer { engine: self.engine(), calibration, uncertainty, keep_observed }
    }

    /// Leaves what a verb found as files, and answers with it.
    fn keep_scores(&self, facts: Value, text: String) -> anyhow::Result<Answer> {
        self.folder.write_json("scores.json", &facts)?;
        self.folder.write_json("inference.json", &json!({"verb": facts["verb"], "scored": true}))?;
        durable::write(&self.folder.join("scores.txt"), text.as_bytes())?;
        Ok(Answer::new(facts, text))
    }

    /// Training notes and bands, which scoring needs.
    fn scoring(&self) -> anyhow::Result<(&TrainingNotes, &Calibration)> {
        let notes = self.notes.as_ref().context("expected a model with training.json, which kriging needs")?;
        let calibration = self
            .calibration
            .as_ref()
            .context("expected --calibration FILE, or a cohort with the model's validation people to fit one on")?;
        Ok((notes, calibration))
    }

    fn question<'a>(&'a self, engine: &'a Engine<'a>, scans: &'a [usize], seed: u64) -> anyhow::Result<Question<'a>> {
        let (notes, calibration) = self.scoring()?;
        let correlation = &notes.autocorrelation;
        Ok(Question { engine, calibration, correlation, cohort: &self.cohort, scans, seed })
    }

    /// The scans that are scored: of people the bands were not fitted on either, unless others were asked for.
    fn unseen(&self, asked: People) -> Vec<usize> {
        let wanted = if asked == People::All { People::Test } else { asked };
        scans_of(wanted, &self.frozen.people, self.notes.as_ref(), &self.cohort)
    }
}

/// A cohort as it is; a single series file becomes one first.
fn open_data(asked: &Asked, out: &Path, common: &Common) -> anyhow::Result<Cohort> {
    if !asked.from.cohort.data.is_file() {
        return Ok(Cohort::open(&asked.from.cohort.data)?);
    }
    let options = IngestOptions {
        format: Some(Format::Series),
        labels: asked.labels.clone(),
        tr_seconds: asked.tr,
        ..IngestOptions::default()
    };
    let plan = ingest::plan(&asked.from.cohort.data, &options)?;
    for warning in &plan.warnings {
        common.note(warning);
    }
    let place = out.join("cohort");
    let report = ingest::ingest(&plan, &place, &Progress::start("read", 1, common)?)?;
    if let Some(r) = report.rejected.first() {
        bail!("{}: {}: expected {}, found {}", r.file, r.reason, r.expected, r.found);
    }
    Ok(Cohort::open(&place)?)
}
