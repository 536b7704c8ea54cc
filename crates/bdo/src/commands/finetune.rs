//! `bdo finetune`: a model trained further, end to end, on a label.

use bdo_data::cohort::Observer;
use bdo_eval::finetune::{HeadStart, TuneObserver, TunePoint, TuneSettings, finetune};
use bdo_eval::fitted::HeadKind;
use bdo_train::ranks::Ranks;
use clap::Args;
use std::io::IsTerminal;

use super::probe::report;
use crate::answer::Answer;
use crate::args::{Labelled, one_of};
use crate::cli::Common;
use crate::job::RankArgs;
use crate::progress::Progress;

/// The protocol's, and one that leaves a start in closed form nearly where it is while the rest is learned.
pub(crate) const RATES: [f64; 2] = [1e-3, 3e-4];

/// Train a model further, end to end, on a label; run again to go on
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bdo finetune --model run/model --data cohort --target sex --out tuned-sex --epochs 10\n  mpirun -n 4 bdo finetune --model run/model --data cohort --target sex --out tuned-sex"
)]
pub(crate) struct FinetuneArgs {
    #[command(flatten)]
    on: Labelled,
    /// How frames are pooled: their mean under a linear layer, or a learned query
    #[arg(long, help_heading = "Training", value_parser = one_of::<HeadKind>(), default_value = "linear")]
    head: HeadKind,
    /// Configurations to run of the grid of 36; which ones is printed and saved
    #[arg(long, help_heading = "Training", value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=36))]
    budget: u64,
    /// Learning rates each of them is run with; the protocol's is 1e-3
    #[arg(long, help_heading = "Training", value_name = "R,R", value_delimiter = ',', default_values_t = RATES)]
    rates: Vec<f64>,
    /// Passes over the training scans
    #[arg(long, help_heading = "Training", value_name = "N", default_value_t = 50)]
    epochs: usize,
    /// Frames drawn from a scan at each visit in training, which saves memory with long scans; 0 for all, as in validation and test
    #[arg(long, help_heading = "Training", value_name = "N", default_value_t = 0)]
    frames: usize,
    /// Begin with a head of random weights, not as the probe of the frozen model
    #[arg(long, help_heading = "Training")]
    fresh_head: bool,
    #[command(flatten)]
    ranks: RankArgs,
}

pub(crate) fn run(args: &FinetuneArgs, common: &Common) -> anyhow::Result<Answer> {
    bdo_kernels::allocator::tune_allocator();
    args.ranks.train(common, |common, ranks| train(args, common, ranks))
}

fn train(args: &FinetuneArgs, common: &Common, ranks: &dyn Ranks) -> anyhow::Result<Answer> {
    let points = TunePoint::at_rates(&TunePoint::subset(args.budget as usize), &args.rates);
    for (i, point) in points.iter().enumerate() {
        let TunePoint { batch_size, learning_rate, least_learning_rate, weight_decay, layer_decay } = point;
        // In f32, whose shortest digits are those that were asked for: scaled, 3e-4 ends at 2.9999999999999997e-5.
        let least_learning_rate = *least_learning_rate as f32;
        common.note(format!(
            "configuration {} of {} (the protocol has 36): batch {batch_size}, learning rate {learning_rate} to \
             {least_learning_rate}, weight decay {weight_decay}, layer decay {layer_decay}",
            i + 1,
            points.len()
        ));
    }
    let request = args.on.request(
        TuneSettings {
            target: args.on.target.clone(),
            head: args.head,
            seeds: args.on.repetitions.list(),
            epochs: args.epochs,
            max_minutes: 0.0,
            points,
            frames: args.frames,
            head_start: if args.fresh_head { HeadStart::Fresh } else { HeadStart::Probe },
        },
        common,
    )?;
    let runs = args.on.repetitions.list().len() * request.settings.points.len();
    let watcher = Watcher { progress: Progress::start("finetune", runs * args.epochs, common)?, args, common };
    let found = finetune(&request, ranks, &watcher)?;
    drop(watcher);
    Ok(found.map_or_else(Answer::nothing, |found| report(&found, &args.on.out, common)))
}

/// Shows epochs; what is embedded on the way is not worth a bar of its own.
struct Watcher<'a> {
    progress: Progress,
    args: &'a FinetuneArgs,
    common: &'a Common,
}

impl Observer for Watcher<'_> {
    fn stop_requested(&self) -> bool {
        self.progress.stop_requested()
    }
}

impl TuneObserver for Watcher<'_> {
    fn epoch_done(&self, seed: u64, configuration: usize, epochs: usize, loss: f64) {
        let place = self.args.on.repetitions.list().iter().position(|s| *s == seed).unwrap_or(0);
        let points = self.args.budget as usize * self.args.rates.len();
        let before = (place * points + configuration) * self.args.epochs;
        self.progress.advance(before + epochs, 0);
        // Logs of batch systems get a line per epoch; a terminal has the bar.
        if !std::io::stderr().is_terminal() {
            self.common
                .note(format!("seed {seed}, configuration {}, epoch {epochs}: loss {loss:.4}", configuration + 1));
        }
    }
}
