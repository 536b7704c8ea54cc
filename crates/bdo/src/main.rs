//! The command line of BDO: brain dynamics from fMRI.
//!
//! The only crate that reads arguments, prints and decides exit codes.

mod answer;
mod args;
mod cli;
mod commands;
mod job;
mod model_look;
mod pipeline;
mod progress;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let ended = commands::run(&cli).and_then(|answer| {
        answer.print(&cli.common)?;
        Ok(if answer.some_rejected { ExitCode::from(1) } else { ExitCode::SUCCESS })
    });
    match ended {
        Ok(code) => code,
        // Who reads our output has read enough.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{}", message(&error));
            ExitCode::from(2)
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let broken = |io: &std::io::Error| io.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(broken))
}

/// An error with its causes on one line, and a hint on a line of its own where the error ends in `; hint: ...`. A cause whose
/// text its successor has already quoted is not said again.
fn message(error: &anyhow::Error) -> String {
    let (mut line, mut hint) = (String::from("error"), String::new());
    for cause in error.chain().map(ToString::to_string) {
        let (said, way_out) = cause.split_once("; hint: ").unwrap_or((&cause, ""));
        if !line.contains(said) {
            line = format!("{line}: {said}");
        }
        if hint.is_empty() && !way_out.is_empty() {
            hint = format!("\nhint: {way_out}");
        }
    }
    line + &hint
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};

    #[test]
    fn an_error_is_said_with_its_causes_each_once_and_its_hint_last() {
        let inner: anyhow::Result<()> = Err(anyhow!("x.json: expected a list; hint: write one"));
        let quoting = inner.map_err(|e| anyhow!("--set: {e}").context("cannot start"));
        assert_eq!(
            message(&quoting.unwrap_err()),
            "error: cannot start: --set: x.json: expected a list\nhint: write one"
        );
        let repeated: anyhow::Result<()> = Err(anyhow!("it does not exist"));
        let repeated = repeated.context("cannot read x: it does not exist").unwrap_err();
        assert_eq!(message(&repeated), "error: cannot read x: it does not exist");
    }

    #[test]
    fn a_closed_pipe_is_found_below_other_errors() {
        let pipe = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert!(is_closed_pipe(&anyhow::Error::from(pipe).context("cannot print")));
        assert!(!is_closed_pipe(&anyhow!("broken pipe")));
    }
}
