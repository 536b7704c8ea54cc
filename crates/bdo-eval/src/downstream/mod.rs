//! A frozen model and the controls it gives for scans.

pub mod frozen;

pub mod control;
