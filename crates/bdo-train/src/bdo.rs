//! BDO as a learner: masked frames reconstructed, with the moving average of the encoder as teacher.

use crate::error::TrainError;
use crate::gradient::NamedGradients;
use crate::learner::{At, Batches, Contribution, Hand, Learner, Place, Unread, WeightFiles};
use crate::optimiser::AdamState;
use crate::publish::Publisher;
use crate::schedule::{Warmup, ramp};
use crate::settings::Settings;
use crate::source::{Draw, ScanSource};
use crate::step::number;
use crate::validate::validate;
use bdo_data::cohort::CohortError;
use bdo_data::record::{Loss, Terms, ValidationEntry};
use bdo_kernels::adam::{Adam, WeightDecay};
use bdo_model::batch::MaskedBatch;
use bdo_model::config::ModelConfig;
use bdo_model::device::{download, is_cpu, upload};
use bdo_model::dynamics::Resolvent;
use bdo_model::ema::{EmaEncoder, ema_momentum};
use bdo_model::feature_heads::{FeatureHeads, IdentityTerm, head_table};
use bdo_model::init::{draw_parameters, initial_parameters};
use bdo_model::intake::{HostBatch, MaskSettings, MicroBatches, NoiseShape};
use bdo_model::model::{Bdo, BuildError, TrainPass};
use bdo_model::objective::LossWeights;
use bdo_model::ops::Kernels;
use bdo_model::parameters::{Parameters, encoder_table, parameter_table};
use bdo_model::weights::{AVERAGE_FILE, WEIGHTS_FILE};
use burn::module::Module;
use burn::tensor::{Device, Float, Tensor, TensorData};
use std::path::PathBuf;

/// Latents that spread less than this, where layer norm makes them unit size, carry nothing.
const COLLAPSED: f64 = 0.01;

/// Mean controls that move in fewer directions than this have collapsed.
const FEWEST_DIRECTIONS: f64 = 2.0;

#[derive(Clone, Debug)]
pub struct BdoLearner {
    pub model: Bdo,
    /// The moving average of its encoder.
    pub teacher: EmaEncoder,
    /// The networks behind the terms on the mean control.
    pub heads: FeatureHeads,
    pub(crate) settings: Settings,
    pub(crate) seed: u64,
    kernels: Kernels,
    /// Values of the first step that are not drawn.
    start: Parameters,
    device: Device,
}

/// The scans of a run, and what is published of it.
#[derive(Clone, Debug)]
pub struct BdoData {
    pub source: ScanSource,
    pub batch_size: usize,
    /// Most visits of a micro-batch.
    pub micro_batch_size: usize,
    /// Most scans of a group that are told from each other, where each is visited twice.
    pub group_size: Option<usize>,
    /// Frames and targets of a visit.
    pub mask: MaskSettings,
    pub noise: NoiseShape,
    /// The parts of the model directory that do not change.
    pub publisher: Publisher,
    pub model: PathBuf,
}

impl Batches for BdoData {
    type Batch = MicroBatches;

    fn steps_per_epoch(&self) -> u64 {
        let (units, per_step) = match self.group_size {
            None => (self.source.train_scans().len(), self.batch_size),
            Some(most) => (self.source.groups(most, 0, 0).len(), self.groups_per_step(most)),
        };
        units.div_ceil(per_step) as u64
    }

    fn draw(&self, seed: u64, step: u64, hand: Hand) -> Result<Option<MicroBatches>, CohortError> {
        let (epoch, place) = (step / self.steps_per_epoch(), step % self.steps_per_epoch());
        let scans = match self.group_size {
            None => {
                let order = self.source.order(seed, epoch);
                order.chunks(self.batch_size).nth(place as usize).map(<[usize]>::to_vec)
            }
            Some(most) => {
                let groups = self.source.groups(most, seed, epoch);
                groups.chunks(self.groups_per_step(most)).nth(place as usize).map(<[Vec<usize>]>::concat)
            }
        };
        let (mask, noise, pairs) = (self.mask, self.noise, self.group_size.is_some());
        let micro_batch_size = self.micro_batch_size;
        self.source.batch(&scans.unwrap_or_default(), &Draw { seed, epoch, mask, noise, pairs, micro_batch_size, hand })
    }

    fn scans(batch: &MicroBatches) -> usize {
        batch.scans
    }
}

