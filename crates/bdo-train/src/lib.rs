//! Training: one loop for every learner, and pre-training of BDO on it. A step is a pure function of the state, the settings
//! and the position in the run, so that a run that was interrupted goes on bit for bit.

#![deny(unsafe_code)]
// A comment says what a name and its type do not; where there is nothing to add, there is none.
#![allow(missing_docs)]

pub mod error;

pub mod settings;
pub mod words;
pub mod source;
pub mod learner;
mod prefetch;
pub mod ranks;
pub mod gradient;
pub mod optimiser;
pub mod schedule;
mod exchange;
mod lanes;
pub mod step;
pub mod guard;
pub mod checkpoint;
pub mod tensorboard;
pub mod folder;
mod log;
pub mod timer;
pub mod fit;
mod feature_measures;
mod validate;
pub mod publish;
pub mod bdo;
pub mod run;
pub mod evaluate;
