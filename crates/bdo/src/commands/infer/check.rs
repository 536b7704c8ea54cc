//! `bdo infer check`: other timings, a simulation of the same equation, test and retest, known truth.

use std::collections::BTreeMap;

use bdo_data::region::Region;
use bdo_eval::infer::invariance::invariance;
use bdo_eval::reliability::{Reliability, correlation, reliability};
use bdo_model::control::control_of;
use bdo_model::pooling::Pooling;
use bdo_model::posterior::engine::Piece;
use bdo_model::posterior::rows::Rows;
use bdo_model::posterior::simulation::{SimulationScore, simulate};
use bdo_model::posterior::trajectory::NetworkWeights;
use serde::Serialize;
use serde_json::json;

use super::{CheckArgs, Setup};
use crate::answer::Answer;
use crate::cli::Common;
use crate::progress::Progress;

/// Steps of the simulation in each interval between frames.
const SUBSTEPS: [usize; 4] = [1, 4, 16, 64];

pub(super) fn run(args: &CheckArgs, common: &Common) -> anyhow::Result<Answer> {
    let details = json!({"scans": args.scans, "paths": args.paths});
    let mut setup = Setup::new(&args.asked, "check", &details, common)?;
    let step = setup.scans.len().div_ceil(args.scans.max(1)).max(1);
    let everybody = setup.scans.clone();
    setup.scans = setup.scans.iter().copied().step_by(step).collect();

    let progress = Progress::start("other timings", setup.scans.len(), common)?;
    let changes = invariance(&setup.frozen, &setup.cohort, &setup.scans, Pooling::Mean, common.seed, &progress)?;
    drop(progress);
    let simulations = simulations(&setup, args.paths, common)?;
    let retest = retest(&setup, &everybody)?;
    let truth = truth(&setup, &everybody, args.scans)?;

    let mut text = String::from(
        "the feature under other timings (correlation with that of the whole scan; different scans; identified)\n",
    );
    for change in &changes {
        text.push_str(&format!(
            "  {:<22} {:.3}   {:.3}   {:.1} %\n",
            change.change.name(),
            change.similarity,
            change.between,
            100.0 * change.identified
        ));
    }
    text.push_str("closed form beside Euler-Maruyama (steps between frames; difference of means in sd; expected from sampling; variance ratio; times)\n");
    for s in &simulations {
        text.push_str(&format!(
            "  {:>3} steps, {} paths: {}   {:.4}   {}   {:.3} s, closed form {:.5} s\n",
            s.substeps,
            s.paths,
            readable(s.mean_difference),
            s.sampling_error,
            readable(s.variance_ratio),
            s.seconds,
            s.closed_form_seconds
        ));
    }
    match &retest {
        Some(r) => text.push_str(&format!(
            "test and retest, {} people: median ICC {:.3} (quartiles {:.3} to {:.3}), identified {:.1} % (chance {:.1} %)\n",
            r.people,
            r.icc_median,
            r.icc_lower_quartile,
            r.icc_upper_quartile,
            100.0 * r.identified,
            100.0 * r.chance
        )),
        None => text.push_str("test and retest: fewer than 3 people have two scans\n"),
    }
    if let Some(truth) = &truth {
        text.push_str(&format!(
            "true time scale of {} simulated people: correlation {:.3} with the model's time constants, {:.3} with the lag-1 autocorrelation\n",
            truth.people, truth.with_model, truth.with_autocorrelation
        ));
    }
    let facts = json!({
        "verb": "check", "model_blake3": setup.frozen.blake3, "cohort_blake3": setup.cohort.content_blake3()?,
        "scans": setup.scans.len(), "timings": changes, "simulation": simulations, "retest": retest,
        "truth": truth, "out": args.asked.out,
    });
    setup.keep_scores(facts, text)
}

/// Too few steps let a simulation explode: such numbers are read by their exponent.
fn readable(x: f64) -> String {
    if x.abs() < 1e4 { format!("{x:.4}") } else { format!("{x:.0e}") }
}

fn first_piece(setup: &Setup, number: usize) -> anyhow::Result<Option<Piece>> {
    let scan = setup.cohort.scan(number)?;
    let (hidden, unseen) = (vec![false; scan.frames()], vec![false; setup.intake.regions()]);
    let ready = Rows::of_scan(&scan, &setup.intake, &hidden, &unseen, &[]);
    let Some((rows, _)) = ready else { return Ok(None) };
    let mut found = None;
    setup.engine().infer(&rows, |piece| -> anyhow::Result<()> {
        found.get_or_insert(piece);
        Ok(())
    })?;
    Ok(found)
}

