//! The whole model: context frames to latents, latents to a trajectory, trajectory to region values, and the loss.

use crate::batch::{BatchError, MaskedBatch, scan_grid};
use crate::config::{ConfigError, LatentTerm, ModelConfig};
use crate::control::Controls;
use crate::decoder::Decoder;
use crate::device::upload;
use crate::dropout::Dropout;
use crate::dynamics::{Dynamics, Frames, Latents, Resolvent, Slots, UnionGrid};
use crate::ema::EmaEncoder;
use crate::encoder::{Encoder, Tokens, time_code, write_gaps};
use crate::fingerprint::Fingerprint;
use crate::init::initial_parameters;
use crate::intake::NO_SIZE;
use crate::layer::Source;
use crate::objective::{LossTerms, LossWeights, SampleWeights, region_mask};
use crate::ops::{Kernels, KeyPadding, Moments};
use crate::parameters::{ParameterError, Parameters};
use crate::smoother::Smoother;
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};

/// The trainable model; parameter paths are the names of the weight file.
#[derive(Module, Debug)]
pub struct Bdo {
    /// Visible frames to latents.
    pub encoder: Encoder,
    /// Latents to a stochastic trajectory.
    pub dynamics: Dynamics,
    /// States to region values.
    pub decoder: Decoder,
    /// Correlations of the visible frames to a constant part of the control.
    pub fingerprint: Option<Fingerprint>,
    /// Visible frames to what is linear in them.
    pub smoother: Option<Smoother>,
    #[module(skip)]
    config: ModelConfig,
    #[module(skip)]
    kernels: Kernels,
}

/// A model cannot be put together.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum BuildError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Parameter(#[from] ParameterError),
}

/// Everything one training pass computes.
#[derive(Clone, Debug)]
pub struct TrainPass {
    /// The grid the rows below refer to.
    pub grid: UnionGrid,
    /// [B, C, d] encoder output at context slots, before noise.
    pub encoded: Tensor<3>,
    /// Controls and rates of the process.
    pub latents: Latents,
    /// Moments at every frame, in the eigenbasis.
    pub moments: Moments,
    /// Per draw: [B, T, d] states at target slots, rotated back.
    pub states: Vec<Tensor<3>>,
    /// Per draw: [B, T, N] predicted region values at target slots, without what the smoother says.
    pub predicted: Vec<Tensor<3>>,
    /// [B, T, d] latent targets, unless their weight is zero.
    pub target: Option<Tensor<3>>,
    /// The objective.
    pub loss: LossTerms,
}

/// Noise-free prediction at every frame of a scan.
#[derive(Clone, Debug)]
pub struct Reconstruction {
    /// [B, K, N] region values decoded from the mean state.
    pub series: Tensor<3>,
    /// [B, K, d] mean state V m.
    pub state: Tensor<3>,
    /// Moments in the eigenbasis.
    pub moments: Moments,
    /// Controls and rates of the process.
    pub latents: Latents,
    /// Which token drives which row, for how long.
    pub grid: UnionGrid,
    /// [B, 1, 1] what decoded values were multiplied by, where the model divides its input by the input's size.
    pub size: Option<Tensor<3>>,
}

impl TrainPass {
    /// The mean control over the visible frames of each sample, the universal feature: [B, d].
    pub fn mean_control(&self) -> Tensor<2> {
        Controls { control: self.latents.control.clone(), counts: self.grid.context.count.clone() }.mean()
    }
}

impl Bdo {
    /// A fresh model whose parameters are a function of the seed.
    pub fn init(config: &ModelConfig, seed: u64, kernels: Kernels, device: &Device) -> Result<Self, BuildError> {
        config.check()?;
        Self::from_parameters(config, initial_parameters(config, seed), kernels, device)
    }

    /// A model with the given parameters, which must be exactly those the configuration asks for.
    pub fn from_parameters(
        config: &ModelConfig,
        parameters: Parameters,
        kernels: Kernels,
        device: &Device,
    ) -> Result<Self, BuildError> {
        config.check()?;
        Ok(Source::build(parameters, device, kernels, |source| Self::take(config, source))?)
    }

    /// Takes its values out of a source.
    pub fn take(config: &ModelConfig, source: &mut Source) -> Result<Self, ParameterError> {
        Ok(Self {
            encoder: Encoder::take(config, source)?,
            dynamics: Dynamics::take(config, source)?,
            decoder: Decoder::take(config, source)?,
            fingerprint: config.fingerprint.then(|| Fingerprint::take(config, source)).transpose()?,
            smoother: config.smoother.then(|| Smoother::take(config, source)).transpose()?,
            config: config.clone(),
            kernels: source.kernels,
        })
    }

    /// Host copies of all parameters by name.
    pub fn parameters(&self) -> Parameters {
        Parameters::of_module(self, "")
    }

