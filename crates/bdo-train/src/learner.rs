//! What a model must provide to be trained by [`fit`](crate::fit::fit).

use crate::error::TrainError;
use crate::gradient::NamedGradients;
use crate::optimiser::AdamState;
use crate::step::number;
use bdo_data::cohort::CohortError;
use bdo_data::record::{Loss, Plan, Terms, ValidationEntry};
use bdo_model::device::{download, is_cpu};
use bdo_model::parameters::{ParameterSpec, Parameters};
use burn::tensor::{Device, Tensor};

/// Where in a run a step is. Together with the seed, the step decides everything random.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct At {
    pub plan: Plan,
    /// The step, counted from 0.
    pub step: u64,
    /// Seed of the run; another one after each rollback, so that the data come in another order.
    pub seed: u64,
}

impl At {
    pub fn epoch(&self) -> u64 {
        self.plan.position(self.step).0
    }
}

/// Files of weights and the table of each; the first holds the trained part.
pub type WeightFiles = Vec<(&'static str, Vec<ParameterSpec>)>;

/// The micro-batches of every step that one of several processes passes over: they are dealt out like cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hand {
    /// Number of the process, from 0.
    pub rank: usize,
    pub ranks: usize,
}

impl Hand {
    /// Of the only process.
    pub const ALL: Self = Self { rank: 0, ranks: 1 };

    /// Whether a micro-batch, counted from 0, is in it.
    pub fn holds(self, piece: usize) -> bool {
        piece % self.ranks.max(1) == self.rank
    }
}

/// The training scans, in the batches of the steps.
pub trait Batches: Sync {
    /// The scans of one step on the host; of other hands only what all must know.
    type Batch: Send;

    /// Steps of one pass over the scans.
    fn steps_per_epoch(&self) -> u64;

    /// The batch of a step: a function of seed and step alone, of which a hand is read. None if no scan of it can be used,
    /// whatever the hand.
    fn draw(&self, seed: u64, step: u64, hand: Hand) -> Result<Option<Self::Batch>, CohortError>;

    /// Scans in a batch, those of other hands included.
    fn scans(batch: &Self::Batch) -> usize;
}

/// Contribution of one micro-batch to a step: its share of every mean, so that contributions are added up.
#[derive(Clone, Debug, Default)]
pub struct Contribution {
    pub loss: Loss,
    pub measures: Terms,
    /// Gradient of the loss; none are needed if the loss is not finite.
    pub gradients: NamedGradients,
    /// Running statistics with this micro-batch in them; not added up, those of the last one hold.
    pub statistics: Vec<Vec<f32>>,
    /// What else belongs to loss and measures and is still on its device, to be read once for a step.
    pub unread: Option<Unread>,
}

impl Contribution {
    /// Of a loss that is one number [1], times its share of the step. Where it can be looked at for nothing, gradients are asked for
    /// only if it is finite.
    pub fn of_loss(loss: &Tensor<1>, share: f64, gradients: impl FnOnce() -> NamedGradients) -> Self {
        let value = loss.clone().inner();
        if !is_cpu(&value.device()) {
            let unread = Some(Unread { places: vec![Place::Total], values: value * share });
            return Self { gradients: gradients(), unread, ..Self::default() };
        }
        let loss = Loss::plain(share * number(&value));
        let gradients = if loss.total.is_finite() { gradients() } else { NamedGradients::default() };
        Self { loss, gradients, ..Self::default() }
    }

    /// With the contribution of the next micro-batch.
    #[must_use]
    pub(crate) fn plus(mut self, next: Self) -> Self {
        self.loss.add(&next.loss);
        self.measures.add(&next.measures);
        self.gradients = self.gradients.plus(next.gradients);
        self.statistics = next.statistics;
        self.unread = match (self.unread, next.unread) {
            (Some(sum), Some(next)) => Some(sum.plus(next)),
            (sum, next) => sum.or(next),
        };
        self
    }
}

/// Numbers of a step that are still on their device.
#[derive(Clone, Debug)]
pub struct Unread {
    /// What each of them is.
    pub places: Vec<Place>,
    /// One for each place.
    pub values: Tensor<1>,
}

