//! A run of a token model, top to bottom, in a run folder like any other: configuration saved before the first step, a line
//! a step, checkpoints from which a killed run goes on bit for bit, a model directory at the end.

use super::directory::{DirectoryError, TokenConfig, TokenDirectory};
use super::learner::Learner;
use super::recipe::TokenRecipe;
use super::scans::{TooShort, grid_of, group_gradients};
use super::settings::{brain_jepa, brain_lm};
use super::step::{Diverged, TokenScan, TokenState};
use crate::token::grid::Grid;
use crate::token::place::Places;
use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::durable::FileError;
use bdo_data::random::{shuffle, stream};
use bdo_data::record::{Entry, Journal, Loss, Plan, RecordError, RunRecord, StepEntry};
use bdo_model::parameters::ParameterError;
use bdo_model::weights::{PreprocessorConfig, TrainingPeople};
use bdo_train::checkpoint::CheckpointError;
use bdo_train::checkpoint_set::{CheckpointSets, StoredState};
use bdo_train::folder::{FolderError, RunFolder, settings_of};
use bdo_train::publish::{contract, people_of};
use bdo_train::run::{Request, RunError, RunObserver, identify};
use bdo_train::settings::{Kind, Settings};
use bdo_train::source::{ScanSource, Shares, SourceError};
use bdo_train::state::Guard;
use bdo_train::tensorboard::EventFile;
use bdo_train::timer::{TIMED_STEPS, Timer, memory_mib, wall_seconds};
use rayon::prelude::*;
use std::path::PathBuf;
use std::time::Instant;

/// Steps that are timed at least where steps are long.
const FEWEST_TIMED: usize = 2;
/// Share of a run's time that timing may take.
const CALIBRATION_SHARE: f64 = 0.05;

/// How a run ended.
#[derive(Clone, Debug)]
pub struct TokenSummary {
    /// Steps in all.
    pub steps: u64,
    /// Length of the run.
    pub plan: Plan,
    /// Where the model is.
    pub model: PathBuf,
    /// Loss of the last step of this process, if it took one.
    pub loss: Option<f64>,
    /// Scans trained on.
    pub train_scans: usize,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// Duration of this process's part.
    pub seconds: f64,
}

