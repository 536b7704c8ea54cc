//! The hot layers behind one door. Each function has a composed form made of framework ops, which runs on any
//! device; where a kernel exists for the CPU (`fused`) or for graphics cards (`cube`) it is used instead when
//! [`Kernels::Fused`] is asked for and the tensors are 32-bit floats there.

mod adam;
mod attention;
#[cfg(feature = "cube")]
mod cube;
mod error;
mod gather;
pub mod fused;
mod linear;
mod norm;
mod scan;
mod softmax;

pub use adam::{Adam, AdamState, WeightDecay, adam_step, blend, squared_norms};
pub use attention::{KeyPadding, attention};
pub use error::{ErrorWeights, squared_error};
pub use gather::rows;
pub use linear::{Epilogue, linear};
pub use norm::layer_norm;
pub use scan::{Drive, Moments, moment_scan, phi1, scan_parallel, scan_sequential};
pub use softmax::softmax;

pub use bdo_kernels::Precision;

use crate::device::is_cpu;
use burn::tensor::{Device, Tensor};

/// Which implementation of the hot layers a model runs. Carried by every layer, never global.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernels {
    /// Hand-written CPU kernels where they apply, with operands of matrix products in this precision; composed ops
    /// elsewhere.
    Fused(Precision),
    /// Framework ops everywhere: the slow twin the kernels are tested against.
    Composed,
}

impl Kernels {
    /// Whether a hand-written kernel may work on this tensor: fused ones are asked for, and it holds 32-bit floats in the
    /// memory of the CPU.
    pub fn run_fused<const D: usize>(self, x: &Tensor<D>) -> bool {
        fused::applies(self, x).is_some()
    }

    /// The fastest that is as good as full precision where it runs: reduced precision on a processor that has it, full precision on
    /// other devices, whose reduced precision was not compared with it.
    pub fn fastest_on(device: &Device) -> Self {
        Self::Fused(if is_cpu(device) { Precision::fastest() } else { Precision::F32 })
    }

    /// The same path with operands in full precision: for layers whose cost does not matter and whose accuracy does.
    pub(crate) fn full_precision(self) -> Self {
        match self {
            Self::Fused(_) => Self::Fused(Precision::F32),
            Self::Composed => Self::Composed,
        }
    }
}

impl Default for Kernels {
    fn default() -> Self {
        Self::Fused(Precision::F32)
    }
}
