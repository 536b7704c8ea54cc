//! The fused CPU path: our kernels as framework ops, each with its own backward pass. Used only for 32-bit floats on
//! the CPU device; the models never see this module.

mod attention;
mod buffer;
mod linear;
mod norm;
mod softmax;

use super::Kernels;
use bdo_kernels::Precision;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, DType, DispatchDevice, Flex, backend_extension};
use burn::tensor::Tensor;

pub(super) use linear::Activation;

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
    fn fused_layer_norm(x: FloatTensor<Self>, weight: FloatTensor<Self>, bias: FloatTensor<Self>, eps: f32) -> FloatTensor<Self>;
    /// Softmax over the last axis.
    fn fused_softmax(x: FloatTensor<Self>) -> FloatTensor<Self>;
    /// Packed qkv [B, T, 3d] -> [B, T, d]; keys from `lengths[b]` on are hidden.
    fn fused_attention(qkv: FloatTensor<Self>, heads: usize, lengths: Vec<usize>) -> FloatTensor<Self>;
}

impl FusedOps for Flex {
    fn fused_linear(x: FlexTensor, w: FlexTensor, precision: Precision) -> FlexTensor {
        linear::infer(x, w, None, linear::Follow::Activation(Activation::None), precision)
    }

    fn fused_affine(x: FlexTensor, w: FlexTensor, b: FlexTensor, activation: Activation, precision: Precision) -> FlexTensor {
        linear::infer(x, w, Some(b), linear::Follow::Activation(activation), precision)
    }

    fn fused_residual(x: FlexTensor, w: FlexTensor, b: FlexTensor, residual: FlexTensor, precision: Precision) -> FlexTensor {
        linear::infer(x, w, Some(b), linear::Follow::Residual(residual), precision)
    }

    fn fused_layer_norm(x: FlexTensor, weight: FlexTensor, bias: FlexTensor, eps: f32) -> FlexTensor {
        norm::infer(x, weight, bias, eps)
    }

    fn fused_softmax(x: FlexTensor) -> FlexTensor {
        softmax::infer(x)
    }

    fn fused_attention(qkv: FlexTensor, heads: usize, lengths: Vec<usize>) -> FlexTensor {
        attention::infer(qkv, heads, &lengths)
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

    fn fused_layer_norm(x: FloatTensor<Self>, weight: FloatTensor<Self>, bias: FloatTensor<Self>, eps: f32) -> FloatTensor<Self> {
        norm::train::<C>(x, weight, bias, eps)
    }

    fn fused_softmax(x: FloatTensor<Self>) -> FloatTensor<Self> {
        softmax::train::<C>(x)
    }

    fn fused_attention(qkv: FloatTensor<Self>, heads: usize, lengths: Vec<usize>) -> FloatTensor<Self> {
        attention::train::<C>(qkv, heads, lengths)
    }
}

/// The precision to run fused in, or `None` where composed ops must serve.
pub(super) fn applies<const D: usize>(kernels: Kernels, x: &Tensor<D>) -> Option<Precision> {
    let Kernels::Fused(precision) = kernels else {
        return None;
    };
    // With one backend compiled in the last arms are never taken; with more they are.
    #[allow(unreachable_patterns)]
    let on_cpu = match x.device().as_dispatch() {
        DispatchDevice::Flex(_) => true,
        DispatchDevice::Autodiff(inner) => match **inner {
            DispatchDevice::Flex(_) => true,
            _ => false,
        },
        _ => false,
    };
    (on_cpu && x.dtype() == DType::F32).then_some(precision)
}
