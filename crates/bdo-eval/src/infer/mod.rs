//! The posterior over brain states put to work: region values at any time, with spreads that were checked on people the
//! model has not seen.
//!
//! `rows` (what is visible, and when something is asked) -> `engine` (moments of the state, window by window) -> `spread`
//! (through the decoder) -> `calibration` (observation noise) -> `output`. `score`, `forecast`, `invariance`, `truth` and
//! `simulation` ask whether it can be believed.

pub mod calibration;
pub mod engine;
pub mod familiarity;
pub mod forecast;
pub mod invariance;
pub mod output;
pub mod rows;
pub mod score;
pub mod simulation;
pub mod spread;
pub mod trajectory;
