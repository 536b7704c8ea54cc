//! The slowly moving copy of the encoder that provides latent targets.

use crate::config::{ModelConfig, decimal};
use crate::encoder::Encoder;
use crate::layer::Source;
use crate::ops::{self, Kernels};
use crate::parameters::{ParameterError, Parameters, walked};
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor};

/// An encoder outside the gradient tape.
#[derive(Clone, Debug)]
pub struct EmaEncoder {
    /// Absent only inside [`Self::update`].
    encoder: Option<Encoder>,
}

impl EmaEncoder {
    /// Starts as a copy of the online encoder.
    pub fn new(online: &Encoder) -> Self {
        Self { encoder: Some(online.valid().no_grad()) }
    }

    /// Restores a stored copy, named `encoder.*`. An autodiff device is stripped of its tape.
    pub fn from_parameters(
        config: &ModelConfig,
        parameters: Parameters,
        kernels: Kernels,
        device: &Device,
    ) -> Result<Self, ParameterError> {
        let encoder = Source::build(parameters, device, kernels, |source| Encoder::take(config, source))?;
        Ok(Self::new(&encoder))
    }

    /// Host copies, named `encoder.*`.
    pub fn parameters(&self) -> Parameters {
        Parameters::of_module(self.encoder(), "encoder")
    }

    /// The copy itself.
    pub fn encoder(&self) -> &Encoder {
        self.encoder.as_ref().expect("an update puts the encoder back")
    }

    /// slow <- momentum slow + (1 - momentum) online, for every parameter.
    pub fn update(&mut self, online: &Encoder, momentum: f64) {
        if momentum == 1.0 {
            return;
        }
        let kernels = self.encoder().kernels();
        // Taken out, not copied: every tensor then has one owner and is changed where it is.
        self.encoder = self.encoder.take().map(|slow| blended(slow, online, momentum, kernels));
    }
}

/// momentum slow + (1 - momentum) online, for every parameter of two modules of one shape.
pub fn blended<M: Module>(slow: M, online: &M, momentum: f64, kernels: Kernels) -> M {
    let online = walked(online, Vec::new(), None).into_iter().map(|(_, _, value)| value);
    slow.map(&mut Blend { online, momentum, kernels })
}

/// Linear from the first momentum at the first step to the second at the last.
pub fn ema_momentum(step: u64, total_steps: u64, [start, end]: [f64; 2]) -> f64 {
    let last = total_steps.saturating_sub(1).max(1);
    start + decimal(end - start) * (step.min(last) as f64 / last as f64)
}

struct Blend<I> {
    /// Online values in visiting order, flat.
    online: I,
    momentum: f64,
    kernels: Kernels,
}

impl<I: Iterator<Item = Tensor<1>>> ModuleMapper for Blend<I> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let online = self.online.next().expect("both encoders come from one configuration");
        let (kernels, momentum) = (self.kernels, self.momentum);
        param.map(|slow| {
            let shape = slow.dims();
            ops::blend(kernels, slow, online.reshape(shape), momentum)
        })
    }
}
