//! What a trained model is worth: features of scans, probes on them, fine-tuning, and predictions for new people.
//! Modules are listed along the path data takes. Nothing here prints; labels never reach a feature table.

pub mod error;

pub mod frozen;

pub mod control;

pub mod readout;

mod matrix_log;

pub mod pooling;

pub mod table;

pub mod export;

pub mod cache;

pub mod target;

pub mod transform;

pub mod head;

pub mod fit;

pub mod score;

pub mod part;

pub mod select;

pub mod fitted;

pub mod predict;

pub mod folder;

pub mod outcome;

pub mod probe;

pub mod finetune;

pub mod method;
