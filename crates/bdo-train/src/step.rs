//! One optimiser step: forward, backward, clip, Adam, moving average. All or nothing: a step whose loss or gradient
//! is not finite leaves every number of the state as it was.

use crate::gradient::{NamedGradients, clip_scale};
use crate::lanes::fold_side_by_side;
use crate::optimiser::AdamState;
use bdo_data::record::{Loss, Skipped, Terms};
use bdo_kernels::adam::Adam;
use bdo_model::batch::{BatchError, MaskedBatch};
use bdo_model::ema::EmaEncoder;
use bdo_model::model::{Bdo, TrainPass};
use bdo_model::objective::LossWeights;
use burn::module::Module;
use burn::tensor::Tensor;

/// Everything a step depends on besides state and data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepSettings {
    /// Step length and moments.
    pub adam: Adam,
    /// Largest gradient norm.
    pub clip_norm: f64,
    /// Momentum of the moving average.
    pub ema_momentum: f64,
    /// Weights of the loss terms.
    pub weights: LossWeights,
    /// A loss above this is a spike: the step is skipped.
    pub loss_limit: f64,
}

/// How far latents move: a representation that collapses shows here first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LatentSpread {
    /// Root mean variance over the frames of a scan.
    pub over_time: f64,
    /// Root mean variance of the scans' mean latents.
    pub over_scans: f64,
}

/// What a step did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepReport {
    /// Mean over the scans of the batch.
    pub loss: Loss,
    /// Before clipping.
    pub gradient_norm: f64,
    /// Of the context latents.
    pub spread: LatentSpread,
    /// None if the step was taken.
    pub skipped: Option<Skipped>,
}

/// One step on one batch.
pub fn train_step(
    model: Bdo,
    teacher: &mut EmaEncoder,
    state: &mut AdamState,
    batch: &MaskedBatch,
    settings: &StepSettings,
) -> Result<(Bdo, StepReport), BatchError> {
    train_step_accumulated(model, teacher, state, std::slice::from_ref(batch), settings)
}

/// One step on several micro-batches. Each sample is normalised by itself and samples are averaged over all of them,
/// so the cut into micro-batches changes nothing but rounding.
pub fn train_step_accumulated(
    model: Bdo,
    teacher: &mut EmaEncoder,
    state: &mut AdamState,
    batches: &[MaskedBatch],
    settings: &StepSettings,
) -> Result<(Bdo, StepReport), BatchError> {
    type Part = Result<(StepReport, NamedGradients), BatchError>;
    let scans: usize = batches.iter().map(|batch| batch.frames.batch).sum();
    let device = batches.first().map(|batch| batch.series.device());
    let slow: &EmaEncoder = teacher;
    let pass_of = |batch: &MaskedBatch| -> Part {
        // Leaves of its own, so that tapes of different threads have nothing in common.
        let twin = match (&device, batches.len()) {
            (Some(device), 2..) => model.clone().fork(device),
            _ => model.clone(),
        };
        let share = batch.frames.batch as f64 / scans as f64;
        let pass = twin.train_pass(slow, batch, settings.weights)?;
        let part = StepReport::of_pass(&pass, share);
        // Its share of the loss; what is not finite here is not finite in the sum.
        if !part.loss.total.is_finite() {
            return Ok((part, NamedGradients::default()));
        }
        // One number is scaled here instead of every gradient later.
        let total = if share == 1.0 { pass.loss.total.clone() } else { pass.loss.total.clone() * share };
        // The tape must be the only owner of what it saved; the rest of the pass would keep it alive.
        drop(pass);
        Ok((part, NamedGradients::of_module(&twin, total.backward())))
    };
    let join = |sum: Part, pass: Part| -> Part {
        let ((mut report, gradients), (part, found)) = (sum?, pass?);
        report.join(&part);
        Ok((report, gradients.plus(found)))
    };
    let start = Ok((StepReport::default(), NamedGradients::default()));
    let (mut report, gradients) = fold_side_by_side(batches, start, pass_of, join)?;
    if let Some(reason) = refused(report.loss.total, settings.loss_limit) {
        report.skipped = Some(reason);
        return Ok((model, report));
    }
    report.gradient_norm = gradients.norm();
    if !report.gradient_norm.is_finite() {
        report.skipped = Some(Skipped::GradientNotFinite);
        return Ok((model, report));
    }
    let scale = clip_scale(report.gradient_norm, settings.clip_norm);
    let model = state.apply(model, &gradients, &settings.adam, scale);
    teacher.update(&model.encoder, settings.ema_momentum);
    Ok((model, report))
}

fn refused(loss: f64, limit: f64) -> Option<Skipped> {
    if !loss.is_finite() {
        return Some(Skipped::LossNotFinite);
    }
    (loss > limit).then_some(Skipped::LossSpike)
}

impl StepReport {
    /// Adds the share of another micro-batch.
    fn join(&mut self, part: &Self) {
        self.loss.add(&part.loss);
        self.spread.over_time += part.spread.over_time;
        self.spread.over_scans += part.spread.over_scans;
    }

    /// The share of one micro-batch.
    fn of_pass(pass: &TrainPass, share: f64) -> Self {
        let spread = latent_spread(&pass.encoded, &pass.grid.context_count);
        Self {
            loss: loss_of(pass).scaled(share),
            spread: LatentSpread { over_time: share * spread.over_time, over_scans: share * spread.over_scans },
            ..Self::default()
        }
    }
}

/// The loss of a pass and its terms, weights included.
pub(crate) fn loss_of(pass: &TrainPass) -> Loss {
    let terms = [
        ("energy", number(&pass.loss.energy)),
        ("reconstruction", number(&pass.loss.reconstruction)),
        ("latent", number(&pass.loss.latent)),
    ];
    Loss { total: number(&pass.loss.total), terms: Terms::of(terms) }
}

/// The one number of a tensor.
fn number(tensor: &Tensor<1>) -> f64 {
    tensor
        .clone()
        .into_data()
        .try_to_vec::<f32>()
        .ok()
        .and_then(|values| values.first().copied())
        .map_or(f64::NAN, f64::from)
}

/// encoded [B, C, d], of which the first `count[b]` rows of each sample are real.
pub fn latent_spread(encoded: &Tensor<3>, count: &[usize]) -> LatentSpread {
    let [batch, slots, width] = encoded.dims();
    let values = encoded.clone().inner().into_data().try_to_vec::<f32>().unwrap_or_default();
    let mut over_time = 0.0;
    let mut means = vec![0.0f64; batch * width];
    for (b, &rows) in count.iter().enumerate() {
        let mean = &mut means[b * width..(b + 1) * width];
        let mut square = vec![0.0f64; width];
        for row in values[b * slots * width..][..rows * width].chunks_exact(width) {
            for ((m, s), &x) in mean.iter_mut().zip(&mut square).zip(row) {
                *m += f64::from(x) / rows as f64;
                *s += f64::from(x) * f64::from(x) / rows as f64;
            }
        }
        over_time += mean.iter().zip(&square).map(|(m, s)| (s - m * m).max(0.0)).sum::<f64>() / (batch * width) as f64;
    }
    let mut over_scans = 0.0;
    for i in 0..width {
        let column = (0..batch).map(|b| means[b * width + i]);
        let mean = column.clone().sum::<f64>() / batch as f64;
        over_scans += column.map(|x| (x - mean) * (x - mean)).sum::<f64>() / (batch * width) as f64;
    }
    LatentSpread { over_time: over_time.sqrt(), over_scans: over_scans.sqrt() }
}
