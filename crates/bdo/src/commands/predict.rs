//! `bdo predict`: a fitted head on new people.

use bdo_data::cohort::Cohort;
use bdo_data::durable;
use bdo_eval::fitted::FittedHead;
use bdo_eval::label::Target;
use bdo_eval::predict::predict;
use serde_json::json;

use super::infer::read_conformal;
use super::{note, print};
use crate::Outcome;
use crate::cli::Common;
use crate::downstream_args::PredictArgs;
use crate::progress::Progress;

pub(crate) fn run(args: &PredictArgs, common: &Common) -> anyhow::Result<Outcome> {
    bdo_kernels::allocator::tune_allocator();
    let head = FittedHead::read(&args.head)?;
    let conformal = args.conformal.as_ref().map(|path| read_conformal(path, &head)).transpose()?;
    let cohort = Cohort::open(&args.data)?;
    let progress = Progress::start("predict", cohort.len(), common.quiet)?;
    let predictions = predict(&args.head, &head, &cohort, &progress);
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
    print(common, &json, &text);
    Ok(if predictions.passed_over.is_empty() { Outcome::Done } else { Outcome::SomeRejected })
}
