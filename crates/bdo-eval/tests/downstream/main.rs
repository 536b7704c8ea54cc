//! Tests of features, probes, fine-tuning and predictions on inputs made here.
#![allow(clippy::unwrap_used)]

mod embed;
mod finetune;
mod fixture;
mod golden;
mod probe;
