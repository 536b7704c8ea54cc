//! `bdo predict`: a fitted head on new people.

use std::path::PathBuf;

use bdo_data::cohort::Cohort;
use bdo_data::durable;
use bdo_data::target::Target;
use bdo_eval::fitted::FittedHead;
use bdo_eval::predict::predict;
use clap::Args;
use serde_json::json;

use super::infer::read_conformal;
use crate::answer::{Answer, note};
use crate::args::HeadAndData;
use crate::cli::Common;
use crate::progress::Progress;

/// Apply a fitted head, with its model, to new people
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  bdo predict --head probe-age --data cohort --out predictions.tsv")]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    from: HeadAndData,
    /// Also intervals, or sets of classes, that hold for new people (`bdo infer conformal`); a set that does not name one
    /// class is an abstention
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    conformal: Option<PathBuf>,
    /// The table to make (TSV)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    out: PathBuf,
}

pub(crate) fn run(args: &PredictArgs, common: &Common) -> anyhow::Result<Answer> {
    bdo_kernels::allocator::tune_allocator();
    let head = FittedHead::read(&args.from.head)?;
    let conformal = args.conformal.as_ref().map(|path| read_conformal(path, &head)).transpose()?;
    let cohort = Cohort::open(&args.from.cohort.data)?;
    let progress = Progress::start("predict", cohort.len(), common.quiet)?;
    let predictions = predict(&args.from.head, &head, &cohort, &progress);
    progress.finish();
    let predictions = predictions?;
    durable::write(&args.out, predictions.to_tsv(&head, conformal.as_ref()).as_bytes())?;
    for scan in &predictions.passed_over {
        note(common, &format!("{scan} has no usable region and no prediction"));
    }
    let (seen_by_head, seen_by_model) = predictions.seen();
    if seen_by_head + seen_by_model > 0 {
        let text =
            format!("{seen_by_head} people were trained on by the head, {seen_by_model} by the model (column `seen`)");
        note(common, &text);
    }
    // Labels are scored where they are there; a head is for people without any.
    let labelled = cohort.participants().columns().contains(&head.target);
    let score = if labelled {
        let target = Target::read_as(cohort.participants(), &head.target, &head.task)?;
        predictions.score(&head, &target)
    } else {
        None
    };
    let json = json!({
        "out": args.out, "scans": predictions.scans.len(), "target": head.target, "task": head.task,
        "seen_by_head": seen_by_head, "seen_by_model": seen_by_model, "passed_over": predictions.passed_over,
        "score": score,
    });
    let mut text = format!("{}: {} of {} scans", args.out.display(), head.target, predictions.scans.len());
    if let Some(score) = &score {
        let shown = score
            .together
            .named()
            .iter()
            .filter_map(|(name, value)| Some(format!("{name} {:.4}", (*value)?)))
            .collect::<Vec<_>>();
        text.push_str(&format!("\n{} people with a label: {}", score.people, shown.join(", ")));
    }
    Ok(Answer::new(json, text).rejected(!predictions.passed_over.is_empty()))
}
