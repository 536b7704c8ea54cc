//! The loop, top to bottom, for any network over connectomes.

use super::checkpoint::{CheckpointError, Checkpoints, State};
use super::example::{Example, HostBatch, Parts, dropout_key, order};
use super::objective::{Reduction, cost, predictions};
use super::recipe::{Recipe, Selection};
use super::select::Score;
use crate::network::{Network, Training};
use bdo_eval::fit::Loss;
use bdo_model::ops::Kernels;
use bdo_model::parameters::{ParameterError, Parameters};
use bdo_train::gradient::NamedGradients;
use bdo_train::optimiser::AdamState;
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// What to train on what.
#[derive(Clone, Debug)]
pub struct Request<'a, C> {
    /// Shape of the network.
    pub config: &'a C,
    /// How it is trained.
    pub recipe: &'a Recipe,
    /// What a wrong prediction costs.
    pub loss: Loss,
    /// Who trains, selects and is tested.
    pub parts: &'a Parts,
    /// Seed of weights, order, mixing and dropout.
    pub seed: u64,
    /// What the layers run.
    pub kernels: Kernels,
    /// Where the state is kept after every epoch, if anywhere.
    pub checkpoints: Option<&'a Checkpoints>,
}

/// What one epoch did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// Counted from 0.
    pub epoch: usize,
    /// Mean loss of its steps, penalties included.
    pub train_loss: f64,
    /// On the validation people.
    pub validation: Score,
}

/// A trained network at its best epoch.
#[derive(Clone, Debug)]
pub struct Fitted<N> {
    /// The network, outside any gradient tape.
    pub network: N,
    /// The chosen epoch.
    pub epoch: usize,
    /// Its score.
    pub score: Score,
    /// Every epoch.
    pub history: Vec<EpochRecord>,
    loss: Loss,
    batch_size: usize,
}

/// Training cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// Nobody to learn from or to select with.
    #[error("expected at least two scans to train on and one to select with, found {train} and {validation}")]
    TooFew {
        /// Scans to train on.
        train: usize,
        /// Scans to select with.
        validation: usize,
    },
    /// The loss is not a number any more.
    #[error("expected a finite loss, found {loss} in epoch {epoch}; a smaller learning rate may help")]
    Diverged {
        /// Where.
        epoch: usize,
        /// What it was.
        loss: f64,
    },
    /// The parameters do not fit the network.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The state cannot be kept or taken up.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Stopped by request.
    #[error("interrupted after {epochs} epochs; run the same command again to go on")]
    Interrupted {
        /// Epochs that will not have to be done again.
        epochs: usize,
    },
}

/// Trains for all epochs and returns the best one. `watch` sees every epoch and says whether to go on.
pub fn fit<N: Network>(
    request: &Request<N::Config>,
    watch: &mut dyn FnMut(&EpochRecord) -> bool,
) -> Result<Fitted<N>, FitError> {
    let Request { config, recipe, loss: kind, parts, seed, kernels, checkpoints } = request;
    let (train, validation) = (parts.train.len(), parts.validation.len());
    if train < 2 || validation == 0 {
        return Err(FitError::TooFew { train, validation });
    }
    let device = Device::flex().autodiff();
    let table = N::table(config);
    let restored = checkpoints.map(|kept| kept.restore(&table)).transpose()?.flatten();
    let mut state = restored.unwrap_or_else(|| State::fresh(N::initial(config, *seed)));
    let mut network = N::from_parameters(config, state.network.clone(), *kernels, &device)?;
    let batches = recipe.batches(train);
    let mut epochs = state.epochs.unwrap_or(recipe.epochs);
    while state.history.len() < epochs {
        let begun = Instant::now();
        let epoch = state.history.len();
        let total = (batches.len() * epochs) as u64;
        let order = order(train, *seed, epoch);
        let mut losses = 0.0;
        for (place, range) in batches.iter().enumerate() {
            let step = (epoch * batches.len() + place) as u64;
            let chosen: Vec<&Example> = order[range.clone()].iter().map(|i| &parts.train[*i]).collect();
            let rate = recipe.rate_at(step, epoch, total);
            let loss;
            (network, loss) = train_step(network, &mut state.adam, &chosen, request, step, rate);
            if !loss.is_finite() {
                return Err(FitError::Diverged { epoch, loss });
            }
            losses += loss;
        }
        let fitted = network.valid();
        let predictions = predict(&fitted, *kind, &parts.validation, recipe.batch_size);
        let validation = Score::of(*kind, &parts.validation, &predictions);
        let record = EpochRecord { epoch, train_loss: losses / batches.len() as f64, validation };
        state.note(record, recipe.selection, || Parameters::of_module(&fitted, ""));
        if state.epochs.is_none() {
            epochs = recipe.epochs_in_time(begun.elapsed().as_secs_f64());
            state.epochs = Some(epochs);
        }
        let go_on = watch(&record);
        if let Some(kept) = checkpoints {
            state.network = Parameters::of_module(&fitted, "");
            kept.save(&table, &state)?;
        }
        if !go_on && epoch + 1 < epochs {
            return Err(FitError::Interrupted { epochs: if checkpoints.is_some() { epoch + 1 } else { 0 } });
        }
    }
    let (epoch, best) = state.best.ok_or(FitError::TooFew { train, validation })?;
    Ok(Fitted {
        network: N::from_parameters(config, best, *kernels, &Device::flex())?,
        epoch,
        score: state.history[epoch].validation,
        history: state.history,
        loss: *kind,
        batch_size: recipe.batch_size,
    })
}

