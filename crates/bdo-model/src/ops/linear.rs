//! Affine maps with weights stored `[out, in]`.

use super::fused::{self, FusedOp, last, run, tensor, values, with_last};
use super::{Kernels, Precision};
use crate::device::is_cpu;
use bdo_kernels::Isa;
use bdo_kernels::activation::Activation;
use bdo_kernels::linear::{self, LinearShape};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::{DType, Device, Shape, Tensor, activation};

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
        let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
        let op = |activation| Fused { activation, precision };
        let Some(bias) = bias.map(Tensor::into_dispatch) else {
            return finish(run(op(None), [x, weight]), epilogue);
        };
        return match epilogue {
            Epilogue::None => run(op(None), [x, weight, bias]),
            Epilogue::Relu => run(op(Some(Activation::Relu)), [x, weight, bias]),
            Epilogue::Gelu => run(op(Some(Activation::Gelu)), [x, weight, bias]),
            Epilogue::Add(other) => run(op(None), [x, weight, bias, other.into_dispatch()]),
        };
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

/// The kernel: x [.., in], w [out, in] -> [.., out]. A third input is a bias [out], a fourth a residual [.., out] in place of the
/// activation.
#[derive(Clone, Copy, Debug)]
struct Fused {
    activation: Option<Activation>,
    precision: Precision,
}

#[derive(Debug)]
struct Saved {
    x: FlexTensor,
    w: FlexTensor,
    activated: Option<(Activation, FlexTensor)>,
    precision: Precision,
}

impl Fused {
    /// Output, and the derivative of a GELU if it is to be kept.
    fn run(self, inputs: &[FlexTensor], keep: bool) -> (FlexTensor, Option<Vec<f32>>) {
        let (x, w) = (&inputs[0], &inputs[1]);
        let shape = shape_of(x, w);
        let epilogue = match (inputs.get(3), self.activation) {
            (Some(residual), _) => linear::Epilogue::Residual(values(residual)),
            (None, Some(Activation::Relu)) => linear::Epilogue::Relu,
            (None, Some(Activation::Gelu)) => linear::Epilogue::Gelu { keep },
            (None, None) => linear::Epilogue::None,
        };
        let bias = inputs.get(2).map(values);
        let output = linear::forward(Isa::current(), self.precision, shape, values(x), values(w), bias, epilogue);
        (tensor(output.y, with_last(x, shape.outputs)), output.slope)
    }
}

impl<const N: usize> FusedOp<N> for Fused {
    type On = Flex;
    type Saved = Saved;

    fn infer(self, inputs: [FlexTensor; N]) -> FlexTensor {
        self.run(&inputs, false).0
    }

    fn forward(self, inputs: [FlexTensor; N]) -> (FlexTensor, Saved) {
        let (y, slope) = self.run(&inputs, true);
        let kept = slope.map_or_else(|| y.clone(), |slope| tensor(slope, y.shape()));
        let activated = self.activation.map(|activation| (activation, kept));
        (y, Saved { x: inputs[0].clone(), w: inputs[1].clone(), activated, precision: self.precision })
    }

    fn backward(saved: &Saved, dy: FlexTensor, wanted: [bool; N]) -> [Option<FlexTensor>; N] {
        let Saved { x, w, activated, precision } = saved;
        let activated = activated.as_ref().map(|(activation, kept)| (*activation, values(kept)));
        let (shape, isa) = (shape_of(x, w), Isa::current());
        let found = linear::backward(isa, *precision, shape, values(x), values(w), values(&dy), activated, wanted[0]);
        let dx = found.dx.map(|dx| tensor(dx, x.shape()));
        let dw = tensor(found.dw, w.shape());
        let db = tensor(found.db, Shape::from([shape.outputs]));
        let mut all = [dx, Some(dw), Some(db), Some(dy)].into_iter();
        std::array::from_fn(|_| all.next().flatten())
    }
}

fn shape_of(x: &FlexTensor, w: &FlexTensor) -> LinearShape {
    let [outputs, inputs] = w.shape().dims();
    LinearShape { rows: x.shape().num_elements() / last(x).max(1), inputs, outputs }
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
