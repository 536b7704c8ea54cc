//! Layer normalisation over the last axis.

use super::Kernels;
use super::fused::{self, FusedOp, tensor, values};
use bdo_kernels::{Isa, norm};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::Tensor;

/// x [B, T, d], weight [d], bias [d] -> [B, T, d]; the variance is the biased one.
pub fn layer_norm(kernels: Kernels, x: Tensor<3>, weight: Tensor<1>, bias: Tensor<1>, eps: f64) -> Tensor<3> {
    if fused::applies(kernels, &x).is_some() {
        let inputs = [x.into_dispatch(), weight.into_dispatch(), bias.into_dispatch()];
        return fused::run(Fused { eps: eps as f32 }, inputs);
    }
    let centred = x.clone() - x.mean_dim(2);
    let variance = centred.clone().square().mean_dim(2);
    let normal = centred / (variance + eps).sqrt();
    normal * weight.unsqueeze() + bias.unsqueeze()
}

/// The kernel: x [.., d], weight [d], bias [d] -> [.., d].
#[derive(Debug)]
struct Fused {
    eps: f32,
}

#[derive(Debug)]
struct Saved {
    x: FlexTensor,
    weight: FlexTensor,
    mean: Vec<f32>,
    rstd: Vec<f32>,
}

impl FusedOp<3> for Fused {
    type On = Flex;
    type Saved = Saved;

    fn forward(self, [x, weight, bias]: [FlexTensor; 3]) -> (FlexTensor, Saved) {
        let output = norm::forward(Isa::current(), values(&x), values(&weight), values(&bias), self.eps);
        (tensor(output.y, x.shape()), Saved { x, weight, mean: output.mean, rstd: output.rstd })
    }

    fn backward(saved: &Saved, dy: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let Saved { x, weight, mean, rstd } = saved;
        let found = norm::backward(Isa::current(), values(x), values(weight), mean, rstd, values(&dy));
        [(found.dx, x), (found.dgamma, weight), (found.dbeta, weight)]
            .map(|(gradient, like)| Some(tensor(gradient, like.shape())))
    }
}
