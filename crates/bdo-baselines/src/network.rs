//! What a connectivity network is to the training loop: a table of parameters and a pass over a batch.

use bdo_model::dropout::Dropout;
use bdo_model::init::draw_parameters;
use bdo_model::layer::Source;
use bdo_model::ops::Kernels;
use bdo_model::parameters::{ParameterError, ParameterSpec, Parameters};
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use std::sync::Arc;

/// A batch of connectomes.
#[derive(Clone, Debug)]
pub struct Batch {
    /// [B, N, N] node features: one row of connectivity a region.
    pub nodes: Tensor<3>,
    /// B * N * N edge weights on the host, 0 where there is no edge; `None` for networks that do not use any.
    pub edges: Option<Arc<Vec<f32>>>,
}

/// What a pass needs to know when it is for training.
#[derive(Clone, Debug)]
pub struct Training {
    /// Key of this step's dropout masks.
    pub key: [u8; 32],
    /// Class of each sample, where the labels are classes and not mixed.
    pub classes: Option<Vec<usize>>,
}

impl Training {
    /// Dropout of this step at a rate; none at a rate of zero.
    pub fn dropout(&self, rate: f64) -> Option<Dropout> {
        (rate > 0.0).then_some(Dropout { rate, key: self.key })
    }
}

/// What a pass computes.
#[derive(Clone, Debug)]
pub struct Pass {
    /// [B, outputs], linear.
    pub output: Tensor<2>,
    /// What the loss has besides the labels' part.
    pub penalty: Option<Tensor<1>>,
    /// New values of running statistics, for [`Network::absorb`].
    pub statistics: Vec<Vec<f32>>,
}

/// A network over connectomes.
pub trait Network: Module {
    /// What decides its shape.
    type Config: Clone + std::fmt::Debug + Send + Sync;

    /// Scans whose activations are held at once: gradients are summed over such pieces of a batch. A network with statistics
    /// of a batch must see it whole.
    const SCANS_AT_ONCE: usize = usize::MAX;

    /// Every parameter it has.
    fn table(config: &Self::Config) -> Vec<ParameterSpec>;

    /// A fresh one's values.
    fn initial(config: &Self::Config, seed: u64) -> Parameters {
        draw_parameters(&Self::table(config), seed)
    }

    /// Takes its values out of a source.
    fn build(config: &Self::Config, source: &mut Source) -> Result<Self, ParameterError>;

    /// One pass; `training` is absent when predicting.
    fn pass(&self, batch: &Batch, training: Option<&Training>) -> Pass;

    /// Layers between a parameter and the output, for recipes in which lower layers learn slower.
    fn depth(config: &Self::Config, name: &str) -> usize {
        let _ = (config, name);
        0
    }

    /// Takes over the running statistics of a training pass.
    fn absorb(self, statistics: &[Vec<f32>]) -> Self {
        debug_assert!(statistics.is_empty(), "a network with statistics takes them over");
        self
    }

    /// A network with exactly these values.
    fn from_parameters(
        config: &Self::Config,
        mut parameters: Parameters,
        kernels: Kernels,
        device: &Device,
    ) -> Result<Self, ParameterError> {
        let network = Self::build(config, &mut Source { parameters: &mut parameters, device, kernels })?;
        parameters.finish()?;
        Ok(network)
    }
}
