//! Synthetic brains with known truth.
//!
//! A stable linear stochastic differential equation per person, with modular and distance-dependent coupling,
//! seen through a haemodynamic response, noise, drift, motion and different scanners. `docs/simulate.md` has the
//! equations and the effect sizes of labels.

mod cohort;
mod constants;
mod drive;
mod dynamics;
mod eigen;
mod elementary;
mod generator;
mod hrf;
mod layout;
mod measurement;
mod person;
mod population;
mod site;
mod spec;
mod stream;

#[cfg(test)]
mod tests;

pub use cohort::{PART_MIB, provenance, simulate};
pub use constants::{CONSTANTS, Constants, LABEL_WEIGHTS, LabelWeights};
pub use generator::{Generator, SynthScan, Truth};
pub use person::{Person, PersonTruth};
pub use population::RegionTruth;
pub use site::Site;
pub use spec::{Effects, SynthError, SynthSpec};
