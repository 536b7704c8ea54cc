//! Kernels as framework ops, each with its own backward pass, and what lies between framework tensors and the slices that kernels
//! for the CPU work on. The models never see this module.

use super::Kernels;
use crate::device::is_cpu;
use bdo_kernels::Precision;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::{FlexTensor, Layout};
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Autodiff, AutodiffBackend, Backend, BackendTensor, DType, DispatchAutodiffContext, DispatchKindConversion,
    DispatchTensor, Flex, TensorMetadata,
};
use burn::tensor::{Bytes, Shape, Tensor};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

/// A backend that kernels are written for.
pub trait Home: Backend {
    /// Row-major.
    fn contiguous(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
}

impl Home for Flex {
    /// Free if it already is.
    fn contiguous(tensor: FlexTensor) -> FlexTensor {
        if tensor.as_slice::<f32>().is_some() { tensor } else { tensor.to_contiguous() }
    }
}

#[cfg(feature = "cube")]
impl Home for burn::backend::Cube {
    fn contiguous(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        burn_cubecl::kernel::into_contiguous(tensor)
    }
}

/// A kernel as a framework op of `N` inputs. Tensors handed to its functions are contiguous.
pub trait FusedOp<const N: usize>: Debug + Send + Sized + 'static {
    /// Where its tensors live.
    type On: Home;
    /// Values kept for the backward pass.
    type Saved: Debug + Send + Sync + 'static;

    /// The output, and what the backward pass needs.
    fn forward(self, inputs: [FloatTensor<Self::On>; N]) -> (FloatTensor<Self::On>, Self::Saved);

    /// The output alone, where no gradient is asked for.
    fn infer(self, inputs: [FloatTensor<Self::On>; N]) -> FloatTensor<Self::On> {
        self.forward(inputs).0
    }

    /// Gradients of the inputs for `dy`, the gradient of the output; those not `wanted` may be left out.
    fn backward(
        saved: &Self::Saved,
        dy: FloatTensor<Self::On>,
        wanted: [bool; N],
    ) -> [Option<FloatTensor<Self::On>>; N];
}

/// Runs a kernel on tensors of its backend, on the gradient tape if one of them is on it.
pub fn run<O: FusedOp<N>, const N: usize, const D: usize>(op: O, inputs: [DispatchTensor; N]) -> Tensor<D>
where
    DispatchTensor: DispatchKindConversion<O::On> + DispatchKindConversion<Autodiff<O::On>>,
{
    if inputs.iter().all(|input| input.autodiff == DispatchAutodiffContext::Disabled) {
        return Tensor::from_primitive::<O::On>(op.infer(inputs.map(constant::<O::On>)));
    }
    let inputs = inputs.map(tracked::<O::On>);
    let nodes = inputs.each_ref().map(Tracked::<O::On>::node);
    let inputs = inputs.map(|input| O::On::contiguous(input.into_primitive()));
    Tensor::from_primitive::<Autodiff<O::On>>(
        match Node::<O>(PhantomData).prepare::<NoCheckpointing>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prepared) => {
                let (y, saved) = op.forward(inputs);
                prepared.finish(Arc::new(saved), y)
            }
            OpsKind::UnTracked(prepared) => prepared.finish(op.infer(inputs)),
        },
    )
}

type Tracked<B> = FloatTensor<Autodiff<B>>;

/// The tensor as a leaf or node of the tape.
fn tracked<B: Home>(tensor: DispatchTensor) -> Tracked<B>
where
    DispatchTensor: DispatchKindConversion<B> + DispatchKindConversion<Autodiff<B>>,
{
    if tensor.autodiff == DispatchAutodiffContext::Disabled {
        return Autodiff::<B>::from_inner(constant::<B>(tensor));
    }
    let tensor: BackendTensor<Autodiff<B>> =
        DispatchTensor::try_into_backend(tensor).expect("a tensor of this backend, as `applies` found");
    tensor.float()
}

/// The values of a tensor, off the tape.
pub(super) fn constant<B: Home>(tensor: DispatchTensor) -> FloatTensor<B>
where
    DispatchTensor: DispatchKindConversion<B> + DispatchKindConversion<Autodiff<B>>,
{
    if tensor.autodiff != DispatchAutodiffContext::Disabled {
        return B::contiguous(tracked::<B>(tensor).into_primitive());
    }
    let tensor: BackendTensor<B> =
        DispatchTensor::try_into_backend(tensor).expect("a tensor of this backend, as `applies` found");
    B::contiguous(tensor.float())
}

/// The node of an op on the tape.
#[derive(Debug)]
struct Node<O>(PhantomData<O>);

impl<O: FusedOp<N>, const N: usize> Backward<O::On, N> for Node<O> {
    type State = Arc<O::Saved>;

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dy = O::On::contiguous(grads.consume::<O::On>(&ops.node));
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let found = O::backward(&ops.state, dy, wanted);
        for (parent, gradient) in ops.parents.into_iter().zip(found) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<O::On>(parent.id, gradient);
            }
        }
    }
}

/// The precision to run fused in, or `None` where composed ops must serve.
pub(super) fn applies<const D: usize>(kernels: Kernels, x: &Tensor<D>) -> Option<Precision> {
    let Kernels::Fused(precision) = kernels else {
        return None;
    };
    (is_cpu(&x.device()) && x.dtype() == DType::F32).then_some(precision)
}

/// The values of a contiguous tensor.
pub fn values(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice::<f32>().expect("a contiguous f32 tensor: kernels are given no others")
}

/// A tensor that takes over a kernel's output.
pub fn tensor(values: Vec<f32>, shape: Shape) -> FlexTensor {
    FlexTensor::new(Bytes::from_elems(values), Layout::contiguous(shape), DType::F32)
}

/// The shape with another last axis.
pub(super) fn with_last(tensor: &FlexTensor, last: usize) -> Shape {
    let mut shape = tensor.shape();
    let axis = shape.num_dims() - 1;
    shape[axis] = last;
    shape
}

/// The length of the last axis.
pub(super) fn last(tensor: &FlexTensor) -> usize {
    let shape = tensor.shape();
    shape[shape.num_dims() - 1]
}

/// The tensor behind a framework tensor of the plain CPU device.
pub(super) fn primitive<const D: usize>(tensor: Tensor<D>) -> FlexTensor {
    Flex::contiguous(tensor.inner().try_into_primitive::<Flex>().expect("a tensor of the plain CPU device"))
}
