//! Pre-training of BDO, from a cohort to a model directory.

use crate::bdo::{BdoData, BdoLearner};
use crate::error::TrainError;
use crate::fit::{Course, Fitted, Keep, RunObserver, Unobserved, fit};
use crate::folder::{RunFolder, settings_of};
use crate::publish::Publisher;
use crate::ranks::Ranks;
use crate::settings::{Preset, Settings};
use crate::source::ScanSource;
use crate::timer::Length;
use bdo_data::cohort::Cohort;
use bdo_data::division::Split;
use bdo_data::record::{Identity, Plan, RunRecord, ValidationEntry};
use bdo_kernels::Isa;
use bdo_kernels::allocator::release_freed;
use bdo_model::config::ModelConfig;
use bdo_model::device::memory_bytes;
use bdo_model::intake::{MaskSettings, NoiseShape};
use bdo_model::readout::{ReadoutNote, encoded_for, ensure_readout};
use burn::tensor::Device;
use std::path::PathBuf;
use std::time::Instant;

/// A pre-training: data, run folder, settings and seed.
#[derive(Clone, Debug)]
pub struct Request {
    pub data: PathBuf,
    pub out: PathBuf,
    /// The configuration; `None` takes that of the run that is resumed, or the preset `default`.
    pub settings: Option<Settings>,
    pub seed: u64,
    /// Go on with a run that is there.
    pub resume: bool,
    /// Who is trained on and who validates; `None` divides people as the configuration says. Test people of a split are
    /// never read.
    pub people: Option<Split>,
    pub device: Device,
}

#[derive(Clone, Debug)]
pub struct Summary {
    pub steps: u64,
    pub plan: Plan,
    pub model: PathBuf,
    pub validation: Option<ValidationEntry>,
    pub skipped: u64,
    pub train_scans: usize,
    /// Loss of the last step of this process, if it took one.
    pub loss: Option<f64>,
    /// How well regions can be read out of the control; BDO only, on the first rank.
    pub readout: Option<ReadoutNote>,
    pub notes: Vec<String>,
    pub seconds: f64,
}

/// Trains BDO until the end of the plan, or until asked to stop.
pub fn pretrain(request: &Request, ranks: &dyn Ranks, observer: &dyn RunObserver) -> Result<Summary, TrainError> {
    let started = Instant::now();
    let (opened, cohort) = OpenedRun::open(request, ranks)?;
    let (settings, source) = (&opened.settings, opened.source(cohort, request)?);
    let config = settings.model_config(source.cohort().regions().len());
    let start = (request.seed, source.fitted_start(&config, request.seed)?);
    let device = request.device.clone().autodiff();
    let learner = BdoLearner::starting_from(&config, settings, settings.kernels(&device), start, &device)?;
    let train = &settings.train;
    let data = BdoData {
        batch_size: train.batch_size,
        micro_batch_size: visits_at_once(settings, &config, memory_bytes(&request.device)),
        // A group and its second visits are a micro-batch.
        group_size: (config.loss.identity > 0.0).then_some((train.micro_batch_size / 2).max(2)),
        mask: settings.mask,
        noise: NoiseShape::of(&config),
        publisher: Publisher::new(&source, &opened.record.identity, settings)?,
        model: opened.folder.join("model"),
        source,
    };
    let length = Length {
        // A time limit decides alone.
        epochs: (train.max_minutes == 0.0).then_some(train.epochs),
        minutes: train.max_minutes,
        whole_epochs: false,
        later_cost: later_cost(settings),
        // A scan that is encoded whole takes about as long as a visit.
        afterwards: encoded_for(data.source.train_scans().len(), data.source.validation_scans().len()) as f64
            / train.batch_size as f64,
    };
    let course = Course { clip_norm: train.clip_norm, ..course_of(settings, request.seed, length, started) };
    let keep = Keep::Run { folder: &opened.folder, record: Box::new(opened.record) };
    // Steps have no use for what fitting took; with more ranks than one on a node it would be held as often.
    release_freed();
    let fitted = fit(learner, &data, &course, keep, ranks, observer)?;
    // The readout needs the final weights; a finished run has it beside them. It takes seconds, which nobody follows.
    let readout = ranks
        .is_first()
        .then(|| ensure_readout(&data.model, &request.device, data.source.cohort(), &Unobserved))
        .transpose()?;
    let summary = Summary::of(fitted, data.model, data.source.train_scans().len(), Vec::new());
    Ok(Summary { readout, ..summary })
}

/// Visits of a micro-batch: as configured, or what a device with so much memory holds. With the identity term a micro-batch is also the
/// people that are told from each other, and stays as configured.
fn visits_at_once(settings: &Settings, config: &ModelConfig, memory_bytes: Option<u64>) -> usize {
    let train = &settings.train;
    match memory_bytes {
        Some(bytes) if config.loss.identity == 0.0 => {
            // Half of it is left for weights, moments, the moving average and what the driver keeps.
            let fits = bytes / 2 / visit_bytes(config, &settings.mask);
            usize::try_from(fits).unwrap_or(usize::MAX).clamp(1, train.batch_size.max(1))
        }
        _ => train.micro_batch_size,
    }
}

