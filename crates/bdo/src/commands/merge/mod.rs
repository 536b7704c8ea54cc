//! `bdo merge`: cohorts of one atlas into one, or the parts of a table or an inference that `--shard` cut.

mod inference;

use std::path::{Path, PathBuf};

use anyhow::bail;
use bdo_data::cohort::{self, Cohort, Provenance};
use clap::Args;
use serde_json::json;

use bdo_eval::export::TableFormat;
use bdo_eval::features::FeatureTable;

use crate::answer::Answer;
use crate::cli::Common;

/// Join cohorts of one atlas into one, or parts of embed or infer that --shard cut
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bdo merge cohort-a cohort-b both\n  bdo merge part-1.parquet part-2.parquet features.parquet\n  bdo merge camcan hcp both --prefix camcan,hcp"
)]
pub(crate) struct MergeArgs {
    /// The cohorts, feature tables or inferences, then the one to make
    #[arg(value_name = "PART... OUT", num_args = 2.., required = true)]
    paths: Vec<PathBuf>,
    /// Merge also cohorts whose scans were cleaned differently
    #[arg(long, help_heading = "Input")]
    different_recipes: bool,
    /// Put a prefix before the IDs of each cohort's people, in the order of the cohorts: for studies that both have a sub-01
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    prefix: Vec<String>,
}

pub(crate) fn run(args: &MergeArgs, common: &Common) -> anyhow::Result<Answer> {
    let (out, sources) = args.paths.split_last().expect("the parser asks for at least two paths");
    if !args.prefix.is_empty() && args.prefix.len() != sources.len() {
        bail!("--prefix: expected one prefix for each of the {} cohorts, found {}", sources.len(), args.prefix.len());
    }
    if let Some(other) = args.prefix.iter().find(|p| !p.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')) {
        bail!("--prefix: expected letters, digits and hyphens, found {other:?}");
    }
    if sources.iter().all(|path| path.is_file()) {
        return tables(sources, out);
    }
    if sources.iter().all(|path| inference::is_inference(path)) {
        return inference::merge(sources, out);
    }
    let cohorts = sources.iter().map(|path| Cohort::open(path)).collect::<Result<Vec<_>, _>>()?;
    if !args.different_recipes {
        cohort::differing_recipes(&cohorts)?;
    }
    let merged: Vec<_> = (cohorts.iter())
        .map(|c| Ok(json!({"cohort_blake3": c.content_blake3()?, "provenance": c.manifest().provenance})))
        .collect::<anyhow::Result<_>>()?;
    let mut settings = json!({"merged": merged});
    if !args.prefix.is_empty() {
        settings["prefix"] = json!(args.prefix);
    }
    let provenance = vec![Provenance::of("merge", settings)];
    let manifest = cohort::merge(&cohorts, out, provenance, &args.prefix)?;
    let people: usize = cohorts.iter().map(|c| c.manifest().subjects).sum();
    if manifest.subjects < people {
        common.note(format!(
                "{} IDs are in several cohorts and taken for the same people; hint: --prefix keeps people of different studies apart",
                people - manifest.subjects
            ));
    }
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

fn tables(sources: &[PathBuf], out: &Path) -> anyhow::Result<Answer> {
    TableFormat::of(out)?;
    let whole = FeatureTable::join(sources)?;
    whole.write(out)?;
    let (scans, width) = (whole.rows.len(), whole.features.width());
    let json = json!({"out": out, "scans": scans, "width": width, "parts": sources.len()});
    let text = format!("{}: {scans} scans, {width} numbers each, from {} parts", out.display(), sources.len());
    Ok(Answer::new(json, text))
}
