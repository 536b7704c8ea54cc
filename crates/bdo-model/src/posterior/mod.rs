//! The posterior over latent states at any time: moments window by window, standard deviations through the decoder,
//! paths by network, and the closed form beside a simulation.

pub mod engine;
pub mod rows;
pub mod simulation;
pub mod spread;
pub mod trajectory;
