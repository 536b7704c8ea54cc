//! The pre-trainings of a comparison: where they are, how far they came, what they cost, and how many epochs a cost pays for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bdo_data::cohort::Cohort;
use bdo_data::division::{Split, TrainPeople};
use bdo_data::record::{JournalText, RunRecord};
use bdo_model::parameters::{parameter_table, trainable_count};
use bdo_model::weights::ModelDirectory;
use bdo_train::settings::Settings;
use serde::Serialize;
use serde_json::Value;

use crate::commands::bench::workload::{encoder_flops, train_flops};

/// The run folder of a split.
pub(super) fn folder(out: &Path, split: &Split) -> PathBuf {
    out.join("pretraining").join(&split.blake3[..16])
}

/// A run as it was left.
pub(crate) struct Run {
    folder: PathBuf,
    record: RunRecord,
    journal: JournalText,
}

impl Run {
    /// `None` where a file of it cannot be read.
    pub(crate) fn read(folder: PathBuf) -> Option<Self> {
        let journal = JournalText::parse(&std::fs::read_to_string(folder.join("journal.jsonl")).ok()?);
        Some(Self { record: RunRecord::read(&folder).ok()?, journal, folder })
    }

    /// Epochs it has come to. Not the steps that were planned: the time may have been up before.
    pub(crate) fn epochs(&self) -> Option<f64> {
        let last = self.journal.steps.last()?.step;
        Some((last + 1) as f64 / self.record.plan?.steps_per_epoch as f64)
    }
}

/// The runs below the folder of a comparison, each once.
pub(super) fn runs(out: &Path, splits: &[Split]) -> Vec<Run> {
    let folders: BTreeSet<PathBuf> = splits.iter().map(|split| folder(out, split)).collect();
    folders.into_iter().filter_map(Run::read).collect()
}

/// The least and the most epochs that runs have come to; not a number where none says it.
pub(super) fn epochs(runs: &[Run]) -> (f64, f64) {
    let epochs = runs.iter().filter_map(Run::epochs);
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
        format!(
            "\nPre-training of BDO, not in the columns of its rows: {} models of {} parameters, {:.1} s together, {:.0} MiB in \
             use at most.\n",
            self.models, self.parameters, self.seconds, self.memory_mib
        )
    }
}

/// Epochs over so many scans that cost so many billion operations.
pub(super) fn epochs_for(gflops: f64, flops_per_scan: f64, scans: f64) -> f64 {
    1e9 * gflops / (flops_per_scan * scans.max(1.0))
}

/// Epochs of BDO on the training people of a split. What is fitted in closed form before the first step is not counted.
pub(super) fn bdo_epochs(gflops: f64, settings: &Settings, cohort: &Cohort, people: &TrainPeople) -> f64 {
    let of_training = cohort.index().iter().filter(|entry| people.contains(&entry.id.subject));
    let frames: Vec<usize> = of_training.map(|entry| entry.frames.min(settings.mask.frames)).collect();
    let costs = frames.iter().map(|frames| bdo_visit_flops(settings, cohort.regions().len(), *frames));
    let mean = costs.sum::<f64>() / frames.len().max(1) as f64;
    epochs_for(gflops, mean, settings.train.data_fraction * frames.len() as f64)
}

/// Operations of one visit to so many frames, on average over the run.
fn bdo_visit_flops(settings: &Settings, regions: usize, frames: usize) -> f64 {
    let (config, mask) = (settings.model_config(regions), &settings.mask);
    let hidden = f64::midpoint(mask.ratio, mask.ratio_least.min(mask.ratio));
    let targets = (hidden * frames as f64).round() as usize;
    // The pass of the latent target, which is counted throughout, may enter later or never.
    let without = if config.tau() == 0.0 { 1.0 } else { settings.train.tau_start };
    train_flops(&config, 1, frames - targets.min(frames), targets) - without * encoder_flops(&config, targets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bdo_train::settings::Preset;

    #[test]
    fn visits_cost_what_the_bench_counts_and_less_without_the_latent_target() {
        let mut settings = Settings::preset(Preset::Paper);
        let config = settings.model_config(50);
        // The paper hides three quarters of 160 frames and has the latent target from the first step.
        assert_eq!(bdo_visit_flops(&settings, 50, 160), train_flops(&config, 1, 40, 120));
        settings.train.tau_start = 0.5;
        let later = bdo_visit_flops(&settings, 50, 160);
        assert_eq!(later, train_flops(&config, 1, 40, 120) - 0.5 * encoder_flops(&config, 120));
        // Ten scans of a million operations, a tenth of a billion: ten epochs.
        assert_eq!(epochs_for(0.1, 1e6, 10.0), 10.0);
    }
}
