//! `bdo sweep`: one run for each value of a setting, scored alike, as a table and a figure.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use bdo_data::cohort::Cohort;
use bdo_data::division::{Division, Scheme, Split};
use bdo_data::durable;
use bdo_data::target::Target;
use bdo_eval::cache::cached_features;
use bdo_eval::comparison::{primary_metric, run_task};
use bdo_eval::connectivity::connectivity_table;
use bdo_eval::leak::LeakReport;
use bdo_eval::method::{FitOn, Task};
use bdo_eval::reference::ClosedForm;
use bdo_eval::score::mean_and_spread;
use bdo_eval::untrained::untrained_twin;
use bdo_model::frozen::FrozenModel;
use bdo_model::intake::Timing;
use bdo_model::pooling::Pooling;
use bdo_report::sweep::sweep_drawing;
use bdo_train::error::TrainError;
use bdo_train::settings::Settings;
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::compare::pretraining::Run;
use super::embed::of_single_scans;
use super::evaluate::{People, Trained};
use super::pretrain::{continued, trained_model};
use crate::answer::Answer;
use crate::args::{Configuration, Data, General, SEEDS, SeedSpan, command_line, one_of};
use crate::cli::Common;
use crate::progress::Progress;

/// Train once for each value of a setting, and see what it does
#[derive(Debug, Clone, Args, Serialize)]
#[command(
    after_help = "Examples:\n  bdo sweep --data cohort --vary mask.ratio=0.5,0.75,0.9 --max-minutes 2 --out sweep-ratio\n  bdo sweep --data cohort --vary loss.tau=0,0.03,0.3 --targets age --max-minutes 2 --out sweep-tau"
)]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    pub(crate) cohort: Data,
    /// Where runs, table and figure go; run again to go on
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) out: PathBuf,
    /// The key of the configuration that is varied, and its values; several pairs move together, separated by `+`
    #[arg(long, value_name = "KEY=V1,V2", help_heading = "Training")]
    pub(crate) vary: String,
    #[command(flatten)]
    pub(crate) configuration: Configuration,
    /// Minutes of each run
    #[arg(long, value_name = "M", help_heading = "Training")]
    pub(crate) max_minutes: Option<f64>,
    /// Runs per value: with targets, each is trained without the people of its own split that are tested [default: 0,1,2 with
    /// targets, else that of --seed]
    #[arg(long, value_name = "N,N-M", value_delimiter = ',', help_heading = "Training")]
    pub(crate) seeds: Vec<SeedSpan>,
    /// Columns of the participants table that closed-form probes predict
    #[arg(long, value_name = "A,B", value_delimiter = ',', help_heading = "Scoring")]
    pub(crate) targets: Vec<String>,
    /// How the frames of a scan become what they predict from
    #[arg(long, value_parser = one_of::<Pooling>(), default_value = "mean", help_heading = "Scoring")]
    pub(crate) pooling: Pooling,
    /// Share of hidden frames at which all are scored
    #[arg(long, value_name = "R", default_value_t = MASK_RATIO, help_heading = "Scoring")]
    pub(crate) mask_ratio: f64,
}

/// That of the paper.
pub(crate) const MASK_RATIO: f64 = 0.75;

impl SweepArgs {
    fn seeds(&self, common: &Common) -> Vec<u64> {
        match (self.seeds.as_slice(), self.targets.as_slice()) {
            ([], []) => vec![common.seed],
            ([], _) => SeedSpan::seeds(&SEEDS),
            (given, _) => SeedSpan::seeds(given),
        }
    }

    pub(crate) fn command(&self, general: General) -> String {
        command_line("sweep", self, general)
    }
}

