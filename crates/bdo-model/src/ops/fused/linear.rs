//! Linear layers with their epilogues.

use super::buffer::{contiguous, last, tensor, values, with_last};
use bdo_kernels::linear::{self, Activated, Epilogue, LinearGradients, LinearShape};
use bdo_kernels::{Isa, Precision};
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex, TensorMetadata};
use burn::tensor::Shape;
use std::sync::Arc;

/// The activation after an affine map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops) enum Activation {
    None,
    Relu,
    Gelu,
}

/// Operation after the product and the bias.
pub(super) enum Follow {
    Activation(Activation),
    Residual(FlexTensor),
}

pub(super) fn infer(
    x: FlexTensor,
    w: FlexTensor,
    b: Option<FlexTensor>,
    follow: &Follow,
    precision: Precision,
) -> FlexTensor {
    run(&contiguous(x), &contiguous(w), b.map(contiguous).as_ref(), follow, false, precision).0
}

/// Output, and the derivative of a GELU if it is to be kept.
fn run(
    x: &FlexTensor,
    w: &FlexTensor,
    b: Option<&FlexTensor>,
    follow: &Follow,
    keep: bool,
    precision: Precision,
) -> (FlexTensor, Option<Vec<f32>>) {
    let shape = shape_of(x, w);
    let residual = match follow {
        Follow::Residual(residual) => Some(contiguous(residual.clone())),
        Follow::Activation(_) => None,
    };
    let epilogue = match (follow, &residual) {
        (_, Some(residual)) => Epilogue::Residual(values(residual)),
        (Follow::Activation(Activation::Relu), _) => Epilogue::Relu,
        (Follow::Activation(Activation::Gelu), _) => Epilogue::Gelu { keep },
        _ => Epilogue::None,
    };
    let output = linear::forward(Isa::current(), precision, shape, values(x), values(w), b.map(values), epilogue);
    (tensor(output.y, with_last(x, shape.outputs)), output.slope)
}

fn shape_of(x: &FlexTensor, w: &FlexTensor) -> LinearShape {
    let [outputs, inputs] = w.shape().dims();
    LinearShape { rows: x.shape().num_elements() / last(x).max(1), inputs, outputs }
}

/// Values saved for the backward pass.
#[derive(Clone, Debug)]
struct Saved {
    x: FlexTensor,
    w: FlexTensor,
    slope: Slope,
    precision: Precision,
}

#[derive(Clone, Debug)]
enum Slope {
    One,
    Relu(FlexTensor),
    Gelu(Arc<Vec<f32>>),
}

impl Saved {
    fn gradients(&self, dy: &FlexTensor, need_dx: bool) -> LinearGradients {
        let activated = match &self.slope {
            Slope::One => Activated::Not,
            Slope::Relu(y) => Activated::Relu(values(y)),
            Slope::Gelu(slope) => Activated::Gelu(slope),
        };
        let shape = shape_of(&self.x, &self.w);
        linear::backward(
            Isa::current(),
            self.precision,
            shape,
            values(&self.x),
            values(&self.w),
            values(dy),
            activated,
            need_dx,
        )
    }
}

#[derive(Debug)]
struct LinearBackward;

impl Backward<Flex, 2> for LinearBackward {
    type State = Saved;

    fn backward(self, ops: Ops<Saved, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dy = contiguous(grads.consume::<Flex>(&ops.node));
        let [x, w] = ops.parents;
        let found = ops.state.gradients(&dy, x.is_some());
        if let (Some(x), Some(dx)) = (x, found.dx) {
            grads.register::<Flex>(x.id, tensor(dx, ops.state.x.shape()));
        }
        if let Some(w) = w {
            grads.register::<Flex>(w.id, tensor(found.dw, ops.state.w.shape()));
        }
    }
}

#[derive(Debug)]
struct AffineBackward;

impl Backward<Flex, 3> for AffineBackward {
    type State = Saved;

