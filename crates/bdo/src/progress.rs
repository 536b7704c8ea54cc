//! Progress on a terminal, and the signals that end long work early.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bdo_data::cohort::Observer;
use bdo_data::record::{Plan, StepEntry, ValidationEntry};
use bdo_train::fit::RunObserver;
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};

use crate::answer::complain;

/// Set by Ctrl-C, SIGTERM and SIGUSR1 (which batch systems send before the time is up). The second signal ends the program
/// at once: work that hangs must stay killable.
pub(crate) fn stop_flag() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGUSR1] {
        signal_hook::flag::register_conditional_shutdown(signal, 2, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// A progress bar on stderr (only on a terminal, and not when quiet) that also knows whether the user wants to stop.
pub(crate) struct Progress {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
    quiet: bool,
}

impl Progress {
    /// Starts a bar over `total` items and listens to signals from now on.
    pub(crate) fn start(what: &str, total: usize, quiet: bool) -> anyhow::Result<Self> {
        let visible = !quiet && std::io::stderr().is_terminal();
        let bar = if visible { ProgressBar::new(total as u64) } else { ProgressBar::hidden() };
        bar.set_style(ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} {per_sec} {eta} left {msg}")?);
        bar.set_prefix(what.to_owned());
        Ok(Self { bar, stop: stop_flag()?, quiet })
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// One more item; false once the work should end.
    pub(crate) fn step(&self, message: String) -> bool {
        self.bar.inc(1);
        self.bar.set_message(message);
        !self.stop_requested()
    }

    /// Items that were done before.
    pub(crate) fn skip(&self, items: usize) {
        self.bar.inc(items as u64);
    }

    pub(crate) fn stop_requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Observer for Progress {
    fn advance(&self, done: usize, rejected: usize) {
        self.bar.set_position(done as u64);
        if rejected > 0 {
            self.bar.set_message(format!("({rejected} rejected)"));
        }
    }

    fn stop_requested(&self) -> bool {
        self.stop_requested()
    }
}

impl RunObserver for Progress {
    fn planned(&self, plan: &Plan, from_step: u64) {
        self.bar.set_length(plan.total_steps);
        self.bar.set_position(from_step);
    }

    fn stepped(&self, entry: &StepEntry) {
        self.bar.set_position(entry.step + 1);
        self.bar.set_message(format!("loss {:.4}, {:.1} scans/s", entry.loss.total, entry.scans_per_second));
    }

    fn validated(&self, entry: &ValidationEntry) {
        self.note(&format!(
            "step {}: validation error {:.4} of {:.4}, explained {:.2} %",
            entry.step,
            entry.measures.get("mse"),
            entry.measures.get("mean_square"),
            100.0 * entry.measures.get("explained_variance")
        ));
    }

    fn note(&self, text: &str) {
        if !self.quiet {
            self.bar.suspend(|| complain(&format!("note: {text}")));
        }
    }

    fn stop_requested(&self) -> bool {
        self.stop_requested()
    }
}
