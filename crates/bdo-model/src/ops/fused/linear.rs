//! Linear layers with their epilogues.

use super::FusedOp;
use super::buffer::{last, tensor, values, with_last};
use bdo_kernels::linear::{self, Activated, Epilogue, LinearShape};
use bdo_kernels::{Isa, Precision};
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::Shape;

/// The activation after an affine map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops) enum Activation {
    None,
    Relu,
    Gelu,
}

/// x [.., in], w [out, in] -> [.., out]. A third input is a bias [out], a fourth a residual [.., out] in place of the activation.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Linear {
    pub(in crate::ops) activation: Activation,
    pub(in crate::ops) precision: Precision,
}

#[derive(Debug)]
pub(in crate::ops) struct Saved {
    x: FlexTensor,
    w: FlexTensor,
    slope: Slope,
    precision: Precision,
}

#[derive(Debug)]
enum Slope {
    One,
    Relu(FlexTensor),
    Gelu(Vec<f32>),
}

impl Linear {
    /// Output, and the derivative of a GELU if it is to be kept.
    fn run(self, inputs: &[FlexTensor], keep: bool) -> (FlexTensor, Option<Vec<f32>>) {
        let (x, w) = (&inputs[0], &inputs[1]);
        let shape = shape_of(x, w);
        let epilogue = match (inputs.get(3), self.activation) {
            (Some(residual), _) => Epilogue::Residual(values(residual)),
            (None, Activation::Relu) => Epilogue::Relu,
            (None, Activation::Gelu) => Epilogue::Gelu { keep },
            (None, Activation::None) => Epilogue::None,
        };
        let bias = inputs.get(2).map(values);
        let output = linear::forward(Isa::current(), self.precision, shape, values(x), values(w), bias, epilogue);
        (tensor(output.y, with_last(x, shape.outputs)), output.slope)
    }
}

impl<const N: usize> FusedOp<N> for Linear {
    type On = Flex;
    type Saved = Saved;

    fn infer(self, inputs: [FlexTensor; N]) -> FlexTensor {
        self.run(&inputs, false).0
    }

    fn forward(self, inputs: [FlexTensor; N]) -> (FlexTensor, Saved) {
        let (y, slope) = self.run(&inputs, true);
        let slope = match (self.activation, slope) {
            (Activation::Relu, _) => Slope::Relu(y.clone()),
            (Activation::Gelu, Some(slope)) => Slope::Gelu(slope),
            _ => Slope::One,
        };
        (y, Saved { x: inputs[0].clone(), w: inputs[1].clone(), slope, precision: self.precision })
    }

    fn backward(saved: &Saved, dy: FlexTensor, wanted: [bool; N]) -> [Option<FlexTensor>; N] {
        let Saved { x, w, slope, precision } = saved;
        let activated = match slope {
            Slope::One => Activated::Not,
            Slope::Relu(y) => Activated::Relu(values(y)),
            Slope::Gelu(slope) => Activated::Gelu(slope),
        };
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
