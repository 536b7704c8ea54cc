//! `bdo serve`: a run as a live page on this machine.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};
use bdo_report::live::LiveServer;
use bdo_report::report::Kind;
use serde_json::json;

use super::{note, print};
use crate::Outcome;
use crate::cli::Common;
use crate::report_args::ServeArgs;

pub(crate) fn run(args: &ServeArgs, common: &Common) -> anyhow::Result<Outcome> {
    if Kind::of(&args.run) != Some(Kind::Run) {
        bail!("{}: expected a run with run.json or journal.jsonl, found none", args.run.display());
    }
    let server = LiveServer::bind(&args.run, args.port, env!("CARGO_PKG_VERSION"))
        .with_context(|| format!("cannot listen on port {} of 127.0.0.1", args.port))?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 2, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let address = format!("http://{}/", server.address());
    print(common, &json!({"address": address, "run": args.run}), &address);
    note(common, "the page is seen on this machine only; Ctrl-C ends it");
    server.serve(&stop)?;
    Ok(Outcome::Done)
}