pub(crate) fn run(args: &SweepArgs, common: &Common) -> anyhow::Result<Answer> {
    bdo_kernels::allocator::tune_allocator();
    let varied = Varied::parse(&args.vary)?;
    of_single_scans(args.pooling)?;
    let cohort = Cohort::open(&args.cohort.data)?;
    let targets = Target::all(cohort.participants(), &args.targets)?;
    // All settings are looked at before the first run: a typing error in the last value must not cost a night.
    let settings = varied.settings(args)?;
    let division = Division::of(&cohort)?.with_sites(None);
    if let Some(target) = targets.first() {
        let splits = division.random(&target.name, &args.seeds(common))?.splits;
        splits.iter().try_for_each(Split::refuse_empty)?;
    }
    durable::create_folder(&args.out)?;
    let (connectivity, flags) = (BTreeMap::new(), vec![]);
    let mut bench =
        Bench { args, common, cohort: &cohort, division: &division, targets: &targets, connectivity, flags };
    let mut rows = Vec::new();
    for (value, settings) in varied.values.iter().zip(settings) {
        let mut found = Vec::new();
        for seed in args.seeds(common) {
            common.note(format!("{} = {value}, seed {seed}", varied.name));
            match bench.trial(value, settings.clone(), seed) {
                // A value that cannot be trained with is a result; the others are still wanted.
                Err(error) if matches!(error.downcast_ref(), Some(TrainError::Diverged)) => {
                    bench.flag(format!("no score of {} = {value}, seed {seed}: {error}", varied.name));
                    found.push(json!({"seed": seed, "run": folder_name(value, seed)}));
                }
                tried => found.push(tried?),
            }
        }
        rows.push(row(value, &targets, &found));
    }
    let flags = bench.flags;
    report(args, &varied, &targets, &rows, &flags)
}

/// One score per label.
type Scores = serde_json::Map<String, Value>;

/// What labels are predicted from: the trained model, the same before its first step, connectivity.
const PREDICTED_FROM: [&str; 3] = ["probes", "untrained", "fc"];

/// What every value is tried on.
struct Bench<'a> {
    args: &'a SweepArgs,
    common: &'a Common,
    cohort: &'a Cohort,
    division: &'a Division<'a>,
    targets: &'a [Target],
    /// Scores of connectivity by seed: the same for every value.
    connectivity: BTreeMap<u64, Scores>,
    /// What a reader of the table must know.
    flags: Vec<String>,
}

