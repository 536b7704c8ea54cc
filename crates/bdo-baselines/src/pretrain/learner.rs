//! A token model as a learner of the training loop.

use super::directory::{TokenConfig, TokenDirectory};
use super::features::{TokenScan, patches};
use super::model::TokenModel;
use super::recipe::{adam, learning_rate, momentum};
use crate::token::place::Places;
use bdo_data::cohort::CohortError;
use bdo_data::random::{shuffle, stream};
use bdo_data::record::ValidationEntry;
use bdo_data::scaler::{FittedRobustScaler, ScaledScan};
use bdo_eval::error::EvalError;
use bdo_model::device::of_module;
use bdo_model::ops::Kernels;
use bdo_model::parameters::Parameters;
use bdo_model::weights::{PreprocessorConfig, TrainingPeople};
use bdo_train::gradient::NamedGradients;
use bdo_train::learner::{At, Batches, Contribution, Hand, Learner, WeightFiles};
use bdo_train::optimiser::AdamState;
use bdo_train::ranks::Alone;
use bdo_train::settings::TrainSettings;
use bdo_train::source::ScanSource;
use bdo_train::step::{StepLimits, StepReport, take_step};
use burn::tensor::Device;
use rayon::prelude::*;
use std::path::PathBuf;

/// A token model, and all that decides its training.
#[derive(Clone, Debug)]
pub struct TokenLearner<M: TokenModel> {
    pub model: M,
    pub config: M::Config,
    pub places: Option<Places>,
    pub train: TrainSettings,
    pub seed: u64,
    pub kernels: Kernels,
}

impl<M: TokenModel> TokenLearner<M> {
    /// A model that is trained outside a run.
    pub fn of(model: M, config: &M::Config, train: &TrainSettings) -> Self {
        let (config, train, kernels) = (config.clone(), train.clone(), Kernels::default());
        Self { model, config, places: None, train, seed: 0, kernels }
    }

    /// One step on given scans, in micro-batches of so many.
    pub fn step(
        self,
        scans: &[TokenScan],
        micro_batch_size: usize,
        adam: &mut AdamState,
        at: &At,
    ) -> Result<(Self, StepReport), EvalError> {
        let seen = |scan: &TokenScan| {
            let frames = scan.scan.times_seconds.len();
            SeenScan { frames, tr_seconds: scan.tr_seconds, scan: Some(scan.scan.clone()) }
        };
        let batch = scans.chunks(micro_batch_size.max(1)).map(|piece| piece.iter().map(seen).collect()).collect();
        let pieces = self.pieces(batch, at);
        take_step(self, adam, &pieces, at, &StepLimits { clip_norm: f64::INFINITY, loss: f64::INFINITY }, &Alone)
    }
}

/// The scans of a run, and what is published of it.
#[derive(Clone, Debug)]
pub struct TokenData {
    /// The cohort.
    pub source: ScanSource,
    /// Fitted on those of its people who are trained on.
    pub scaler: FittedRobustScaler,
    /// Scans trained on.
    pub scans: Vec<usize>,
    pub batch_size: usize,
    /// Scans whose activations are held at once.
    pub micro_batch_size: usize,
    /// Shape and places.
    pub config: TokenConfig,
    pub places: Option<Places>,
    /// How scans are brought into the form that was trained on.
    pub preprocessor: PreprocessorConfig,
    pub people: TrainingPeople,
    pub seed: u64,
    /// Where the model is trained.
    pub device: Device,
    pub model: PathBuf,
}

/// A scan of a step.
#[derive(Clone, Debug)]
pub struct SeenScan {
    frames: usize,
    tr_seconds: f64,
    /// None where its micro-batch is in another hand.
    scan: Option<ScaledScan>,
}

impl Batches for TokenData {
    /// By micro-batch.
    type Batch = Vec<Vec<SeenScan>>;

    fn steps_per_epoch(&self) -> u64 {
        self.scans.len().div_ceil(self.batch_size) as u64
    }