impl BdoData {
    fn groups_per_step(&self, most: usize) -> usize {
        (self.batch_size / most.max(1)).max(1)
    }
}

/// A micro-batch on its device.
#[derive(Clone, Debug)]
pub struct BdoPiece {
    batch: MaskedBatch,
    /// Part of the step's scans that are in it.
    share: f64,
    mean_square: f64,
    /// Of the weights of the step, shared by its micro-batches.
    resolvent: Option<Resolvent>,
}

impl BdoLearner {
    pub fn with_kernels(
        config: &ModelConfig,
        settings: &Settings,
        kernels: Kernels,
        seed: u64,
        device: &Device,
    ) -> Result<Self, BuildError> {
        Self::starting_from(config, settings, kernels, (seed, Parameters::default()), device)
    }

    /// The same with some values of the model that are not drawn.
    pub fn starting_from(
        config: &ModelConfig,
        settings: &Settings,
        kernels: Kernels,
        (seed, start): (u64, Parameters),
        device: &Device,
    ) -> Result<Self, BuildError> {
        config.check()?;
        let mut parameters = initial_parameters(config, seed);
        parameters.0.extend(start.0.clone());
        let model = Bdo::from_parameters(config, parameters, kernels, device)?;
        let teacher = EmaEncoder::new(&model.encoder);
        let mut drawn = draw_parameters(&head_table(config), seed);
        let heads = FeatureHeads::split_off(config, &mut drawn, kernels, device)?;
        Ok(Self { model, teacher, heads, settings: settings.clone(), seed, start, kernels, device: device.clone() })
    }

    /// The identity term of a pass, and the same with its weight.
    fn feature_loss(&self, heads: &FeatureHeads, pass: &TrainPass, batch: &MaskedBatch) -> Option<OnFeature> {
        let weight = self.model.config().loss.identity;
        if weight == 0.0 {
            return None;
        }
        let term = heads.identity(&pass.mean_control(), &batch.kin)?;
        let weighted = term.loss.clone() * weight;
        Some((term, weighted))
    }

    fn weights(&self, at: &At) -> LossWeights {
        let train = &self.settings.train;
        LossWeights {
            tau: self.model.config().tau() * ramp(&at.plan, at.step, train.tau_start, train.tau_warmup),
            ..self.model.loss_weights()
        }
    }
}

impl Learner for BdoLearner {
    type Data = BdoData;
    type Piece = BdoPiece;
    type Error = TrainError;

    fn device(&self) -> Device {
        self.device.clone()
    }

    /// Other devices share out one pass by themselves.
    fn side_by_side(&self) -> bool {
        is_cpu(&self.device)
    }

    fn files(&self) -> WeightFiles {
        let config = self.model.config();
        let trained = [parameter_table(config), head_table(config)].concat();
        vec![(WEIGHTS_FILE, trained), (AVERAGE_FILE, encoder_table(config))]
    }

    fn parameters(&self) -> Vec<Parameters> {
        let mut trained = self.model.parameters();
        trained.0.extend(Parameters::of_module(&self.heads, "").0);
        vec![trained, self.teacher.parameters()]
    }

    fn restored(self, weights: Option<Vec<Parameters>>) -> Result<Self, TrainError> {
        let (config, kernels) = (self.model.config(), self.kernels);
        let Some(weights) = weights else {
            return Ok(Self::starting_from(
                config,
                &self.settings,
                kernels,
                (self.seed, self.start.clone()),
                &self.device,
            )?);
        };
        let mut weights = weights.into_iter();
        let (mut parameters, average) = (weights.next().unwrap_or_default(), weights.next().unwrap_or_default());
        let heads =
            FeatureHeads::split_off(config, &mut parameters, kernels, &self.device).map_err(BuildError::Parameter)?;
        let teacher =
            EmaEncoder::from_parameters(config, average, kernels, &self.device).map_err(BuildError::Parameter)?;
        let model = Bdo::from_parameters(config, parameters, kernels, &self.device)?;
        Ok(Self { model, teacher, heads, ..self })
    }

    fn pieces(&self, batch: MicroBatches, _: &At) -> Vec<Option<BdoPiece>> {
        let (scans, resolvent) = (batch.scans as f64, self.model.dynamics.resolvent());
        let piece = |batch: HostBatch| {
            let (share, mean_square) = (batch.scans() as f64 / scans, batch.target_mean_square());
            BdoPiece { batch: batch.into_masked(&self.device), share, mean_square, resolvent: resolvent.clone() }
        };
        batch.pieces.into_iter().map(|batch| batch.map(piece)).collect()
    }

