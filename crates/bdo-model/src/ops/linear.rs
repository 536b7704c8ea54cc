//! Affine maps with weights stored `[out, in]`.

use super::Kernels;
use super::fused::{self, Activation, Linear};
use burn::tensor::{Tensor, activation};

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
    finish(composed(x, weight, bias), epilogue)
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
    precision: super::Precision,
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

fn composed(x: Tensor<3>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<3> {
    let [batch, tokens, inputs] = x.dims();
    let outputs = weight.dims()[0];
    let y = x.reshape([batch * tokens, inputs]).matmul(weight.transpose()); // [B*T, out]
    let y = match bias {
        Some(bias) => y + bias.unsqueeze(),
        None => y,
    };
    y.reshape([batch, tokens, outputs]) // [B, T, out]
}