    /// Where the model lives: tensors it is given must be there too.
    pub fn device(&self) -> Device {
        self.dynamics.initial_mean.val().device()
    }

    /// The configuration the model was built from.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The configured weights of the objective.
    pub fn loss_weights(&self) -> LossWeights {
        let loss = &self.config.loss;
        LossWeights {
            tau: self.config.tau(),
            energy: self.config.energy_weight(),
            reconstruction: loss.reconstruction_weight,
        }
    }

    /// One training pass: encode the context, propagate, draw states at the targets, decode, compare.
    pub fn train_pass(
        &self,
        teacher: &EmaEncoder,
        batch: &MaskedBatch,
        weights: LossWeights,
    ) -> Result<TrainPass, BatchError> {
        self.train_pass_with(self.dynamics.resolvent().as_ref(), teacher, batch, weights)
    }

    /// The same where several passes share what their basis costs.
    pub fn train_pass_with(
        &self,
        resolvent: Option<&Resolvent>,
        teacher: &EmaEncoder,
        batch: &MaskedBatch,
        weights: LossWeights,
    ) -> Result<TrainPass, BatchError> {
        let config = &self.config;
        let grid = batch.grid(config)?;
        let device = batch.series.device();
        let place = (&device, batch.series.dtype());
        let dropout = (config.dropout > 0.0).then_some(Dropout { rate: config.dropout, key: batch.dropout_key });
        let (series, _) = self.unit_sized(&batch.series, &grid, &batch.region_valid);

        let encoded = self.encoder.forward(self.tokens(&series, &batch.frames, &grid.context), dropout);
        let z = if config.sample_latent {
            encoded.clone() + grid.context.of_batch(self.kernels, &batch.latent_noise) * config.loss.sigma_q
        } else {
            encoded.clone()
        };
        let latents = self.latents(z, &series, &grid);
        let moments = self.dynamics.moments(&latents, &grid);

        let at_targets = |x: &Tensor<3>| grid.target.of_batch(self.kernels, x); // [B, T, .]
        let mean = at_targets(&moments.mean);
        let total_variance = at_targets(&moments.variance) + config.loss.sigma_p * config.loss.sigma_p;
        let basis = self.dynamics.basis_with(resolvent);
        let deviation = total_variance.clone().sqrt();
        let states: Vec<Tensor<3>> = batch
            .process_noise
            .iter()
            .map(|noise| self.dynamics.rotate(basis.clone(), mean.clone() + deviation.clone() * at_targets(noise)))
            .collect();
        let predicted: Vec<Tensor<3>> = states
            .iter()
            .enumerate()
            .map(|(draw, state)| {
                self.decoder.forward(state.clone(), dropout.map(|dropout| (dropout, config.blocks + draw)))
            })
            .collect();

        // A weight of zero removes every dependence on the teacher, its cost included.
        let target = (weights.tau > 0.0).then(|| {
            let tokens = self.tokens(&series.clone().inner(), &batch.frames, &grid.target);
            teacher.encoder().forward(tokens, None)
        });

        let sums = SampleWeights::new(&grid, &batch.region_valid, self.kernels, place);
        let energy = sums.energy(latents.control.clone()) * weights.energy;
        // The network answers for what the smoother leaves.
        let observed = at_targets(&match self.smoothed(&series, &batch.frames, &grid) {
            Some(smoothed) => series.clone() - smoothed,
            None => series.clone(),
        });
        let reconstruction = mean_of(predicted.iter().map(|draw| sums.reconstruction(observed.clone(), draw.clone())))
            * weights.reconstruction;
        let latent = match &target {
            None => Tensor::zeros([1], place),
            Some(target) => match config.loss.latent_term {
                LatentTerm::Sampled => {
                    mean_of(states.iter().map(|state| sums.latent_sampled(state.clone(), target.clone())))
                }
                LatentTerm::Analytic => {
                    sums.latent_analytic(self.dynamics.rotate(basis, mean), total_variance, target.clone())
                }
            },
        } * weights.tau;
        let loss = LossTerms {
            total: energy.clone() + reconstruction.clone() + latent.clone(),
            energy,
            reconstruction,
            latent,
        };
        Ok(TrainPass { grid, encoded, latents, moments, states, predicted, target, loss })
    }

    /// Predicts every frame from the context frames, noise off: series [B, K, N], of which only context is read.
    pub fn reconstruct(
        &self,
        series: &Tensor<3>,
        frames: &Frames,
        region_valid: &[bool],
    ) -> Result<Reconstruction, BatchError> {
        let grid = scan_grid(series, frames, region_valid, &self.config)?;
        let (series, size) = self.unit_sized(series, &grid, region_valid);
        let encoded = self.encoder.forward(self.tokens(&series, frames, &grid.context), None);
        let latents = self.latents(encoded, &series, &grid);
        let moments = self.dynamics.moments(&latents, &grid);
        let state = self.dynamics.rotate(self.dynamics.basis(), moments.mean.clone());
        let decoded = self.decoder.forward(state.clone(), None);
        let decoded = match self.smoothed(&series, frames, &grid) {
            Some(smoothed) => decoded + smoothed,
            None => decoded,
        };
        let series = match &size {
            Some(size) => decoded * size.clone(),
            None => decoded,
        };
        Ok(Reconstruction { series, state, moments, latents, grid, size })
    }

