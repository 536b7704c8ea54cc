//! What features are worth: baseline features, closed-form probes, scores, statistics and comparisons.
//!
//! The array world after a cohort: plain slices in, plain numbers out, nothing printed.

#![forbid(unsafe_code)]
// A comment says what a name and its type do not; where there is nothing to add, there is none.
#![allow(missing_docs)]

pub mod error;
pub mod features;
pub mod connectivity;
pub mod covariance;
pub mod tangent;
pub mod confound;
pub mod leak;
pub mod combat;
pub mod standardise;
pub mod design;
pub mod ridge;
pub mod logistic;
pub mod closed_form;
pub mod metric;
pub mod resample;
pub mod memory;
pub mod method;
mod problem;
pub mod reference;
pub mod stack;
pub mod comparison;
pub mod audit;
pub mod interval;
pub mod conformal;
pub mod reliability;
pub mod export;
pub mod cache;
pub mod untrained;
pub mod head;
pub mod fit;
pub mod score;
pub mod part;
pub mod supervised;
pub mod fitted;
pub mod predict;
pub mod explain;
pub mod folder;
pub mod outcome;
pub mod probe;
pub mod finetune;
pub mod model_method;
pub mod infer;
pub mod product;
