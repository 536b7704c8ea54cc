//! The loop, and features with what it leaves.

use super::learner::Learner;
use super::recipe::TokenRecipe;
use bdo_data::random::{shuffle, stream};
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

/// Training cannot go on.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum PretrainError {
    /// Nobody to learn from.
    #[error("expected at least one scan to train on, found none")]
    Empty,
    /// The loss is not a number any more.
    #[error("expected a finite loss, found {loss} at step {step}; a smaller learning rate may help")]
    Diverged {
        /// Where.
        step: u64,
        /// What it was.
        loss: f64,
    },
    /// Stopped by request.
    #[error("interrupted after {epochs} epochs of pre-training, which are not kept")]
    Interrupted {
        /// Epochs done.
        epochs: usize,
    },
}

/// Trains for all epochs; `watch` sees every epoch's number and mean loss and says whether to go on.
pub fn pretrain<L: Learner>(
    mut learner: L,
    scans: &[&TokenScan],
    recipe: &TokenRecipe,
    seed: u64,
    watch: &mut dyn FnMut(usize, f64) -> bool,
) -> Result<L, PretrainError> {
    if scans.is_empty() {
        return Err(PretrainError::Empty);
    }
    let size = recipe.batch_size.clamp(1, scans.len());
    let each = scans.len().div_ceil(size) as u64;
    let total = each * recipe.epochs as u64;
    let mut state = AdamState::default();
    for epoch in 0..recipe.epochs {
        let mut order: Vec<usize> = (0..scans.len()).collect();
        shuffle(&mut order, &mut stream("token order", &[seed, epoch as u64]));
        let mut losses = 0.0;
        for (place, chosen) in order.chunks(size).enumerate() {
            let step = epoch as u64 * each + place as u64;
            let mut rng = stream("token step", &[seed, step]);
            let grid = learner.grid();
            let mut values = Vec::with_capacity(chosen.len() * grid.tokens() * crate::token::grid::PATCH);
            for &i in chosen {
                let cut = learner.cut(scans[i].scan.times_seconds.len(), scans[i].tr_seconds, &mut rng);
                values.extend(grid.patches(&scans[i].scan, cut));
            }
            let patches = tensor(values, chosen.len(), &learner, &Device::flex().autodiff());
            let loss = learner.loss(patches, &mut rng);
            let value = f64::from(loss.clone().inner().into_scalar::<f32>());
            if !value.is_finite() {
                return Err(PretrainError::Diverged { step, loss: value });
            }
            losses += value / each as f64;
            let gradients = NamedGradients::of_module(learner.net(), loss.backward());
            let settings = |_: &str, axes: usize| adam(recipe, step, total, axes);
            let momentum = recipe.momentum_at(step, total);
            learner = learner.updated(|net| state.apply_each(net, &gradients, &settings), momentum);
        }
        if !watch(epoch, losses) && epoch + 1 < recipe.epochs {
            return Err(PretrainError::Interrupted { epochs: epoch + 1 });
        }
    }
    Ok(learner)
}

/// Features of scans, `batch_size` at a time: one row each.
pub fn features<L: Learner>(learner: &L, scans: &[&TokenScan], batch_size: usize) -> Vec<Vec<f32>> {
    let mut found = Vec::with_capacity(scans.len());
    for chunk in scans.chunks(batch_size.max(1)) {
        let patches = chunk.iter().flat_map(|scan| {
            let cut = learner.feature_cut(scan.scan.times_seconds.len(), scan.tr_seconds);
            learner.grid().patches(&scan.scan, cut)
        });
        let patches = tensor(patches.collect(), chunk.len(), learner, &Device::flex());
        let feature = learner.feature(patches);
        let width = feature.dims()[1];
        let values = feature.into_data().try_to_vec::<f32>().expect("features are f32");
        found.extend(values.chunks_exact(width).map(<[f32]>::to_vec));
    }
    found
}

fn tensor<L: Learner>(patches: Vec<f32>, samples: usize, learner: &L, device: &Device) -> Tensor<3> {
    let shape = [samples, learner.grid().tokens(), crate::token::grid::PATCH];
    Tensor::from_data(TensorData::new(patches, shape), device)
}

fn adam(recipe: &TokenRecipe, step: u64, total: u64, axes: usize) -> Adam {
    let decay = recipe.weight_decay_at(step, total);
    Adam {
        learning_rate: recipe.rate_at(step, total),
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weight_decay: if axes < 2 { WeightDecay::None } else { WeightDecay::Decoupled(decay) },
        gradient_scale: 1.0,
    }
}