    /// Each scan is normalised by itself and scans are averaged over the whole batch, so the cut into micro-batches changes
    /// nothing but rounding.
    fn pass(&self, piece: &BdoPiece, at: &At, alone: bool) -> Result<Contribution, TrainError> {
        // Leaves of its own, so that tapes of different threads have nothing in common.
        let (twin, heads) = if alone {
            (self.model.clone(), self.heads.clone())
        } else {
            (self.model.clone().fork(&self.device), self.heads.clone().fork(&self.device))
        };
        let share = piece.share;
        let pass = twin.train_pass_with(piece.resolvent.as_ref(), &self.teacher, &piece.batch, self.weights(at))?;
        let on_feature = self.feature_loss(&heads, &pass, &piece.batch);
        let total = on_feature.iter().fold(pass.loss.total.clone(), |sum, (_, term)| sum + term.clone());
        let known = Terms::of([("mean_square", piece.mean_square)]);
        let (loss, measures, unread) = if is_cpu(&self.device) {
            let (loss, measures) = numbers_of(&pass, on_feature.as_ref(), known);
            (loss.scaled(share), measures.scaled(share), None)
        } else {
            let unread = Unread::of(numbers_there(&pass, &total, on_feature.as_ref()));
            let unread = Unread { values: unread.values * share, ..unread };
            (Loss::default(), known.scaled(share), Some(unread))
        };
        // What is not finite here is not finite in the sum.
        if !loss.total.is_finite() {
            return Ok(Contribution { loss, measures, unread, ..Contribution::default() });
        }
        drop(on_feature);
        // One number is scaled here instead of every gradient later.
        let total = if share == 1.0 { total } else { total * share };
        // The tape must be the only owner of what it saved; the rest of the pass would keep it alive.
        drop(pass);
        let mut tape = total.backward();
        let mut gradients = NamedGradients::default();
        gradients.take(&twin, &mut tape);
        gradients.take(&heads, &mut tape);
        Ok(Contribution { loss, measures, gradients, unread, ..Contribution::default() })
    }

    fn weighs_as_before(&self, at: &At) -> bool {
        at.step == 0 || self.weights(at).tau == self.weights(&At { step: at.step - 1, ..*at }).tau
    }

    fn learning_rate(&self, at: &At) -> f64 {
        self.settings.train.rate(Warmup::TenEpochs).at(&at.plan, at.step)
    }

    fn updated(self, gradients: &NamedGradients, adam: &mut AdamState, scale: f64, at: &At) -> Self {
        let train = &self.settings.train;
        let settings = Adam {
            learning_rate: self.learning_rate(at),
            beta1: train.beta1,
            beta2: train.beta2,
            eps: train.adam_eps,
            weight_decay: WeightDecay::None,
            gradient_scale: scale as f32,
        };
        let range = [train.ema_start, train.ema_end];
        let momentum = ema_momentum(at.plan.counted(at.step), at.plan.scheduled_steps(), range);
        let model = adam.apply(self.model, gradients, &|_, _| settings);
        let heads = adam.apply(self.heads, gradients, &|_, _| settings);
        let mut teacher = self.teacher;
        teacher.update(&model.encoder, momentum);
        Self { model, teacher, heads, ..self }
    }

    fn measured(&self, loss: &Loss, measures: &mut Terms, at: &At) {
        let mean_square = measures.0.remove("mean_square").unwrap_or(f64::NAN);
        measures.0.insert("tau".to_owned(), self.weights(at).tau);
        measures.0.insert("explained_variance".to_owned(), 1.0 - loss.term("reconstruction") / mean_square);
    }

    fn validate(&self, data: &BdoData, step: u64) -> Result<Option<ValidationEntry>, TrainError> {
        validate(self, data, step)
    }

