//! The parallel scan against the loop, in value and gradient.

use crate::toy::{normal, relative_l2, values};
use bdo_model::ops::{scan_parallel, scan_sequential};
use burn::tensor::{DType, Device, Tensor};

#[test]
fn parallel_equals_sequential() {
    let device = Device::flex().autodiff();
    for frames in [1, 2, 3, 5, 7, 160, 161, 480] {
        let shape = [2, frames, 3];
        let place = (&device, DType::F64);
        let run = |scan: fn(&Tensor<3>, &Tensor<3>, Tensor<3>) -> Tensor<3>| {
            let a = (-normal("a", shape, place).abs()).exp().detach().require_grad();
            let b = normal("b", shape, place).require_grad();
            let x0 = normal("x0", [2, 1, 3], place).require_grad();
            let states = scan(&a, &b, x0.clone());
            let gradients = (states.clone() * normal("weight", shape, place)).sum().backward();
            let of = |x: &Tensor<3>| values(&x.grad(&gradients).unwrap());
            (values(&states), of(&a), of(&b), of(&x0))
        };
        let (fast, slow) = (run(scan_parallel), run(scan_sequential));
        // Both sum at most K products of factors below one, in another order.
        for (fast, slow) in [(fast.0, slow.0), (fast.1, slow.1), (fast.2, slow.2), (fast.3, slow.3)] {
            let error = relative_l2(&fast, &slow);
            assert!(error < 1e-14 * frames as f64, "{frames} frames: {error}");
        }
    }
}
