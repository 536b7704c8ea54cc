//! One step of a token model: patches, loss, gradient, `AdamW`, moving average.

use super::learner::Learner;
use crate::token::grid::PATCH;
use bdo_data::random::stream;
use bdo_data::scaler::ScaledScan;
use bdo_kernels::adam::{Adam, WeightDecay};
use bdo_train::gradient::NamedGradients;
use bdo_train::optimiser::AdamState;
use burn::tensor::{Device, Tensor, TensorData};

/// A scan ready for a token model.
#[derive(Clone, Debug)]
pub struct TokenScan {
    /// Scaled values.
    pub scan: ScaledScan,
    /// Repetition time.
    pub tr_seconds: f64,
}

/// All that a training carries from one step to the next.
#[derive(Clone, Debug)]
pub struct TokenState<L> {
    /// The step to take next.
    pub step: u64,
    /// The model, with what follows it.
    pub learner: L,
    /// The optimiser's moments.
    pub adam: AdamState,
}

/// What changes from step to step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepSettings {
    /// Step length.
    pub learning_rate: f64,
    /// Decoupled, on matrices.
    pub weight_decay: f64,
    /// Of the moving average.
    pub momentum: f64,
}

/// What a step was like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// The loss before it.
    pub loss: f64,
    /// Norm of its gradient.
    pub gradient_norm: f64,
}

/// The loss is not a number any more.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error("expected a finite loss, found {loss} at step {step}; a smaller train.learning_rate may help")]
pub struct Diverged {
    /// Where.
    pub step: u64,
    /// What it was.
    pub loss: f64,
}

impl<L: Learner> TokenState<L> {
    /// Before the first step.
    pub fn fresh(learner: L) -> Self {
        Self { step: 0, learner, adam: AdamState::default() }
    }

    /// One step on a batch; what is random in it is a function of seed and step. The gradient is summed over pieces of
    /// `scans_at_once` scans, whose activations are what memory is needed for.
    pub fn advance(
        self,
        scans: &[&TokenScan],
        settings: &StepSettings,
        scans_at_once: usize,
        seed: u64,
    ) -> Result<(Self, StepReport), Diverged> {
        let Self { step, learner, mut adam } = self;
        let mut rng = stream("token step", &[seed, step]);
        let (mut total, mut gradients) = (0.0, NamedGradients::default());
        for piece in scans.chunks(scans_at_once.max(1)) {
            let grid = learner.grid();
            let mut values = Vec::with_capacity(piece.len() * grid.tokens() * PATCH);
            for scan in piece {
                let cut = learner.cut(scan.scan.times_seconds.len(), scan.tr_seconds, &mut rng);
                values.extend(grid.patches(&scan.scan, cut));
            }
            let patches = patches(values, piece.len(), &learner, &Device::flex().autodiff());
            let share = piece.len() as f64 / scans.len() as f64;
            let loss = learner.loss(patches, &mut rng);
            let value = f64::from(loss.clone().inner().into_scalar::<f32>());
            if !value.is_finite() {
                return Err(Diverged { step, loss: value });
            }
            total += share * value;
            gradients = gradients.plus(NamedGradients::of_module(learner.net(), loss.backward()).scaled(share));
        }
        let gradient_norm = gradients.norm();
        let of_parameter = |_: &str, axes: usize| settings.adam(axes);
        let learner = learner.updated(|net| adam.apply_each(net, &gradients, &of_parameter), settings.momentum);
        Ok((Self { step: step + 1, learner, adam }, StepReport { loss: total, gradient_norm }))
    }
}

impl StepSettings {
    fn adam(&self, axes: usize) -> Adam {
        Adam {
            learning_rate: self.learning_rate,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: if axes < 2 { WeightDecay::None } else { WeightDecay::Decoupled(self.weight_decay) },
            gradient_scale: 1.0,
        }
    }
}

/// The patches that a feature of a scan is made from, row-major [tokens, 16].
pub fn feature_patches<L: Learner>(learner: &L, scan: &TokenScan) -> Vec<f32> {
    let cut = learner.feature_cut(scan.scan.times_seconds.len(), scan.tr_seconds);
    learner.grid().patches(&scan.scan, cut)
}

/// Features of scans, `batch_size` at a time: one row each.
pub fn features<L: Learner>(learner: &L, scans: &[&TokenScan], batch_size: usize) -> Vec<Vec<f32>> {
    let mut found = Vec::with_capacity(scans.len());
    for chunk in scans.chunks(batch_size.max(1)) {
        let values = chunk.iter().flat_map(|scan| feature_patches(learner, scan)).collect();
        let feature = learner.feature(patches(values, chunk.len(), learner, &Device::flex()));
        let width = feature.dims()[1];
        let values = feature.into_data().try_to_vec::<f32>().expect("features are f32");
        found.extend(values.chunks_exact(width).map(<[f32]>::to_vec));
    }
    found
}

fn patches<L: Learner>(values: Vec<f32>, samples: usize, learner: &L, device: &Device) -> Tensor<3> {
    Tensor::from_data(TensorData::new(values, [samples, learner.grid().tokens(), PATCH]), device)
}
