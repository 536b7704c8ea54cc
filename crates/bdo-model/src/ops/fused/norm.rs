//! Layer normalisation.

use super::FusedOp;
use super::buffer::{tensor, values};
use bdo_kernels::{Isa, norm};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, TensorMetadata};

/// x [.., d], weight [d], bias [d] -> [.., d].
#[derive(Debug)]
pub(in crate::ops) struct LayerNorm {
    pub(in crate::ops) eps: f32,
}

#[derive(Debug)]
pub(in crate::ops) struct Saved {
    x: FlexTensor,
    weight: FlexTensor,
    mean: Vec<f32>,
    rstd: Vec<f32>,
}

impl FusedOp<3> for LayerNorm {
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
