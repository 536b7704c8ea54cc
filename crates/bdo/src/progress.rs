//! Progress on a terminal, and the signals that end long work early.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bdo_data::cohort::Observer;
use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar on stderr (only on a terminal, and not when quiet) that also knows whether the user wants to stop.
pub(crate) struct Progress {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
}

impl Progress {
    /// Starts a bar over `total` items and takes note of Ctrl-C and SIGTERM from now on.
    pub(crate) fn start(what: &str, total: usize, quiet: bool) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // The second signal ends the program at once: work that hangs must stay killable.
            signal_hook::flag::register_conditional_shutdown(signal, 2, stop.clone())?;
            signal_hook::flag::register(signal, stop.clone())?;
        }
        let visible = !quiet && std::io::stderr().is_terminal();
        let bar = if visible { ProgressBar::new(total as u64) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} {per_sec} {eta} left {msg}")?;
        bar.set_style(style);
        bar.set_prefix(what.to_owned());
        Ok(Self { bar, stop })
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
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
        self.stop.load(Ordering::Relaxed)
    }
}
