//! What the pre-trainings of a comparison cost: they are shared by the rows of BDO and stand in none of them.

use std::fmt::Write;
use std::path::Path;

use bdo_data::division::Split;
use bdo_model::parameters::{parameter_table, trainable_count};
use bdo_model::weights::ModelDirectory;
use bdo_report::journal::Journal;
use serde::Serialize;
use serde_json::Value;

/// Time, memory and size of the models of all splits, as their journals have them.
#[derive(Debug, Default, Serialize)]
pub(crate) struct PretrainingCost {
    /// Models.
    pub(crate) models: usize,
    /// Trained numbers of one.
    pub(crate) parameters: usize,
    /// Time of all steps together.
    pub(crate) seconds: f64,
    /// Most memory in use at a step.
    pub(crate) memory_mib: f64,
}

impl PretrainingCost {
    /// Of the models trained below the folder of a comparison; nothing where none was.
    pub(crate) fn of(out: &Path, splits: &[Split]) -> Option<Self> {
        let mut cost = Self::default();
        let mut folders: Vec<&str> = splits.iter().map(|split| &split.blake3[..16]).collect();
        folders.sort_unstable();
        folders.dedup();
        for folder in folders {
            let run = out.join("pretraining").join(folder);
            let Ok(text) = std::fs::read_to_string(run.join("journal.jsonl")) else { continue };
            let record: Option<Value> =
                std::fs::read(run.join("run.json")).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let batch =
                record.and_then(|r| r["identity"]["settings"]["train"]["batch_size"].as_f64()).unwrap_or(f64::NAN);
            let steps = Journal::parse(&text).steps;
            cost.seconds += steps.iter().map(|s| batch / s.scans_per_second).filter(|s| s.is_finite()).sum::<f64>();
            cost.memory_mib = steps.iter().map(|s| s.memory_mib).fold(cost.memory_mib, f64::max);
            if let Ok(model) = ModelDirectory::read(&run.join("model")) {
                cost.parameters = cost.parameters.max(trainable_count(&parameter_table(&model.config)));
            }
            cost.models += 1;
        }
        (cost.models > 0).then_some(cost)
    }

    /// One sentence.
    pub(crate) fn to_markdown(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "\nPre-training of BDO, not in the columns of its rows: {} models of {} parameters, {:.1} s together, {:.0} MiB in \
             use at most.",
            self.models, self.parameters, self.seconds, self.memory_mib
        );
        out
    }
}
