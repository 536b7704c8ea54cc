//! Kernels for graphics cards, one source for every runtime of the framework: those whose composed form would cost many launches, or
//! run one thread where there could be thousands. Used for 32-bit floats on such a device; each has its composed twin.

// A kernel takes its buffers and numbers one by one.
#![allow(clippy::too_many_arguments)]

mod adam;
mod blend;
mod gather;
mod norm;
mod scan;

pub(super) use adam::adam_step;
pub(super) use blend::blend;
pub(super) use gather::rows;
pub(super) use norm::squared_norms;
pub(super) use scan::moments;

use super::Kernels;
use burn::backend::{Cube, DType, DispatchDevice, TensorMetadata};
use burn::tensor::{Shape, Tensor};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::{CubeCount, CubeDim};

/// Whether these kernels may work on a tensor: fused ones are asked for, and it holds 32-bit floats on a graphics card.
pub(super) fn applies<const D: usize>(kernels: Kernels, x: &Tensor<D>) -> bool {
    let device = x.device();
    let on_card = match device.as_dispatch() {
        DispatchDevice::Cube(_) => true,
        DispatchDevice::Autodiff(inner) => matches!(**inner, DispatchDevice::Cube(_)),
        _ => false,
    };
    kernels != Kernels::Composed && on_card && x.dtype() == DType::F32
}

/// One thread for each unit of work.
fn threads(tensor: &CubeTensor, units: usize) -> (CubeCount, CubeDim) {
    let dim = CubeDim::new(&tensor.client, units);
    (cubecl::calculate_cube_count_elemwise(&tensor.client, units, dim), dim)
}

/// Room for numbers beside those of a tensor.
fn empty_like(tensor: &CubeTensor, shape: Shape) -> CubeTensor {
    empty_device_dtype(tensor.client.clone(), tensor.device.clone(), shape, DType::F32)
}

/// The tensor itself where nobody else holds it, else a copy: what may be written to.
fn owned(tensor: CubeTensor) -> CubeTensor {
    let tensor = into_contiguous(tensor);
    if tensor.can_mut() { tensor } else { tensor.copy() }
}

/// The tensor behind a framework tensor that is outside any tape.
fn primitive<const D: usize>(tensor: Tensor<D>) -> CubeTensor {
    tensor.inner().try_into_primitive::<Cube>().expect("a tensor of a graphics card, as `applies` found")
}

/// Row-major.
fn contiguous<const D: usize>(tensor: Tensor<D>) -> CubeTensor {
    into_contiguous(primitive(tensor))
}

fn elements(tensor: &CubeTensor) -> usize {
    tensor.shape().num_elements()
}
