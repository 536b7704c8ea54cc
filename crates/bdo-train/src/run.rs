//! A training run, top to bottom.

use crate::checkpoint::{CheckpointError, Checkpoints};
use crate::folder::{FolderError, RunFolder, settings_of};
use crate::prefetch::{BatchPlan, Prefetch};
use crate::publish::{PublishError, Publisher};
use crate::schedule::{ramp, ramp_from};
use crate::settings::Settings;
use crate::source::{ScanSource, Shares, SourceError};
use crate::state::{Guard, MOST_ROLLBACKS, SKIPS_BEFORE_ROLLBACK, TrainState};
use crate::step::{StepReport, StepSettings, train_step_accumulated};
use crate::tensorboard::EventFile;
use crate::timer::{TIMED_STEPS, Timer, memory_mib, wall_seconds};
use crate::validate::{ValidationError, ValidationPlan, validate};
use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::division::Split;
use bdo_data::durable::FileError;
use bdo_data::random::stream;
use bdo_data::record::{Entry, Identity, Journal, Plan, RecordError, RunRecord, StepEntry, Terms, ValidationEntry};
use bdo_kernels::Isa;
use bdo_kernels::adam::{Adam, WeightDecay};
use bdo_model::batch::{BatchError, MaskedBatch};
use bdo_model::intake::{HostBatch, NoiseShape};
use bdo_model::model::BuildError;
use bdo_model::objective::LossWeights;
use burn::tensor::Device;
use rand_chacha::rand_core::Rng;
use std::path::PathBuf;
use std::time::Instant;

/// Latents that spread less than this, where layer norm makes them unit size, carry nothing.
const COLLAPSED: f64 = 0.01;

/// What to train, and where.
#[derive(Clone, Debug)]
pub struct Request {
    /// The cohort.
    pub data: PathBuf,
    /// The run folder.
    pub out: PathBuf,
    /// The configuration; `None` takes that of the run that is resumed, or the defaults.
    pub settings: Option<Settings>,
    /// Seed of everything random.
    pub seed: u64,
    /// Go on with a run that is there.
    pub resume: bool,
    /// Who is trained on and who validates; `None` divides people as the configuration says. Test people of a split are
    /// never read.
    pub people: Option<Split>,
}

/// Who watches a run.
pub trait RunObserver {
    /// The length of the run is known.
    fn planned(&self, plan: &Plan, from_step: u64);
    /// A step was taken or skipped.
    fn stepped(&self, entry: &StepEntry);
    /// The model was validated.
    fn validated(&self, entry: &ValidationEntry);
    /// Something worth a sentence.
    fn note(&self, text: &str);
    /// Whether to write a checkpoint and stop.
    fn stop_requested(&self) -> bool;
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Steps in all.
    pub steps: u64,
    /// Length of the run.
    pub plan: Plan,
    /// Where the model is.
    pub model: PathBuf,
    /// The last validation.
    pub validation: Option<ValidationEntry>,
    /// Steps that were skipped.
    pub skipped: u64,
    /// Scans trained on.
    pub train_scans: usize,
    /// Duration of this process's part.
    pub seconds: f64,
}

/// A run could not be finished.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
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
    /// The model.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A batch.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The model directory.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// A validation.
    #[error(transparent)]
    Validation(#[from] ValidationError),
    /// Another file.
    #[error(transparent)]
    File(#[from] FileError),
    /// Stopped by request.
    #[error("interrupted at step {step}; run the same command with --resume to go on")]
    Interrupted {
        /// The step that comes next.
        step: u64,
    },
    /// The loss cannot be kept finite.
    #[error(
        "training does not settle: {SKIPS_BEFORE_ROLLBACK} steps in a row had a loss that was not finite or far too \
         large, after {MOST_ROLLBACKS} returns to a checkpoint; try a lower train.learning_rate and look at the data"
    )]
    Diverged,
}

