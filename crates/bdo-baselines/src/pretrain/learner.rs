//! A token model as a learner of the training loop, trained step by step as the settings of a run say.

use super::directory::TokenDirectory;
use super::model::TokenModel;
use super::scans::{TokenScan, patches};
use crate::token::TokenShape;
use crate::token::grid::Cut;
use bdo_data::cohort::CohortError;
use bdo_data::random::{shuffle, stream};
use bdo_data::record::ValidationEntry;
use bdo_data::scaler::FittedRobustScaler;
use bdo_eval::error::EvalError;
use bdo_kernels::adam::{Adam, WeightDecay};
use bdo_model::device::of_module;
use bdo_model::ops::Kernels;
use bdo_model::parameters::Parameters;
use bdo_train::gradient::NamedGradients;
use bdo_train::learner::{At, Batches, Contribution, Hand, Learner, WeightFiles};
use bdo_train::optimiser::AdamState;
use bdo_train::ranks::Alone;
use bdo_train::schedule::{Warmup, half_cosine, linear};
use bdo_train::settings::{Preset, Settings, TrainSettings};
use bdo_train::source::ScanSource;
use bdo_train::step::{StepLimits, StepReport, take_step};
use burn::tensor::Device;
use rayon::prelude::*;
use std::path::PathBuf;

/// The training of a public code with a batch of this size; the learning rate follows.
pub fn of_preset(preset: Preset, batch_size: usize) -> TrainSettings {
    let batch = format!("train.batch_size={}", batch_size.max(1));
    Settings::resolve(Some(preset), "", &[batch]).expect("a preset takes any batch size").settings.train
}

/// A token model, and all that decides its training.
#[derive(Clone, Debug)]
pub struct TokenLearner<M: TokenModel> {
    pub model: M,
    pub train: TrainSettings,
    pub seed: u64,
    pub kernels: Kernels,
}

impl<M: TokenModel> TokenLearner<M> {
    /// A model that is trained outside a run.
    pub fn of(model: M, train: &TrainSettings) -> Self {
        Self { model, train: train.clone(), seed: 0, kernels: Kernels::default() }
    }

    /// One step on given scans, in micro-batches of so many.
    pub fn step(
        self,
        scans: &[TokenScan],
        micro_batch_size: usize,
        adam: &mut AdamState,
        at: &At,
    ) -> Result<(Self, StepReport), EvalError> {
        let (config, grid) = (self.model.config(), self.model.config().grid());
        let of_scan = |scan: &TokenScan| (scan.scan.times_seconds.len(), scan.tr_seconds);
        let lengths: Vec<(usize, f64)> = scans.iter().map(of_scan).collect();
        let drawn = draw::<M>(config, &lengths, micro_batch_size, (at.seed, at.step));
        let piece = |(some, (cuts, masks)): (&[TokenScan], Drawn<M>)| {
            let values = some.iter().zip(cuts).flat_map(|(scan, cut)| grid.patches(&scan.scan, cut)).collect();
            Some(TokenPiece { values, scans: some.len(), share: some.len() as f64 / scans.len() as f64, masks })
        };
        let pieces: Vec<_> = scans.chunks(micro_batch_size.max(1)).zip(drawn).map(piece).collect();
        take_step(self, adam, &pieces, at, &StepLimits { clip_norm: f64::INFINITY, loss: f64::INFINITY }, &Alone)
    }
}

fn learning_rate(train: &TrainSettings, at: &At) -> f64 {
    train.rate(Warmup::Share(train.warmup)).at(&at.plan, at.step)
}

/// Of the moving average: linear from the first to the last step.
fn momentum(train: &TrainSettings, at: &At) -> f64 {
    linear(train.ema_start, train.ema_end, &at.plan, at.step)
}

/// Half a cosine from the first to the last step.
fn weight_decay(train: &TrainSettings, at: &At) -> f64 {
    let last = at.plan.scheduled_steps().saturating_sub(1);
    half_cosine(train.weight_decay_start, train.weight_decay_end, at.plan.counted(at.step), last)
}

/// The cuts and masks of a micro-batch.
type Drawn<M> = (Vec<Cut>, <M as TokenModel>::Masks);

/// Everything random of a step on scans of so many frames, this far apart: piece after piece from one stream, those in other hands
/// included.
fn draw<M: TokenModel>(
    config: &M::Config,
    lengths: &[(usize, f64)],
    micro_batch_size: usize,
    (seed, step): (u64, u64),
) -> Vec<Drawn<M>> {
    let (grid, mut rng) = (config.grid(), stream("token step", &[seed, step]));
    let piece = |lengths: &[(usize, f64)]| {
        let cut = |&(frames, tr)| grid.random_cut(frames, config.stride(frames, tr), &mut rng);
        let cuts = lengths.iter().map(cut).collect();
        (cuts, M::masks(config, lengths.len(), &mut rng))
    };
    lengths.chunks(micro_batch_size.max(1)).map(piece).collect()
}

/// The scans of a run, and what is published of it.
#[derive(Clone, Debug)]
pub struct TokenData<M: TokenModel> {
    pub source: ScanSource,
    /// Fitted on those of its people who are trained on.
    pub scaler: FittedRobustScaler,
    /// Scans trained on.
    pub scans: Vec<usize>,
    pub batch_size: usize,
    /// Scans whose activations are held at once.
    pub micro_batch_size: usize,
    pub config: M::Config,
    /// What is published, but for the weights.
    pub directory: TokenDirectory,
    pub model: PathBuf,
}

