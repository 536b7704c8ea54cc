//! What must hold for the posterior of any model, trained or not.

mod fixture;
mod theory;
mod spreads;
