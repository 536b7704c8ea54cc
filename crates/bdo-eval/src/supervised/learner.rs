//! A network with labels as a learner of the training loop: mixing, dropout, the loss of the label, layer-wise rates, and the
//! epoch chosen on the validation people.

use super::network::{Input, Mix, Network, Scans, Training};
use super::recipe::{Recipe, Reduction, Selection};
use crate::error::EvalError;
use crate::fit::{Loss, added, cost, predictions};
use crate::score::Score;
use bdo_data::cohort::CohortError;
use bdo_data::division::Split;
use bdo_data::random::{below, shuffle, stream};
use bdo_data::record::ValidationEntry;
use bdo_model::device::of_module;
use bdo_model::ops::Kernels;
use bdo_model::parameters::Parameters;
use bdo_train::fit::{Course, Keep, RunObserver, fit};
use bdo_train::gradient::NamedGradients;
use bdo_train::learner::{At, Batches, Contribution, Hand, Learner, WeightFiles};
use bdo_train::optimiser::AdamState;
use bdo_train::ranks::Ranks;
use burn::tensor::Device;
use rand_chacha::rand_core::Rng;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Example<H> {
    pub scan: H,
    /// Position of a class, the z-scored value for a number.
    pub label: f32,
    /// Whose scan it is: predictions of one person are averaged.
    pub person: usize,
    /// What something else says of the scan, which the outputs of the network are added to; empty for nothing.
    pub said: Vec<f32>,
}

#[derive(Clone, Debug)]
pub struct Parts<H> {
    pub train: Vec<Example<H>>,
    pub validation: Vec<Example<H>>,
    pub test: Vec<Example<H>>,
}

impl<H> Parts<H> {
    /// Deals scans with the names of their people out to the parts of a split, and names the people by their number. `label`
    /// gives a person's label in units of the loss; scans of people without one are left out. Nothing else says anything of them.
    pub fn deal<'a>(
        split: &Split,
        scans: impl Iterator<Item = (&'a str, H)> + Clone,
        label: &dyn Fn(&str) -> Option<f32>,
    ) -> (Self, Vec<String>) {
        let people: BTreeSet<&str> = scans.clone().map(|(subject, _)| subject).collect();
        let people: Vec<String> = people.into_iter().map(str::to_owned).collect();
        let mut parts = Self { train: Vec::new(), validation: Vec::new(), test: Vec::new() };
        for (subject, scan) in scans {
            let part = if split.train.contains(subject) {
                &mut parts.train
            } else if split.validation.contains(subject) {
                &mut parts.validation
            } else if split.test.contains(subject) {
                &mut parts.test
            } else {
                continue;
            };
            if let Some(label) = label(subject) {
                let person = people.partition_point(|other| other.as_str() < subject);
                part.push(Example { scan, label, person, said: vec![] });
            }
        }
        (parts, people)
    }
}

#[derive(Clone, Debug)]
pub struct Request<'a, N: Network, S: Scans> {
    pub config: &'a N::Config,
    pub recipe: &'a Recipe,
    pub loss: Loss,
    pub scans: &'a S,
    pub parts: &'a Parts<S::Handle>,
    /// Seed of weights, order, mixing and dropout.
    pub seed: u64,
    pub kernels: Kernels,
    /// Where they run.
    pub device: &'a Device,
    /// Where the state is kept, if anywhere: a folder, and a name for all that decides the training.
    pub states: Option<(&'a std::path::Path, &'a str)>,
    pub ranks: &'a dyn Ranks,
}

/// A trained network at its best epoch.
#[derive(Clone, Debug)]
pub struct FittedNetwork<N> {
    /// The network, outside any gradient tape.
    pub network: N,
    pub parameters: Parameters,
    /// The chosen epoch, counted from 0.
    pub epoch: usize,
    pub score: Score,
    /// Mean training loss of every epoch.
    pub train_losses: Vec<f64>,
    pub loss: Loss,
    batch_size: usize,
}