    fn warnings(&self, entry: &ValidationEntry) -> Vec<String> {
        let [time, scans, explained, mse, mean_square] =
            ["spread_over_time", "spread_over_scans", "explained_variance", "mse", "mean_square"]
                .map(|name| entry.measures.get(name));
        let mut found = Vec::new();
        if time < COLLAPSED || (entry.scans > 1 && scans < COLLAPSED) {
            found.push(format!(
                "warning: the latents have collapsed at step {}: spread {time:.4} over time, {scans:.4} over scans",
                entry.step
            ));
        }
        let directions = entry.measures.get("directions");
        if directions < FEWEST_DIRECTIONS {
            found.push(format!(
                "warning: the mean controls of validation people move in {directions:.1} directions at step {}: they hold little \
                 more than one number per scan",
                entry.step
            ));
        }
        // Without a reconstruction there is nothing to explain.
        if explained < 0.0 && self.model.config().loss.reconstruction_weight > 0.0 {
            found.push(format!(
                "warning: after {} steps the model explains nothing of unseen people's masked frames (mean squared \
                 error {mse:.4}, predicting the mean costs {mean_square:.4})",
                entry.step
            ));
        }
        found
    }

    fn publish(&self, data: &BdoData, steps: u64, validation: Option<&ValidationEntry>) -> Result<(), TrainError> {
        data.publisher.write(&data.source, &data.model, &self.model, steps, validation)
    }
}

/// The identity term, and the same with its weight.
type OnFeature = (IdentityTerm, Tensor<1>);

/// Loss and measures of a pass, read one by one: on the CPU that costs nothing.
fn numbers_of(pass: &TrainPass, on_feature: Option<&OnFeature>, mut measures: Terms) -> (Loss, Terms) {
    let mut loss = loss_of(pass);
    let spread = latent_spread(&pass.encoded, &pass.grid.context.count);
    measures.0.insert("spread_over_time".to_owned(), spread.over_time);
    measures.0.insert("spread_over_scans".to_owned(), spread.over_scans);
    if let Some((term, weighted)) = on_feature {
        measures.0.insert("identified".to_owned(), term.found());
        let value = number(weighted);
        loss.total += value;
        loss.terms.0.insert("identity".to_owned(), value);
    }
    (loss, measures)
}

/// The same as numbers that stay on their device.
fn numbers_there(pass: &TrainPass, total: &Tensor<1>, on_feature: Option<&OnFeature>) -> Vec<(Place, Tensor<1>)> {
    let [over_time, over_scans] = latent_spread_there(&pass.encoded, &pass.grid.context.count);
    let mut numbers = vec![
        (Place::Total, total.clone()),
        (Place::Term("energy"), pass.loss.energy.clone()),
        (Place::Term("reconstruction"), pass.loss.reconstruction.clone()),
        (Place::Term("latent"), pass.loss.latent.clone()),
        (Place::Measure("spread_over_time"), over_time),
        (Place::Measure("spread_over_scans"), over_scans),
    ];
    if let Some((term, weighted)) = on_feature {
        numbers.push((Place::Term("identity"), weighted.clone()));
        numbers.push((Place::Measure("identified"), term.found_there()));
    }
    numbers.into_iter().map(|(place, number)| (place, number.inner())).collect()
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

/// How far latents move: a representation that collapses shows here first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LatentSpread {
    /// Root mean variance over the frames of a scan.
    pub over_time: f64,
    /// Root mean variance of the scans' mean latents.
    pub over_scans: f64,
}

/// The two numbers of [`latent_spread`], [1] each, worked out where the latents are.
pub fn latent_spread_there(encoded: &Tensor<3>, count: &[usize]) -> [Tensor<1>; 2] {
    let encoded = encoded.clone().inner();
    let [batch, slots, _] = encoded.dims();
    let share = |&rows: &usize| (0..slots).map(move |slot| if slot < rows { 1.0 / rows as f32 } else { 0.0 });
    let shares: Vec<f32> = count.iter().flat_map(share).collect();
    let place = (&encoded.device(), encoded.dtype());
    let shares = upload::<3, Float>(TensorData::new(shares, [batch, slots, 1]), place);
    let mean = (encoded.clone() * shares.clone()).sum_dim(1); // [B, 1, d]
    let square = (encoded.square() * shares).sum_dim(1); // [B, 1, d]
    let over_time = (square - mean.clone().square()).clamp_min(0.0).mean().sqrt();
    let over_scans = (mean.clone() - mean.mean_dim(0)).square().mean().sqrt();
    [over_time, over_scans]
}

/// encoded [B, C, d], of which the first `count[b]` rows of each sample are real.
pub fn latent_spread(encoded: &Tensor<3>, count: &[usize]) -> LatentSpread {
    let [batch, slots, width] = encoded.dims();
    let values = download(encoded.clone().inner());
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
