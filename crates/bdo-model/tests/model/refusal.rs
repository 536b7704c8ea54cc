//! Batches that do not fit the model are refused by name, before any arithmetic.

use crate::toy;
use bdo_model::batch::{BatchError, MaskedBatch};
use burn::tensor::{DType, Device, Tensor};

#[test]
fn a_batch_that_does_not_fit_is_named() {
    let device = Device::flex();
    let config = toy::config();
    let place = (&device, DType::F32);
    toy::batch(&config, &[true, false, true], place).grid(&config).unwrap();
    let refused = |change: &dyn Fn(&mut MaskedBatch)| {
        let mut batch = toy::batch(&config, &[true, false, true], place);
        change(&mut batch);
        batch.grid(&config).unwrap_err()
    };
    let shape = |error: BatchError| match error {
        BatchError::Shape { field, .. } => field,
        other => panic!("{other}"),
    };
    assert_eq!(shape(refused(&|b| b.series = Tensor::zeros([2, 3, 5], &device))), "series");
    assert_eq!(shape(refused(&|b| b.latent_noise = Tensor::zeros([2, 3, 4], &device))), "latent_noise");
    assert_eq!(shape(refused(&|b| b.process_noise[0] = Tensor::zeros([1, 3, 8], &device))), "process_noise");
    assert_eq!(shape(refused(&|b| b.region_valid.truncate(5))), "region_valid");
    assert_eq!(refused(&|b| b.process_noise.clear()), BatchError::Draws { expected: 1, found: 0 });
    assert_eq!(refused(&|b| b.frames.context[4] = true), BatchError::NoTarget { sample: 1 });
    assert_eq!(refused(&|b| b.region_valid[4..].fill(false)), BatchError::NoRegion { sample: 1 });
}
