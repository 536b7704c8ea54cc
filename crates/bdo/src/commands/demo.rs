//! `bdo demo`: the whole path on a synthetic cohort.

use std::path::PathBuf;

use clap::Args;

use crate::answer::Answer;
use crate::cli::Common;
use crate::pipeline;

/// Run the whole path on a synthetic cohort, ending in an HTML page
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bdo demo --out demo")]
pub(crate) struct DemoArgs {
    /// Where to put the cohort, the run, the comparison and the page
    #[arg(long, value_name = "DIR", default_value = "demo", help_heading = "Output")]
    out: PathBuf,
}

pub(crate) fn run(args: &DemoArgs, common: &Common) -> anyhow::Result<Answer> {
    pipeline::demo(&args.out, common)
}
