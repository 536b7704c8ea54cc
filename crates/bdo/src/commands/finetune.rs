//! `bdo finetune`: a model trained further, end to end, on a label.

use std::io::IsTerminal;

use bdo_data::cohort::Observer;
use bdo_eval::finetune::{TuneObserver, TunePoint, TuneRequest, TuneSettings, finetune};

use super::note;
use super::probe::report;
use crate::Outcome;
use crate::cli::Common;
use crate::downstream_args::FinetuneArgs;
use crate::progress::Progress;

pub(crate) fn run(args: &FinetuneArgs, common: &Common) -> anyhow::Result<Outcome> {
    bdo_kernels::allocator::tune_allocator();
    let points = TunePoint::subset(args.budget as usize);
    for (i, point) in points.iter().enumerate() {
        let TunePoint { batch_size, learning_rate, least_learning_rate, weight_decay, layer_decay } = point;
        let what = format!(
            "configuration {} of {} (the grid has 36): batch {batch_size}, learning rate {learning_rate} to \
             {least_learning_rate}, weight decay {weight_decay}, layer decay {layer_decay}",
            i + 1,
            points.len()
        );
        note(common, &what);
    }
    let request = TuneRequest {
        model: args.model.clone(),
        data: args.data.clone(),
        test_data: args.test_data.clone(),
        out: args.out.clone(),
        settings: TuneSettings {
            target: args.target.clone(),
            head: args.head.into(),
            seeds: args.seeds.clone(),
            epochs: args.epochs,
            frames: args.frames,
            points,
        },
    };
    let runs = args.seeds.len() * request.settings.points.len();
    let watcher = Watcher { progress: Progress::start("finetune", runs * args.epochs, common.quiet)?, args, common };
    let found = finetune(&request, &watcher);
    watcher.progress.finish();
    report(&found?, &args.out, common);
    Ok(Outcome::Done)
}

/// Shows epochs; what is embedded on the way is not worth a bar of its own.
struct Watcher<'a> {
    progress: Progress,
    args: &'a FinetuneArgs,
    common: &'a Common,
}

impl Observer for Watcher<'_> {
    fn advance(&self, _done: usize, _rejected: usize) {}

    fn stop_requested(&self) -> bool {
        self.progress.stop_requested()
    }
}

impl TuneObserver for Watcher<'_> {
    fn epoch_done(&self, seed: u64, configuration: usize, epochs: usize, losses: &[f64]) {
        let place = self.args.seeds.iter().position(|s| *s == seed).unwrap_or(0);
        let before = (place * self.args.budget as usize + configuration) * self.args.epochs;
        self.progress.advance(before + epochs, 0);
        // Logs of batch systems get a line an epoch; a terminal has the bar.
        if !std::io::stderr().is_terminal() {
            let loss = losses.last().copied().unwrap_or(f64::NAN);
            note(
                self.common,
                &format!("seed {seed}, configuration {}, epoch {epochs}: loss {loss:.4}", configuration + 1),
            );
        }
    }
}
