//! `bdo infer calibrate`: bands that hold, fitted on validation people and checked on test people.

use anyhow::{Context, bail};
use bdo_data::cohort::{Cohort, Observer};
use bdo_eval::error::EvalError;
use bdo_eval::infer::calibration::{Calibration, region_variances, residuals};
use bdo_eval::infer::score::{FillScore, Question, visits};
use bdo_model::familiarity::Familiarity;
use bdo_model::frozen::FrozenModel;
use bdo_model::intake::Intake;
use bdo_model::intake::Masked;
use bdo_model::posterior::engine::Engine;
use bdo_model::posterior::spread::Uncertainty;
use bdo_model::weights::TrainingNotes;
use serde_json::json;

use super::super::evaluate::{People, scans_of};
use super::CalibrateArgs;
use crate::answer::Answer;
use crate::cli::Common;
use crate::progress::Progress;

/// Shares of missing frames the bands are fitted for.
pub(super) const RATIOS: [f64; 4] = [0.25, 0.5, 0.75, 0.9];
/// Frames at the end of a scan that are forecast while fitting.
const HORIZON: usize = 10;
/// Scans the bands are fitted on: enough for two digits, quick enough to wait for.
const MOST_SCANS: usize = 60;

pub(super) fn run(args: &CalibrateArgs, common: &Common) -> anyhow::Result<Answer> {
    let frozen = args.from.frozen(common)?;
    let notes = frozen.notes.clone().context("expected a model with training.json")?;
    let cohort = Cohort::open(&args.from.cohort.data)?;
    if !has_people(&frozen, &notes, &cohort) {
        bail!(
            "{}: expected people the model was validated on (the cohort of its training), found none",
            args.from.cohort.data.display()
        );
    }
    let calibration = fit(&frozen, &notes, &cohort, args.spread.uncertainty(), common)?;
    calibration.write(&args.out)?;
    let scans = scans_of(People::Test, &frozen.people, Some(&notes), &cohort);
    let mut text = format!(
        "{}: fitted on {} visits of validation people; temperature {}, bands reach {:.3}, {:.3} and {:.3} standard deviations",
        args.out.display(),
        calibration.scans,
        calibration.temperature,
        calibration.half_widths[0],
        calibration.half_widths[1],
        calibration.half_widths[2],
    );
    let mut checked = Vec::new();
    if scans.is_empty() {
        common.note("nobody is left to check the bands on");
    } else {
        let (engine, correlation) = (Engine::new(&frozen), &notes.autocorrelation);
        let (calibration, cohort, scans, seed) = (&calibration, &cohort, &scans, common.seed);
        let question = Question { engine: &engine, calibration, correlation, cohort, scans, seed };
        checked = filled("check", &question, &notes, &RATIOS, common)?;
        text.push_str(&format!("\nchecked on {} scans of test people:\n{}", scans.len(), coverage_table(&checked)));
    }
    let json = json!({"out": args.out, "calibration": calibration, "test_people": checked});
    Ok(Answer::new(json, text))
}

/// Whether a cohort holds people the model was validated on.
pub(super) fn has_people(frozen: &FrozenModel, notes: &TrainingNotes, cohort: &Cohort) -> bool {
    !scans_of(People::Validation, &frozen.people, Some(notes), cohort).is_empty()
}

/// Visits of validation people, at several shares of missing frames and at the end of scans, decide everything.
pub(super) fn fit(
    frozen: &FrozenModel,
    notes: &TrainingNotes,
    cohort: &Cohort,
    how: Uncertainty,
    common: &Common,
) -> anyhow::Result<Calibration> {
    let engine = Engine::new(frozen);
    let mut scans = scans_of(People::Validation, &frozen.people, Some(notes), cohort);
    let step = scans.len().div_ceil(MOST_SCANS).max(1);
    scans = scans.into_iter().step_by(step).collect();
    let mut all: Vec<(u64, Masked)> = Vec::new();
    for ratio in RATIOS {
        let mask = notes.mask.at_ratio(ratio);
        all.extend(visits(cohort, &scans, &frozen.contract, &mask, common.seed)?);
    }
    all.extend(tails(frozen, notes, cohort, &scans)?);
    if all.is_empty() {
        return Err(EvalError::named("calibration", "at least 1 scans", 0).into());
    }
    let population = region_variances(&all.iter().map(|(_, visit)| visit.clone()).collect::<Vec<_>>());
    let progress = Progress::start("calibrate", all.len(), common)?;
    let mut found = Vec::new();
    for (done, (number, visit)) in all.iter().enumerate() {
        if progress.stop_requested() {
            return Err(EvalError::Interrupted.into());
        }
        let seed = [common.seed, *number];
        found.extend(residuals(&engine, visit, &population, &notes.autocorrelation, how, &seed)?);
        progress.advance(done + 1, 0);
    }
    let mut known = scans_of(People::All, &frozen.people, Some(notes), cohort);
    let trained = frozen.people.known_in(cohort);
    known.retain(|i| trained.is_trained(&cohort.index()[*i].id.subject));
    let familiarity = Familiarity::of_cohort(frozen, cohort, &known, &scans, &progress)?;
    drop(progress);
    if familiarity.is_none() {
        common.note("too few training or validation scans to say what is familiar to the model");
    }
    Ok(Calibration::fit(
        frozen.blake3.clone(),
        cohort.content_blake3()?,
        all.len(),
        how,
        population,
        &found,
        familiarity.unwrap_or_default(),
    ))
}

/// The last stretch of each scan with its end hidden.
fn tails(
    frozen: &FrozenModel,
    notes: &TrainingNotes,
    cohort: &Cohort,
    scans: &[usize],
) -> anyhow::Result<Vec<(u64, Masked)>> {
    let intake = Intake::new(&frozen.contract, cohort)?;
    let mut found = Vec::new();
    for &i in scans {
        let scan = cohort.scan(i)?;
        let visit = bdo_eval::infer::forecast::tail_visit(&intake, &scan, HORIZON, notes.mask.frames);
        found.extend(visit.map(|visit| (i as u64, visit)));
    }
    Ok(found)
}

/// How well frames are filled where each of these shares is missing.
pub(super) fn filled(
    what: &str,
    question: &Question<'_>,
    notes: &TrainingNotes,
    missing: &[f64],
    common: &Common,
) -> anyhow::Result<Vec<FillScore>> {
    let progress = Progress::start(what, question.scans.len(), common)?;
    Ok(missing.iter().map(|ratio| question.fill(&notes.mask.at_ratio(*ratio), &progress)).collect::<Result<_, _>>()?)
}

/// One line per share of missing frames.
pub(super) fn coverage_table(scores: &[FillScore]) -> String {
    let mut text =
        String::from("missing   model   kriging  interpol.    hold    mean    crps   in 50 %  in 80 %  in 95 %\n");
    for score in scores {
        let other = |name: &str| score.others.iter().find(|(n, _)| *n == name).map_or(f64::NAN, |(_, mse)| *mse);
        let [half, most, nearly] = score.model.coverage.map(|share| 100.0 * share);
        text.push_str(&format!(
            "{:>6.0} %  {:.4}  {:.4}   {:.4}   {:.4}  {:.4}  {:.4}   {half:5.1}    {most:5.1}    {nearly:5.1}\n",
            100.0 * score.missing,
            score.model.mse,
            other("kriging"),
            other("interpolation"),
            other("hold"),
            other("mean"),
            score.model.crps,
        ));
    }
    text
}