    fn draw(&self, seed: u64, step: u64, hand: Hand) -> Result<Option<Self::Batch>, CohortError> {
        let (epoch, place) = (step / self.steps_per_epoch(), (step % self.steps_per_epoch()) as usize);
        let mut order = self.scans.clone();
        shuffle(&mut order, &mut stream("token order", &[seed, epoch]));
        let from = place * self.batch_size;
        let chosen = &order[from..(from + self.batch_size).min(order.len())];
        let (cohort, scaler) = (self.source.cohort(), &self.scaler);
        let piece = |(number, scans): (usize, &[usize])| {
            let own = hand.holds(number);
            let one = |&i: &usize| {
                let entry = &cohort.index()[i];
                let scan = own.then(|| cohort.scan(i).map(|scan| scaler.apply(&scan))).transpose()?;
                Ok(SeenScan { frames: entry.frames, tr_seconds: entry.tr_seconds, scan })
            };
            scans.par_iter().map(one).collect::<Result<Vec<_>, CohortError>>()
        };
        chosen.chunks(self.micro_batch_size.max(1)).enumerate().map(piece).collect::<Result<_, _>>().map(Some)
    }

    fn scans(batch: &Self::Batch) -> usize {
        batch.iter().map(Vec::len).sum()
    }
}

/// Patches and masks of some scans of a step.
#[derive(Clone, Debug)]
pub struct TokenPiece<K> {
    values: Vec<f32>,
    scans: usize,
    share: f64,
    masks: K,
}

impl<M: TokenModel> Learner for TokenLearner<M> {
    type Data = TokenData;
    type Piece = TokenPiece<M::Masks>;
    type Gradients = NamedGradients;
    type Error = EvalError;

    fn device(&self) -> Device {
        of_module(self.model.net())
    }

    fn files(&self) -> WeightFiles {
        M::files(&self.config)
    }

    fn parameters(&self) -> Vec<Parameters> {
        self.model.parameters()
    }

    fn restored(self, weights: Option<Vec<Parameters>>) -> Result<Self, EvalError> {
        let weights = weights.unwrap_or_else(|| M::initial(&self.config, self.seed));
        let model = M::of_parameters(&self.config, self.places.clone(), weights, self.kernels, &self.device())?;
        Ok(Self { model, ..self })
    }

    /// Everything random is drawn here, piece after piece from one stream, those in other hands included.
    fn pieces(&self, batch: Vec<Vec<SeenScan>>, at: &At) -> Vec<Option<Self::Piece>> {
        let mut rng = stream("token step", &[at.seed, at.step]);
        let grid = self.model.grid();
        let all = TokenData::scans(&batch) as f64;
        let piece = |piece: &Vec<SeenScan>| {
            let (mut values, mut own) = (Vec::new(), true);
            for seen in piece {
                let cut = self.model.cut(seen.frames, seen.tr_seconds, &mut rng);
                match &seen.scan {
                    Some(scan) => values.extend(grid.patches(scan, cut)),
                    None => own = false,
                }
            }
            let (masks, share) = (self.model.masks(piece.len(), &mut rng), piece.len() as f64 / all);
            own.then_some(TokenPiece { values, scans: piece.len(), share, masks })
        };
        batch.iter().map(piece).collect()
    }

    fn pass(&self, piece: &Self::Piece, _: &At, _: bool) -> Result<Contribution<NamedGradients>, EvalError> {
        let patches = patches(piece.values.clone(), piece.scans, &self.model, &self.device().autodiff());
        let loss = self.model.loss(patches, &piece.masks);
        let value = loss.clone();
        Ok(Contribution::of_loss(&value, piece.share, || {
            NamedGradients::of_module(self.model.net(), loss.backward()).scaled(piece.share)
        }))
    }

    fn learning_rate(&self, at: &At) -> f64 {
        learning_rate(&self.train, at)
    }

    fn updated(self, gradients: &NamedGradients, state: &mut AdamState, scale: f64, at: &At) -> Self {
        let of_parameter = |_: &str, axes: usize| adam(&self.train, axes, scale, at);
        let momentum = momentum(&self.train, at);
        let model = self.model.updated(|net| state.apply_each(net, gradients, &of_parameter), momentum);
        Self { model, ..self }
    }

    fn publish(&self, data: &TokenData, steps: u64, _: Option<&ValidationEntry>) -> Result<(), EvalError> {
        let directory = TokenDirectory {
            config: data.config.clone(),
            places: data.places.clone(),
            weights: self.model.parameters(),
            preprocessor: data.preprocessor.clone(),
            people: data.people.clone(),
        };
        let training = format!("{steps} steps of {} scans, seed {}.", self.train.batch_size, data.seed);
        directory.write(&data.model, &training)
    }
}