impl Bench<'_> {
    /// One run and its scores. Where labels are predicted, people are divided evenly by the first of them, and the run has not
    /// seen those who are tested.
    fn trial(&mut self, value: &str, settings: Settings, seed: u64) -> anyhow::Result<Value> {
        let (args, common) = (self.args, self.common);
        let first = self.targets.first();
        let split = first.map(|t| self.division.split(Some(&t.name), Scheme::Random, seed)).transpose()?;
        let out = args.out.join(folder_name(value, seed));
        let request = continued(&args.cohort.data, &out, settings, seed, split.clone(), common)?;
        let model = trained_model(&request, common)?;
        let scored = self.reconstruction(&model)?;
        let frozen = FrozenModel::read_on(&model, &common.place()?)?;
        let [mut probes, mut untrained, mut connectivity]: [Scores; 3] = Default::default();
        if let Some(split) = &split {
            let report = LeakReport::of_split(split, self.division);
            report.refuse()?;
            let report = report.with_pretraining(split, self.division, &frozen.people);
            let flags = report.flags(split.test.subjects().len());
            self.flags.extend(flags.into_iter().map(|flag| format!("{value}, seed {seed}: {flag}")));
            probes = self.of_model(&frozen, split)?;
            let twin = args.out.join(format!("untrained-{seed}"));
            if untrained_twin(&model, &twin)? {
                untrained = self.of_model(&FrozenModel::read_on(&twin, &common.place()?)?, split)?;
            }
            connectivity = self.of_connectivity(split)?;
        }
        let steps = frozen.notes.as_ref().map(|notes| notes.steps);
        Ok(
            json!({"seed": seed, "run": folder_name(value, seed), "steps": steps, "epochs": Run::read(out).and_then(|run| run.epochs()), "scans": frozen.contract.scan_count,
                  "test_scans": scored["scans"], "mse": scored["mse"], "kriging_mse": scored["kriging_mse"],
                  "rho": scored["rho"], "probes": probes, "untrained": untrained, "fc": connectivity}),
        )
    }

    fn of_model(&mut self, frozen: &FrozenModel, split: &Split) -> anyhow::Result<Scores> {
        let (cache, cohort) = (self.args.out.join("features"), self.cohort);
        let progress = Progress::start("embed", cohort.len(), self.common)?;
        let table = cached_features(&cache, frozen, cohort, self.args.pooling, &progress)?;
        let source = table.origin_blake3();
        Ok(self.scores(&ClosedForm::new(self.args.pooling.name(), Arc::new(table), &source).of_pretrained(), split))
    }

    fn of_connectivity(&mut self, split: &Split) -> anyhow::Result<Scores> {
        if let Some(found) = self.connectivity.get(&split.seed()) {
            return Ok(found.clone());
        }
        let table = connectivity_table(self.cohort)?;
        let found = self.scores(&ClosedForm::new("fc", Arc::new(table), "connectivity fisher-z"), split);
        self.connectivity.insert(split.seed(), found.clone());
        Ok(found)
    }

    /// The score of a closed-form probe on the test people of a split, one entry per target.
    fn scores(&mut self, method: &ClosedForm, split: &Split) -> Scores {
        let (cohort, seed, mut found) = (self.cohort, split.seed(), Scores::new());
        for target in self.targets {
            let metric = primary_metric(target.classes().unwrap_or(0));
            let task = Task { cohort, split, target, seed, fit_on: FitOn::Train };
            let scored = run_task(method, &task, "", &[]).map_err(|error| error.reason()).and_then(|result| {
                let score = result.metrics.get(metric).filter(|value| value.is_finite());
                score.ok_or_else(|| format!("{metric} is undefined for {} people", split.test.subjects().len()))
            });
            // One score that cannot be given is a dash, not the end of a sweep.
            if let Err(reason) = &scored {
                self.flag(format!("no score of {}: {reason}", target.name));
            }
            found.insert(target.name.clone(), json!(scored.ok()));
        }
        found
    }

    /// Scores of the model and of kriging on masked frames of test people.
    fn reconstruction(&mut self, model: &Path) -> anyhow::Result<Value> {
        let trained = Trained::open(model, &self.common.place()?)?;
        let mask = trained.notes.mask.at_ratio(self.args.mask_ratio);
        let scans = trained.scans_of(People::Test, self.cohort);
        if scans.is_empty() {
            self.flag("nobody is left who was neither trained nor validated on: no error can be given".to_owned());
            return Ok(json!({"scans": 0}));
        }
        let result = trained.score(self.cohort, &scans, &mask, Timing::AsScanned, self.common.seed)?;
        let of = |wanted: &str| result.score(wanted);
        Ok(json!({"scans": result.scans.len(), "mse": of("model").map(|s| s.mse), "rho": of("model").map(|s| s.rho),
                  "kriging_mse": of("kriging").map(|s| s.mse)}))
    }

    /// Why something is a dash; what holds for many runs is said once.
    fn flag(&mut self, reason: String) {
        if !self.flags.contains(&reason) {
            self.flags.push(reason);
        }
    }
}

/// The runs of one value: means over seeds, and their spread.
fn row(value: &str, targets: &[Target], runs: &[Value]) -> Value {
    let moments = |of: &dyn Fn(&Value) -> Option<f64>| -> (Option<f64>, Option<f64>) {
        runs.iter().map(of).collect::<Option<Vec<f64>>>().map(|values| mean_and_spread(&values)).unzip()
    };
    let mut row = json!({"value": value, "runs": runs, "spreads": {}});
    for key in ["steps", "epochs", "scans", "test_scans", "mse", "kriging_mse", "rho"] {
        let (mean, spread) = moments(&|run| run[key].as_f64());
        row[key] = json!(mean);
        row["spreads"][key] = json!(spread);
    }
    for from in PREDICTED_FROM {
        row[from] = json!({});
        row["spreads"][from] = json!({});
        for target in targets {
            let (mean, spread) = moments(&|run| run[from][&target.name].as_f64());
            row[from][&target.name] = json!(mean);
            row["spreads"][from][&target.name] = json!(spread);
        }
    }
    row
}

