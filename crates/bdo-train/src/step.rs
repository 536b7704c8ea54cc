//! One optimiser step: passes over micro-batches, clipping, Adam, moving average. All or nothing: a step whose loss or
//! gradient is not finite leaves every number of the state as it was.

use crate::exchange::StepSum;
use crate::gradient::clip_scale;
use crate::lanes::fold_side_by_side;
use crate::learner::{At, Contribution, Learner};
use crate::optimiser::AdamState;
use crate::ranks::Ranks;
use bdo_data::record::{Loss, Skipped, Terms};
use bdo_model::device::download;
use burn::tensor::Tensor;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepLimits {
    /// Largest gradient norm; larger gradients are scaled down.
    pub clip_norm: f64,
    /// A loss above this is a spike: the step is skipped.
    pub loss: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepReport {
    /// Mean over the scans of the batch.
    pub loss: Loss,
    pub measures: Terms,
    /// Before clipping.
    pub gradient_norm: f64,
    /// None if the step was taken.
    pub skipped: Option<Skipped>,
    /// From the last pass of this rank to the sum over all of them; 0 for one process.
    pub waited_seconds: f64,
}

type Passed<L> = Result<Contribution, <L as Learner>::Error>;
type Summed<'a, L> = Result<StepSum<'a>, <L as Learner>::Error>;

/// One step on the micro-batches of a batch, whose contributions are added up in their order. Each rank passes over its own;
/// all of them come out with the same learner and report.
pub fn take_step<L: Learner>(
    learner: L,
    adam: &mut AdamState,
    pieces: &[Option<L::Piece>],
    at: &At,
    limits: &StepLimits,
    ranks: &dyn Ranks,
) -> Result<(L, StepReport), L::Error> {
    let (mut sum, passed) = sum_of_passes(&learner, pieces, at, ranks)?;
    let norm = sum.read();
    let (loss, mut measures) = (sum.of_pieces.loss.clone(), sum.of_pieces.measures.clone());
    learner.measured(&loss, &mut measures, at);
    let waited = || if ranks.size() > 1 { passed.elapsed().as_secs_f64() } else { 0.0 };
    let mut report = StepReport { loss, measures, waited_seconds: waited(), ..StepReport::default() };
    report.skipped = match report.loss.total {
        loss if !loss.is_finite() => Some(Skipped::LossNotFinite),
        loss => (loss > limits.loss).then_some(Skipped::LossSpike),
    };
    if report.skipped.is_some() {
        return Ok((learner, report));
    }
    let (gradients, statistics) = sum.gradients()?;
    report.waited_seconds = waited();
    report.gradient_norm = norm.unwrap_or_else(|| gradients.norm());
    if !report.gradient_norm.is_finite() {
        report.skipped = Some(Skipped::GradientNotFinite);
        return Ok((learner, report));
    }
    let scale = clip_scale(report.gradient_norm, limits.clip_norm);
    adam.steps += 1;
    Ok((learner.updated(&gradients, adam, scale, at).absorbed(&statistics), report))
}

/// What all micro-batches of a step add up to, and when this rank had passed over its own. With other ranks, what a pass has
/// found is exchanged on a thread of its own while the next passes go on.
fn sum_of_passes<'a, L: Learner>(
    learner: &L,
    pieces: &[Option<L::Piece>],
    at: &At,
    ranks: &'a dyn Ranks,
) -> Result<(StepSum<'a>, Instant), L::Error> {
    let own: Vec<&L::Piece> = pieces.iter().flatten().collect();
    let alone = !learner.side_by_side() || own.len() < 2;
    let pass = |piece: &&L::Piece| learner.pass(piece, at, alone);
    let add = |sum: Summed<'a, L>, found: Passed<L>| -> Summed<'a, L> { sum?.plus(found?).map_err(L::Error::from) };
    let start: Summed<'a, L> = Ok(StepSum::new(ranks, || learner.files(), pieces.len()));
    if ranks.size() == 1 {
        let sum = if alone {
            own.iter().fold(start, |sum, piece| add(sum, pass(piece)))
        } else {
            fold_side_by_side(&own, start, pass, add)
        };
        return Ok((sum?, Instant::now()));
    }
    std::thread::scope(|scope| {
        let (sender, found) = sync_channel::<Passed<L>>(1);
        let complete = |sum: StepSum<'a>| sum.complete().map_err(L::Error::from);
        let adding = scope.spawn(move || found.into_iter().fold(start, add).and_then(complete));
        // After an error nobody listens; it is what comes out.
        let send = |(), found: Passed<L>| drop(sender.send(found));
        if alone {
            own.iter().for_each(|piece| send((), pass(piece)));
        } else {
            fold_side_by_side(&own, (), pass, send);
        }
        drop(sender);
        let passed = Instant::now();
        let sum = adding.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((sum?, passed))
    })
}

/// The one number of a tensor, on or off a tape.
pub fn number(tensor: &Tensor<1>) -> f64 {
    download(tensor.clone()).first().copied().map_or(f64::NAN, f64::from)
}
