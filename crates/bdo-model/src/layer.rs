//! Linear and normalisation layers with the weight layout and epsilon of the method.

use crate::ops::{self, Epilogue, Kernels};
use crate::parameters::{ParameterError, ParameterSpec, Parameters, Start};
use burn::module::{Module, Param, ParamId};
use burn::tensor::{Device, Shape, Tensor};

/// y = x W^T + b with W stored `[out, in]`.
#[derive(Module, Debug)]
pub struct Linear {
    /// [out, in].
    pub weight: Param<Tensor<2>>,
    /// [out].
    pub bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    kernels: Kernels,
}

/// Layer normalisation over the last axis.
#[derive(Module, Debug)]
pub struct LayerNorm {
    /// [d].
    pub weight: Param<Tensor<1>>,
    /// [d].
    pub bias: Param<Tensor<1>>,
    eps: f64,
    #[module(skip)]
    kernels: Kernels,
}

/// How the weights of a linear layer start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinearStart {
    /// Weight and bias uniform within one over the root of the inputs.
    FanIn,
    /// Weight uniform in the Xavier bound, bias zero.
    Xavier,
    /// Weight from this distribution, bias zero.
    Weight(Start),
}

impl LinearStart {
    /// The distributions of weight and bias.
    fn of(self, inputs: usize, outputs: usize) -> (Start, Start) {
        let fan_in = Start::Uniform(1.0 / (inputs as f64).sqrt());
        match self {
            Self::FanIn => (fan_in, fan_in),
            Self::Xavier => (Start::Uniform((6.0 / (inputs + outputs) as f64).sqrt()), Start::Zeros),
            Self::Weight(start) => (start, Start::Zeros),
        }
    }
}

/// Where layers take their values from while a model is put together. The same walk without values lists the table of
/// parameters, so names and shapes are stated once, where a layer takes them.
#[derive(Debug)]
pub struct Source<'a> {
    from: Origin<'a>,
    /// Put before every name.
    prefix: String,
    device: &'a Device,
    /// Kernels of the layers.
    pub kernels: Kernels,
}

#[derive(Debug)]
enum Origin<'a> {
    /// Values by name; what is taken is gone.
    Values(&'a mut Parameters),
    /// Nothing: what is asked for becomes a row.
    Nothing(&'a mut Vec<ParameterSpec>),
}

impl Source<'_> {
    /// Puts together what `build` makes of exactly these values.
    pub fn build<T>(
        mut parameters: Parameters,
        device: &Device,
        kernels: Kernels,
        build: impl FnOnce(&mut Source) -> Result<T, ParameterError>,
    ) -> Result<T, ParameterError> {
        let from = Origin::Values(&mut parameters);
        let built = build(&mut Source { from, prefix: String::new(), device, kernels })?;
        parameters.finish()?;
        Ok(built)
    }

    /// The parameters `build` asks for, in that order; no memory is allocated for their values.
    pub fn list<T>(build: impl FnOnce(&mut Source) -> Result<T, ParameterError>) -> Vec<ParameterSpec> {
        let mut rows = Vec::new();
        let (device, kernels) = (&Device::flex(), Kernels::default());
        let from = Origin::Nothing(&mut rows);
        build(&mut Source { from, prefix: String::new(), device, kernels }).map(|_| ()).expect("every shape is right");
        rows
    }

    /// Names inside `build` are those below `prefix`.
    pub fn under<T>(&mut self, prefix: &str, build: impl FnOnce(&mut Self) -> T) -> T {
        let outside = self.prefix.len();
        self.prefix += prefix;
        self.prefix.push('.');
        let built = build(self);
        self.prefix.truncate(outside);
        built
    }

    /// A trained parameter of the given shape, with the distribution a fresh one is drawn from.
    pub fn take<const D: usize>(
        &mut self,
        name: &str,
        shape: [usize; D],
        start: Start,
    ) -> Result<Param<Tensor<D>>, ParameterError> {
        self.parameter(name, shape, start, true)
    }

    /// The same, trained or only kept with the others.
    pub fn parameter<const D: usize>(
        &mut self,
        name: &str,
        shape: [usize; D],
        start: Start,
        trainable: bool,
    ) -> Result<Param<Tensor<D>>, ParameterError> {
        let name = format!("{}{name}", self.prefix);
        match &mut self.from {
            Origin::Values(values) => {
                let found = values.take(&name, shape, self.device)?;
                Ok(if trainable { found } else { found.set_require_grad(false) })
            }
            Origin::Nothing(rows) => {
                rows.push(ParameterSpec { name, shape: shape.to_vec(), start, trainable });
                let empty = move |device: &Device, _: bool| Tensor::zeros(shape, device);
                Ok(Param::uninitialized(ParamId::new(), empty, self.device.clone(), trainable, Shape::from(shape)))
            }
        }
    }

    /// `name.weight` [outputs, inputs] and `name.bias` [outputs].
    pub fn linear(&mut self, name: &str, inputs: usize, outputs: usize) -> Result<Linear, ParameterError> {
        self.linear_from(name, inputs, outputs, LinearStart::FanIn, true)
    }

    /// As many outputs as inputs, a weight that starts as said and a bias that starts at 0, trained or only kept.
    pub fn square_linear(
        &mut self,
        name: &str,
        width: usize,
        start: Start,
        trained: bool,
    ) -> Result<Linear, ParameterError> {
        Ok(Linear {
            weight: self.parameter(&format!("{name}.weight"), [width, width], start, trained)?,
            bias: Some(self.parameter(&format!("{name}.bias"), [width], Start::Zeros, trained)?),
            kernels: self.kernels.full_precision(),
        })
    }

    /// A linear layer with another start; without `bias`, the weight alone.
    pub fn linear_from(
        &mut self,
        name: &str,
        inputs: usize,
        outputs: usize,
        start: LinearStart,
        bias: bool,
    ) -> Result<Linear, ParameterError> {
        let (weight, at_bias) = start.of(inputs, outputs);
        Ok(Linear {
            weight: self.take(&format!("{name}.weight"), [outputs, inputs], weight)?,
            bias: if bias { Some(self.take(&format!("{name}.bias"), [outputs], at_bias)?) } else { None },
            kernels: self.kernels,
        })
    }

    /// `name.weight` and `name.bias` [width].
    pub fn norm(&mut self, name: &str, width: usize, eps: f64) -> Result<LayerNorm, ParameterError> {
        Ok(LayerNorm {
            weight: self.take(&format!("{name}.weight"), [width], Start::Ones)?,
            bias: self.take(&format!("{name}.bias"), [width], Start::Zeros)?,
            eps,
            kernels: self.kernels,
        })
    }
}

impl Linear {
    /// Which implementation the layer runs.
    pub fn kernels(&self) -> Kernels {
        self.kernels
    }

    /// x [B, T, in] -> [B, T, out].
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        self.forward_then(x, Epilogue::None)
    }

    /// The affine map followed by an epilogue in the same pass.
    pub fn forward_then(&self, x: Tensor<3>, epilogue: Epilogue) -> Tensor<3> {
        ops::linear(self.kernels, x, self.weight.val(), self.bias.as_ref().map(Param::val), epilogue)
    }
}

impl LayerNorm {
    /// x [B, T, d] -> [B, T, d].
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        ops::layer_norm(self.kernels, x, self.weight.val(), self.bias.val(), self.eps)
    }
}
