//! Scans as a token model sees them, and features of them.

use super::model::TokenModel;
use crate::token::grid::PATCH;
use bdo_data::scaler::ScaledScan;
use bdo_model::device::of_module;
use burn::tensor::{Device, Tensor, TensorData};

/// A scan ready for a token model.
#[derive(Clone, Debug)]
pub struct TokenScan {
    pub scan: ScaledScan,
    pub tr_seconds: f64,
}

/// The patches that a feature of a scan is made from, row-major [tokens, 16].
pub fn feature_patches<M: TokenModel>(model: &M, scan: &TokenScan) -> Vec<f32> {
    let cut = model.feature_cut(scan.scan.times_seconds.len(), scan.tr_seconds);
    model.grid().patches(&scan.scan, cut)
}

/// Features of scans, `batch_size` at a time: one row each.
pub fn features<M: TokenModel>(model: &M, scans: &[&TokenScan], batch_size: usize) -> Vec<Vec<f32>> {
    let (mut found, device) = (Vec::with_capacity(scans.len()), of_module(model.net()));
    for chunk in scans.chunks(batch_size.max(1)) {
        let values = chunk.iter().flat_map(|scan| feature_patches(model, scan)).collect();
        let feature = model.feature(patches(values, chunk.len(), model, &device));
        let width = feature.dims()[1];
        let values = feature.into_data().try_to_vec::<f32>().expect("features are f32");
        found.extend(values.chunks_exact(width).map(<[f32]>::to_vec));
    }
    found
}

pub(super) fn patches<M: TokenModel>(values: Vec<f32>, samples: usize, model: &M, device: &Device) -> Tensor<3> {
    Tensor::from_data(TensorData::new(values, [samples, model.grid().tokens(), PATCH]), device)
}
