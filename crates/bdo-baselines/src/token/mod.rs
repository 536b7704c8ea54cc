//! Scans as grids of tokens, regions by windows of sixteen frames: what BrainLM and Brain-JEPA look at, and what their networks have
//! in common.

pub mod diffusion_map;
pub mod grid;
pub mod place;
pub mod trunk;

use bdo_model::layer::Source;
use bdo_model::ops::Kernels;
use bdo_model::parameters::{ParameterError, ParameterSpec, Parameters};
use burn::module::{Module, ModuleDisplay};
use burn::tensor::{Device, Tensor};
use grid::Grid;
use trunk::TrunkShape;

/// The configuration of a token model.
pub trait TokenShape: Clone + std::fmt::Debug + Send + Sync {
    fn grid(&self) -> Grid;

    fn encoder(&self) -> TrunkShape;

    /// From one frame of a token to the next.
    fn stride(&self, frames: usize, tr_seconds: f64) -> usize;
}

/// A network that a configuration decides, or a part of one.
pub trait TokenNet: Module + ModuleDisplay + Sync {
    type Config: TokenShape;

    fn build(config: &Self::Config, source: &mut Source) -> Result<Self, ParameterError>;

    fn table(config: &Self::Config) -> Vec<ParameterSpec> {
        Source::list(|source| Self::build(config, source))
    }

    fn of_parameters(
        config: &Self::Config,
        values: Parameters,
        kernels: Kernels,
        device: &Device,
    ) -> Result<Self, ParameterError> {
        Source::build(values, device, kernels, |source| Self::build(config, source))
    }
}

/// A network that features are made with, and that can be trained further with labels.
pub trait TokenEncoder: TokenNet {
    /// With every token visible: patches [B, N * W, 16] -> [B, d].
    fn feature(&self, patches: Tensor<3>) -> Tensor<2>;
}
