//! `bdo sweep`: one run for each value of a setting, scored alike, as a table and a figure.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::bail;
use bdo_data::cohort::Cohort;
use bdo_data::division::{Division, Scheme};
use bdo_data::durable;
use bdo_data::target::Target;
use bdo_eval::cache::cached_features;
use bdo_eval::comparison::{primary_metric, run_task};
use bdo_eval::method::{FitOn, Task};
use bdo_eval::reference::ClosedForm;
use bdo_model::frozen::FrozenModel;
use bdo_model::intake::Timing;
use bdo_model::pooling::Pooling;
use bdo_report::sweep::sweep_drawing;
use bdo_train::ranks::Alone;
use bdo_train::run::{Request, pretrain};
use bdo_train::settings::Settings;
use clap::Args;
use serde_json::{Value, json};

use super::evaluate::{People, Trained};
use crate::answer::{Answer, complain, note};
use crate::args::{Configuration, Data, SEEDS, SeedSpan};
use crate::cli::Common;
use crate::progress::Progress;

/// Train once for each value of a setting, and see what it does
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bdo sweep --data cohort --vary mask.ratio=0.5,0.75,0.9 --max-minutes 2 --out sweep-ratio\n  bdo sweep --data cohort --vary loss.tau=0,0.03,0.3 --targets age --max-minutes 2 --out sweep-tau"
)]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    cohort: Data,
    /// Where runs, table and figure go; run again to go on
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: PathBuf,
    /// The key of the configuration that is varied, and its values; several pairs move together, separated by `+`
    #[arg(long, value_name = "KEY=V1,V2", help_heading = "Training")]
    vary: String,
    #[command(flatten)]
    configuration: Configuration,
    /// Minutes of each run
    #[arg(long, value_name = "M", help_heading = "Training")]
    max_minutes: Option<f64>,
    /// Columns of the participants table that closed-form probes predict from the mean control
    #[arg(long, value_name = "A,B", value_delimiter = ',', help_heading = "Scoring")]
    targets: Vec<String>,
    /// Share of hidden frames at which all are scored
    #[arg(long, value_name = "R", default_value_t = 0.75, help_heading = "Scoring")]
    mask_ratio: f64,
}

pub(crate) fn run(args: &SweepArgs, common: &Common) -> anyhow::Result<Answer> {
    bdo_kernels::allocator::tune_allocator();
    let varied = Varied::parse(&args.vary)?;
    let cohort = Cohort::open(&args.cohort.data)?;
    let targets =
        args.targets.iter().map(|t| Ok(Target::of(cohort.participants(), t)?)).collect::<anyhow::Result<Vec<_>>>()?;
    // All settings are looked at before the first run: a typing error in the last value must not cost a night.
    let settings = varied.settings(args)?;
    durable::create_folder(&args.out)?;
    let mut rows = Vec::new();
    for (value, settings) in varied.values.iter().zip(settings) {
        note(common, &format!("{} = {value}", varied.name));
        let out = args.out.join(folder_name(value));
        let request = Request {
            data: args.cohort.data.clone(),
            resume: out.exists(),
            out,
            settings: Some(settings),
            seed: common.seed,
            people: None,
        };
        let progress = Progress::start("pretrain", 0, common)?;
        let summary = pretrain(&request, &Alone, &progress);
        progress.finish();
        let summary = summary?;
        let scored = reconstruction(&summary.model, args, &cohort, common)?;
        let probes = probe(&summary.model, args, &cohort, &targets, common)?;
        rows.push(json!({"value": value, "steps": summary.steps, "scans": summary.train_scans,
                         "test_scans": scored["scans"], "mse": scored["mse"],
                         "kriging_mse": scored["kriging_mse"], "rho": scored["rho"], "probes": probes}));
    }
    report(args, &varied, &targets, &rows)
}

/// The keys that are varied, and their values.
struct Varied {
    name: String,
    keys: Vec<String>,
    values: Vec<String>,
    /// One list per value, one entry per key.
    settings: Vec<Vec<String>>,
}

impl Varied {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let wrong = || anyhow::anyhow!("--vary: expected KEY=V1,V2 (several joined by `+`), found {text:?}");
        let mut parsed = Self { name: String::new(), keys: vec![], values: vec![], settings: vec![] };
        for part in text.split('+') {
            let (key, values) = part.split_once('=').ok_or_else(wrong)?;
            let values: Vec<String> = values.split(',').map(|v| v.trim().to_owned()).collect();
            if values.iter().any(String::is_empty) || (!parsed.keys.is_empty() && values.len() != parsed.settings.len())
            {
                return Err(wrong());
            }
            if parsed.keys.is_empty() {
                key.trim().clone_into(&mut parsed.name);
                parsed.values.clone_from(&values);
                parsed.settings = vec![vec![]; values.len()];
            }
            parsed.keys.push(key.trim().to_owned());
            values.into_iter().zip(&mut parsed.settings).for_each(|(value, row)| row.push(value));
        }
        Ok(parsed)
    }

    fn settings(&self, args: &SweepArgs) -> anyhow::Result<Vec<Settings>> {
        let minutes = args.max_minutes.map(|m| format!("train.max_minutes={m:?}"));
        let mut all = Vec::new();
        for row in &self.settings {
            let own = self.keys.iter().zip(row).map(|(key, value)| format!("{key}={value}"));
            let sets: Vec<String> = minutes.clone().into_iter().chain(own).collect();
            all.push(args.configuration.resolve_bdo(&sets)?);
        }
        Ok(all)
    }
}

