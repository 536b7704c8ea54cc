//! `bdo label`: corrected labels for the people of a cohort.

use std::path::PathBuf;

use bdo_data::cohort;
use bdo_data::participants::Participants;
use clap::Args;
use serde_json::json;

use crate::answer::Answer;

/// Take the labels of a corrected participants table, without reading scans again
#[derive(Debug, Args)]
#[command(
    after_help = "Where the table has a person and a column its value counts, also where it is missing (n/a). The table before stays in COHORT/labels.\n\nExample:\n  bdo label cohort --participants participants.tsv"
)]
pub(crate) struct LabelArgs {
    /// The cohort
    cohort: PathBuf,
    /// Table of the people: TSV or CSV with a column `participant_id`
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    participants: PathBuf,
}

pub(crate) fn run(args: &LabelArgs) -> anyhow::Result<Answer> {
    let table = Participants::read(&args.participants, &[])?;
    let report = cohort::label(&args.cohort, &table, "label")?;
    let json = json!({"cohort": args.cohort, "people_changed": report.people, "columns_changed": report.columns});
    let text = if report.columns.is_empty() {
        format!("{}: the labels are those of the table already", args.cohort.display())
    } else {
        format!(
            "{}: labels of {} people have changed in {}",
            args.cohort.display(),
            report.people,
            report.columns.join(", ")
        )
    };
    Ok(Answer::new(json, text))
}
