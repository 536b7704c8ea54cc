//! Goldens and ways to compare with them.

use bdo_model::parameters::{Array, Parameters, flat_gradients};
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use safetensors::SafeTensors;
use std::collections::BTreeMap;
use std::path::PathBuf;

pub(crate) struct Golden(pub(crate) BTreeMap<String, Array>);

impl Golden {
    pub(crate) fn read(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join(format!("../../testdata/golden/baseline_{name}.safetensors"));
        let bytes = std::fs::read(path).unwrap();
        let value = |four: &[u8]| f32::from_le_bytes(four.try_into().unwrap());
        let array = |view: &safetensors::tensor::TensorView| Array {
            shape: view.shape().to_vec(),
            values: view.data().chunks_exact(4).map(value).collect(),
        };
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        Self(tensors.iter().map(|(name, view)| (name.to_owned(), array(&view))).collect())
    }

    pub(crate) fn under(&self, prefix: &str) -> Parameters {
        let strip = |(name, array): (&String, &Array)| Some((name.strip_prefix(prefix)?.to_owned(), array.clone()));
        Parameters(self.0.iter().filter_map(strip).collect())
    }

    pub(crate) fn values(&self, name: &str) -> &[f32] {
        &self.0[name].values
    }

    pub(crate) fn tensor(&self, name: &str, device: &Device) -> Tensor<3> {
        let array = &self.0[name];
        let shape: [usize; 3] = array.shape.clone().try_into().unwrap();
        Tensor::from_data(TensorData::new(array.values.clone(), shape), device)
    }
}

/// Largest difference relative to the largest expected value.
pub(crate) fn relative(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let largest = |x: &mut dyn Iterator<Item = f64>| x.fold(0.0f64, |a, b| if b.is_nan() { b } else { a.max(b.abs()) });
    let difference = largest(&mut found.iter().zip(expected).map(|(a, b)| f64::from(*a) - f64::from(*b)));
    difference / largest(&mut expected.iter().map(|x| f64::from(*x))).max(1e-30)
}

pub(crate) fn numbers<const D: usize>(tensor: &Tensor<D>) -> Vec<f32> {
    tensor.to_data().try_to_vec().unwrap()
}

/// Gradients of a module's parameters by path; absent where there is none.
pub(crate) fn gradients<M: Module>(module: &M, loss: &Tensor<1>) -> BTreeMap<String, Vec<f32>> {
    flat_gradients(module, &mut loss.backward())
        .into_iter()
        .map(|(name, gradient)| (name, numbers(&gradient)))
        .collect()
}