impl<N: Network> Fitted<N> {
    /// Probabilities of class 1, or z-scored numbers, one a scan.
    pub fn predict(&self, examples: &[Example]) -> Vec<f32> {
        predict(&self.network, self.loss, examples, self.batch_size)
    }
}

fn train_step<N: Network>(
    network: N,
    state: &mut AdamState,
    chosen: &[&Example],
    request: &Request<N::Config>,
    step: u64,
    rate: f64,
) -> (N, f64) {
    let recipe = request.recipe;
    let (mut total, mut gradients, mut statistics) = (0.0, NamedGradients::default(), Vec::new());
    for (number, piece) in chosen.chunks(N::SCANS_AT_ONCE).enumerate() {
        let mut host = HostBatch::of(piece);
        if recipe.mixup {
            host = host.mixed(request.seed, step);
        }
        let classes = if request.loss == Loss::CrossEntropy && !recipe.mixup { host.classes() } else { None };
        let training = Training { key: dropout_key(request.seed, step, number), classes };
        let pass = network.pass(&host.on(&Device::flex().autodiff()), Some(&training));
        let mut loss = cost(request.loss, pass.output, &host.labels, recipe.reduction);
        if let Some(penalty) = pass.penalty {
            loss = loss + penalty;
        }
        let share = match recipe.reduction {
            Reduction::Mean => piece.len() as f64 / chosen.len() as f64,
            Reduction::Sum => 1.0,
        };
        total += share * f64::from(loss.clone().inner().into_scalar::<f32>());
        if !total.is_finite() {
            return (network, total);
        }
        gradients = gradients.plus(NamedGradients::of_module(&network, loss.backward()).scaled(share));
        statistics = pass.statistics;
    }
    let of_parameter = |name: &str, axes: usize| recipe.adam(rate, N::depth(request.config, name), axes);
    let network = state.apply_each(network, &gradients, &of_parameter);
    (network.absorb(&statistics), total)
}

fn predict<N: Network>(network: &N, loss: Loss, examples: &[Example], batch_size: usize) -> Vec<f32> {
    let mut found = Vec::with_capacity(examples.len());
    for chunk in examples.chunks(batch_size.clamp(1, N::SCANS_AT_ONCE)) {
        let host = HostBatch::of(&chunk.iter().collect::<Vec<_>>());
        found.extend(predictions(loss, &network.pass(&host.on(&Device::flex()), None).output));
    }
    found
}

impl State {
    /// Adds an epoch, and keeps the network if it is the best so far.
    fn note(&mut self, record: EpochRecord, selection: Selection, network: impl FnOnce() -> Parameters) {
        let eligible = match selection {
            Selection::Protocol => true,
            Selection::LossAfter(epochs) => record.epoch >= epochs,
        };
        let better = match &self.best {
            None => true,
            // The first epoch that may be chosen replaces one that was only kept because there was none.
            Some((best, _)) => {
                let early = matches!(selection, Selection::LossAfter(epochs) if *best < epochs);
                eligible && (early || record.validation.beats(&self.history[*best].validation, selection))
            }
        };
        if better {
            self.best = Some((record.epoch, network()));
        }
        self.history.push(record);
    }
}