/// Memory that the tape of one visit takes, by a count of the tensors that composed layers keep; on the large side.
fn visit_bytes(config: &ModelConfig, mask: &MaskSettings) -> u64 {
    /// Of the width of a token, per block: three norms, attention, the feed-forward layer, and their gradients.
    const PER_BLOCK: usize = 160;
    let targets = (mask.ratio * mask.frames as f64) as usize;
    let context = mask.frames - targets.min(mask.frames);
    let (width, draws) = (config.width, config.loss.monte_carlo_samples);
    let encoder = context * config.blocks * (PER_BLOCK * width + 8 * config.heads * context);
    let states = mask.frames * 16 * width + draws * targets * (16 * width + 8 * config.regions);
    (4 * (encoder + states).max(1)) as u64
}

/// A run folder that was opened or created, with the cohort and the configuration of the run.
#[derive(Debug)]
pub struct OpenedRun {
    pub folder: RunFolder,
    pub record: RunRecord,
    pub settings: Settings,
}

impl OpenedRun {
    /// Opens the folder and the cohort; a run that is resumed must be the one asked for, and all ranks must be asked for the same.
    pub fn open(request: &Request, ranks: &dyn Ranks) -> Result<(Self, Cohort), TrainError> {
        let folder = if ranks.is_first() {
            RunFolder::open(&request.out, request.resume)?
        } else {
            RunFolder::beside(&request.out)
        };
        ranks.meet()?;
        let there = folder.record()?;
        let settings = match (&request.settings, &there) {
            (Some(settings), _) => settings.clone(),
            (None, Some(record)) => settings_of(record)?,
            (None, None) => Settings::preset(Preset::Default),
        };
        let cohort = Cohort::open(&request.data)?;
        let identity = Identity {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cohort_blake3: cohort.content_blake3()?,
            seed: request.seed,
            instruction_set: Isa::current().to_string(),
            settings_blake3: settings.blake3(),
            split_blake3: request.people.as_ref().map(|split| split.blake3.clone()),
            settings: stored(&settings),
        };
        ranks.agree_on(&identity)?;
        let record = match there {
            Some(record) => {
                // In the keys of this version: those that were removed or added since are no difference.
                let settings = stored(&settings_of(&record)?);
                let known = RunRecord { identity: Identity { settings, ..record.identity.clone() }, ..record.clone() };
                folder.refuse_other(&known, &identity)?;
                record
            }
            None => RunRecord { identity, cohort: request.data.clone(), plan: None },
        };
        Ok((Self { folder, record, settings }, cohort))
    }

    /// The scans of the run, divided as asked for.
    pub fn source(&self, cohort: Cohort, request: &Request) -> Result<ScanSource, TrainError> {
        match &request.people {
            None => ScanSource::new(cohort, &self.settings.train),
            Some(split) => ScanSource::of_split(cohort, split.clone(), &self.settings.train),
        }
    }
}

fn stored(settings: &Settings) -> serde_json::Value {
    serde_json::to_value(settings).expect("settings are tables of words and finite numbers")
}

/// The course of a pre-training as configured, without clipping.
pub fn course_of(settings: &Settings, seed: u64, length: Length, started: Instant) -> Course {
    let train = &settings.train;
    Course {
        seed,
        length,
        started,
        clip_norm: f64::INFINITY,
        skip_spikes: true,
        validation_steps: train.validation_steps,
        checkpoint_steps: train.checkpoint_steps,
        checkpoint_minutes: train.checkpoint_minutes,
        checkpoint_epochs: false,
        keep_checkpoints: train.keep_checkpoints,
    }
}

/// How much longer the mean step of the run takes than the timed ones, which had no latent target if it enters later: it is
/// one pass over the targets, beside three over the context.
fn later_cost(settings: &Settings) -> f64 {
    if settings.model.tau() == 0.0 || settings.train.tau_start == 0.0 {
        return 1.0;
    }
    let ratio = settings.mask.ratio;
    1.0 + (1.0 - settings.train.tau_start) * ratio / (3.0 * (1.0 - ratio))
}

impl Summary {
    /// Of a run with its model directory.
    pub fn of<L>(fitted: Fitted<L>, model: PathBuf, train_scans: usize, notes: Vec<String>) -> Self {
        let mut validations = fitted.progress.validations;
        Self {
            steps: fitted.progress.step,
            plan: fitted.plan,
            model,
            validation: validations.pop(),
            skipped: fitted.progress.guard.skipped,
            train_scans,
            loss: fitted.loss,
            readout: None,
            notes,
            seconds: fitted.seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micro_batches_follow_the_memory_of_a_device_unless_people_are_told_apart_in_them() {
        let mut settings = Settings::preset(Preset::Paper);
        settings.train.batch_size = 128;
        let config = |identity: f64| {
            let mut config = ModelConfig::base();
            config.loss.identity = identity;
            config
        };
        let at_once =
            |identity, gib: Option<u64>| visits_at_once(&settings, &config(identity), gib.map(|gib| gib << 30));
        assert_eq!(at_once(0.0, None), settings.train.micro_batch_size);
        assert_eq!(at_once(1.0, Some(80)), settings.train.micro_batch_size);
        assert_eq!(at_once(0.0, Some(1000)), 128, "the whole batch");
        let (small, large) = (at_once(0.0, Some(8)), at_once(0.0, Some(24)));
        assert!(1 <= small && small < large && large < 128, "{small} {large}");
    }
}
