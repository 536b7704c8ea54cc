//! The pre-trainings of a comparison: where they are, how far they came, what they cost.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use bdo_data::division::Split;
use bdo_data::record::{JournalText, RunRecord};
use bdo_model::parameters::{parameter_table, trainable_count};
use bdo_model::weights::ModelDirectory;
use serde::Serialize;
use serde_json::Value;

/// The run folder of a split.
pub(super) fn folder(out: &Path, split: &Split) -> PathBuf {
    out.join("pretraining").join(&split.blake3[..16])
}

/// A run as it was left.
pub(super) struct Run {
    folder: PathBuf,
    record: RunRecord,
    journal: JournalText,
}

/// The runs below the folder of a comparison, each once.
pub(super) fn runs(out: &Path, splits: &[Split]) -> Vec<Run> {
    let mut folders: Vec<PathBuf> = splits.iter().map(|split| folder(out, split)).collect();
    folders.sort_unstable();
    folders.dedup();
    let read = |folder: PathBuf| {
        let journal = JournalText::parse(&std::fs::read_to_string(folder.join("journal.jsonl")).ok()?);
        Some(Run { record: RunRecord::read(&folder).ok()?, journal, folder })
    };
    folders.into_iter().filter_map(read).collect()
}

/// The least and the most epochs that runs have come to; not a number where none says it. Not the steps that were planned: the
/// time may have been up before.
pub(super) fn epochs(runs: &[Run]) -> (f64, f64) {
    let epochs = runs.iter().filter_map(|run| {
        let last = run.journal.steps.last()?.step;
        Some((last + 1) as f64 / run.record.plan?.steps_per_epoch as f64)
    });
    epochs.fold((f64::NAN, f64::NAN), |(low, high), epochs| (epochs.min(low), epochs.max(high)))
}

/// Time, memory and size of all models, as their journals have them.
#[derive(Debug, Default, Serialize)]
pub(super) struct PretrainingCost {
    models: usize,
    /// Trained numbers of one.
    parameters: usize,
    /// Time of all steps together.
    seconds: f64,
    /// Most memory in use at a step.
    memory_mib: f64,
}

impl PretrainingCost {
    pub(super) fn of(runs: &[Run]) -> Option<Self> {
        let mut cost = Self { models: runs.len(), ..Self::default() };
        for Run { folder, record, journal } in runs {
            let batch = record.identity.setting("train", "batch_size").and_then(Value::as_f64).unwrap_or(f64::NAN);
            let seconds = journal.steps.iter().map(|s| batch / s.scans_per_second).filter(|s| s.is_finite());
            cost.seconds += seconds.sum::<f64>();
            cost.memory_mib = journal.steps.iter().map(|s| s.memory_mib).fold(cost.memory_mib, f64::max);
            if let Ok(model) = ModelDirectory::read(&folder.join("model")) {
                cost.parameters = cost.parameters.max(trainable_count(&parameter_table(&model.config)));
            }
        }
        (cost.models > 0).then_some(cost)
    }

    /// One sentence.
    pub(super) fn to_markdown(&self) -> String {
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
