//! Tests of the program as users run it: one binary.
#![allow(clippy::unwrap_used)]

mod calls;
mod compare;
mod baselines;
mod disk;
mod families;
mod downstream;
mod infer;
mod journey;
mod kills;
mod memory;
mod messages;
mod open_formats;
mod program;
mod ranks;
mod real_data;
mod regions_450;
mod repeatable;
mod shards;
mod token_models;
mod report;
mod reproduce;
mod training;
