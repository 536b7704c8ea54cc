//! Layer normalisation over the last axis.

use super::Kernels;
use super::fused::{self, FusedOps};
use burn::backend::Dispatch;
use burn::tensor::Tensor;

/// x [B, T, d], weight [d], bias [d] -> [B, T, d]; the variance is the biased one.
pub fn layer_norm(kernels: Kernels, x: Tensor<3>, weight: Tensor<1>, bias: Tensor<1>, eps: f64) -> Tensor<3> {
    if fused::applies(kernels, &x).is_some() {
        let (x, weight, bias) = (x.into_dispatch(), weight.into_dispatch(), bias.into_dispatch());
        return Tensor::from_dispatch(Dispatch::fused_layer_norm(x, weight, bias, eps as f32));
    }
    let centred = x.clone() - x.mean_dim(2);
    let variance = centred.clone().square().mean_dim(2);
    let normal = centred / (variance + eps).sqrt();
    normal * weight.unsqueeze() + bias.unsqueeze()
}