    /// z [B, C, d] of visible frames of a series [B, K, N] -> controls and rates.
    fn latents(&self, z: Tensor<3>, series: &Tensor<3>, grid: &UnionGrid) -> Latents {
        let latents = self.dynamics.latents(z);
        Latents { control: self.with_fingerprint(latents.control, series, grid), ..latents }
    }

    /// Controls [B, C, d] of the visible frames of a series [B, K, N], and of a lead after them, with the part that is constant
    /// over a scan in place of their mean. As they are where the model has no such part.
    pub(crate) fn with_fingerprint(&self, control: Tensor<3>, series: &Tensor<3>, grid: &UnionGrid) -> Tensor<3> {
        let Some(fingerprint) = &self.fingerprint else { return control };
        let shares = grid.context.shares(|_| 1, (&series.device(), series.dtype()));
        let coordinates = fingerprint.coordinates(&grid.context.of_batch(self.kernels, series), &shares);
        let mean = (control.clone().narrow(1, 0, grid.context.slots) * shares).sum_dim(1); // [B, 1, d]
        control - mean + fingerprint.part(&coordinates)
    }

    /// What the smoother says of every frame [B, K, N], in the units of the series.
    fn smoothed(&self, series: &Tensor<3>, frames: &Frames, grid: &UnionGrid) -> Option<Tensor<3>> {
        let smoother = self.smoother.as_ref()?;
        Some(smoother.forward(grid.context.of_batch(self.kernels, series), frames, grid))
    }

    /// The series as the encoder takes it, 0 at missing regions. Divides every sample by the root mean square of its visible
    /// values, or each of its regions by its own, if the configuration says so, and returns that [B, 1, 1] or [B, 1, N]. Where
    /// nothing is visible there is no size, and values stay as they are.
    pub(crate) fn unit_sized(
        &self,
        series: &Tensor<3>,
        grid: &UnionGrid,
        region_valid: &[bool],
    ) -> (Tensor<3>, Option<Tensor<3>>) {
        let place = (&series.device(), series.dtype());
        let series = series.clone() * region_mask(region_valid, grid.batch, place);
        let ModelConfig { unit_input, unit_regions, regions, .. } = self.config;
        if !unit_input && !unit_regions {
            return (series, None);
        }
        let valid =
            |sample: usize| region_valid[sample * regions..(sample + 1) * regions].iter().filter(|v| **v).count();
        let weights = grid.context.shares(|sample| if unit_regions { 1 } else { valid(sample) }, place);
        let visible = grid.context.of_batch(self.kernels, &series); // [B, C, N]
        let square = (visible.clone() * visible * weights).sum_dim(1); // [B, 1, N]
        let square = if unit_regions { square } else { square.sum_dim(2) }; // [B, 1, 1]
        let size = square.sqrt();
        let size = size.clone().mask_fill(size.lower_elem(NO_SIZE), 1.0);
        (series / size.clone(), Some(size))
    }

    /// The tokens of the frames that an encoder sees, gathered and padded.
    pub(crate) fn tokens(&self, series: &Tensor<3>, frames: &Frames, seen: &Slots) -> Tokens {
        let (list, slots, counts, width) = (&seen.row, seen.slots, &seen.count, self.config.width);
        let scale = self.config.time_code_rate();
        let times: Vec<f64> = list.iter().map(|&row| scale * frames.times_seconds[row]).collect();
        let mut code = time_code(&times, width);
        if self.config.gap_code {
            for (sample, &count) in counts.iter().enumerate() {
                let from = sample * slots;
                let seconds: Vec<f64> = list[from..from + count].iter().map(|&row| frames.times_seconds[row]).collect();
                write_gaps(&mut code[from * width..(from + slots) * width], &seconds, width);
            }
        }
        let device = series.device();
        Tokens {
            values: seen.of_batch(self.kernels, series),
            code: upload(TensorData::new(code, [counts.len(), slots, width]), (&device, series.dtype())),
            padding: KeyPadding::new(counts.clone(), slots, &device),
        }
    }
}

fn mean_of(terms: impl ExactSizeIterator<Item = Tensor<1>>) -> Tensor<1> {
    let scale = 1.0 / terms.len() as f64;
    terms.reduce(|sum, term| sum + term).expect("a batch has at least one draw") * scale
}