/// Trains for all epochs and returns the best one.
pub fn fit_network<N: Network, S: Scans<Input = N::Input>>(
    request: &Request<N, S>,
    observer: &dyn RunObserver,
) -> Result<FittedNetwork<N>, EvalError> {
    let Request { config, recipe, loss, scans, parts, seed, kernels, device, states, ranks } = *request;
    if parts.train.len() < 2 || parts.validation.is_empty() {
        return Err(too_few(parts));
    }
    let (plain, device) = (device, device.clone().autodiff());
    let network = N::from_parameters(config, N::initial(config, seed), kernels, &device)?;
    let (config, recipe) = (config.clone(), recipe.clone());
    let (batches, at_once) = (recipe.batches(parts.train.len()), N::SCANS_AT_ONCE);
    let data = SupervisedData { scans, parts, batches, at_once, order: recipe.order };
    let course = Course::of_epochs(seed, recipe.length());
    let keep = match states {
        None => Keep::Nothing,
        Some((folder, identity)) => Keep::Checkpoints { folder: folder.to_path_buf(), identity: identity.to_owned() },
    };
    let learner = Supervised { network, config, recipe, loss, seed, kernels, device, scans: PhantomData };
    let fitted = fit(learner, &data, &course, keep, ranks, observer).map_err(|error| match error.stopped_at() {
        Some(step) => EvalError::InterruptedAt { step },
        None => error,
    })?;
    let best = fitted.best.and_then(|mut sets| sets.pop());
    let (epoch, parameters) = fitted.progress.best.zip(best).ok_or_else(|| too_few(parts))?;
    let (validations, learner) = (fitted.progress.validations, fitted.learner);
    Ok(FittedNetwork {
        network: N::from_parameters(&learner.config, parameters.clone(), kernels, plain)?,
        parameters,
        epoch,
        score: Score::of_entry(&validations[epoch]),
        train_losses: validations.iter().map(|entry| entry.measures.get("train_loss")).collect(),
        loss,
        batch_size: learner.recipe.batch_size,
    })
}

/// Nobody to learn from or to select with.
pub fn too_few<H>(parts: &Parts<H>) -> EvalError {
    let found = format!("{} and {}", parts.train.len(), parts.validation.len());
    EvalError::found("at least two scans to train on and one to select with", found)
}

impl<N: Network> FittedNetwork<N> {
    pub fn predict<S: Scans<Input = N::Input>>(
        &self,
        scans: &S,
        examples: &[Example<S::Handle>],
    ) -> Result<Vec<Vec<f64>>, CohortError> {
        predict(&self.network, self.loss, scans, examples, self.batch_size)
    }
}

/// What a network says of each scan: probabilities of all classes, or the z-scored number.
pub fn predict<N: Network, S: Scans<Input = N::Input>>(
    network: &N,
    loss: Loss,
    scans: &S,
    examples: &[Example<S::Handle>],
    batch_size: usize,
) -> Result<Vec<Vec<f64>>, CohortError> {
    let (mut found, device) = (Vec::with_capacity(examples.len()), of_module(network));
    for chunk in examples.chunks(batch_size.clamp(1, N::SCANS_AT_ONCE)) {
        let inputs = chunk.par_iter().map(|example| scans.whole(&example.scan)).collect::<Result<Vec<_>, _>>()?;
        let batch = N::Input::on(&inputs, None, &device);
        let further: Vec<f32> = chunk.iter().flat_map(|example| example.said.iter().copied()).collect();
        found.extend(predictions(loss, &added(network.pass(&batch, None).output, &further)));
    }
    Ok(found)
}

/// The scans of a training with labels.
#[derive(Debug)]
pub struct SupervisedData<'a, S: Scans> {
    scans: &'a S,
    parts: &'a Parts<S::Handle>,
    /// Where the batches of an epoch begin and end.
    batches: Vec<std::ops::Range<usize>>,
    /// Most scans of a micro-batch.
    at_once: usize,
    /// Purpose of the random stream that orders the scans.
    order: &'static str,
}

/// Inputs and labels of a step, by micro-batch.
#[derive(Debug)]
pub struct Labelled<I> {
    scans: usize,
    /// None where it is in another hand.
    pieces: Vec<Option<Examples<I>>>,
}

