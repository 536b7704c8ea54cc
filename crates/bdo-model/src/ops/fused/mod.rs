//! The fused CPU path: our kernels as framework ops, each with its own backward pass. Used only for 32-bit floats on
//! the CPU device; the models never see this module.

mod adam;
mod attention;
mod blend;
mod buffer;
mod error;
mod linear;
mod norm;
mod scan;
mod softmax;

use super::Kernels;
use bdo_kernels::Precision;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, DType, DispatchDevice, Flex, backend_extension};
use burn::tensor::Tensor;

pub(super) use adam::{adam_step, squared_norm};
pub(super) use blend::blend;
pub(super) use error::Weights;
pub(super) use linear::Activation;
pub(super) use scan::Plan;

/// The kernels, seen as ops of a backend.
#[backend_extension(Flex, Autodiff)]
pub(super) trait FusedOps: Backend {
    /// x [.., in], w [out, in] -> [.., out].
    fn fused_linear(x: FloatTensor<Self>, w: FloatTensor<Self>, precision: Precision) -> FloatTensor<Self>;
    /// The same with a bias [out] and an activation.
    fn fused_affine(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        b: FloatTensor<Self>,
        activation: Activation,
        precision: Precision,
    ) -> FloatTensor<Self>;
    /// The same with a bias [out] and a residual [.., out].
    fn fused_residual(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        b: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        precision: Precision,
    ) -> FloatTensor<Self>;
    /// x [.., d], weight [d], bias [d] -> [.., d].
    fn fused_layer_norm(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        eps: f32,
    ) -> FloatTensor<Self>;
    /// Softmax over the last axis.
    fn fused_softmax(x: FloatTensor<Self>) -> FloatTensor<Self>;
    /// Packed qkv [B, T, 3d] -> [B, T, d]; keys from `lengths[b]` on are hidden.
    fn fused_attention(
        qkv: FloatTensor<Self>,
        heads: usize,
        lengths: Vec<usize>,
        precision: Precision,
    ) -> FloatTensor<Self>;
    /// Controls and rates [B, C, d], initial moments [d] -> mean and variance [B, K, d].
    fn fused_moments(
        control: FloatTensor<Self>,
        rates: FloatTensor<Self>,
        mean0: FloatTensor<Self>,
        variance0: FloatTensor<Self>,
        plan: Plan,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
    /// Weighted sum of squared differences [B, T, n] -> [1]; nothing flows back into `observed`.
    fn fused_error(predicted: FloatTensor<Self>, observed: FloatTensor<Self>, weights: Weights) -> FloatTensor<Self>;
}

impl FusedOps for Flex {
    fn fused_linear(x: FlexTensor, w: FlexTensor, precision: Precision) -> FlexTensor {
        linear::infer(x, w, None, &linear::Follow::Activation(Activation::None), precision)
    }

    fn fused_affine(
        x: FlexTensor,
        w: FlexTensor,
        b: FlexTensor,
        activation: Activation,
        precision: Precision,
    ) -> FlexTensor {
        linear::infer(x, w, Some(b), &linear::Follow::Activation(activation), precision)
    }

    fn fused_residual(
        x: FlexTensor,
        w: FlexTensor,
        b: FlexTensor,
        residual: FlexTensor,
        precision: Precision,
    ) -> FlexTensor {
        linear::infer(x, w, Some(b), &linear::Follow::Residual(residual), precision)
    }

    fn fused_layer_norm(x: FlexTensor, weight: FlexTensor, bias: FlexTensor, eps: f32) -> FlexTensor {
        norm::infer(x, weight, bias, eps)
    }

    fn fused_softmax(x: FlexTensor) -> FlexTensor {
        softmax::infer(x)
    }

    fn fused_attention(qkv: FlexTensor, heads: usize, lengths: Vec<usize>, precision: Precision) -> FlexTensor {
        attention::infer(qkv, heads, &lengths, precision)
    }

    fn fused_moments(
        control: FlexTensor,
        rates: FlexTensor,
        mean0: FlexTensor,
        variance0: FlexTensor,
        plan: Plan,
    ) -> (FlexTensor, FlexTensor) {
        scan::infer([control, rates, mean0, variance0], plan)
    }

    fn fused_error(predicted: FlexTensor, observed: FlexTensor, weights: Weights) -> FlexTensor {
        error::infer(predicted, observed, weights)
    }
}

impl<C: CheckpointStrategy> FusedOps for Autodiff<Flex, C> {
    fn fused_linear(x: FloatTensor<Self>, w: FloatTensor<Self>, precision: Precision) -> FloatTensor<Self> {
        linear::train_linear::<C>(x, w, precision)
    }

    fn fused_affine(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        b: FloatTensor<Self>,
        activation: Activation,
        precision: Precision,
    ) -> FloatTensor<Self> {
        linear::train_affine::<C>(x, w, b, activation, precision)
    }

    fn fused_residual(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        b: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        precision: Precision,
    ) -> FloatTensor<Self> {
        linear::train_residual::<C>(x, w, b, residual, precision)
    }

    fn fused_layer_norm(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        eps: f32,
    ) -> FloatTensor<Self> {
        norm::train::<C>(x, weight, bias, eps)
    }

    fn fused_softmax(x: FloatTensor<Self>) -> FloatTensor<Self> {
        softmax::train::<C>(x)
    }

    fn fused_attention(
        qkv: FloatTensor<Self>,
        heads: usize,
        lengths: Vec<usize>,
        precision: Precision,
    ) -> FloatTensor<Self> {
        attention::train::<C>(qkv, heads, lengths, precision)
    }

    fn fused_moments(
        control: FloatTensor<Self>,
        rates: FloatTensor<Self>,
        mean0: FloatTensor<Self>,
        variance0: FloatTensor<Self>,
        plan: Plan,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        scan::train::<C>([control, rates, mean0, variance0], plan)
    }

    fn fused_error(predicted: FloatTensor<Self>, observed: FloatTensor<Self>, weights: Weights) -> FloatTensor<Self> {
        error::train::<C>(predicted, observed, weights)
    }
}

/// The precision to run fused in, or `None` where composed ops must serve.
pub(super) fn applies<const D: usize>(kernels: Kernels, x: &Tensor<D>) -> Option<Precision> {
    let Kernels::Fused(precision) = kernels else {
        return None;
    };
    let device = x.device();
    let mut place = device.as_dispatch();
    if let DispatchDevice::Autodiff(inner) = place {
        place = inner;
    }
    let on_cpu = matches!(place, DispatchDevice::Flex(_));
    (on_cpu && x.dtype() == DType::F32).then_some(precision)
}