/// A value as a folder: no separators, no leading dots.
fn folder_name(value: &str) -> String {
    let safe: String = value.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    format!("run-{safe}")
}

/// Scores of the model and of kriging on masked frames of test people.
fn reconstruction(model: &Path, args: &SweepArgs, cohort: &Cohort, common: &Common) -> anyhow::Result<Value> {
    let trained = Trained::open(model)?;
    let mask = trained.notes.mask.at_ratio(args.mask_ratio);
    let scans = trained.scans_of(People::Test, cohort);
    if scans.is_empty() {
        complain(common, "warning: nobody is left who was neither trained nor validated on: no error can be given");
        return Ok(json!({"scans": 0}));
    }
    let result = trained.score(cohort, &scans, &mask, Timing::AsScanned, common.seed)?;
    let of = |wanted: &str| result.scores.iter().find(|(name, _)| *name == wanted).map(|(_, score)| score);
    Ok(json!({"scans": result.scans, "mse": of("model").map(|s| s.mse), "rho": of("model").map(|s| s.rho),
              "kriging_mse": of("kriging").map(|s| s.mse)}))
}

/// The mean over random splits of a closed-form probe's score on test people, one entry a target.
fn probe(
    model: &Path,
    args: &SweepArgs,
    cohort: &Cohort,
    targets: &[Target],
    common: &Common,
) -> anyhow::Result<Value> {
    let mut found = serde_json::Map::new();
    if targets.is_empty() {
        return Ok(Value::Object(found));
    }
    let frozen = FrozenModel::read(model)?;
    let progress = Progress::start("embed", cohort.len(), common)?;
    let table = cached_features(&args.out.join("features"), &frozen, cohort, Pooling::Mean, &progress);
    progress.finish();
    let table = table?;
    let source = table.origin_blake3();
    let method = ClosedForm::new("bdo-mean", std::sync::Arc::new(table), &source).of_pretrained();
    let division = Division::of(cohort)?.with_sites(None);
    for target in targets {
        let (mut sum, metric) = (Some(0.0), primary_metric(target.classes().unwrap_or(0)));
        for seed in SeedSpan::seeds(&SEEDS) {
            let split = division.split(Some(&target.name), Scheme::Random, seed)?;
            let task = Task { cohort, split: &split, target, seed, fit_on: FitOn::Train };
            let scored = run_task(&method, &task, "", &[]).map(|result| result.metrics.get(metric));
            // One score that cannot be given is a dash, not the end of a sweep.
            let reason = match scored {
                Ok(Some(value)) if value.is_finite() => {
                    sum = sum.map(|sum| sum + value);
                    continue;
                }
                Ok(_) => format!("{metric} is undefined for the {} people tested", split.test.subjects().len()),
                Err(error) => error.to_string(),
            };
            complain(common, &format!("warning: {}, split {seed}: {reason}", target.name));
            sum = None;
        }
        found.insert(target.name.clone(), json!(sum.map(|sum: f64| sum / SEEDS.len() as f64)));
    }
    Ok(Value::Object(found))
}

fn report(args: &SweepArgs, varied: &Varied, targets: &[Target], rows: &[Value]) -> anyhow::Result<Answer> {
    let mut text = format!("| {} | steps | error | kriging | rho |", varied.name);
    let mut line = "|---|---|---|---|---|".to_owned();
    for target in targets {
        let metric = primary_metric(target.classes().unwrap_or(0));
        write!(text, " {} {metric} |", target.name)?;
        line += "---|";
    }
    writeln!(text, "\n{line}")?;
    for row in rows {
        let cell = |value: &Value| value.as_f64().map_or_else(|| "-".to_owned(), |x| format!("{x:.4}"));
        let value = row["value"].as_str().unwrap_or("");
        write!(
            text,
            "| {value} | {} | {} | {} | {} |",
            row["steps"],
            cell(&row["mse"]),
            cell(&row["kriging_mse"]),
            cell(&row["rho"])
        )?;
        for target in targets {
            write!(text, " {} |", cell(&row["probes"][&target.name]))?;
        }
        writeln!(text)?;
    }
    if rows.is_empty() {
        bail!("--vary: expected at least one value, found none");
    }
    let json = json!({"vary": varied.name, "data": args.cohort.data, "mask_ratio": args.mask_ratio, "rows": rows});
    durable::write(&args.out.join("table.md"), text.as_bytes())?;
    durable::write(&args.out.join("figure.svg"), sweep_drawing(&json).as_bytes())?;
    durable::write_json(&args.out.join("table.json"), &json)?;
    Ok(Answer::new(json, text))
}
