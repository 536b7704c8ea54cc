//! Adam over named parameters. Moments live where the parameters do, which are changed in place: on the CPU by our kernel, on other
//! devices without leaving them.

use crate::gradient::{NamedGradients, with_values};
use bdo_kernels::Isa;
use bdo_kernels::adam::Adam;
use bdo_model::device::{download, is_cpu, upload};
use bdo_model::ops::{AdamState as Moving, Kernels, adam_step};
use burn::backend::Flex;
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor, TensorData};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moments {
    /// Running mean of the gradient.
    pub first: Vec<f32>,
    /// Running mean of its square.
    pub second: Vec<f32>,
}

#[derive(Clone, Debug, Default)]
pub struct AdamState {
    /// Steps so far, the one that is being applied included; skipped ones do not count. The loop counts them.
    pub steps: u64,
    /// By parameter name; a parameter enters with its first gradient.
    pub moments: BTreeMap<String, Moments>,
    /// First and second moment of parameters on other devices, flat; those of a checkpoint move here with their first step.
    on_device: BTreeMap<String, [Tensor<1>; 2]>,
}

impl PartialEq for AdamState {
    fn eq(&self, other: &Self) -> bool {
        self.steps == other.steps && self.stored() == other.stored()
    }
}

impl AdamState {
    /// The memory as a checkpoint holds it.
    pub fn of(steps: u64, moments: BTreeMap<String, Moments>) -> Self {
        Self { steps, moments, on_device: BTreeMap::new() }
    }

    /// All moments on the host.
    pub fn stored(&self) -> BTreeMap<String, Moments> {
        let host = |tensor: &Tensor<1>| download(tensor.clone());
        let away = self
            .on_device
            .iter()
            .map(|(name, [first, second])| (name.clone(), Moments { first: host(first), second: host(second) }));
        self.moments.clone().into_iter().chain(away).collect()
    }

    /// Takes the moments of a parameter to its device, if they are not there.
    fn take(&mut self, name: &str, numbers: usize, device: &Device) -> [Tensor<1>; 2] {
        if let Some(found) = self.on_device.remove(name) {
            return found;
        }
        match self.moments.remove(name) {
            None => [(); 2].map(|()| Tensor::zeros([numbers], device)),
            Some(Moments { first, second }) => {
                [first, second].map(|values| upload(TensorData::new(values, [numbers]), device))
            }
        }
    }

    /// The step that was counted last, for every parameter that has a gradient, with settings by its name and number of axes. The
    /// module is taken by value so that its tensors are owned alone and can be changed where they are.
    pub fn apply<M: Module>(&mut self, module: M, gradients: &NamedGradients, adam: &dyn Fn(&str, usize) -> Adam) -> M {
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
        if !is_cpu(&param.val().device()) {
            let state = &mut *self.state;
            let step = |value: Tensor<1>, gradient: Tensor<1>| {
                let [mean, square] = state.take(&name, gradient.dims()[0], &value.device());
                let moved = adam_step(Kernels::default(), &adam, steps, Moving { value, mean, square }, gradient);
                state.on_device.insert(name, [moved.mean, moved.square]);
                moved.value
            };
            return param.map(|tensor| on_device(tensor, gradient, step));
        }
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

/// Runs `step` on the values of a parameter of the CPU and puts the result back on its tape.
fn change<const D: usize>(tensor: Tensor<D>, step: impl FnOnce(&mut [f32])) -> Tensor<D> {
    back_on_tape(tensor, |inner| {
        let mut primitive = inner.try_into_primitive::<Flex>().expect("the device was just looked at");
        if primitive.as_slice::<f32>().is_none() {
            primitive = primitive.to_contiguous();
        }
        step(primitive.storage_mut::<f32>());
        Tensor::from_primitive::<Flex>(primitive)
    })
}

/// Runs `step` on the flat values of a parameter of another device, where they are, with a gradient that may have come from
/// elsewhere: other ranks hand theirs over on the host.
fn on_device<const D: usize>(
    tensor: Tensor<D>,
    gradient: &Tensor<1>,
    step: impl FnOnce(Tensor<1>, Tensor<1>) -> Tensor<1>,
) -> Tensor<D> {
    let shape = tensor.dims();
    back_on_tape(tensor, |inner| {
        let gradient = gradient.clone().to_device(&inner.device());
        step(inner.reshape([gradient.dims()[0]]), gradient).reshape(shape)
    })
}

/// Other values for a parameter, on the same tape and device.
fn back_on_tape<const D: usize>(tensor: Tensor<D>, step: impl FnOnce(Tensor<D>) -> Tensor<D>) -> Tensor<D> {
    let (autodiff, require_grad, device) = (tensor.is_autodiff(), tensor.is_require_grad(), tensor.device());
    let inner = step(tensor.inner());
    if autodiff { Tensor::from_inner(inner).to_device(&device).set_require_grad(require_grad) } else { inner }
}
