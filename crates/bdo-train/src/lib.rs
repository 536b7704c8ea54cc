//! Pre-training: cohorts and the model put together. A step is a pure function of the state, the settings and the
//! position in the run, so that a run taken up again goes on bit for bit. Modules are listed along the path data takes.

#![deny(unsafe_code)]

pub mod settings;

pub mod source;

pub mod prefetch;

pub mod gradient;

pub mod optimiser;

pub mod schedule;

mod lanes;
pub mod step;

pub mod state;

pub mod validate;

pub mod checkpoint_set;

pub mod checkpoint;

pub mod tensorboard;

pub mod folder;

pub mod publish;

pub mod timer;

pub mod run;

pub mod evaluate;
