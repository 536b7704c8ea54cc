//! Dropout whose mask is a function of a key and a place in the network, so that a step can be repeated exactly.

use crate::device::upload;
use crate::init::Stream;
use burn::tensor::{Shape, Tensor, TensorData};

/// A rate and the key of this step's masks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// Probability of setting a value to zero.
    pub rate: f64,
    /// Fresh for every step.
    pub key: [u8; 32],
}

impl Dropout {
    /// x times a mask that is 0 with probability `rate`, else 1 / (1 - rate). `site` separates layers.
    pub fn apply<const D: usize>(&self, site: usize, x: Tensor<D>) -> Tensor<D> {
        let shape = x.dims();
        let mut stream = Stream::from_key(self.at(site));
        let kept = (1.0 / (1.0 - self.rate)) as f32;
        let count = Shape::from(shape).num_elements();
        let values: Vec<f32> = (0..count).map(|_| if stream.uniform() < self.rate { 0.0 } else { kept }).collect();
        let mask = upload(TensorData::new(values, shape), (&x.device(), x.dtype()));
        x * mask
    }

    /// The key of the stream behind the mask of a site: a value is dropped where its number is below the rate.
    pub fn at(&self, site: usize) -> [u8; 32] {
        *blake3::keyed_hash(&self.key, &(site as u64).to_le_bytes()).as_bytes()
    }
}
