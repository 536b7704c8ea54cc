//! The eigenbasis V = (I + A)^-1 (I - A) V0 with A = W - W^T: orthogonal for every W.

use bdo_kernels::linalg::inverse;
use burn::tensor::{Tensor, TensorData};
use faer::Mat;

/// W [d, d], V0 [d, d] -> V [d, d].
///
/// The inverse is taken on the host in double precision. From (I + A) Q = I - A follows
/// dQ = -(I + A)^-1 dA (I + Q), so Q plus that linear map of (A - its own value) has the value of Q exactly and
/// the derivative of Q exactly; the framework then differentiates only matrix products, on any device.
pub fn cayley_basis(free: Tensor<2>, basis0: Tensor<2>) -> Tensor<2> {
    let (device, dtype) = (free.device(), free.dtype());
    let d = free.dims()[0];
    let skew = free.clone() - free.transpose();
    let fixed = skew.clone().detach();
    let values = fixed.to_data().convert::<f64>().try_to_vec::<f64>().expect("just converted");
    let resolvent = resolvent(&values, d);
    // Q = (I + A)^-1 (2I - (I + A)) = 2 (I + A)^-1 - I, so no second product is needed; I + Q = 2 (I + A)^-1.
    let rotation: Vec<f64> = (0..d * d).map(|k| 2.0 * resolvent[k] - f64::from(u8::from(k / d == k % d))).collect();
    let tensor = |values: Vec<f64>| Tensor::<2>::from_data(TensorData::new(values, [d, d]), (&device, dtype));
    let resolvent = tensor(resolvent);
    let step = resolvent.clone().matmul(skew - fixed).matmul(resolvent * 2.0);
    (tensor(rotation) - step).matmul(basis0)
}

/// (I + A)^-1 for a skew-symmetric row-major A; I + A is never singular because A has imaginary eigenvalues.
fn resolvent(skew: &[f64], d: usize) -> Vec<f64> {
    let out = inverse(Mat::from_fn(d, d, |i, j| skew[i * d + j] + f64::from(u8::from(i == j))));
    (0..d * d).map(|k| out[(k / d, k % d)]).collect()
}
