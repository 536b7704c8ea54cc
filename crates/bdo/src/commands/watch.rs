//! `bdo watch`: a run in the terminal.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::bail;
use bdo_data::record::{JournalText, StepEntry, Terms, ValidationEntry};
use bdo_report::kind::Kind;
use bdo_report::live::is_running;
use bdo_report::run::RunFolder;
use bdo_report::terminal::text_chart;
use bdo_report::training::words;
use clap::Args;
use serde_json::json;

use crate::answer::Answer;
use crate::cli::Common;
use crate::progress::stop_flag;

/// Watch a run in the terminal: curves, speed, time left
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bdo watch run")]
pub(crate) struct WatchArgs {
    /// The run folder
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Draw once and end
    #[arg(long, help_heading = "Output")]
    once: bool,
    /// Seconds between two drawings
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    #[arg(help_heading = "Output")]
    every: u64,
}

/// Columns where the terminal does not say how many it has.
const COLUMNS: usize = 80;
const ROWS: usize = 7;

pub(crate) fn run(args: &WatchArgs, common: &Common) -> anyhow::Result<Answer> {
    if Kind::of(&args.run) != Some(Kind::Run) {
        bail!("{}: expected a run with run.json or journal.jsonl, found none", args.run.display());
    }
    let stop = stop_flag()?;
    let screen = std::io::stdout().is_terminal() && !args.once && !common.json;
    loop {
        let folder = RunFolder::read(&args.run);
        let running = is_running(&args.run);
        let mut out = std::io::stdout().lock();
        if common.json {
            writeln!(out, "{}", facts(&folder, running))?;
        } else {
            // Redrawn in place and cleared below, so that it does not flicker and earlier output stays.
            let (home, rest) = if screen { ("\x1b[2J\x1b[H", "\x1b[J") } else { ("", "") };
            write!(out, "{home}{}{rest}", drawing(&folder, running))?;
        }
        out.flush()?;
        if args.once || !running {
            return Ok(Answer::nothing());
        }
        let until = Instant::now() + Duration::from_secs(args.every);
        while Instant::now() < until {
            if stop.load(Ordering::Relaxed) {
                return Ok(Answer::nothing());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn facts(folder: &RunFolder, running: bool) -> serde_json::Value {
    let journal = folder.journal.as_ref();
    let step = journal.and_then(|j| j.steps.last());
    let validation = journal.and_then(|j| j.validations.last());
    json!({"run": folder.path, "running": running, "steps": journal.map_or(0, JournalText::steps_taken),
           "total_steps": folder.plan().map(|plan| plan.total_steps), "scans_per_second": folder.recent_speed(),
           "seconds_left": folder.seconds_left().filter(|_| running),
           "loss": step.map(|s| s.loss.total), "loss_terms": step.map(|s| &s.loss.terms),
           "measures": step.map(|s| &s.measures), "validation_mse": validation.map(|v| v.measures.get("mse")),
           "validation_measures": validation.map(|v| &v.measures),
           "unreadable_lines": journal.map_or(0, |j| j.unreadable)})
}

fn drawing(folder: &RunFolder, running: bool) -> String {
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok()).unwrap_or(COLUMNS).clamp(40, 160);
    let state = if running { "running" } else { "not running" };
    let mut out = format!("{} ({state})\n{}\n", folder.path.display(), folder.progress());
    let Some(journal) = &folder.journal else { return out + "no journal yet\n" };
    if let Some(speed) = folder.recent_speed() {
        out += &format!("{speed:.1} scans/s");
        if let Some(left) = folder.seconds_left().filter(|_| running) {
            out += &format!(", {} left", duration(left));
        }
        out += "\n";
    }
    if let Some(step) = journal.steps.last() {
        out += &line("loss terms", &step.loss.terms, columns);
        out += &line("measures", &step.measures, columns);
    }
    if let Some(v) = journal.validations.last() {
        let scores = if v.measures.0.is_empty() { &Terms::of([("loss", v.loss.total)]) } else { &v.measures };
        out += &line(&format!("validation after {} steps", v.step), scores, columns);
    }
    if journal.unreadable > 0 {
        out += &format!("{} of {} lines could not be read\n", journal.unreadable, journal.lines);
    }
    let curve = |of: fn(&StepEntry) -> f64| journal.steps.iter().map(|s| (s.step as f64, of(s))).collect::<Vec<_>>();
    out += &text_chart("loss", &curve(|s| s.loss.total), columns, ROWS);
    let scored = journal.validations.iter().any(|v| v.measures.get("mse").is_finite());
    let error = |v: &ValidationEntry| if scored { v.measures.get("mse") } else { v.loss.total };
    let validations: Vec<(f64, f64)> = journal.validations.iter().map(|v| (v.step as f64, error(v))).collect();
    if !validations.is_empty() {
        let title = if scored { "validation error" } else { "validation loss" };
        out += &text_chart(title, &validations, columns, ROWS);
    }
    out += &text_chart("learning rate", &curve(|s| s.learning_rate), columns, 4);
    out + &text_chart("gradient norm", &curve(|s| s.gradient_norm), columns, 4)
}

/// Numbers by name after a title, broken into lines where there are many; nothing where there is none.
fn line(title: &str, terms: &Terms, columns: usize) -> String {
    let (mut out, mut row) = (String::new(), format!("{title}:"));
    for (name, value) in terms.0.iter().filter(|(_, value)| value.is_finite()) {
        let word = format!(" {} {value:.4}", words(name));
        if row.len() + word.len() > columns {
            out += &(std::mem::replace(&mut row, " ".into()) + "\n");
        }
        row += &word;
        row.push(',');
    }
    if row.ends_with(',') { out + row.trim_end_matches(',') + "\n" } else { String::new() }
}

fn duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        0 => format!("{seconds:.0} s"),
        1..=119 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}
