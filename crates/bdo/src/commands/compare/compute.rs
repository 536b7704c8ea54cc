//! Trainings of equal cost: how many epochs so many operations pay for.

use bdo_data::cohort::Cohort;
use bdo_data::division::TrainPeople;
use bdo_train::settings::Settings;

use crate::commands::bench::workload::{encoder_flops, train_flops};

/// Epochs over so many scans that cost so many billion operations.
pub(super) fn epochs(gflops: f64, flops_per_scan: f64, scans: f64) -> f64 {
    1e9 * gflops / (flops_per_scan * scans.max(1.0))
}

/// Epochs of BDO on the training people of a split. What is fitted in closed form before the first step is not counted.
pub(super) fn bdo_epochs(gflops: f64, settings: &Settings, cohort: &Cohort, people: &TrainPeople) -> f64 {
    let of_training = cohort.index().iter().filter(|entry| people.contains(&entry.id.subject));
    let frames: Vec<usize> = of_training.map(|entry| entry.frames.min(settings.mask.frames)).collect();
    let costs = frames.iter().map(|frames| bdo_visit_flops(settings, cohort.regions().len(), *frames));
    let mean = costs.sum::<f64>() / frames.len().max(1) as f64;
    epochs(gflops, mean, settings.train.data_fraction * frames.len() as f64)
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
        assert_eq!(epochs(0.1, 1e6, 10.0), 10.0);
    }
}
