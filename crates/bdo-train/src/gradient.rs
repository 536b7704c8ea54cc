//! Gradients by parameter name, on whatever device they are.

use bdo_kernels::{Isa, adam};
use bdo_model::device::{download, is_cpu};
use bdo_model::ops::{Kernels, squared_norms};
use bdo_model::parameters::flat_gradients;
use burn::backend::Flex;
use burn::module::Module;
use burn::tensor::{Gradients, Tensor};
use std::collections::BTreeMap;

/// One flat gradient for each trained parameter, in name order.
#[derive(Clone, Debug, Default)]
pub struct NamedGradients(pub BTreeMap<String, Tensor<1>>);

impl NamedGradients {
    /// Takes the gradients of a module's parameters off the tape.
    pub fn of_module<M: Module>(module: &M, mut gradients: Gradients) -> Self {
        Self(flat_gradients(module, &mut gradients))
    }

    /// Takes those of one more module off the same tape.
    pub fn take<M: Module>(&mut self, module: &M, gradients: &mut Gradients) {
        self.0.extend(flat_gradients(module, gradients));
    }

    pub fn scaled(self, factor: f64) -> Self {
        if factor == 1.0 {
            return self;
        }
        Self(self.0.into_iter().map(|(name, gradient)| (name, gradient * factor)).collect())
    }

    pub fn plus(mut self, other: Self) -> Self {
        for (name, gradient) in other.0 {
            let sum = match self.0.remove(&name) {
                Some(found) => found + gradient,
                None => gradient,
            };
            self.0.insert(name, sum);
        }
        self
    }

    /// Sum of squares of gradients on a device that is not the CPU, still there: [1].
    pub fn squared_norm(&self) -> Option<Tensor<1>> {
        let first = self.0.values().next()?;
        if is_cpu(&first.device()) { None } else { squared_norms(Kernels::default(), self.0.values()) }
    }

    /// The Euclidean norm over all of them, summed in name order; not finite if any value is not.
    pub fn norm(&self) -> f64 {
        let isa = Isa::current();
        self.0.values().map(|gradient| with_values(gradient, |g| adam::squared_norm(isa, g))).sum::<f64>().sqrt()
    }
}

/// Factor that keeps the norm of the gradients at most `largest`, as PyTorch clips.
pub fn clip_scale(norm: f64, largest: f64) -> f64 {
    (largest / (norm + 1e-6)).min(1.0)
}

/// Lets `read` see the values, without a copy where they lie in the memory of the CPU.
pub(crate) fn with_values<R>(tensor: &Tensor<1>, read: impl FnOnce(&[f32]) -> R) -> R {
    if let Ok(primitive) = tensor.clone().try_into_primitive::<Flex>()
        && let Some(values) = primitive.as_slice::<f32>()
    {
        return read(values);
    }
    read(&download(tensor.clone()))
}
