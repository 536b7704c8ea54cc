//! Synthetic brains with known truth.
//!
//! A stable linear stochastic differential equation per person, with modular and distance-dependent coupling,
//! seen through a haemodynamic response, noise, drift, motion and different scanners. `docs/simulate.md` has the
//! equations and the effect sizes of labels.

mod constants;
mod drive;
mod dynamics;
mod eigen;
mod elementary;
mod generator;
mod measurement;
mod person;
mod population;
mod spec;
mod stream;

#[cfg(test)]
mod tests;

pub use constants::{CONSTANTS, Constants, LABEL_WEIGHTS, LabelWeights};
pub use generator::{Generator, PART_MIB, provenance, simulate};
pub use measurement::Site;
pub use person::PersonTruth;
pub use population::RegionTruth;
pub use spec::{Effects, SynthSpec};
