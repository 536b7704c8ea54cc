//! Layer normalisation over the last axis.

use super::Kernels;
use super::fused::{self, LayerNorm};
use burn::tensor::Tensor;

/// x [B, T, d], weight [d], bias [d] -> [B, T, d]; the variance is the biased one.
pub fn layer_norm(kernels: Kernels, x: Tensor<3>, weight: Tensor<1>, bias: Tensor<1>, eps: f64) -> Tensor<3> {
    if fused::applies(kernels, &x).is_some() {
        let inputs = [x.into_dispatch(), weight.into_dispatch(), bias.into_dispatch()];
        return fused::run(LayerNorm { eps: eps as f32 }, inputs);
    }
    let centred = x.clone() - x.mean_dim(2);
    let variance = centred.clone().square().mean_dim(2);
    let normal = centred / (variance + eps).sqrt();
    normal * weight.unsqueeze() + bias.unsqueeze()
}
