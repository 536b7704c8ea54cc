//! The latent process: a linear stochastic differential equation, diagonal in a learned orthogonal basis, driven
//! between context frames by the control of the last one. Letters follow sections 3.3 to 3.5 of the method notes.

mod basis;
mod grid;
mod simulate;

pub use basis::{Resolvent, cayley_basis};

use basis::basis_with;
pub(crate) use grid::shares;
pub use grid::{Frames, GridError, Slots, UnionGrid};
pub use simulate::{HeldStep, euler_maruyama, exact_moments};

use crate::config::{Lead, ModelConfig};
use crate::layer::{Linear, LinearStart, Source};
use crate::ops::{self, Drive, Epilogue, Kernels, Moments};
use crate::parameters::{ParameterError, Start};
use burn::module::{Module, Param};
use burn::tensor::Tensor;

/// Parameters of the latent process.
#[derive(Module, Debug)]
pub struct Dynamics {
    /// B: latent to control, no bias.
    pub control: Linear,
    /// U, c: latent to mixture logits.
    pub mixture: Linear,
    /// G [L, d]: logarithms of the basis rates.
    pub log_rates: Param<Tensor<2>>,
    /// W [d, d]: free matrix behind the Cayley map.
    pub cayley: Param<Tensor<2>>,
    /// V0 [d, d]: fixed random start of the eigenbasis.
    pub basis0: Param<Tensor<2>>,
    /// Mean of the initial state in the eigenbasis.
    pub initial_mean: Param<Tensor<1>>,
    /// Logarithm of its variance.
    pub initial_log_var: Param<Tensor<1>>,
    /// Latent that drives the gap before the first context frame, if that is learned.
    pub lead_token: Option<Param<Tensor<1>>>,
    learn_basis: bool,
    diffusion: f64,
    rate_floor: f64,
    variance_floor: f64,
    #[module(skip)]
    kernels: Kernels,
}

/// Parameters of the dynamics from the context, one row per context token (and one for a learned lead).
#[derive(Clone, Debug)]
pub struct Latents {
    /// [B, C, d] latents, drawn in training.
    pub z: Tensor<3>,
    /// [B, C, d] controls in the eigenbasis.
    pub control: Tensor<3>,
    /// [B, C, d] decay rates.
    pub rates: Tensor<3>,
}

impl Dynamics {
    pub(crate) fn take(config: &ModelConfig, source: &mut Source) -> Result<Self, ParameterError> {
        let (d, count) = (config.width, config.basis_count);
        // A few percent of the cost, and what a rounded rate or rotation does to a trajectory adds up over its steps.
        let outside = source.kernels;
        source.kernels = outside.full_precision();
        let keys = &config.dynamics;
        let taken = Self {
            control: source.linear_from("dynamics.control", d, d, LinearStart::Xavier, false)?,
            mixture: source.linear("dynamics.mixture", d, count)?,
            log_rates: source.take("dynamics.log_rates", [count, d], Start::Normal)?,
            cayley: source.parameter("dynamics.cayley", [d, d], Start::Zeros, keys.learn_basis)?,
            basis0: source.parameter("dynamics.basis0", [d, d], Start::Orthogonal, false)?,
            initial_mean: source.take("dynamics.initial_mean", [d], Start::Normal)?,
            initial_log_var: source.take("dynamics.initial_log_var", [d], Start::Normal)?,
            lead_token: match keys.lead {
                Lead::LearnedToken => Some(source.take("dynamics.lead_token", [d], Start::Normal)?),
                Lead::FirstContext => None,
            },
            learn_basis: keys.learn_basis,
            diffusion: keys.diffusion,
            rate_floor: keys.rate_floor,
            variance_floor: keys.variance_floor,
            kernels: source.kernels,
        };
        source.kernels = outside;
        Ok(taken)
    }

    /// z [B, C, d] -> controls and rates of each token, with the lead token appended where there is one.
    pub fn latents(&self, z: Tensor<3>) -> Latents {
        let [batch, _, width] = z.dims();
        let z = match &self.lead_token {
            Some(lead) => Tensor::cat(vec![z, lead.val().reshape([1, 1, width]).expand([batch, 1, width])], 1),
            None => z,
        };
        Latents { control: self.control.forward(z.clone()), rates: self.rates(z.clone()), z }
    }

    /// `Lambda_i = sum_l softmax(U z_i + c)_l (exp(G_l) + floor)`: [B, C, d] -> [B, C, d].
    fn rates(&self, z: Tensor<3>) -> Tensor<3> {
        let weights = ops::softmax(self.kernels, self.mixture.forward(z)); // [B, C, L]
        let basis_rates = self.log_rates.val().exp() + self.rate_floor; // [L, d]
        ops::linear(self.kernels, weights, basis_rates.transpose(), None, Epilogue::None)
    }

    /// Moments of the state at every frame of the grid, in the eigenbasis.
    pub fn moments(&self, latents: &Latents, grid: &UnionGrid) -> Moments {
        let drive = Drive {
            control: latents.control.clone(),
            rates: latents.rates.clone(),
            driver: grid.driver.clone(),
            delta: grid.delta.clone(),
        };
        let variance0 = self.initial_log_var.val().exp() + self.variance_floor;
        ops::moment_scan(self.kernels, drive, self.initial_mean.val(), variance0, self.diffusion)
    }

    /// V [d, d], orthogonal.
    pub fn basis(&self) -> Tensor<2> {
        self.basis_with(self.resolvent().as_ref())
    }

    /// What the basis costs, to be paid once for several passes; nothing where it is not learned.
    pub fn resolvent(&self) -> Option<Resolvent> {
        self.learn_basis.then(|| Resolvent::of(&self.cayley.val()))
    }

    /// V [d, d] with its resolvent.
    pub fn basis_with(&self, resolvent: Option<&Resolvent>) -> Tensor<2> {
        match resolvent {
            Some(resolvent) => basis_with(resolvent, self.cayley.val(), self.basis0.val()),
            None => self.basis0.val(),
        }
    }

    /// Eigenbasis coordinates x [B, T, d] -> V x, row by row.
    pub fn rotate(&self, basis: Tensor<2>, x: Tensor<3>) -> Tensor<3> {
        ops::linear(self.kernels, x, basis, None, Epilogue::None)
    }
}
