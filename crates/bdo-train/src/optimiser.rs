//! Adam over named parameters. Moments live on the host; parameters on the CPU are changed in place.

use crate::gradient::{NamedGradients, with_values};
use bdo_kernels::Isa;
use bdo_kernels::adam::Adam;
use burn::backend::Flex;
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Tensor, TensorData};
use std::collections::BTreeMap;

/// First and second moment of one parameter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moments {
    /// Running mean of the gradient.
    pub first: Vec<f32>,
    /// Running mean of its square.
    pub second: Vec<f32>,
}

/// The memory of the optimiser.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdamState {
    /// Steps applied so far; skipped ones do not count.
    pub steps: u64,
    /// By parameter name; a parameter enters with its first gradient.
    pub moments: BTreeMap<String, Moments>,
}

impl AdamState {
    /// One step of every parameter that has a gradient, with gradients multiplied by `gradient_scale`. The module is
    /// taken by value so that its tensors are owned alone and can be changed where they are.
    pub fn apply<M: Module>(&mut self, module: M, gradients: &NamedGradients, adam: &Adam, gradient_scale: f64) -> M {
        let adam = Adam { gradient_scale: gradient_scale as f32, ..*adam };
        self.apply_each(module, gradients, &|_, _| adam)
    }

    /// The same with settings of their own for each parameter, by name and number of axes: what layer-wise decay needs.
    pub fn apply_each<M: Module>(
        &mut self,
        module: M,
        gradients: &NamedGradients,
        adam: &dyn Fn(&str, usize) -> Adam,
    ) -> M {
        self.steps += 1;
        self.apply_beside(module, gradients, adam)
    }

    /// A further module in the step that was applied last.
    pub fn apply_beside<M: Module>(
        &mut self,
        module: M,
        gradients: &NamedGradients,
        adam: &dyn Fn(&str, usize) -> Adam,
    ) -> M {
        module.map(&mut Apply { path: Vec::new(), state: self, gradients, adam })
    }
}

struct Apply<'a> {
    path: Vec<String>,
    state: &'a mut AdamState,
    gradients: &'a NamedGradients,
    adam: &'a dyn Fn(&str, usize) -> Adam,
}

impl ModuleMapper for Apply<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.path.join(".");
        let Some(gradient) = self.gradients.0.get(&name) else {
            return param;
        };
        let steps = self.state.steps;
        let adam = (self.adam)(&name, D);
        let moments = self.state.moments.entry(name).or_default();
        let step = |values: &mut [f32]| {
            if moments.first.is_empty() {
                moments.first.resize(values.len(), 0.0);
                moments.second.resize(values.len(), 0.0);
            }
            with_values(gradient, |g| {
                adam.step(Isa::current(), steps, values, g, &mut moments.first, &mut moments.second);
            });
        };
        param.map(|tensor| change(tensor, step))
    }
}

/// Runs `step` on the values of a parameter and puts the result back on its tape and device.
fn change<const D: usize>(tensor: Tensor<D>, step: impl FnOnce(&mut [f32])) -> Tensor<D> {
    let (autodiff, require_grad) = (tensor.is_autodiff(), tensor.is_require_grad());
    let (device, shape) = (tensor.device(), tensor.dims());
    let inner = tensor.inner();
    let on_cpu = matches!(inner.device().as_dispatch(), burn::backend::DispatchDevice::Flex(_));
    let inner = if on_cpu {
        let mut primitive = inner.try_into_primitive::<Flex>().expect("the device was just looked at");
        if primitive.as_slice::<f32>().is_none() {
            primitive = primitive.to_contiguous();
        }
        step(primitive.storage_mut::<f32>());
        Tensor::from_primitive::<Flex>(primitive)
    } else {
        let place = inner.device();
        let mut values = inner.into_data().try_to_vec::<f32>().expect("parameters are f32");
        step(&mut values);
        Tensor::from_data(TensorData::new(values, shape), &place)
    };
    if autodiff { Tensor::from_inner(inner).to_device(&device).set_require_grad(require_grad) } else { inner }
}