fn simulations(setup: &Setup, paths: usize, common: &Common) -> anyhow::Result<Vec<SimulationScore>> {
    let Some(piece) = first_piece(setup, setup.scans[0])? else { return Ok(Vec::new()) };
    let engine = setup.engine();
    Ok(SUBSTEPS.iter().map(|&n| simulate(&engine, &piece, n, paths.max(2), common.seed)).collect())
}

/// Agreement of the first two scans of everybody who has two.
fn retest(setup: &Setup, scans: &[usize]) -> anyhow::Result<Option<Reliability>> {
    let mut by_person: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for &i in scans {
        by_person.entry(&setup.cohort.index()[i].id.subject).or_default().push(i);
    }
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for pair in by_person.values().filter(|scans| scans.len() >= 2) {
        let (a, b) =
            (setup.intake.scale(&setup.cohort.scan(pair[0])?), setup.intake.scale(&setup.cohort.scan(pair[1])?));
        let (Some(a), Some(b)) = (a, b) else { continue };
        first.extend(Pooling::Mean.of_control(&control_of(&setup.frozen, &a)?));
        second.extend(Pooling::Mean.of_control(&control_of(&setup.frozen, &b)?));
    }
    Ok(reliability(&first, &second, setup.frozen.model.config().width))
}

#[derive(Serialize)]
struct Truth {
    people: usize,
    with_model: f64,
    with_autocorrelation: f64,
}

/// A simulated cohort knows how slow every person is: `rate_scale` multiplies all rates.
fn truth(setup: &Setup, scans: &[usize], most: usize) -> anyhow::Result<Option<Truth>> {
    let Some(bytes) = setup.cohort.extra("truth/people.jsonl")? else { return Ok(None) };
    let text = String::from_utf8_lossy(&bytes);
    // One line per person, in the order of the table of people.
    let mut rates = Vec::new();
    for line in text.lines() {
        let person: serde_json::Value = serde_json::from_str(line)?;
        rates.push(person["rate_scale"].as_f64());
    }
    let regions: Vec<Region> = setup.intake.columns().iter().map(|&c| setup.cohort.regions()[c].clone()).collect();
    let engine = setup.engine();
    let people: Vec<&str> = setup.cohort.participants().subjects().collect();
    let (mut slow, mut model, mut lag) = (Vec::new(), Vec::new(), Vec::new());
    let step = scans.len().div_ceil(most.max(1)).max(1);
    for &i in scans.iter().step_by(step) {
        let subject = &setup.cohort.index()[i].id.subject;
        let rate = people.iter().position(|p| p == subject).and_then(|number| *rates.get(number)?);
        let (Some(rate), Some(piece)) = (rate, first_piece(setup, i)?) else { continue };
        let weights = NetworkWeights::of(&engine, &piece, &regions);
        let mut sum = 0.0;
        for row in 0..piece.rows.len() {
            let times = weights.path_row(&piece, row).time_constant_seconds;
            sum += times.iter().map(|t| t.ln()).sum::<f64>() / times.len() as f64 / piece.rows.len() as f64;
        }
        let scan = setup.cohort.scan(i)?;
        slow.push(-rate.ln());
        model.push(sum);
        lag.push(mean_lag_one(&scan.series, setup.cohort.regions().len()));
    }
    if slow.len() < 3 {
        return Ok(None);
    }
    Ok(Some(Truth {
        people: slow.len(),
        with_model: correlation(&slow, &model),
        with_autocorrelation: correlation(&slow, &lag),
    }))
}

/// Mean over regions of the correlation of neighbouring frames: what anybody could compute.
fn mean_lag_one(series: &[f32], regions: usize) -> f64 {
    let frames = series.len() / regions;
    let column = |r: usize| -> Vec<f64> { (0..frames).map(|t| f64::from(series[t * regions + r])).collect() };
    let values = (0..regions).map(column).filter(|c| c.iter().all(|x| x.is_finite()));
    let found: Vec<f64> = values.map(|c| correlation(&c[1..], &c[..frames - 1])).collect();
    found.iter().sum::<f64>() / found.len().max(1) as f64
}
