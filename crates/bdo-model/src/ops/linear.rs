//! Affine maps with weights stored `[out, in]`.

use super::fused::{self, Activation, Linear};
use super::{Kernels, Precision};
use crate::device::is_cpu;
use burn::tensor::{DType, Device, Tensor, activation};

/// Operation fused after the affine map.
// The tensor is moved once per layer; a box would cost more than the bytes it saves.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum Epilogue {
    /// Nothing.
    None,
    /// max(0, y).
    Relu,
    /// y Phi(y), with the exact error function.
    Gelu,
    /// Adds a tensor of the output's shape.
    Add(Tensor<3>),
}

/// x [B, T, in], weight [out, in], bias [out] -> [B, T, out].
pub fn linear(
    kernels: Kernels,
    x: Tensor<3>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    epilogue: Epilogue,
) -> Tensor<3> {
    if let Some(precision) = fused::applies(kernels, &x) {
        return fused(x, weight, bias, epilogue, precision);
    }
    let rounded = rounds(kernels, &x.device());
    finish(composed(x, weight, bias, rounded), epilogue)
}

fn finish(y: Tensor<3>, epilogue: Epilogue) -> Tensor<3> {
    match epilogue {
        Epilogue::None => y,
        Epilogue::Relu => activation::relu(y),
        Epilogue::Gelu => gelu(y),
        Epilogue::Add(other) => y + other,
    }
}

/// x Phi(x). Written out, because on most devices the framework's own differentiates an approximation of it: a gradient off by a few
/// parts in ten thousand.
fn gelu(x: Tensor<3>) -> Tensor<3> {
    let phi = ((x.clone() * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0) * 0.5;
    x * phi
}

fn fused(
    x: Tensor<3>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    epilogue: Epilogue,
    precision: Precision,
) -> Tensor<3> {
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    let op = |activation| Linear { activation, precision };
    let Some(bias) = bias else {
        return finish(fused::run(op(Activation::None), [x, weight]), epilogue);
    };
    let bias = bias.into_dispatch();
    let activation = match epilogue {
        Epilogue::None => Activation::None,
        Epilogue::Relu => Activation::Relu,
        Epilogue::Gelu => Activation::Gelu,
        Epilogue::Add(other) => return fused::run(op(Activation::None), [x, weight, bias, other.into_dispatch()]),
    };
    fused::run(op(activation), [x, weight, bias])
}

/// Whether operands are rounded to bfloat16: asked for, and a device that is not the CPU has it.
fn rounds(kernels: Kernels, device: &Device) -> bool {
    kernels == Kernels::Fused(Precision::Bf16) && !is_cpu(device) && device.supports_dtype(DType::BF16)
}

/// Weights stay in single precision; their rounded copy lives as long as the product.
fn composed(x: Tensor<3>, weight: Tensor<2>, bias: Option<Tensor<1>>, rounded: bool) -> Tensor<3> {
    let [batch, tokens, inputs] = x.dims();
    let (outputs, dtype) = (weight.dims()[0], x.dtype());
    let (x, weight) = (x.reshape([batch * tokens, inputs]), weight.transpose());
    let y = if rounded { x.cast(DType::BF16).matmul(weight.cast(DType::BF16)).cast(dtype) } else { x.matmul(weight) }; // [B*T, out]
    let y = match bias {
        Some(bias) => y + bias.unsqueeze(),
        None => y,
    };
    y.reshape([batch, tokens, outputs]) // [B, T, out]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::download;
    use burn::tensor::Distribution;

    #[test]
    fn rounded_operands_give_values_and_gradients_to_two_digits_and_leave_weights_whole() {
        let device = Device::flex().autodiff();
        let x = Tensor::<3>::random([2, 5, 32], Distribution::Normal(0.0, 1.0), &device);
        let weight = Tensor::<2>::random([16, 32], Distribution::Normal(0.0, 0.2), &device).require_grad();
        let [exact, rounded] = [false, true].map(|rounded| {
            let y = composed(x.clone(), weight.clone(), None, rounded);
            assert_eq!(y.dtype(), DType::F32);
            let gradients = y.clone().square().sum().backward();
            let gradient = weight.grad(&gradients).map(download).unwrap_or_default();
            (download(y), gradient)
        });
        let close = |a: &[f32], b: &[f32]| {
            let size = a.iter().fold(0.0f32, |m, x| m.max(x.abs()));
            a.len() == b.len() && size > 0.0 && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 2e-2 * size)
        };
        assert!(close(&exact.0, &rounded.0) && close(&exact.1, &rounded.1));
        assert_ne!(exact.0, rounded.0);
    }
}
