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
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Autodiff, AutodiffBackend, BackendTensor, DType, DispatchAutodiffContext, DispatchDevice, DispatchKindConversion,
    DispatchTensor, Flex,
};
use burn::tensor::Tensor;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

pub(super) use adam::{adam_step, squared_norm};
pub(super) use attention::Attention;
pub(super) use blend::blend;
pub use buffer::{tensor, values};
pub(super) use error::SquaredError;
pub(super) use linear::{Activation, Linear};
pub(super) use norm::LayerNorm;
pub(super) use scan::{Plan, moments};
pub(super) use softmax::Softmax;

/// A kernel as a framework op of `N` inputs. Tensors handed to its functions are contiguous.
pub trait FusedOp<const N: usize>: Debug + Send + Sized + 'static {
    /// Values kept for the backward pass.
    type Saved: Debug + Send + Sync + 'static;

    /// The output, and what the backward pass needs.
    fn forward(self, inputs: [FlexTensor; N]) -> (FlexTensor, Self::Saved);

    /// The output alone, where no gradient is asked for.
    fn infer(self, inputs: [FlexTensor; N]) -> FlexTensor {
        self.forward(inputs).0
    }

    /// Gradients of the inputs for `dy`, the gradient of the output; those not `wanted` may be left out.
    fn backward(saved: &Self::Saved, dy: FlexTensor, wanted: [bool; N]) -> [Option<FlexTensor>; N];
}

/// Runs a kernel on tensors of the CPU, on the gradient tape if one of them is on it.
pub fn run<O: FusedOp<N>, const N: usize, const D: usize>(op: O, inputs: [DispatchTensor; N]) -> Tensor<D> {
    if inputs.iter().all(|input| input.autodiff == DispatchAutodiffContext::Disabled) {
        return Tensor::from_primitive::<Flex>(op.infer(inputs.map(constant)));
    }
    let inputs = inputs.map(tracked);
    let nodes = inputs.each_ref().map(Tracked::node);
    let inputs = inputs.map(|input| buffer::contiguous(input.into_primitive()));
    Tensor::from_primitive::<Autodiff<Flex>>(
        match Node::<O>(PhantomData).prepare::<NoCheckpointing>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prepared) => {
                let (y, saved) = op.forward(inputs);
                prepared.finish(Arc::new(saved), y)
            }
            OpsKind::UnTracked(prepared) => prepared.finish(op.infer(inputs)),
        },
    )
}

type Tracked = FloatTensor<Autodiff<Flex>>;

/// The tensor as a leaf or node of the tape.
fn tracked(tensor: DispatchTensor) -> Tracked {
    if tensor.autodiff == DispatchAutodiffContext::Disabled {
        return Autodiff::<Flex>::from_inner(constant(tensor));
    }
    let tensor: BackendTensor<Autodiff<Flex>> =
        DispatchTensor::try_into_backend(tensor).expect("a tensor of the CPU, as `applies` found");
    tensor.float()
}

/// The values of a tensor, off the tape.
fn constant(tensor: DispatchTensor) -> FlexTensor {
    if tensor.autodiff != DispatchAutodiffContext::Disabled {
        return buffer::contiguous(tracked(tensor).into_primitive());
    }
    let tensor: BackendTensor<Flex> =
        DispatchTensor::try_into_backend(tensor).expect("a tensor of the CPU, as `applies` found");
    buffer::contiguous(tensor.float())
}

/// The node of an op on the tape.
#[derive(Debug)]
struct Node<O>(PhantomData<O>);

impl<O: FusedOp<N>, const N: usize> Backward<Flex, N> for Node<O> {
    type State = Arc<O::Saved>;

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dy = buffer::contiguous(grads.consume::<Flex>(&ops.node));
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let found = O::backward(&ops.state, dy, wanted);
        for (parent, gradient) in ops.parents.into_iter().zip(found) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<Flex>(parent.id, gradient);
            }
        }
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
