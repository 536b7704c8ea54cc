//! Every kernel against its slow twin, its gradient against finite differences of the twin, on every instruction set
//! this machine has, on pools of one, two and three threads.
#![allow(clippy::unwrap_used)]

mod activation;
mod amx;
mod attention;
mod check;
mod gemm;
mod golden;
mod linear;
mod loss;
mod norm;
mod optimiser;
mod scan;
mod softmax;
mod threads;

use bdo_kernels::Isa;

#[test]
fn instruction_sets_run_or_are_named() {
    for isa in Isa::ALL {
        if isa.is_available() {
            println!("tested on {isa}");
        } else {
            println!("SKIPPED on {isa}: this machine does not have it");
        }
    }
    assert!(Isa::available().contains(&Isa::Portable));
    assert!(Isa::fastest().is_available());
}