/// A run could not be finished.
#[derive(Debug, thiserror::Error)]
pub enum TokenRunError {
    /// The folder, or a run that is not the one asked for.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The record of the run.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The cohort.
    #[error(transparent)]
    Cohort(#[from] CohortError),
    /// The scans.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// No scan is long enough.
    #[error(transparent)]
    TooShort(#[from] TooShort),
    /// The model.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// A checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The model directory.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// Another file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The loss.
    #[error(transparent)]
    Diverged(#[from] Diverged),
    /// Not a token model.
    #[error("model.kind: expected brainlm or brainjepa, found {found}")]
    Kind {
        /// What was asked for.
        found: &'static str,
    },
    /// Stopped by request.
    #[error("interrupted at step {step}; run the same command with --resume to go on")]
    Interrupted {
        /// The step that comes next.
        step: u64,
    },
}

/// Trains a token model until the end of the plan, or until asked to stop. With a division of people given, those who
/// validate are trained on too: nothing here is chosen by them.
pub fn pretrain(request: &Request, observer: &dyn RunObserver) -> Result<TokenSummary, TokenRunError> {
    let started = Instant::now();
    let folder = RunFolder::open(&request.out, request.resume)?;
    let cohort = Cohort::open(&request.data)?;
    let record = identify(request, &folder, &cohort)?;
    let settings = settings_of(&record)?;
    let (grid, mut notes) = grid_of(&cohort)?;
    let train = &settings.train;
    let shares =
        Shares { held_out_percent: train.held_out_percent, seed: train.split_seed, data_fraction: train.data_fraction };
    let source = match &request.people {
        None => ScanSource::new(cohort, shares)?,
        Some(split) => ScanSource::of_split(cohort, split.clone(), shares)?,
    };
    let regions = source.cohort().regions();
    let (config, places) = match settings.model.kind {
        Kind::BrainLm => {
            let places = Places::of_centres(regions);
            if places.is_none() {
                notes.push("not every region has a centre, so each has a learned code".into());
            }
            (TokenConfig::BrainLm(brain_lm(&settings, grid, places.is_some())), places)
        }
        Kind::BrainJepa => {
            notes.push("regions are placed by gradients of the training people's mean connectivity".into());
            let places = group_gradients(source.cohort(), source.train_scans())?;
            (TokenConfig::BrainJepa(brain_jepa(&settings, grid)), Some(places))
        }
        Kind::Bdo => return Err(TokenRunError::Kind { found: Kind::Bdo.name() }),
    };
    notes.iter().for_each(|text| observer.note(text));
    let scans = scans_of(&source, request.people.is_some(), grid);
    if scans.is_empty() {
        return Err(SourceError::Empty.into());
    }
    let split = source.split();
    let with_validation = request.people.is_some();
    let course = Course {
        people: people_of(&source, |subject| {
            split.train.contains(subject) || (with_validation && split.validation.contains(subject))
        }),
        preprocessor: contract(&source, 1.0)?,
        recipe: TokenRecipe::of_settings(&settings),
        seed: request.seed,
        folder,
        settings,
        source,
        scans,
        places,
        notes,
        config,
        observer,
        started,
    };
    match course.config.clone() {
        TokenConfig::BrainLm(config) => course.run::<super::learner::LmLearner>(&config, record),
        TokenConfig::BrainJepa(config) => course.run::<super::learner::JepaLearner>(&config, record),
    }
}

/// Scans that are long enough, of the people who are trained on.
fn scans_of(source: &ScanSource, with_validation: bool, grid: Grid) -> Vec<usize> {
    let validation = if with_validation { source.validation_scans() } else { &[] };
    let frames = |i: usize| source.cohort().index()[i].frames;
    let mut scans: Vec<usize> = source.train_scans().iter().chain(validation).copied().collect();
    scans.retain(|i| frames(*i) >= grid.frames());
    scans.sort_unstable();
    scans
}

/// All that does not change during a run.
struct Course<'a> {
    folder: RunFolder,
    settings: Settings,
    recipe: TokenRecipe,
    source: ScanSource,
    scans: Vec<usize>,
    places: Option<Places>,
    config: TokenConfig,
    preprocessor: PreprocessorConfig,
    people: TrainingPeople,
    notes: Vec<String>,
    seed: u64,
    observer: &'a dyn RunObserver,
    started: Instant,
}

impl Course<'_> {
    // A training loop is read from top to bottom; cutting it into pieces would hide the order.
    #[allow(clippy::too_many_lines)]
    fn run<L: Learner>(self, config: &L::Config, mut record: RunRecord) -> Result<TokenSummary, TokenRunError> {
        let (train, observer) = (&self.settings.train, self.observer);
        let size = self.recipe.batch_size.clamp(1, self.scans.len());
        let steps_per_epoch = self.scans.len().div_ceil(size) as u64;
        // A time is a limit here: never more epochs than configured, and none is needed where they are over at once.
        let whole = Plan::of_epochs(train.epochs, steps_per_epoch);
        if record.plan.is_none() && (train.max_minutes == 0.0 || whole.total_steps <= TIMED_STEPS) {
            record.plan = Some(whole);
        }
        self.folder.save(&record)?;
        let files = L::files(config);
        let checkpoints = CheckpointSets {
            folder: self.folder.join("checkpoints"),
            run_blake3: record.identity.blake3(),
            keep: train.keep_checkpoints,
            trained: files[0].1.iter().filter(|spec| spec.trainable).cloned().collect(),
            weights: files,
        };
        let restored = checkpoints.restore()?;
        for damage in &restored.damaged {
            observer.note(&format!("{damage}; the checkpoint before it is used"));
        }
        let build = |weights| L::of_parameters(config, self.places.clone(), weights, self.settings.kernels());
        let mut state = match restored.state {
            Some(StoredState { step, adam, weights, .. }) => TokenState { step, learner: build(weights)?, adam },
            None => TokenState::fresh(build(L::initial(config, self.seed))?),
        };
        let mut journal = Journal::open(&self.folder.join("journal.jsonl"), state.step)?;
        let mut events = EventFile::create(&self.folder.join("tensorboard"), wall_seconds())?;
        let unknown = Plan { total_steps: u64::MAX, steps_per_epoch, calibration_steps: u64::MAX };
        let mut plan = record.plan.unwrap_or(unknown);
        if record.plan.is_some() {
            observer.planned(&plan, state.step);
        }
        let mut timer = Timer::new(self.started);
        let mut saved_at = Instant::now();
        let mut loss = None;
        let mut order = (u64::MAX, Vec::new());

        while state.step < plan.total_steps {
            if observer.stop_requested() {
                self.keep(&checkpoints, &state)?;
                return Err(TokenRunError::Interrupted { step: state.step });
            }
            let begun = Instant::now();
            let (epoch, place) = plan.position(state.step);
            if order.0 != epoch {
                order = (epoch, self.order(epoch));
            }
            let from = place as usize * size;
            let batch = self.read(&order.1[from..(from + size).min(order.1.len())])?;
            let batch: Vec<&TokenScan> = batch.iter().collect();
            let settings = self.recipe.at(plan.counted(state.step), plan.total_steps);
            let report;
            (state, report) = state.advance(&batch, &settings, train.micro_batch_size, self.seed)?;
            let seconds = begun.elapsed().as_secs_f64();
            timer.steps.push(seconds);
            loss = Some(report.loss);
            let entry = StepEntry {
                step: state.step - 1,
                epoch,
                loss: Loss::plain(report.loss),
                learning_rate: settings.learning_rate,
                gradient_norm: report.gradient_norm,
                scans_per_second: batch.len() as f64 / seconds,
                memory_mib: memory_mib(),
                ..StepEntry::default()
            };
            journal.add(&Entry::Step(entry.clone()))?;
            let values = [("loss/total".to_owned(), report.loss), ("learning_rate".to_owned(), entry.learning_rate)];
            events.scalars(wall_seconds(), entry.step, &values)?;
            observer.stepped(&entry);

            // Steps of seconds are known after two: twenty of them, taken as the first is, could be all there is time for.
            let timed: f64 = timer.steps.iter().sum();
            let slow = timer.steps.len() >= FEWEST_TIMED && timed > CALIBRATION_SHARE * 60.0 * train.max_minutes;
            if record.plan.is_none() && (slow || timer.steps.len() as u64 >= TIMED_STEPS) {
                plan = timer.plan(&self.settings, steps_per_epoch, state.step);
                plan.total_steps = plan.total_steps.min(whole.total_steps);
                record.plan = Some(plan);
                self.folder.save(&record)?;
                observer.planned(&plan, state.step);
            }
            let limit_seconds = 60.0 * train.max_minutes;
            if limit_seconds > 0.0
                && self.started.elapsed().as_secs_f64() > limit_seconds
                && state.step < plan.total_steps
            {
                observer.note(&format!("the time is up at step {}; --resume goes on", state.step));
                break;
            }
            let by_steps = train.checkpoint_steps > 0 && state.step.is_multiple_of(train.checkpoint_steps);
            if by_steps || saved_at.elapsed().as_secs_f64() > 60.0 * train.checkpoint_minutes {
                self.keep(&checkpoints, &state)?;
                saved_at = Instant::now();
            }
        }
        self.keep(&checkpoints, &state)?;
        Ok(TokenSummary {
            steps: state.step,
            plan,
            model: self.folder.join("model"),
            loss,
            train_scans: self.scans.len(),
            notes: self.notes,
            seconds: self.started.elapsed().as_secs_f64(),
        })
    }

    /// Scans in the order of one pass: a function of seed and epoch alone.
    fn order(&self, epoch: u64) -> Vec<usize> {
        let mut order = self.scans.clone();
        shuffle(&mut order, &mut stream("token order", &[self.seed, epoch]));
        order
    }

    fn read(&self, scans: &[usize]) -> Result<Vec<TokenScan>, CohortError> {
        let source = &self.source;
        let one = |&i: &usize| {
            let scan = source.cohort().scan(i)?;
            Ok(TokenScan { scan: source.scaler().apply(&scan), tr_seconds: scan.tr_seconds })
        };
        scans.par_iter().map(one).collect()
    }

    /// Checkpoint and model directory of the present state.
    fn keep<L: Learner>(&self, checkpoints: &CheckpointSets, state: &TokenState<L>) -> Result<(), TokenRunError> {
        let weights = state.learner.parameters();
        let directory = TokenDirectory {
            config: self.config.clone(),
            places: self.places.clone(),
            weights: weights.clone(),
            preprocessor: self.preprocessor.clone(),
            people: self.people.clone(),
        };
        let guard = Guard { taken: state.step, ..Guard::default() };
        checkpoints.save(&StoredState { step: state.step, guard, adam: state.adam.clone(), weights })?;
        let training = format!("{} steps of {} scans, seed {}.", state.step, self.recipe.batch_size, self.seed);
        Ok(directory.write(&self.folder.join("model"), &training)?)
    }
}
