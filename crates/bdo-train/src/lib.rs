//! Data and model put together: one training step as a function of the state, the settings and the position in the run, so
//! that a run taken up again goes on bit for bit. Modules are listed along the path data takes.

#![deny(unsafe_code)]

pub mod noise;

pub mod mask;

pub mod batch;

pub mod gradient;

pub mod optimiser;

pub mod step;
