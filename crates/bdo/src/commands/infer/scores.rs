//! How good the answers are: frames hidden and filled, ends hidden and forecast.

use anyhow::bail;
use bdo_data::random::{shuffle, stream};
use bdo_eval::infer::forecast::{OTHERS, VectorAutoregression, forecast_skill};
use serde_json::json;

use super::super::evaluate::{People, scans_of};
use super::answer::keep_example;
use super::calibrate::{coverage_table, filled};
use super::{ForecastArgs, ImputeArgs, Setup};
use crate::answer::Answer;
use crate::cli::Common;
use crate::progress::Progress;

pub(super) fn impute(args: &ImputeArgs, common: &Common) -> anyhow::Result<Answer> {
    if let Some(wrong) = args.missing.iter().find(|r| !(**r > 0.0 && **r < 1.0)) {
        bail!("--missing: expected shares above 0 and below 1, found {wrong}");
    }
    let setup = Setup::new(&args.asked, "impute", &json!({"missing": args.missing}), common)?;
    let (notes, _) = setup.scoring()?;
    let scans = setup.unseen(args.asked.people);
    if scans.is_empty() {
        bail!("{}: expected scans of people the model has not seen, found none", args.asked.from.cohort.data.display());
    }
    common.note(format!("{} scans are scored", scans.len()));
    let engine = setup.engine();
    let question = setup.question(&engine, &scans, common.seed)?;
    let scores = filled("impute", &question, notes, &args.missing, common)?;
    let facts = json!({
        "verb": "impute", "model_blake3": setup.frozen.blake3, "cohort_blake3": setup.cohort.content_blake3()?,
        "people": format!("{:?}", args.asked.people), "scores": scores, "out": args.asked.out,
    });
    // The example hides the middle one of the shares that were asked for.
    let (share, frames) = (args.missing[args.missing.len() / 2], setup.cohort.index()[scans[0]].frames);
    let mut order: Vec<usize> = (0..frames).collect();
    shuffle(&mut order, &mut stream("example of an imputation", &[common.seed]));
    let away = &order[..(share * frames as f64) as usize];
    keep_example(&setup, scans[0], (0..frames).map(|frame| away.contains(&frame)).collect(), common)?;
    setup.keep_scores(facts, coverage_table(&scores))
}

pub(super) fn forecast(args: &ForecastArgs, common: &Common) -> anyhow::Result<Answer> {
    let setup = Setup::new(&args.asked, "forecast", &json!({"horizon": args.horizon, "score": true}), common)?;
    let (notes, _) = setup.scoring()?;
    let scans = setup.unseen(args.asked.people);
    let mut training = scans_of(People::All, &setup.frozen.people, Some(notes), &setup.cohort);
    let known = setup.frozen.people.known_in(&setup.cohort);
    training.retain(|i| known.is_trained(&setup.cohort.index()[*i].id.subject));
    let autoregression = VectorAutoregression::fit(&setup.cohort, &training, &setup.intake, setup.intake.regions())?;
    let engine = setup.engine();
    let question = setup.question(&engine, &scans, common.seed)?;
    let (horizon, progress) = (args.horizon as usize, Progress::start("forecast", scans.len(), common)?);
    let (scores, scored) = forecast_skill(&question, &autoregression, horizon, notes.mask.frames, &progress)?;
    drop(progress);
    if scored == 0 {
        bail!(
            "{}: expected scans with at least {} frames and the repetition time of at least 8 training scans, found none",
            args.asked.from.cohort.data.display(),
            args.horizon + 10
        );
    }
    let mut text = format!(
        "{scored} scans\nahead  seconds   model   {}   in 95 %\n",
        OTHERS.map(|n| format!("{n:>11}")).join(" ")
    );
    for score in &scores {
        text.push_str(&format!(
            "{:>5}  {:>7.2}  {:.4}   {}   {:.1}\n",
            score.frames_ahead,
            score.seconds_ahead,
            score.model.mse,
            score.others.map(|mse| format!("{mse:>11.4}")).join(" "),
            100.0 * score.model.coverage[2]
        ));
    }
    text.push_str("model less others, as a share of each scan's variance, with 95 % intervals over people\n");
    for score in &scores {
        for (name, against) in OTHERS.iter().zip(&score.against).skip(2) {
            let found = against.map_or_else(|| "-".to_owned(), |found| found.to_string());
            text.push_str(&format!("{:>5}  {name:<8} {found}\n", score.frames_ahead));
        }
    }
    let facts = json!({
        "verb": "forecast", "model_blake3": setup.frozen.blake3, "cohort_blake3": setup.cohort.content_blake3()?,
        "scans": scored, "others": OTHERS, "scores": scores, "out": args.asked.out,
    });
    let long = scans.iter().find(|i| setup.cohort.index()[**i].frames > args.horizon as usize + 10);
    if let Some(&number) = long {
        let frames = setup.cohort.index()[number].frames;
        let hidden = (0..frames).map(|frame| frame + args.horizon as usize >= frames).collect();
        keep_example(&setup, number, hidden, common)?;
    }
    setup.keep_scores(facts, text)
}
