//! `bdo merge`: cohorts of one atlas into one.

use bdo_data::cohort::{self, Cohort, Provenance};
use serde_json::json;

use super::print;
use crate::Outcome;
use crate::cli::{Common, MergeArgs};

pub(crate) fn run(args: &MergeArgs, common: &Common) -> anyhow::Result<Outcome> {
    let (out, sources) = args.paths.split_last().expect("the parser asks for at least two paths");
    let cohorts = sources.iter().map(|path| Cohort::open(path)).collect::<Result<Vec<_>, _>>()?;
    let merged: Vec<_> = (cohorts.iter())
        .map(|c| Ok(json!({"cohort_blake3": c.content_blake3()?, "provenance": c.manifest().provenance})))
        .collect::<anyhow::Result<_>>()?;
    let provenance = vec![Provenance::of("merge", json!({"merged": merged}))];
    let manifest = cohort::merge(&cohorts, out, provenance, false)?;
    let json =
        json!({"cohort": out, "scans": manifest.scans, "subjects": manifest.subjects, "regions": manifest.regions});
    let text = format!(
        "{}: {} scans of {} people from {} cohorts",
        out.display(),
        manifest.scans,
        manifest.subjects,
        sources.len()
    );
    print(common, &json, &text);
    Ok(Outcome::Done)
}
