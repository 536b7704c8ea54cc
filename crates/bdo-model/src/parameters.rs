//! The table of parameters: names, shapes, where each starts and whether it is trained. The names are a contract
//! with other tools, so everything that creates, reads or writes weights goes through this one table. Layers state its
//! rows when they take their values ([`Source`]).

use crate::config::ModelConfig;
use crate::device::{download, upload};
use crate::encoder::Encoder;
use crate::layer::Source;
use crate::model::Bdo;
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use std::collections::{BTreeMap, BTreeSet};

/// One row of the parameter table.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterSpec {
    /// Dotted name, as in the weight file.
    pub name: String,
    /// Row-major shape; matrices are `[out, in]`.
    pub shape: Vec<usize>,
    /// The distribution a fresh model draws it from.
    pub start: Start,
    /// False only for the fixed start of the eigenbasis.
    pub trainable: bool,
}

/// The distribution of a parameter in a fresh model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    /// All zeros.
    Zeros,
    /// All ones.
    Ones,
    /// Uniform in plus or minus the bound.
    Uniform(f64),
    /// Standard normal.
    Normal,
    /// Normal with this standard deviation, cut off at two of them.
    TruncatedNormal(f64),
    /// Haar-distributed orthogonal matrix.
    Orthogonal,
    /// This on the diagonal, 0 elsewhere.
    Identity(f64),
}

/// A named parameter is missing or has another shape than the configuration asks for.
#[derive(Debug, thiserror::Error, PartialEq)]
#[allow(missing_docs)] // The messages say it.
pub enum ParameterError {
    /// No such name.
    #[error("parameter `{name}` is missing")]
    Missing { name: String },
    /// The shape differs.
    #[error("parameter `{name}`: expected shape {expected:?}, found {found:?}")]
    Shape { name: String, expected: Vec<usize>, found: Vec<usize> },
    /// A name the configuration does not have.
    #[error("unknown parameter `{name}`")]
    Unknown { name: String },
}

/// Values of one parameter on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Row-major shape.
    pub shape: Vec<usize>,
    /// Values in that order.
    pub values: Vec<f32>,
}

/// Host copies of parameters by name, in name order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters(pub BTreeMap<String, Array>);

impl Parameters {
    /// Of arrays with their names and shapes.
    pub fn of<const N: usize>(arrays: [(&str, Vec<usize>, Vec<f32>); N]) -> Self {
        Self(arrays.map(|(name, shape, values)| (name.to_owned(), Array { shape, values })).into())
    }

    /// Takes one parameter out and puts it on a device.
    pub fn take<const D: usize>(
        &mut self,
        name: &str,
        expected: [usize; D],
        device: &Device,
    ) -> Result<Param<Tensor<D>>, ParameterError> {
        let array = self.0.remove(name).ok_or_else(|| ParameterError::Missing { name: name.to_owned() })?;
        if array.shape != expected {
            return Err(ParameterError::Shape {
                name: name.to_owned(),
                expected: expected.to_vec(),
                found: array.shape,
            });
        }
        let tensor = upload(TensorData::new(array.values, expected), device);
        Ok(Param::from_tensor(tensor))
    }

    /// Fails if anything has not been taken: an unknown name is a mistake, not a detail.
    pub fn finish(self) -> Result<(), ParameterError> {
        match self.0.into_keys().next() {
            Some(name) => Err(ParameterError::Unknown { name }),
            None => Ok(()),
        }
    }

    /// Copies every float parameter of a module, named by its path under `prefix`.
    pub fn of_module<M: Module>(module: &M, prefix: &str) -> Self {
        let path = if prefix.is_empty() { Vec::new() } else { vec![prefix.to_owned()] };
        let copy = |(name, shape, value)| (name, Array { shape, values: download(value) });
        Self(walked(module, path, None).into_iter().map(copy).collect())
    }
}

/// Takes the gradients of a module's parameters off the tape: flat, by the path of the parameter, absent where there is none.
pub fn flat_gradients<M: Module>(module: &M, gradients: &mut Gradients) -> BTreeMap<String, Tensor<1>> {
    walked(module, Vec::new(), Some(gradients)).into_iter().map(|(name, _, gradient)| (name, gradient)).collect()
}

/// Every float parameter of a module in visiting order: its path, its shape, and its value or its gradient, off the tape and flat.
pub(crate) fn walked<M: Module>(
    module: &M,
    path: Vec<String>,
    gradients: Option<&mut Gradients>,
) -> Vec<(String, Vec<usize>, Tensor<1>)> {
    let mut walk = Walk { path, gradients, found: Vec::new() };
    module.visit(&mut walk);
    walk.found
}

/// A walk over the parameters of a module that knows where it is.
struct Walk<'a> {
    path: Vec<String>,
    gradients: Option<&'a mut Gradients>,
    found: Vec<(String, Vec<usize>, Tensor<1>)>,
}

impl ModuleVisitor for Walk<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = param.val();
        let shape = value.dims().to_vec();
        let taken = match &mut self.gradients {
            Some(gradients) => value.grad_remove(gradients),
            None => Some(value.inner()),
        };
        let count = shape.iter().product::<usize>();
        self.found.extend(taken.map(|tensor| (self.path.join("."), shape, tensor.reshape([count]))));
    }
}

/// Every parameter of the model a configuration describes.
pub fn parameter_table(config: &ModelConfig) -> Vec<ParameterSpec> {
    Source::list(|source| Bdo::take(config, source))
}

/// The rows of the encoder alone: what the moving average covers.
pub fn encoder_table(config: &ModelConfig) -> Vec<ParameterSpec> {
    Source::list(|source| Encoder::take(config, source))
}

/// How many numbers a configuration trains.
pub fn trainable_count(table: &[ParameterSpec]) -> usize {
    table.iter().filter(|row| row.trainable).map(|row| row.shape.iter().product::<usize>()).sum()
}

/// Accepts exactly the names and shapes of a table.
pub(crate) fn check_table<T>(
    table: &[ParameterSpec],
    found: &BTreeMap<String, T>,
    shape: impl Fn(&T) -> &[usize],
) -> Result<(), ParameterError> {
    for spec in table {
        let name = || spec.name.clone();
        let found = shape(found.get(&spec.name).ok_or_else(|| ParameterError::Missing { name: name() })?);
        if found != spec.shape {
            return Err(ParameterError::Shape { name: name(), expected: spec.shape.clone(), found: found.to_vec() });
        }
    }
    if found.len() == table.len() {
        return Ok(());
    }
    let known: BTreeSet<&str> = table.iter().map(|spec| spec.name.as_str()).collect();
    let name = found.keys().find(|name| !known.contains(name.as_str())).cloned().unwrap_or_default();
    Err(ParameterError::Unknown { name })
}
