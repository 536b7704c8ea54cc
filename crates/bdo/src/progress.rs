//! Progress on a terminal, and the signals that end long work early.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bdo_data::cohort::Observer;
use bdo_data::record::{Plan, StepEntry, ValidationEntry};
use bdo_train::fit::RunObserver;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};

use crate::cli::Common;
use crate::host::Event;

/// Set by Ctrl-C, SIGTERM and SIGUSR1 (which batch systems send before the time is up). The second signal ends the program
/// at once: work that hangs must stay killable. There is one flag for the whole program, so that a signal between two pieces of work
/// stops the second.
pub(crate) fn stop_flag() -> std::io::Result<Arc<AtomicBool>> {
    static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(stop) = STOP.get() {
        return Ok(stop.clone());
    }
    let stop = STOP.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGUSR1] {
        signal_hook::flag::register_conditional_shutdown(signal, 2, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop.clone())
}

/// A progress bar on stderr (only on a terminal, and not when quiet) that also knows whether the user wants to stop, and goes away
/// with its work, whatever came of that. Where another program called, it is told and asked instead.
pub(crate) struct Progress {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
    common: Common,
}

impl Progress {
    /// Starts a bar over `total` items and listens to signals from now on.
    pub(crate) fn start(what: &str, total: usize, common: &Common) -> anyhow::Result<Self> {
        let visible = !common.quiet && common.host.is_none() && std::io::stderr().is_terminal();
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total as u64), target);
        bar.set_style(ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} {per_sec} {eta} left {msg}")?);
        bar.set_prefix(what.to_owned());
        let stop = match &common.host {
            Some(host) => host.stop.clone(),
            None => stop_flag()?,
        };
        let progress = Self { bar, stop, common: common.clone() };
        progress.tell(Event::Started { what: what.to_owned(), total: total as u64 });
        Ok(progress)
    }

    fn tell(&self, event: Event) {
        if let Some(host) = self.common.host.as_ref().filter(|_| !self.common.quiet) {
            host.tell(event);
        }
    }

    /// Passes on where the bar is.
    fn moved(&self) {
        let (done, total) = (self.bar.position(), self.bar.length().unwrap_or(0));
        self.tell(Event::At { done, total, message: self.bar.message() });
    }

    /// One more item; false once the work should end.
    pub(crate) fn step(&self, message: String) -> bool {
        self.bar.inc(1);
        self.bar.set_message(message);
        self.moved();
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

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        self.tell(Event::Finished);
    }
}

impl Observer for Progress {
    fn advance(&self, done: usize, rejected: usize) {
        self.bar.set_position(done as u64);
        if rejected > 0 {
            self.bar.set_message(format!("({rejected} rejected)"));
        }
        self.moved();
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
        self.moved();
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
        self.bar.suspend(|| self.common.note(text));
    }

    fn stop_requested(&self) -> bool {
        self.stop_requested()
    }
}
