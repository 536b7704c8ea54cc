//! `bdo demo`: the whole path on a synthetic cohort.

use std::time::Instant;

use serde_json::json;

use super::print;
use crate::Outcome;
use crate::cli::{Common, DemoArgs};
use crate::pipeline;

pub(crate) fn run(args: &DemoArgs, common: &Common) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    let result = pipeline::demo(&args.out, common.seed, common.quiet)?;
    let json = json!({"cohort": result.cohort, "report": result.report, "scans": result.scans,
                      "verified": true, "seconds": started.elapsed().as_secs_f64()});
    let text = format!(
        "A synthetic cohort of {} scans was made, verified, split and scaled in {:.1} s.\nOpen {} in a browser.",
        result.scans,
        started.elapsed().as_secs_f64(),
        result.report.display()
    );
    print(common, &json, &text);
    Ok(Outcome::Done)
}
