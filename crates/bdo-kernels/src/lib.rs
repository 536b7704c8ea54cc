//! CPU kernels of BDO: slices in, buffers out, forward and hand-written backward.
//!
//! Every kernel is written once, generic over the vector type of an instruction set ([`Isa`]), and has a slow twin in
//! [`reference`] that tests compare it with. Kernels run on the current rayon pool; no order of
//! additions depends on how work is cut, so results do not depend on the number of threads.
//!
//! Shapes are an internal contract between these kernels and the model: a slice of the wrong length is a bug in the
//! caller and panics with the expected and the found length.

// Kernels must be inlined into the wrapper that enables their instruction set.
#![allow(clippy::inline_always)]

pub mod activation;
pub mod adam;
pub mod allocator;
pub mod amx;
pub mod attention;
pub mod ema;
pub mod gemm;
pub mod isa;
pub mod linalg;
pub mod linear;
pub mod loss;
pub mod norm;
pub mod peak;
pub mod precision;
pub mod reference;
pub mod scan;
pub mod softmax;
mod threads;
mod vector;

pub use isa::Isa;
pub use precision::Precision;
