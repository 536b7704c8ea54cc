//! What a network must provide to be trained with labels.

use bdo_data::cohort::CohortError;
use bdo_model::dropout::Dropout;
use bdo_model::init::draw_parameters;
use bdo_model::layer::Source;
use bdo_model::ops::Kernels;
use bdo_model::parameters::{ParameterError, ParameterSpec, Parameters};
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use std::sync::Arc;

/// What a network sees of one scan.
pub trait Input: Send + Sync + Sized {
    /// Several of them on a device.
    type Batch;

    /// Puts scans of a batch onto a device; with `mix`, each is blended with its partner.
    fn on(inputs: &[Arc<Self>], mix: Option<&Mix>, device: &Device) -> Self::Batch;
}

/// Mixup: every sample becomes `share` of itself and the rest of its partner.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// From 0 to 1.
    pub share: f64,
    /// One per sample.
    pub partner: Vec<usize>,
}

impl Mix {
    /// Blends rows of `width` values.
    pub fn blend(&self, values: &[f32], width: usize) -> Vec<f32> {
        let rows: Vec<&[f32]> = values.chunks_exact(width).collect();
        let one = |(i, j): (usize, &usize)| {
            let (a, b) = (rows[i], rows[*j]);
            a.iter().zip(b).map(|(a, b)| (self.share * f64::from(*a) + (1.0 - self.share) * f64::from(*b)) as f32)
        };
        self.partner.iter().enumerate().flat_map(one).collect()
    }
}

pub trait Scans: Sync {
    /// How a scan is named.
    type Handle: Clone + Send + Sync;
    type Input: Input;

    /// The whole scan, as it is validated and tested.
    fn whole(&self, scan: &Self::Handle) -> Result<Arc<Self::Input>, CohortError>;

    /// What a training step sees of it under a seed and an epoch; the same unless something of it is drawn.
    fn visit(&self, scan: &Self::Handle, _seed: u64, _epoch: u64) -> Result<Arc<Self::Input>, CohortError> {
        self.whole(scan)
    }
}

/// Inputs held in memory: the handle is the input.
#[derive(Clone, Copy, Debug, Default)]
pub struct InMemory<I>(std::marker::PhantomData<fn() -> I>);

impl<I> InMemory<I> {
    pub fn new() -> Self {
        Self(std::marker::PhantomData)
    }
}

impl<I: Input> Scans for InMemory<I> {
    type Handle = Arc<I>;
    type Input = I;

    fn whole(&self, scan: &Arc<I>) -> Result<Arc<I>, CohortError> {
        Ok(scan.clone())
    }
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

#[derive(Clone, Debug)]
pub struct Pass {
    /// [B, outputs], linear.
    pub output: Tensor<2>,
    /// What the loss has besides the labels' part.
    pub penalty: Option<Tensor<1>>,
    /// New values of running statistics, for [`Network::absorb`].
    pub statistics: Vec<Vec<f32>>,
}

impl From<Tensor<2>> for Pass {
    fn from(output: Tensor<2>) -> Self {
        Self { output, penalty: None, statistics: Vec::new() }
    }
}

/// A network that predicts one label.
pub trait Network: Module + Sync {
    /// What decides its shape and where it starts.
    type Config: Clone + std::fmt::Debug + Send + Sync;
    type Input: Input;

    /// Scans whose activations are held at once: gradients are summed over such pieces of a batch. A network with statistics
    /// of a batch must see it whole.
    const SCANS_AT_ONCE: usize = usize::MAX;

    fn table(config: &Self::Config) -> Vec<ParameterSpec> {
        Source::list(|source| Self::build(config, source))
    }

    /// A fresh one's values.
    fn initial(config: &Self::Config, seed: u64) -> Parameters {
        draw_parameters(&Self::table(config), seed)
    }

    fn build(config: &Self::Config, source: &mut Source) -> Result<Self, ParameterError>;

    /// One pass; `training` is absent when predicting.
    fn pass(&self, batch: &<Self::Input as Input>::Batch, training: Option<&Training>) -> Pass;

    /// Layers between a parameter and the output, for recipes in which lower layers learn slower.
    fn depth(_config: &Self::Config, _name: &str) -> usize {
        0
    }

    /// Takes over the running statistics of a training pass.
    #[must_use]
    fn absorb(self, statistics: &[Vec<f32>]) -> Self {
        debug_assert!(statistics.is_empty(), "a network with statistics takes them over");
        self
    }

    fn from_parameters(
        config: &Self::Config,
        parameters: Parameters,
        kernels: Kernels,
        device: &Device,
    ) -> Result<Self, ParameterError> {
        Source::build(parameters, device, kernels, |source| Self::build(config, source))
    }
}

/// Layers between a parameter and the output of an encoder with a head on top: one per block below the top, one more for what
/// comes before the blocks, none for what comes after them.
pub fn depth_in_blocks(name: &str, blocks_at: &str, first: impl Fn(&str) -> bool, blocks: usize) -> usize {
    let block = name.split_once(blocks_at).and_then(|(_, rest)| rest.split('.').next()?.parse::<usize>().ok());
    match block {
        Some(block) => blocks - block.min(blocks),
        None if first(name) => blocks + 1,
        None => 0,
    }
}
