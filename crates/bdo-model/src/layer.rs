//! Linear and normalisation layers with the weight layout and epsilon of the method.

use crate::ops::{self, Epilogue, Kernels};
use crate::parameters::{ParameterError, Parameters};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};

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

/// Where layers take their values from while a model is put together.
#[derive(Debug)]
pub struct Source<'a> {
    /// Values by name; what is taken is gone.
    pub parameters: &'a mut Parameters,
    /// Where they go.
    pub device: &'a Device,
    /// Kernels of the layers.
    pub kernels: Kernels,
}

impl Source<'_> {
    /// One parameter of the given shape.
    pub fn take<const D: usize>(&mut self, name: &str, shape: [usize; D]) -> Result<Param<Tensor<D>>, ParameterError> {
        self.parameters.take(name, shape, self.device)
    }

    /// `name.weight` [outputs, inputs] and, if asked for, `name.bias` [outputs].
    pub fn linear(&mut self, name: &str, inputs: usize, outputs: usize, bias: bool) -> Result<Linear, ParameterError> {
        Ok(Linear {
            weight: self.take(&format!("{name}.weight"), [outputs, inputs])?,
            bias: if bias { Some(self.take(&format!("{name}.bias"), [outputs])?) } else { None },
            kernels: self.kernels,
        })
    }

    /// `name.weight` and `name.bias` [width].
    pub fn norm(&mut self, name: &str, width: usize, eps: f64) -> Result<LayerNorm, ParameterError> {
        Ok(LayerNorm {
            weight: self.take(&format!("{name}.weight"), [width])?,
            bias: self.take(&format!("{name}.bias"), [width])?,
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
