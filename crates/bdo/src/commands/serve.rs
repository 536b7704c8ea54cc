//! `bdo serve`: a run as a live page on this machine.

use std::path::PathBuf;

use anyhow::{Context, bail};
use bdo_report::kind::Kind;
use bdo_report::live::LiveServer;
use clap::Args;
use serde_json::json;

use crate::answer::Answer;
use crate::cli::Common;
use crate::progress::stop_flag;

/// Show a run as a live page on this machine only
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bdo serve run --port 8080")]
pub(crate) struct ServeArgs {
    /// The run folder
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Port on 127.0.0.1; 0 takes any that is free
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Output")]
    port: u16,
}

pub(crate) fn run(args: &ServeArgs, common: &Common) -> anyhow::Result<Answer> {
    if Kind::of(&args.run) != Some(Kind::Run) {
        bail!("{}: expected a run with run.json or journal.jsonl, found none", args.run.display());
    }
    let server = LiveServer::bind(&args.run, args.port, env!("CARGO_PKG_VERSION"))
        .with_context(|| format!("cannot listen on port {} of 127.0.0.1", args.port))?;
    let stop = stop_flag()?;
    let address = format!("http://{}/", server.address());
    Answer::new(json!({"address": address, "run": args.run}), address).print(common)?;
    common.note("the page is seen on this machine only; Ctrl-C ends it");
    server.serve(&stop)?;
    Ok(Answer::nothing())
}
