//! Moments of the held process.

use super::buffer::{tensor, values};
use super::{FusedOp, constant, run};
use bdo_kernels::Isa;
use bdo_kernels::scan::{self, Moments, ScanGradients, ScanInput, ScanShape};
use burn::backend::flex::FlexTensor;
use burn::backend::{DispatchTensor, Flex, TensorMetadata};
use burn::tensor::{Shape, Tensor};
use std::sync::Arc;

/// Which token drives which step, for how long, and how strong the noise is.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Plan {
    /// [B * K] token of the same sample.
    pub(in crate::ops) driver: Vec<u32>,
    /// [B * K] lengths.
    pub(in crate::ops) delta: Vec<f32>,
    /// Variance of the noise per unit of scaled time.
    pub(in crate::ops) noise: f32,
}

/// Controls and rates [B, C, d], initial moments [d] -> mean and variance [B, K, d].
pub(in crate::ops) fn moments(tensors: [DispatchTensor; 4], plan: Plan) -> (Tensor<3>, Tensor<3>) {
    let inputs = Inputs { tensors: tensors.clone().map(constant::<Flex>), plan };
    let moments = scan::forward(Isa::current(), inputs.shape(), inputs.view());
    let done = Arc::new((inputs, moments));
    (run(Half::Mean(done.clone()), tensors.clone()), run(Half::Variance(done), tensors))
}

/// Everything the kernel reads.
#[derive(Debug)]
struct Inputs {
    /// Control, rates, initial mean, initial variance.
    tensors: [FlexTensor; 4],
    plan: Plan,
}

impl Inputs {
    fn shape(&self) -> ScanShape {
        let [batch, contexts, width] = self.tensors[0].shape().dims();
        ScanShape { batch, contexts, steps: self.plan.delta.len() / batch, width }
    }

    fn view(&self) -> ScanInput<'_> {
        let [alphahat, lambda, mean0, variance0] = self.tensors.each_ref().map(values);
        let Plan { driver, delta, noise } = &self.plan;
        ScanInput { alphahat, lambda, driver, delta, lens: None, mean0, variance0, diffusion: *noise }
    }
}

/// A node has one output, so mean and variance are two; each passes its own gradient and zeros for the other. The
/// process is linear in both, so the two halves add up to the whole.
#[derive(Debug)]
enum Half {
    Mean(Arc<(Inputs, Moments)>),
    Variance(Arc<(Inputs, Moments)>),
}

impl FusedOp<4> for Half {
    type On = Flex;
    type Saved = Self;

    fn forward(self, _: [FlexTensor; 4]) -> (FlexTensor, Self) {
        let (Self::Mean(done) | Self::Variance(done)) = &self;
        let (inputs, moments) = &**done;
        let ScanShape { batch, steps, width, .. } = inputs.shape();
        let found = match &self {
            Self::Mean(_) => &moments.mean,
            Self::Variance(_) => &moments.variance,
        };
        (tensor(found.clone(), Shape::from([batch, steps, width])), self)
    }

    fn backward(saved: &Self, dy: FlexTensor, _: [bool; 4]) -> [Option<FlexTensor>; 4] {
        let none = vec![0.0; values(&dy).len()];
        let (done, dmean, dvariance) = match saved {
            Self::Mean(done) => (done, values(&dy), &none[..]),
            Self::Variance(done) => (done, &none[..], values(&dy)),
        };
        let (inputs, moments) = &**done;
        let found = scan::backward(Isa::current(), inputs.shape(), inputs.view(), moments, dmean, dvariance);
        let ScanGradients { dalphahat, dlambda, dmean0, dvariance0 } = found;
        let mut like = inputs.tensors.iter();
        [dalphahat, dlambda, dmean0, dvariance0].map(|gradient| like.next().map(|like| tensor(gradient, like.shape())))
    }
}
