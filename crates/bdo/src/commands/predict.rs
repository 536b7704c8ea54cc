//! `bdo predict`: a fitted head on new people.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bdo_data::cohort::Cohort;
use bdo_data::durable;
use bdo_data::target::Target;
use bdo_eval::fitted::FittedHead;
use bdo_eval::predict::{PeopleScore, Predictions, predict};
use bdo_model::familiarity::Verdict;
use clap::Args;
use serde_json::json;

use super::embed::unfamiliar;
use super::infer::read_conformal;
use crate::answer::Answer;
use crate::args::{HeadAndData, out_file};
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
    /// Refuse scans that are not like those the head was fitted on
    #[arg(long, help_heading = "Output")]
    strict: bool,
    /// The table to make (TSV)
    #[arg(long, value_name = "FILE", value_parser = out_file, help_heading = "Output")]
    out: PathBuf,
}

pub(crate) fn run(args: &PredictArgs, common: &Common) -> anyhow::Result<Answer> {
    bdo_kernels::allocator::tune_allocator();
    let head = FittedHead::read(&args.from.head)?;
    let conformal = args.conformal.as_ref().map(|path| read_conformal(path, &head)).transpose()?;
    let cohort = Cohort::open(&args.from.cohort.data)?;
    let predictions = predicted(&args.from, &head, &cohort, common)?;
    let verdicts: BTreeMap<String, Verdict> =
        predictions.scans.iter().filter_map(|s| Some((s.row.scan.clone(), s.verdict.clone()?))).collect();
    let outside = unfamiliar("the head", &verdicts, args.strict, common)?;
    if let (Some(conformal), false) = (&conformal, outside.is_empty()) {
        common.complain(format!(
            "warning: for these {} scans the intervals do not keep their promise of {:.0} %",
            outside.len(),
            100.0 * conformal.level
        ));
    }
    durable::write(&args.out, predictions.to_tsv(&head, conformal.as_ref()).as_bytes())?;
    for scan in &predictions.passed_over {
        common.note(format!("{scan} has no usable region and no prediction"));
    }
    let (seen_by_head, seen_by_model) = predictions.seen();
    if seen_by_head + seen_by_model > 0 {
        let text =
            format!("{seen_by_head} people were trained on by the head, {seen_by_model} by the model (column `seen`)");
        common.note(text);
    }
    note_namesakes(predictions.namesakes, common);
    // Labels are scored where they are there; a head is for people without any.
    let labelled = cohort.participants().columns().contains(&head.target);
    let (mut score, mut seen_score) = (None, None);
    if labelled {
        let target = Target::read_as(cohort.participants(), &head.target, &head.task)?;
        (score, seen_score) = (predictions.score(&head, &target), predictions.score_of_seen(&head, &target));
    }
    let json = json!({
        "out": args.out, "scans": predictions.scans.len(), "target": head.target, "task": head.task,
        "seen_by_head": seen_by_head, "seen_by_model": seen_by_model, "passed_over": predictions.passed_over,
        "outside": outside, "namesakes": predictions.namesakes,
        "score": score, "score_of_people_trained_on": seen_score,
    });
    let mut text = format!("{}: {} of {} scans", args.out.display(), head.target, predictions.scans.len());
    if let Some(score) = &score {
        text.push_str(&format!("\n{} people the head has not seen: {}", score.people, shown(score)));
    }
    if let Some(score) = &seen_score {
        text.push_str(&format!(
            "\n{} people the head was fitted on, which says nothing about new ones: {}",
            score.people,
            shown(score)
        ));
    }
    Ok(Answer::new(json, text).rejected(!predictions.passed_over.is_empty()))
}

/// What a head says of the people of a cohort.
pub(super) fn predicted(
    from: &HeadAndData,
    head: &FittedHead,
    cohort: &Cohort,
    common: &Common,
) -> anyhow::Result<Predictions> {
    let progress = Progress::start("predict", cohort.len(), common)?;
    Ok(predict(&from.head, head, cohort, (from.same.trusting(), &common.place()?), &progress)?)
}

fn shown(score: &PeopleScore) -> String {
    let named = score.together.named();
    let shown: Vec<String> =
        named.iter().filter_map(|(name, value)| Some(format!("{name} {:.4}", (*value)?))).collect();
    shown.join(", ")
}

/// Says that people who share an ID with training people are taken for others.
pub(super) fn note_namesakes(namesakes: usize, common: &Common) {
    if namesakes > 0 {
        common.note(format!(
                "{namesakes} people have the ID of somebody trained on, but no scan of this cohort was trained on: they are \
                 taken for other people (--same-people if they are not)"
            ));
    }
}