/// Inputs, labels, and what else is said of them.
type Examples<I> = (Vec<Arc<I>>, Vec<f32>, Vec<f32>);

impl<S: Scans> Batches for SupervisedData<'_, S> {
    type Batch = Labelled<S::Input>;

    fn steps_per_epoch(&self) -> u64 {
        self.batches.len() as u64
    }

    fn draw(&self, seed: u64, step: u64, hand: Hand) -> Result<Option<Labelled<S::Input>>, CohortError> {
        let (epoch, place) = (step / self.steps_per_epoch(), (step % self.steps_per_epoch()) as usize);
        let mut order: Vec<usize> = (0..self.parts.train.len()).collect();
        shuffle(&mut order, &mut stream(self.order, &[seed, epoch]));
        let chosen: Vec<&Example<S::Handle>> =
            order[self.batches[place].clone()].iter().map(|i| &self.parts.train[*i]).collect();
        let read = |piece: &[&Example<S::Handle>]| {
            let inputs = piece.par_iter().map(|example| self.scans.visit(&example.scan, seed, epoch));
            let labels = piece.iter().map(|example| example.label).collect();
            let said = piece.iter().flat_map(|example| example.said.iter().copied()).collect();
            Ok((inputs.collect::<Result<Vec<_>, CohortError>>()?, labels, said))
        };
        let pieces = chosen.chunks(self.at_once.min(chosen.len()).max(1)).enumerate();
        let pieces = pieces.map(|(number, piece)| hand.holds(number).then(|| read(piece)).transpose());
        Ok(Some(Labelled { scans: chosen.len(), pieces: pieces.collect::<Result<_, CohortError>>()? }))
    }

    fn scans(batch: &Labelled<S::Input>) -> usize {
        batch.scans
    }
}

#[derive(Debug)]
struct Supervised<'a, N: Network, S> {
    network: N,
    config: N::Config,
    recipe: Recipe,
    loss: Loss,
    seed: u64,
    kernels: Kernels,
    device: Device,
    scans: PhantomData<&'a S>,
}

/// Some scans of a step with all that is random about them.
struct Piece<I> {
    inputs: Vec<Arc<I>>,
    /// One row an input, of one value an output.
    labels: Vec<f32>,
    /// What else is said of them, likewise; may be empty.
    said: Vec<f32>,
    mix: Option<Mix>,
    training: Training,
    share: f64,
}