/// Trains until the end of the plan, or until asked to stop.
// A training loop is read from top to bottom; cutting it into pieces would hide the order.
#[allow(clippy::too_many_lines)]
pub fn pretrain(request: &Request, observer: &dyn RunObserver) -> Result<Summary, RunError> {
    let started = Instant::now();
    let folder = RunFolder::open(&request.out, request.resume)?;
    let cohort = Cohort::open(&request.data)?;
    let mut record = identify(request, &folder, &cohort)?;
    let settings = settings_of(&record)?;
    let train = &settings.train;
    let config = settings.model_config(cohort.regions().len());
    let device = Device::flex().autodiff();

    let shares =
        Shares { held_out_percent: train.held_out_percent, seed: train.split_seed, data_fraction: train.data_fraction };
    let source = match &request.people {
        None => ScanSource::new(cohort, shares)?,
        Some(split) => ScanSource::of_split(cohort, split.clone(), shares)?,
    };
    let steps_per_epoch = source.steps_per_epoch(train.batch_size);
    if record.plan.is_none() && train.max_minutes == 0.0 {
        record.plan = Some(Plan::of_epochs(train.epochs, steps_per_epoch));
    }
    folder.save(&record)?;

    let checkpoints = Checkpoints {
        folder: folder.join("checkpoints"),
        config: config.clone(),
        run_blake3: record.identity.blake3(),
        keep: train.keep_checkpoints,
    };
    let restored = checkpoints.restore(settings.kernels(), &device)?;
    for damage in &restored.damaged {
        observer.note(&format!("{damage}; the checkpoint before it is used"));
    }
    let mut state = match restored.state {
        Some(state) => state,
        None => TrainState::fresh(&config, request.seed, settings.kernels(), &device)?,
    };

    let noise = NoiseShape::of(&config);
    let batch_plan = |guard: &Guard| BatchPlan {
        seed: seed_after(request.seed, guard.rollbacks),
        batch_size: train.batch_size,
        steps_per_epoch,
        mask: settings.mask,
        noise,
    };
    let validation_plan = ValidationPlan {
        seed: request.seed,
        most_scans: train.validation_scans,
        batch_size: train.micro_batch_size,
        mask: settings.mask,
        noise,
    };
    let publisher = Publisher::new(&source, &record.identity, &settings)?;
    let mut log = Log::open(&folder, state.step)?;
    let mut plan = record.plan.unwrap_or(Plan { total_steps: u64::MAX, steps_per_epoch, calibration_steps: u64::MAX });
    if record.plan.is_some() {
        observer.planned(&plan, state.step);
    }
    let mut timer = Timer::new(started);
    let mut validation = None;
    let mut validated_at = state.step;
    let mut saved_at = Instant::now();
    let mut prefetch = Prefetch::start(&source, batch_plan(&state.guard), state.step);

    while state.step < plan.total_steps {
        if observer.stop_requested() {
            checkpoints.save(&state)?;
            publisher.write(&folder.join("model"), &state, validation.as_ref())?;
            return Err(RunError::Interrupted { step: state.step });
        }
        let begun = Instant::now();
        let batch = prefetch.next_batch()?;
        let waited = begun.elapsed().as_secs_f64();
        if let Some(batch) = batch {
            let (scans, mean_square) = (batch.scans(), batch.target_mean_square());
            let step = state.step;
            let step_settings = step_settings(&settings, &plan, &state);
            let batches = on_device(batch, train.micro_batch_size, ramp(&plan, step, train.noise_warmup), &device);
            let report;
            (state, report) = advance(state, &batches, &step_settings)?;
            let seconds = begun.elapsed().as_secs_f64();
            timer.steps.push(seconds);
            let entry = StepEntry {
                step,
                epoch: plan.position(step).0,
                loss: report.loss.clone(),
                learning_rate: step_settings.adam.learning_rate,
                gradient_norm: report.gradient_norm,
                measures: Terms::of([
                    ("tau", step_settings.weights.tau),
                    ("spread_over_time", report.spread.over_time),
                    ("spread_over_scans", report.spread.over_scans),
                    ("explained_variance", 1.0 - report.loss.term("reconstruction") / mean_square),
                ]),
                scans_per_second: scans as f64 / seconds,
                waiting_share: waited / seconds,
                memory_mib: memory_mib(),
                skipped: report.skipped,
            };
            log.step(&entry)?;
            observer.stepped(&entry);
            if let Some(reason) = report.skipped {
                observer.note(&format!("step {step} was skipped: {reason:?}, loss {}", report.loss.total));
            }
        } else {
            state.step += 1;
        }

        if state.guard.must_roll_back() {
            state = roll_back(state, &checkpoints, &settings, request.seed, &device, observer)?;
            log = Log::open(&folder, state.step)?;
            drop(prefetch);
            prefetch = Prefetch::start(&source, batch_plan(&state.guard), state.step);
            continue;
        }
        let epoch_ends = state.step.is_multiple_of(steps_per_epoch);
        let due = epoch_ends && state.step >= validated_at + train.validation_steps;
        if due || state.step == plan.total_steps {
            validated_at = state.step;
            let begun = Instant::now();
            if let Some(entry) = validate(&state.model, &state.teacher, &source, &validation_plan, state.step)? {
                timer.validation = begun.elapsed().as_secs_f64();
                log.validation(&entry)?;
                observer.validated(&entry);
                warn_of_collapse(&entry, observer);
                validation = Some(entry);
            }
        }
        if record.plan.is_none() && timer.steps.len() as u64 >= TIMED_STEPS {
            plan = timer.plan(&settings, steps_per_epoch, state.step);
            record.plan = Some(plan);
            folder.save(&record)?;
            observer.planned(&plan, state.step);
        }
        let limit_seconds = 60.0 * train.max_minutes;
        if limit_seconds > 0.0 && started.elapsed().as_secs_f64() > limit_seconds && state.step < plan.total_steps {
            observer.note(&format!(
                "the time is up at step {} of {}: steps took longer than the first {TIMED_STEPS} had shown; --resume \
                 goes on",
                state.step, plan.total_steps
            ));
            break;
        }
        let by_steps = train.checkpoint_steps > 0 && state.step.is_multiple_of(train.checkpoint_steps);
        if by_steps || saved_at.elapsed().as_secs_f64() > 60.0 * train.checkpoint_minutes {
            checkpoints.save(&state)?;
            publisher.write(&folder.join("model"), &state, validation.as_ref())?;
            saved_at = Instant::now();
        }
    }

    checkpoints.save(&state)?;
    publisher.write(&folder.join("model"), &state, validation.as_ref())?;
    Ok(Summary {
        steps: state.step,
        plan,
        model: folder.join("model"),
        validation,
        skipped: state.guard.skipped,
        train_scans: source.train_scans().len(),
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// The record of the run that is resumed, which must be the one asked for, or a new one.
pub fn identify(request: &Request, folder: &RunFolder, cohort: &Cohort) -> Result<RunRecord, RunError> {
    let there = folder.record()?;
    let settings = match (&request.settings, &there) {
        (Some(settings), _) => settings.clone(),
        (None, Some(record)) => settings_of(record)?,
        (None, None) => Settings::default(),
    };
    let identity = Identity {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        cohort_blake3: cohort.content_blake3()?,
        seed: request.seed,
        instruction_set: Isa::current().to_string(),
        settings_blake3: settings.blake3(),
        split_blake3: request.people.as_ref().map(|split| split.blake3.clone()),
        settings: serde_json::to_value(&settings).expect("settings are tables of words and finite numbers"),
    };
    if let Some(record) = there {
        folder.refuse_other(&record, &identity)?;
        return Ok(record);
    }
    Ok(RunRecord { identity, cohort: request.data.clone(), plan: None })
}

fn step_settings(settings: &Settings, plan: &Plan, state: &TrainState) -> StepSettings {
    let (train, step) = (&settings.train, state.step);
    StepSettings {
        adam: Adam {
            learning_rate: settings.rate().at(plan, step),
            beta1: train.beta1,
            beta2: train.beta2,
            eps: train.adam_eps,
            weight_decay: WeightDecay::None,
            gradient_scale: 1.0,
        },
        clip_norm: train.clip_norm,
        ema_momentum: bdo_model::ema::ema_momentum(plan.counted(step), plan.total_steps),
        weights: LossWeights {
            tau: settings.loss.tau * ramp_from(plan, step, train.tau_start, train.tau_warmup),
            ..state.model.loss_weights()
        },
        loss_limit: state.guard.loss_limit(),
    }
}

/// The micro-batches of a step, with the noise of a warm-up.
fn on_device(batch: HostBatch, micro: usize, noise_scale: f64, device: &Device) -> Vec<MaskedBatch> {
    let quieter = |mut batch: MaskedBatch| {
        if noise_scale < 1.0 {
            batch.latent_noise = batch.latent_noise * noise_scale;
            batch.process_noise = batch.process_noise.into_iter().map(|noise| noise * noise_scale).collect();
        }
        batch
    };
    batch.micro_batches(micro).into_iter().map(|batch| quieter(batch.into_masked(device))).collect()
}

/// One step of the whole state.
fn advance(
    state: TrainState,
    batches: &[MaskedBatch],
    settings: &StepSettings,
) -> Result<(TrainState, StepReport), BatchError> {
    let TrainState { step, model, mut teacher, mut adam, mut guard } = state;
    let (model, report) = train_step_accumulated(model, &mut teacher, &mut adam, batches, settings)?;
    guard.note(&report);
    Ok((TrainState { step: step + 1, model, teacher, adam, guard }, report))
}

/// Back to the last checkpoint; from there the data come in another order, or the same would happen again.
fn roll_back(
    state: TrainState,
    checkpoints: &Checkpoints,
    settings: &Settings,
    seed: u64,
    device: &Device,
    observer: &dyn RunObserver,
) -> Result<TrainState, RunError> {
    let (rollbacks, skipped) = (state.guard.rollbacks + 1, state.guard.skipped);
    if rollbacks > MOST_ROLLBACKS {
        return Err(RunError::Diverged);
    }
    let config = state.model.config().clone();
    drop(state);
    let mut state = match checkpoints.restore(settings.kernels(), device)?.state {
        Some(state) => state,
        None => TrainState::fresh(&config, seed, settings.kernels(), device)?,
    };
    state.guard = Guard { rollbacks, skipped, skipped_in_row: 0, ..state.guard };
    observer.note(&format!("steps keep failing; back to step {} (return {rollbacks} of {MOST_ROLLBACKS})", state.step));
    checkpoints.save(&state)?;
    Ok(state)
}

fn seed_after(seed: u64, rollbacks: u32) -> u64 {
    if rollbacks == 0 { seed } else { stream("rollback", &[seed, u64::from(rollbacks)]).next_u64() }
}

fn warn_of_collapse(entry: &ValidationEntry, observer: &dyn RunObserver) {
    let [time, scans] = ["spread_over_time", "spread_over_scans"].map(|name| entry.measures.get(name));
    if time < COLLAPSED || (entry.scans > 1 && scans < COLLAPSED) {
        observer.note(&format!(
            "warning: the latents have collapsed at step {}: spread {time:.4} over time, {scans:.4} over scans",
            entry.step
        ));
    }
    if entry.measures.get("explained_variance") < 0.0 {
        observer.note(&format!(
            "warning: after {} steps the model explains nothing of unseen people's masked frames (mean squared error \
             {:.4}, predicting the mean costs {:.4})",
            entry.step,
            entry.measures.get("mse"),
            entry.measures.get("mean_square")
        ));
    }
}

/// Where the steps are written down.
struct Log {
    journal: Journal,
    events: EventFile,
}

impl Log {
    fn open(folder: &RunFolder, step: u64) -> Result<Self, FileError> {
        let journal = Journal::open(&folder.join("journal.jsonl"), step)?;
        Ok(Self { journal, events: EventFile::create(&folder.join("tensorboard"), wall_seconds())? })
    }

    fn step(&mut self, entry: &StepEntry) -> Result<(), FileError> {
        self.journal.add(&Entry::Step(entry.clone()))?;
        let mut values = vec![
            ("loss/total".to_owned(), entry.loss.total),
            ("learning_rate".to_owned(), entry.learning_rate),
            ("gradient_norm".to_owned(), entry.gradient_norm),
            ("scans_per_second".to_owned(), entry.scans_per_second),
        ];
        values.extend(entry.loss.terms.0.iter().map(|(name, value)| (format!("loss/{name}"), *value)));
        values.extend(entry.measures.0.iter().map(|(name, value)| (name.clone(), *value)));
        self.events.scalars(wall_seconds(), entry.step, &values)
    }

    fn validation(&mut self, entry: &ValidationEntry) -> Result<(), FileError> {
        self.journal.add(&Entry::Validation(entry.clone()))?;
        let mut values = vec![("validation/loss".to_owned(), entry.loss.total)];
        values.extend(entry.measures.0.iter().map(|(name, value)| (format!("validation/{name}"), *value)));
        self.events.scalars(wall_seconds(), entry.step, &values)
    }
}
