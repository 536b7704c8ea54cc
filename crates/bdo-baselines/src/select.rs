//! Rows chosen on the host, for each sample of a batch by itself.

use burn::tensor::{Device, Int, Tensor, TensorData};

/// Rows `chosen[b]` of every sample: [B, T, d] -> [B, K, d]; all samples choose as many.
pub(crate) fn rows(x: Tensor<3>, chosen: &[Vec<usize>]) -> Tensor<3> {
    let [samples, tokens, width] = x.dims();
    let each = chosen.first().map_or(0, Vec::len);
    let index = chosen.iter().enumerate().flat_map(|(b, rows)| rows.iter().map(move |r| b * tokens + r));
    let index = indices(index, &x.device());
    x.reshape([samples * tokens, width]).select(0, index).reshape([samples, each, width])
}

/// Rows of a table shared by all samples: [T, d] -> [B, K, d].
pub(crate) fn shared_rows(table: Tensor<2>, chosen: &[Vec<usize>]) -> Tensor<3> {
    let width = table.dims()[1];
    let each = chosen.first().map_or(0, Vec::len);
    let index = indices(chosen.iter().flatten().copied(), &table.device());
    table.select(0, index).reshape([chosen.len(), each, width])
}

pub(crate) fn indices(index: impl Iterator<Item = usize>, device: &Device) -> Tensor<1, Int> {
    let index: Vec<i64> = index.map(|i| i as i64).collect();
    let count = index.len();
    Tensor::from_data(TensorData::new(index, [count]), device)
}