    fn backward(self, ops: Ops<Saved, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dy = contiguous(grads.consume::<Flex>(&ops.node));
        let [x, w, b] = ops.parents;
        let found = ops.state.gradients(&dy, x.is_some());
        if let (Some(x), Some(dx)) = (x, found.dx) {
            grads.register::<Flex>(x.id, tensor(dx, ops.state.x.shape()));
        }
        if let Some(w) = w {
            grads.register::<Flex>(w.id, tensor(found.dw, ops.state.w.shape()));
        }
        if let Some(b) = b {
            let shape = Shape::from([found.db.len()]);
            grads.register::<Flex>(b.id, tensor(found.db, shape));
        }
    }
}

#[derive(Debug)]
struct ResidualBackward;

impl Backward<Flex, 4> for ResidualBackward {
    type State = Saved;

    fn backward(self, ops: Ops<Saved, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dy = contiguous(grads.consume::<Flex>(&ops.node));
        let [x, w, b, residual] = ops.parents;
        let found = ops.state.gradients(&dy, x.is_some());
        if let (Some(x), Some(dx)) = (x, found.dx) {
            grads.register::<Flex>(x.id, tensor(dx, ops.state.x.shape()));
        }
        if let Some(w) = w {
            grads.register::<Flex>(w.id, tensor(found.dw, ops.state.w.shape()));
        }
        if let Some(b) = b {
            let shape = Shape::from([found.db.len()]);
            grads.register::<Flex>(b.id, tensor(found.db, shape));
        }
        if let Some(residual) = residual {
            grads.register::<Flex>(residual.id, dy);
        }
    }
}

type Tracked<C> = FloatTensor<Autodiff<Flex, C>>;

pub(super) fn train_linear<C: CheckpointStrategy>(x: Tracked<C>, w: Tracked<C>, precision: Precision) -> Tracked<C> {
    let ((x, x_node), (w, w_node)) = (x.into_parts(), w.into_parts());
    let (x, w) = (contiguous(x), contiguous(w));
    let (y, _) = run(&x, &w, None, &Follow::Activation(Activation::None), false, precision);
    match LinearBackward.prepare::<C>([x_node, w_node]).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish(Saved { x, w, slope: Slope::One, precision }, y),
        OpsKind::UnTracked(prepared) => prepared.finish(y),
    }
}

pub(super) fn train_affine<C: CheckpointStrategy>(
    x: Tracked<C>,
    w: Tracked<C>,
    b: Tracked<C>,
    activation: Activation,
    precision: Precision,
) -> Tracked<C> {
    let ((x, x_node), (w, w_node), (b, b_node)) = (x.into_parts(), w.into_parts(), b.into_parts());
    let (x, w, b) = (contiguous(x), contiguous(w), contiguous(b));
    match AffineBackward.prepare::<C>([x_node, w_node, b_node]).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => {
            let (y, slope) = run(&x, &w, Some(&b), &Follow::Activation(activation), true, precision);
            let slope = match (activation, slope) {
                (Activation::Relu, _) => Slope::Relu(y.clone()),
                (Activation::Gelu, Some(slope)) => Slope::Gelu(Arc::new(slope)),
                _ => Slope::One,
            };
            prepared.finish(Saved { x, w, slope, precision }, y)
        }
        OpsKind::UnTracked(prepared) => {
            prepared.finish(infer(x, w, Some(b), &Follow::Activation(activation), precision))
        }
    }
}

pub(super) fn train_residual<C: CheckpointStrategy>(
    x: Tracked<C>,
    w: Tracked<C>,
    b: Tracked<C>,
    residual: Tracked<C>,
    precision: Precision,
) -> Tracked<C> {
    let ((x, x_node), (w, w_node), (b, b_node), (residual, residual_node)) =
        (x.into_parts(), w.into_parts(), b.into_parts(), residual.into_parts());
    let (x, w, b) = (contiguous(x), contiguous(w), contiguous(b));
    let (y, _) = run(&x, &w, Some(&b), &Follow::Residual(residual), false, precision);
    match ResidualBackward.prepare::<C>([x_node, w_node, b_node, residual_node]).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish(Saved { x, w, slope: Slope::One, precision }, y),
        OpsKind::UnTracked(prepared) => prepared.finish(y),
    }
}
