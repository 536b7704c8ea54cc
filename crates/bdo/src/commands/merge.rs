//! `bdo merge`: cohorts of one atlas into one.

use std::path::PathBuf;

use bdo_data::cohort::{self, Cohort, Provenance};
use clap::Args;
use serde_json::json;

use crate::answer::Answer;

/// Join cohorts of one atlas into one
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bdo merge cohort-a cohort-b both")]
pub(crate) struct MergeArgs {
    /// The cohorts, then the one to make
    #[arg(value_name = "COHORT... OUT", num_args = 2.., required = true)]
    paths: Vec<PathBuf>,
    /// Merge also cohorts whose scans were cleaned differently
    #[arg(long, help_heading = "Input")]
    different_recipes: bool,
}

pub(crate) fn run(args: &MergeArgs) -> anyhow::Result<Answer> {
    let (out, sources) = args.paths.split_last().expect("the parser asks for at least two paths");
    let cohorts = sources.iter().map(|path| Cohort::open(path)).collect::<Result<Vec<_>, _>>()?;
    if !args.different_recipes {
        cohort::differing_recipes(&cohorts)?;
    }
    let merged: Vec<_> = (cohorts.iter())
        .map(|c| Ok(json!({"cohort_blake3": c.content_blake3()?, "provenance": c.manifest().provenance})))
        .collect::<anyhow::Result<_>>()?;
    let provenance = vec![Provenance::of("merge", json!({"merged": merged}))];
    let manifest = cohort::merge(&cohorts, out, provenance)?;
    let json =
        json!({"cohort": out, "scans": manifest.scans, "subjects": manifest.subjects, "regions": manifest.regions});
    let text = format!(
        "{}: {} scans of {} people from {} cohorts",
        out.display(),
        manifest.scans,
        manifest.subjects,
        sources.len()
    );
    Ok(Answer::new(json, text))
}
