//! Answering another process step by step, so that two programs can be timed in turns on a noisy machine.

use std::io::{BufRead, Write};
use std::time::Instant;

/// Answers every line `step` on stdin with the milliseconds of one step, until `quit` or the end.
pub(super) fn serve(work: &mut impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
    writeln!(std::io::stderr(), "ready")?;
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        match line?.trim() {
            "step" => {
                let started = Instant::now();
                work()?;
                writeln!(out, "{:.3}", started.elapsed().as_secs_f64() * 1e3)?;
                out.flush()?;
            }
            "quit" => break,
            _ => {}
        }
    }
    Ok(())
}