impl<'a, N: Network, S: Scans<Input = N::Input> + 'a> Learner for Supervised<'a, N, S> {
    type Data = SupervisedData<'a, S>;
    type Piece = Piece<N::Input>;
    type Error = EvalError;

    fn device(&self) -> Device {
        self.device.clone()
    }

    fn files(&self) -> WeightFiles {
        vec![("network.safetensors", N::table(&self.config))]
    }

    fn parameters(&self) -> Vec<Parameters> {
        vec![Parameters::of_module(&self.network, "")]
    }

    fn restored(self, weights: Option<Vec<Parameters>>) -> Result<Self, EvalError> {
        let stored = weights.and_then(|mut sets| sets.pop());
        let values = stored.unwrap_or_else(|| N::initial(&self.config, self.seed));
        let network = N::from_parameters(&self.config, values, self.kernels, &self.device)?;
        Ok(Self { network, ..self })
    }

    fn pieces(&self, batch: Labelled<N::Input>, at: &At) -> Vec<Option<Self::Piece>> {
        let scans = batch.scans;
        let piece = |number: usize, (inputs, labels, said): Examples<N::Input>| {
            let mix = self.recipe.mixup.then(|| mix(labels.len(), at));
            let unmixed = self.loss != Loss::SquaredError && mix.is_none();
            let classes = unmixed.then(|| labels.iter().map(|label| *label as usize).collect());
            let rows = self.loss.label_rows(&labels);
            let labels = mix.as_ref().map_or_else(|| rows.clone(), |mix| mix.blend(&rows, self.loss.outputs()));
            let share = match self.recipe.reduction {
                Reduction::Mean => inputs.len() as f64 / scans as f64,
                Reduction::Sum => 1.0,
            };
            let training = Training { key: dropout_key(at, number), classes };
            Piece { inputs, labels, said, mix, training, share }
        };
        batch.pieces.into_iter().enumerate().map(|(number, found)| Some(piece(number, found?))).collect()
    }

    fn pass(&self, piece: &Self::Piece, _: &At, _: bool) -> Result<Contribution, EvalError> {
        let batch = N::Input::on(&piece.inputs, piece.mix.as_ref(), &self.device);
        let pass = self.network.pass(&batch, Some(&piece.training));
        let mut loss = cost(self.loss, added(pass.output, &piece.said), &piece.labels, self.recipe.reduction);
        if let Some(penalty) = pass.penalty {
            loss = loss + penalty;
        }
        let value = loss.clone();
        let found = Contribution::of_loss(&value, piece.share, || {
            NamedGradients::of_module(&self.network, loss.backward()).scaled(piece.share)
        });
        Ok(Contribution { statistics: pass.statistics, ..found })
    }

    fn learning_rate(&self, at: &At) -> f64 {
        self.recipe.rate.at(&at.plan, at.step)
    }

    fn updated(self, gradients: &NamedGradients, adam: &mut AdamState, scale: f64, at: &At) -> Self {
        let rate = self.learning_rate(at);
        let of_parameter = |name: &str, axes: usize| self.recipe.adam(rate, N::depth(&self.config, name), axes, scale);
        Self { network: adam.apply(self.network, gradients, &of_parameter), ..self }
    }

    fn absorbed(self, statistics: &[Vec<f32>]) -> Self {
        Self { network: self.network.absorb(statistics), ..self }
    }

    fn validate(&self, data: &Self::Data, step: u64) -> Result<Option<ValidationEntry>, EvalError> {
        let examples = &data.parts.validation;
        let said = predict(&self.network.valid(), self.loss, data.scans, examples, self.recipe.batch_size)?;
        Ok(Some(Score::of(self.loss, examples, &said).entry(step, examples.len())))
    }

    fn prefers(&self, epoch: usize, entry: &ValidationEntry, best: Option<(usize, &ValidationEntry)>) -> bool {
        let (Some((chosen, best)), selection) = (best, self.recipe.selection) else { return true };
        // The first epoch that may be chosen replaces one that was only kept because there was none.
        let (eligible, early) = match selection {
            Selection::Protocol => (true, false),
            Selection::LossAfter(epochs) => (epoch >= epochs, chosen < epochs),
        };
        eligible && (early || Score::of_entry(entry).beats(&Score::of_entry(best), selection))
    }
}

/// Share and partners of a step. Beta(1, 1) is the uniform distribution.
fn mix(samples: usize, at: &At) -> Mix {
    let mut rng = stream("baseline mixup", &[at.seed, at.step]);
    let share = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let mut partner: Vec<usize> = (0..samples).collect();
    shuffle(&mut partner, &mut rng);
    Mix { share, partner }
}

/// Key of the dropout masks of a piece of a step's batch.
fn dropout_key(at: &At, piece: usize) -> [u8; 32] {
    let place = [at.seed, at.step, piece as u64];
    // The first piece, which is usually the only one, is where the step is.
    let mut rng = stream("baseline dropout", if piece == 0 { &place[..2] } else { &place });
    std::array::from_fn(|_| below(&mut rng, 256) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixing_uses_one_share_for_inputs_and_labels() {
        use bdo_data::record::Plan;
        let at = At { plan: Plan::of_epochs(3.0, 1), step: 2, seed: 1 };
        let labels: Vec<f32> = (0..9).map(|i| i as f32).collect();
        let mixed = mix(9, &at).blend(&labels, 1);
        let total: f32 = mixed.iter().sum();
        assert!((total - 36.0).abs() < 1e-4, "{total}");
        assert!(mixed.iter().enumerate().any(|(i, x)| *x != i as f32));
        // Rows of three equal values stay equal, whatever the share and the partners.
        let wide: Vec<f32> = labels.iter().flat_map(|x| [*x; 3]).collect();
        assert_eq!(mix(9, &at).blend(&wide, 3), mixed.iter().flat_map(|x| [*x; 3]).collect::<Vec<f32>>());
    }
}
