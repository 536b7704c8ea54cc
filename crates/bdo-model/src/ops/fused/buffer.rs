//! Between framework tensors and the slices kernels work on.

use burn::backend::flex::{FlexTensor, Layout};
use burn::backend::{DType, TensorMetadata};
use burn::tensor::{Bytes, Shape};

/// The same values in row-major order; free if they already are.
pub(super) fn contiguous(tensor: FlexTensor) -> FlexTensor {
    if tensor.as_slice::<f32>().is_some() { tensor } else { tensor.to_contiguous() }
}

/// The values of a contiguous tensor.
pub fn values(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice::<f32>().expect("a contiguous f32 tensor: it went through `contiguous`")
}

/// A tensor that takes over a kernel's output.
pub fn tensor(values: Vec<f32>, shape: Shape) -> FlexTensor {
    FlexTensor::new(Bytes::from_elems(values), Layout::contiguous(shape), DType::F32)
}

/// The shape with another last axis.
pub(super) fn with_last(tensor: &FlexTensor, last: usize) -> Shape {
    let mut shape = tensor.shape();
    let axis = shape.num_dims() - 1;
    shape[axis] = last;
    shape
}

/// The length of the last axis.
pub(super) fn last(tensor: &FlexTensor) -> usize {
    let shape = tensor.shape();
    shape[shape.num_dims() - 1]
}