/// The key that is varied, and its values.
struct Varied {
    name: String,
    values: Vec<String>,
    /// What is set for each value: that key, and others that move with it.
    sets: Vec<Vec<String>>,
}

impl Varied {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let pair = |part: &str| {
            let (key, values) = part.split_once('=')?;
            let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
            (!values.iter().any(String::is_empty)).then(|| (key.trim().to_owned(), values))
        };
        let pairs: Option<Vec<(String, Vec<String>)>> = text.split('+').map(pair).collect();
        let pairs = pairs.filter(|pairs| pairs.iter().all(|(_, values)| values.len() == pairs[0].1.len()));
        let pairs =
            pairs.with_context(|| format!("--vary: expected KEY=V1,V2 (several joined by `+`), found {text:?}"))?;
        let (name, values) = pairs[0].clone();
        let set = |i: usize| pairs.iter().map(|(key, values)| format!("{key}={}", values[i])).collect();
        Ok(Self { sets: (0..values.len()).map(set).collect(), name, values })
    }

    fn settings(&self, args: &SweepArgs) -> anyhow::Result<Vec<Settings>> {
        let minutes: Vec<String> = args.max_minutes.iter().map(|m| format!("train.max_minutes={m:?}")).collect();
        self.sets.iter().map(|set| args.configuration.resolve_bdo(&[&minutes[..], set].concat())).collect()
    }
}

/// The run of a value as a folder: no separators, no leading dots.
fn folder_name(value: &str, seed: u64) -> String {
    let safe: String = value.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    format!("run-{safe}-{seed}")
}

fn report(
    args: &SweepArgs,
    varied: &Varied,
    targets: &[Target],
    rows: &[Value],
    flags: &[String],
) -> anyhow::Result<Answer> {
    let mut text = format!("| {} | steps | error | kriging | rho |", varied.name);
    let mut line = "|---|---|---|---|---|".to_owned();
    for target in targets {
        let metric = primary_metric(target.classes().unwrap_or(0));
        write!(text, " {} {metric} | untrained | fc |", target.name)?;
        line += "---|---|---|";
    }
    writeln!(text, "\n{line}")?;
    for row in rows {
        let several = row["runs"].as_array().is_some_and(|runs| runs.len() > 1);
        let cell = |value: &Value, spread: &Value| match (value.as_f64(), spread.as_f64().filter(|_| several)) {
            (Some(x), Some(spread)) => format!("{x:.4} ± {spread:.4}"),
            (Some(x), None) => format!("{x:.4}"),
            (None, _) => "-".to_owned(),
        };
        let scored = |key: &str| cell(&row[key], &row["spreads"][key]);
        let value = row["value"].as_str().unwrap_or("");
        write!(
            text,
            "| {value} | {:.0} | {} | {} | {} |",
            row["steps"].as_f64().unwrap_or(f64::NAN),
            scored("mse"),
            scored("kriging_mse"),
            scored("rho")
        )?;
        for (target, from) in targets.iter().flat_map(|target| PREDICTED_FROM.map(|from| (target, from))) {
            write!(text, " {} |", cell(&row[from][&target.name], &row["spreads"][from][&target.name]))?;
        }
        writeln!(text)?;
    }
    flags.iter().try_for_each(|flag| writeln!(text, "\nWarning: {flag}."))?;
    let json = json!({"vary": varied.name, "data": args.cohort.data, "mask_ratio": args.mask_ratio, "pooling": args.pooling, "flags": flags, "rows": rows});
    durable::write(&args.out.join("table.md"), text.as_bytes())?;
    durable::write(&args.out.join("figure.svg"), sweep_drawing(&json).as_bytes())?;
    durable::write_json(&args.out.join("table.json"), &json)?;
    Ok(Answer::new(json, text))
}
