//! The eigenbasis V = (I + A)^-1 (I - A) V0 with A = W - W^T: orthogonal for every W.

use crate::device::{is_cpu, upload};
use bdo_kernels::linalg::inverse;
use burn::tensor::{Float, Tensor, TensorData};
use faer::Mat;

/// W [d, d], V0 [d, d] -> V [d, d].
pub fn cayley_basis(free: Tensor<2>, basis0: Tensor<2>) -> Tensor<2> {
    let resolvent = Resolvent::of(&free);
    basis_with(&resolvent, free, basis0)
}

/// (I + A)^-1 [d, d] and Q = (I + A)^-1 (I - A) [d, d], off any tape: what is worked out once for all passes over the same weights.
#[derive(Clone, Debug)]
pub struct Resolvent {
    inverse: Tensor<2>,
    rotation: Tensor<2>,
}

impl Resolvent {
    /// Of W [d, d]. On the CPU in double precision; elsewhere without leaving the device.
    pub fn of(free: &Tensor<2>) -> Self {
        let free = free.clone().inner();
        let (device, dtype) = (free.device(), free.dtype());
        let d = free.dims()[0];
        let skew = free.clone() - free.transpose();
        if !is_cpu(&device) {
            let inverse = newton_inverse(&skew);
            return Self { rotation: inverse.clone() * 2.0 - Tensor::eye(d, &device), inverse };
        }
        let values = skew.to_data().convert::<f64>().try_to_vec::<f64>().expect("just converted");
        let resolvent = resolvent(&values, d);
        // Q = (I + A)^-1 (2I - (I + A)) = 2 (I + A)^-1 - I, so no second product is needed; I + Q = 2 (I + A)^-1.
        let rotation: Vec<f64> = (0..d * d).map(|k| 2.0 * resolvent[k] - f64::from(u8::from(k / d == k % d))).collect();
        let tensor = |values: Vec<f64>| upload::<2, Float>(TensorData::new(values, [d, d]), (&device, dtype));
        Self { inverse: tensor(resolvent), rotation: tensor(rotation) }
    }
}

/// V [d, d] from W [d, d], its resolvent and V0 [d, d].
///
/// From (I + A) Q = I - A follows dQ = -(I + A)^-1 dA (I + Q), so Q plus that linear map of (A - its own value) has the value of Q
/// exactly and the derivative of Q exactly; the framework then differentiates only matrix products, on any device.
pub(super) fn basis_with(Resolvent { inverse, rotation }: &Resolvent, free: Tensor<2>, basis0: Tensor<2>) -> Tensor<2> {
    let skew = free.clone() - free.transpose();
    let fixed = skew.clone().detach();
    let step = inverse.clone().matmul(skew - fixed).matmul(inverse.clone() * 2.0);
    (rotation.clone() - step).matmul(basis0)
}

/// Steps of the iteration below: enough for |A| up to 250, far beyond what training reaches from 0.
const NEWTON_STEPS: usize = 20;

/// (I + A)^-1 for a skew-symmetric A [d, d] by Newton's iteration X <- X (2 - M X): products only, so that nothing leaves the device.
/// The eigenvalues of M^T M are 1 plus those of A^T A, hence between 1 and 1 + |A|^2, and X = 2 M^T / (2 + |A|^2) is a start from which
/// the error `(|A|^2 / (2 + |A|^2))^(2^k)` goes to zero. |A| is the largest sum of a row.
fn newton_inverse(skew: &Tensor<2>) -> Tensor<2> {
    let identity = Tensor::eye(skew.dims()[0], &skew.device());
    let matrix = identity.clone() + skew.clone();
    let size = skew.clone().abs().sum_dim(1).max().square().unsqueeze::<2>(); // [1, 1]
    let start = matrix.clone().transpose() * 2.0 / (size + 2.0);
    (0..NEWTON_STEPS).fold(start, |x, _| {
        let left = identity.clone() * 2.0 - matrix.clone().matmul(x.clone());
        x.matmul(left)
    })
}

/// (I + A)^-1 for a skew-symmetric row-major A; I + A is never singular because A has imaginary eigenvalues.
fn resolvent(skew: &[f64], d: usize) -> Vec<f64> {
    let out = inverse(Mat::from_fn(d, d, |i, j| skew[i * d + j] + f64::from(u8::from(i == j))));
    (0..d * d).map(|k| out[(k / d, k % d)]).collect()
}
