//! `bdo demo`: the whole path on a synthetic cohort.

use std::time::Instant;

use serde_json::json;

use super::print;
use crate::Outcome;
use crate::cli::{Common, DemoArgs};
use crate::pipeline;

pub(crate) fn run(args: &DemoArgs, common: &Common) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    let result = pipeline::demo(&args.out, common)?;
    let json = json!({"cohort": result.cohort, "model": result.model, "comparison": result.comparison,
                      "report": result.report, "scans": result.scans, "verified": true,
                      "seconds": started.elapsed().as_secs_f64()});
    let text = format!(
        "{} synthetic scans were made, verified, split and scaled; a model was pre-trained on them and compared with \
         connectivity; in {:.1} s.\nOpen {} in a browser.",
        result.scans,
        started.elapsed().as_secs_f64(),
        result.report.display()
    );
    print(common, &json, &text);
    Ok(Outcome::Done)
}
