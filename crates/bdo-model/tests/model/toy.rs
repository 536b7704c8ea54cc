//! Small models and batches, and ways to look into them.

use bdo_model::batch::MaskedBatch;
use bdo_model::config::ModelConfig;
use bdo_model::dynamics::Frames;
use bdo_model::init::Stream;
use bdo_model::parameters::flat_gradients;
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{DType, Device, Tensor, TensorData};
use std::collections::BTreeMap;

/// Four regions, width 8, two blocks of two heads.
pub(crate) fn config() -> ModelConfig {
    ModelConfig { regions: 4, width: 8, blocks: 2, heads: 2, basis_count: 3, ..ModelConfig::default() }
}

/// The options of the default preset; `crates/bdo-train/tests/it/preset.rs` compares them with the preset itself.
pub(crate) fn preset() -> ModelConfig {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/golden/default_preset.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The same at the size of [`config`], with a width that leaves the gap code two scales.
pub(crate) fn small_preset() -> ModelConfig {
    ModelConfig { regions: 4, width: 16, blocks: 2, heads: 2, basis_count: 3, ..preset() }
}

/// Standard normal [a, b, c] from a named stream.
pub(crate) fn normal(name: &str, shape: [usize; 3], place: (&Device, DType)) -> Tensor<3> {
    let mut stream = Stream::named(7, name);
    let values: Vec<f64> = (0..shape.iter().product()).map(|_| stream.normal()).collect();
    Tensor::from_data(TensorData::new(values, shape), place)
}

/// A batch of two samples with irregular times; `context` marks the roles of one sample's frames, shared by both.
pub(crate) fn batch(config: &ModelConfig, context: &[bool], place: (&Device, DType)) -> MaskedBatch {
    let (batch, frames) = (2, context.len());
    let mut stream = Stream::named(7, "times");
    let times_seconds = (0..batch)
        .flat_map(|_| {
            let mut now = 3.0 * stream.uniform();
            (0..frames)
                .map(|_| {
                    now += 0.5 + 4.0 * stream.uniform();
                    now
                })
                .collect::<Vec<_>>()
        })
        .collect();
    MaskedBatch {
        kin: Vec::new(),
        series: normal("series", [batch, frames, config.regions], place),
        frames: Frames {
            batch,
            frames,
            times_seconds,
            context: context.repeat(batch),
            valid: vec![true; batch * frames],
        },
        region_valid: vec![true; batch * config.regions],
        latent_noise: normal("eps_q", [batch, frames, config.width], place),
        process_noise: (0..config.loss.monte_carlo_samples)
            .map(|draw| normal(&format!("eps_p {draw}"), [batch, frames, config.width], place))
            .collect(),
        dropout_key: [3; 32],
    }
}

/// All values of a tensor, in double precision.
pub(crate) fn values<const D: usize>(tensor: &Tensor<D>) -> Vec<f64> {
    tensor.to_data().convert::<f64>().try_to_vec().unwrap()
}

/// ||a - b|| / ||b||.
pub(crate) fn relative_l2(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    norm(&mut a.iter().zip(b).map(|(a, b)| a - b)) / norm(&mut b.iter().copied()).max(f64::MIN_POSITIVE)
}

/// Gradients by parameter path; absent where there is none.
pub(crate) fn gradients<M: Module>(module: &M, loss: &Tensor<1>) -> BTreeMap<String, Vec<f64>> {
    flat_gradients(module, &mut loss.backward()).into_iter().map(|(name, gradient)| (name, values(&gradient))).collect()
}

/// The same module in another precision.
pub(crate) fn cast<M: Module>(module: M, dtype: DType) -> M {
    struct Cast(DType);
    impl ModuleMapper for Cast {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let (dtype, active) = (self.0, param.val().is_require_grad());
            param.map(|value| value.inner().cast(dtype).autodiff().set_require_grad(active))
        }
    }
    module.map(&mut Cast(dtype))
}

/// The module with `step` times a fixed random direction added to every trained parameter, and the direction.
pub(crate) fn nudge<M: Module>(module: M, step: f64, direction: &BTreeMap<String, Vec<f64>>) -> M {
    struct Nudge<'a> {
        path: Vec<String>,
        step: f64,
        direction: &'a BTreeMap<String, Vec<f64>>,
    }
    impl ModuleMapper for Nudge<'_> {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.path.push(name.to_owned());
        }

        fn exit_module(&mut self, _: &str, _: &str) {
            self.path.pop();
        }

        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let Some(direction) = self.direction.get(&self.path.join(".")) else {
                return param;
            };
            let step = self.step;
            param.map(|value| {
                let data = TensorData::new(direction.clone(), value.dims());
                let value = value.inner();
                let direction = Tensor::from_data(data, (&value.device(), value.dtype()));
                (value + direction * step).autodiff().require_grad()
            })
        }
    }
    module.map(&mut Nudge { path: Vec::new(), step, direction })
}
