//! The command line of BDO: brain dynamics from fMRI, as a program and as calls from another one.
//!
//! The only crate that reads arguments, prints and decides exit codes.

mod answer;
mod args;
mod cli;
mod commands;
mod host;
mod job;
mod model_look;
mod pipeline;
mod progress;

pub use host::{Event, Host};

use std::ffi::OsString;
use std::io::Write;

use clap::Parser;
use serde_json::Value;

/// The program: arguments as typed, its name first, in; an exit status out.
pub fn program(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let cli = match cli::Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        // Help and versions come this way too; whether anybody reads them changes nothing.
        Err(said) => {
            let _ = said.print();
            return u8::try_from(said.exit_code()).unwrap_or(2);
        }
    };
    let ended = commands::run(&cli).and_then(|answer| {
        answer.print(&cli.common)?;
        Ok(u8::from(answer.some_rejected))
    });
    match ended {
        Ok(status) => status,
        // Who reads our output has read enough.
        Err(error) if is_closed_pipe(&error) => 0,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{}", message(&error));
            2
        }
    }
}

/// What a verb answers to a program that calls it.
#[derive(Debug)]
pub struct Called {
    /// What `--json` prints.
    pub json: Value,
    /// Some inputs were rejected; the answer or the output says which.
    pub some_rejected: bool,
}

/// Why a verb that was called could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Arguments that the program does not take.
    #[error("{0}")]
    Usage(String),
    /// Anything later: an error with its causes and its hint, as the program says it.
    #[error("{}", message(.0).trim_start_matches("error: "))]
    Failed(anyhow::Error),
}

/// Runs a verb with arguments as they are typed, for another program: nothing is printed and no signal is listened to.
pub fn call(arguments: &[String], host: Host) -> Result<Called, CallError> {
    let words = std::iter::once("bdo").chain(arguments.iter().map(String::as_str));
    let mut cli = cli::Cli::try_parse_from(words).map_err(|said| CallError::Usage(usage(&said)))?;
    cli.common.host = Some(host);
    let answer = commands::run(&cli).map_err(CallError::Failed)?;
    Ok(Called { some_rejected: answer.some_rejected, json: answer.into_json() })
}

/// What is wrong with arguments, without the lines about how to ask for help at a terminal.
fn usage(said: &clap::Error) -> String {
    let text = said.to_string();
    let text = text.split("\n\nUsage:").next().unwrap_or_default();
    text.split("\n\nFor more information").next().unwrap_or_default().trim_start_matches("error: ").trim().to_owned()
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