impl<M: TokenModel> Batches for TokenData<M> {
    /// The number of scans, and the micro-batches.
    type Batch = (usize, Vec<Option<TokenPiece<M::Masks>>>);

    fn steps_per_epoch(&self) -> u64 {
        self.scans.len().div_ceil(self.batch_size) as u64
    }

    fn draw(&self, seed: u64, step: u64, hand: Hand) -> Result<Option<Self::Batch>, CohortError> {
        let (epoch, place) = (step / self.steps_per_epoch(), (step % self.steps_per_epoch()) as usize);
        let mut order = self.scans.clone();
        shuffle(&mut order, &mut stream("token order", &[seed, epoch]));
        let chosen = order.chunks(self.batch_size).nth(place).unwrap_or_default();
        let (cohort, grid) = (self.source.cohort(), self.config.grid());
        let of_scan = |&i: &usize| (cohort.index()[i].frames, cohort.index()[i].tr_seconds);
        let lengths: Vec<(usize, f64)> = chosen.iter().map(of_scan).collect();
        let drawn = draw::<M>(&self.config, &lengths, self.micro_batch_size, (seed, step));
        let read = |(&i, &cut): (&usize, &Cut)| Ok(grid.patches(&self.scaler.apply(&cohort.scan(i)?), cut));
        let piece = |(number, (scans, (cuts, masks))): (usize, (&[usize], Drawn<M>))| {
            if !hand.holds(number) {
                return Ok(None);
            }
            let values = scans.par_iter().zip(&cuts).map(read).collect::<Result<Vec<_>, CohortError>>()?.concat();
            let share = scans.len() as f64 / chosen.len() as f64;
            Ok(Some(TokenPiece { values, scans: scans.len(), share, masks }))
        };
        let pieces = chosen.chunks(self.micro_batch_size.max(1)).zip(drawn).enumerate().map(piece);
        Ok(Some((chosen.len(), pieces.collect::<Result<_, CohortError>>()?)))
    }

    fn scans((scans, _): &Self::Batch) -> usize {
        *scans
    }
}

/// Patches and masks of some scans of a step.
#[derive(Clone, Debug)]
pub struct TokenPiece<K> {
    values: Vec<f32>,
    scans: usize,
    /// Part of the step's scans that are in it.
    share: f64,
    masks: K,
}

impl<M: TokenModel> Learner for TokenLearner<M> {
    type Data = TokenData<M>;
    type Piece = TokenPiece<M::Masks>;
    type Error = EvalError;

    fn device(&self) -> Device {
        of_module(self.model.net())
    }

    fn files(&self) -> WeightFiles {
        M::files(self.model.config())
    }

    fn parameters(&self) -> Vec<Parameters> {
        self.model.parameters()
    }

    fn restored(self, weights: Option<Vec<Parameters>>) -> Result<Self, EvalError> {
        let config = self.model.config();
        let weights = weights.unwrap_or_else(|| M::initial(config, self.seed));
        let model = M::of_parameters(config, weights, self.kernels, &self.device())?;
        Ok(Self { model, ..self })
    }

    fn pieces(&self, (_, pieces): (usize, Vec<Option<Self::Piece>>), _: &At) -> Vec<Option<Self::Piece>> {
        pieces
    }

    fn pass(&self, piece: &Self::Piece, _: &At, _: bool) -> Result<Contribution, EvalError> {
        let patches = patches(piece.values.clone(), piece.scans, self.model.config().grid(), &self.device().autodiff());
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
        let matrices = Adam {
            learning_rate: self.learning_rate(at),
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: WeightDecay::Decoupled(weight_decay(&self.train, at)),
            gradient_scale: scale as f32,
        };
        let vectors = Adam { weight_decay: WeightDecay::None, ..matrices };
        let of_parameter = |_: &str, axes: usize| if axes < 2 { vectors } else { matrices };
        let momentum = momentum(&self.train, at);
        let model = self.model.updated(|net| state.apply(net, gradients, &of_parameter), momentum);
        Self { model, ..self }
    }

    fn publish(&self, data: &TokenData<M>, steps: u64, _: Option<&ValidationEntry>) -> Result<(), EvalError> {
        let training = format!("{steps} steps of {} scans, seed {}.", self.train.batch_size, self.seed);
        let directory = TokenDirectory { weights: self.model.parameters(), ..data.directory.clone() };
        directory.write(&data.model, &training)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bdo_data::record::Plan;

    #[test]
    fn schedules_start_peak_and_end_where_they_should() {
        let jepa = of_preset(Preset::BrainJepa, 16);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        let at = |step, steps: u64| At { plan: Plan::of_epochs(steps as f64, 1), step, seed: 0 };
        near(learning_rate(&jepa, &at(0, 300)), 5e-5);
        near(learning_rate(&jepa, &at(40, 300)), 1e-3);
        near(learning_rate(&jepa, &at(299, 300)), 1e-6);
        near(weight_decay(&jepa, &at(0, 300)), 0.04);
        near(weight_decay(&jepa, &at(299, 300)), 0.4);
        near(momentum(&jepa, &at(0, 300)), 0.996);
        near(momentum(&jepa, &at(299, 300)), 1.0);
        near(learning_rate(&of_preset(Preset::BrainLm, 128), &at(5, 100)), 5e-4);
    }
}