/// What a number of a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Total,
    Term(&'static str),
    Measure(&'static str),
}

impl Unread {
    /// Of numbers [1], each.
    pub fn of(numbers: Vec<(Place, Tensor<1>)>) -> Self {
        let (places, values): (Vec<Place>, Vec<Tensor<1>>) = numbers.into_iter().unzip();
        Self { places, values: Tensor::cat(values.into_iter().map(Tensor::inner).collect(), 0) }
    }

    /// The sum of both, place by place; passes of one step may differ in what they measure.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        if self.places == other.places {
            return Self { places: self.places, values: self.values + other.values };
        }
        Self { places: [self.places, other.places].concat(), values: Tensor::cat(vec![self.values, other.values], 0) }
    }

    /// Reads them, and one more number if there is one, in one transfer.
    pub fn read(self, more: Option<Tensor<1>>, loss: &mut Loss, measures: &mut Terms) -> Option<f64> {
        let asked = more.is_some();
        let all = std::iter::once(self.values).chain(more).collect();
        let values = download(Tensor::cat(all, 0));
        for (place, value) in self.places.iter().zip(&values) {
            let (terms, name) = match place {
                Place::Total => {
                    loss.total += f64::from(*value);
                    continue;
                }
                Place::Term(name) => (&mut loss.terms, *name),
                Place::Measure(name) => (&mut *measures, *name),
            };
            *terms.0.entry(name.to_owned()).or_default() += f64::from(*value);
        }
        values.last().filter(|_| asked).map(|square| f64::from(*square).sqrt())
    }
}

/// A model in training: weights, and how they are fitted. The loop owns the optimiser's state, the schedule's position, the
/// guard, the journal and the checkpoints.
pub trait Learner: Sized + Sync {
    /// Where batches come from, and what validation and publishing need.
    type Data: Batches;
    /// A micro-batch: as many scans as are held in memory at once.
    type Piece: Send + Sync;
    type Error: std::error::Error + From<CohortError> + From<TrainError> + Send;

    /// Whether micro-batches of a step run side by side, one per thread.
    fn side_by_side(&self) -> bool {
        false
    }

    fn device(&self) -> Device;

    /// Files of weights of a checkpoint.
    fn files(&self) -> WeightFiles;

    /// Host copies of all weights, one per file.
    fn parameters(&self) -> Vec<Parameters>;

    /// The same model with other weights, or as it was before the first step.
    fn restored(self, weights: Option<Vec<Parameters>>) -> Result<Self, Self::Error>;

    /// The micro-batches of a batch in their order; none where it is in another hand.
    fn pieces(&self, batch: <Self::Data as Batches>::Batch, at: &At) -> Vec<Option<Self::Piece>>;

    /// Forward and backward pass of one micro-batch. `alone` is false when others run at the same time.
    fn pass(&self, piece: &Self::Piece, at: &At, alone: bool) -> Result<Contribution, Self::Error>;

    /// Whether the loss of a step can be compared with that of the step before: not where a term enters or grows by plan.
    fn weighs_as_before(&self, _: &At) -> bool {
        true
    }

    /// Learning rate of a step, for the journal.
    fn learning_rate(&self, at: &At) -> f64;

    /// One optimiser step with gradients times `scale`; a moving average follows.
    fn updated(self, gradients: &NamedGradients, adam: &mut AdamState, scale: f64, at: &At) -> Self;

    /// Takes over the running statistics of a step that was taken.
    fn absorbed(self, _statistics: &[Vec<f32>]) -> Self {
        self
    }

    /// Completes the measures of a step once the contributions are added up.
    fn measured(&self, _loss: &Loss, _measures: &mut Terms, _at: &At) {}

    /// Scores the validation set; none if there is none.
    fn validate(&self, _data: &Self::Data, _step: u64) -> Result<Option<ValidationEntry>, Self::Error> {
        Ok(None)
    }

    /// Warnings to show after a validation.
    fn warnings(&self, _entry: &ValidationEntry) -> Vec<String> {
        Vec::new()
    }

    /// Whether the weights of this validation are to be kept over the best so far. Validations are counted from 0.
    fn prefers(&self, _number: usize, _entry: &ValidationEntry, _best: Option<(usize, &ValidationEntry)>) -> bool {
        false
    }

    /// Writes what others use (a model directory); called with every checkpoint.
    fn publish(
        &self,
        _data: &Self::Data,
        _steps: u64,
        _validation: Option<&ValidationEntry>,
    ) -> Result<(), Self::Error> {
        Ok(())
    }
}
