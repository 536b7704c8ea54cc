//! Moments of the held process.

use super::buffer::{contiguous, tensor, values};
use bdo_kernels::Isa;
use bdo_kernels::scan::{self, Moments, ScanGradients, ScanInput, ScanShape};
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex, TensorMetadata};
use burn::tensor::Shape;
use std::fmt;
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

/// Everything the kernel reads.
struct Inputs {
    control: FlexTensor,
    rates: FlexTensor,
    mean0: FlexTensor,
    variance0: FlexTensor,
    plan: Plan,
}

impl Inputs {
    fn new(tensors: [FlexTensor; 4], plan: Plan) -> Self {
        let [control, rates, mean0, variance0] = tensors.map(contiguous);
        Self { control, rates, mean0, variance0, plan }
    }

    fn shape(&self) -> ScanShape {
        let [batch, contexts, width] = self.control.shape().dims();
        ScanShape { batch, contexts, steps: self.plan.delta.len() / batch, width }
    }

    fn output_shape(&self) -> Shape {
        let shape = self.shape();
        Shape::from([shape.batch, shape.steps, shape.width])
    }

    fn view(&self) -> ScanInput<'_> {
        ScanInput {
            alphahat: values(&self.control),
            lambda: values(&self.rates),
            driver: &self.plan.driver,
            delta: &self.plan.delta,
            lens: None,
            mean0: values(&self.mean0),
            variance0: values(&self.variance0),
            diffusion: self.plan.noise,
        }
    }
}

pub(super) fn infer(tensors: [FlexTensor; 4], plan: Plan) -> (FlexTensor, FlexTensor) {
    let inputs = Inputs::new(tensors, plan);
    let moments = scan::forward(Isa::current(), inputs.shape(), inputs.view());
    (tensor(moments.mean, inputs.output_shape()), tensor(moments.variance, inputs.output_shape()))
}

/// Shared by the nodes of mean and variance.
#[derive(Clone)]
struct Saved(Arc<(Inputs, Moments)>);

impl fmt::Debug for Saved {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.debug_tuple("Saved").field(&self.0.0.plan).finish()
    }
}

/// A node has one output, so mean and variance are two; each passes its own gradient and zeros for the other. The
/// process is linear in both, so the two halves add up to the whole.
#[derive(Debug)]
enum ScanBackward {
    Mean,
    Variance,
}

impl Backward<Flex, 4> for ScanBackward {
    type State = Saved;

    fn backward(self, ops: Ops<Saved, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let upstream = contiguous(grads.consume::<Flex>(&ops.node));
        let (inputs, moments) = &*ops.state.0;
        let none = vec![0.0; values(&upstream).len()];
        let (dmean, dvariance) = match self {
            Self::Mean => (values(&upstream), &none[..]),
            Self::Variance => (&none[..], values(&upstream)),
        };
        let found = scan::backward(Isa::current(), inputs.shape(), inputs.view(), moments, dmean, dvariance);
        let ScanGradients { dalphahat, dlambda, dmean0, dvariance0 } = found;
        let parts = [
            (dalphahat, &inputs.control),
            (dlambda, &inputs.rates),
            (dmean0, &inputs.mean0),
            (dvariance0, &inputs.variance0),
        ];
        for (parent, (gradient, like)) in ops.parents.into_iter().zip(parts) {
            if let Some(parent) = parent {
                grads.register::<Flex>(parent.id, tensor(gradient, like.shape()));
            }
        }
    }
}

type Tracked<C> = FloatTensor<Autodiff<Flex, C>>;

pub(super) fn train<C: CheckpointStrategy>(tensors: [Tracked<C>; 4], plan: Plan) -> (Tracked<C>, Tracked<C>) {
    // Each node keeps its own hold on the inputs.
    let again = tensors.clone().map(|tensor| tensor.into_parts().1);
    let [control, rates, mean0, variance0] = tensors.map(FloatTensor::<Autodiff<Flex, C>>::into_parts);
    let nodes = [control.1, rates.1, mean0.1, variance0.1];
    let inputs = Inputs::new([control.0, rates.0, mean0.0, variance0.0], plan);
    let moments = scan::forward(Isa::current(), inputs.shape(), inputs.view());
    let shape = inputs.output_shape();
    let (mean, variance) = (tensor(moments.mean.clone(), shape.clone()), tensor(moments.variance.clone(), shape));
    let saved = Saved(Arc::new((inputs, moments)));
    let finish = |prepared: OpsKind<ScanBackward, Flex, Saved, C, 4>, y| match prepared {
        OpsKind::Tracked(prepared) => prepared.finish(saved.clone(), y),
        OpsKind::UnTracked(prepared) => prepared.finish(y),
    };
    (
        finish(ScanBackward::Mean.prepare::<C>(nodes).compute_bound().stateful(), mean),
        finish(ScanBackward::Variance.prepare::<C>(again).compute_bound().stateful(), variance),
    )
}
