//! The command line of BDO: brain dynamics from fMRI.
//!
//! This crate is the rim: the only one that prints, reads arguments and decides exit codes.

mod cli;
mod commands;
mod comparison_args;
mod downstream_args;
mod infer_args;
mod model_look;
mod pipeline;
mod progress;
mod report_args;
mod training_args;

use std::process::ExitCode;

use clap::Parser;

/// How a verb ended, as scripts see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything was done.
    Done,
    /// Done, but some inputs were rejected (and listed).
    SomeRejected,
}

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match commands::run(&cli) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::SomeRejected) => ExitCode::from(1),
        Err(error) => {
            // Errors name their file, what was expected and what was found; the chain below them would say it twice.
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
