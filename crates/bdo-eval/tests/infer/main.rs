//! What must hold for any model, trained or not.
#![allow(clippy::unwrap_used)]

mod fixture;
mod theory;
mod spreads;
