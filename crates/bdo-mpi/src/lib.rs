//! MPI from a library that is found when the program runs: Open MPI or anything with the binary interface of MPICH. The program
//! itself needs neither to be built nor to start.
//!
//! Every call is non-blocking underneath and waited for with a limit, so that a node that hangs is noticed.

pub mod announced;
pub mod library;
mod functions;
pub mod world;
