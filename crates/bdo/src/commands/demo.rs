//! `bdo demo`: the whole path on a synthetic cohort.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use serde_json::json;

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
    let started = Instant::now();
    let result = pipeline::demo(&args.out, common)?;
    let seconds = started.elapsed().as_secs_f64();
    let json = json!({"cohort": result.cohort, "model": result.model, "comparison": result.comparison,
                      "report": result.report, "scans": result.scans, "verified": true, "seconds": seconds});
    let text = format!(
        "{} synthetic scans were made and verified; a model was pre-trained on them and compared with connectivity; in \
         {seconds:.1} s.\nOpen {} in a browser.",
        result.scans,
        result.report.display()
    );
    Ok(Answer::new(json, text))
}
