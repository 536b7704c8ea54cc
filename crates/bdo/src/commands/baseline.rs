//! `bdo baseline`: a method BDO is compared with, trained and scored on the shared splits.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, bail};
use bdo_baselines::connectome_set::ConnectomeSet;
use bdo_baselines::label::Labels;
use bdo_baselines::method::{ConnectivityMethod, Run};
use bdo_baselines::train::checkpoint::Checkpoints;
use bdo_baselines::train::objective::Task;
use bdo_baselines::train::recipe::Recipe;
use bdo_baselines::train::select::Score;
use bdo_data::cohort::Cohort;
use bdo_data::durable;
use bdo_data::random::stream;
use bdo_data::split::{Scheme, Split, SplitManifest, SplitSpec};
use bdo_model::ops::Kernels;
use indicatif::{ProgressBar, ProgressStyle};
use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{note, peak_rss_mib, print};
use crate::Outcome;
use crate::cli::{BaselineArgs, BaselineName, Common};

/// What one split gave.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SeedResult {
    seed: u64,
    split_blake3: String,
    epoch: usize,
    validation: Score,
    test: Score,
    test_people: usize,
    seconds: f64,
    /// Person, true value, predicted value (in units of the label, or the probability of the second class).
    predictions: Vec<(String, f64, f64)>,
}

pub(crate) fn run(args: &BaselineArgs, common: &Common) -> anyhow::Result<Outcome> {
    bdo_kernels::allocator::tune_allocator();
    let method = match args.name {
        BaselineName::Brainnetcnn => ConnectivityMethod::BrainNetCnn,
        BaselineName::Braingnn => ConnectivityMethod::BrainGnn,
        BaselineName::Brainnettf => ConnectivityMethod::BrainNetTf,
    };
    let recipe = recipe(method, args)?;
    let cohort = Cohort::open(&args.data)?;
    let labels = Labels::of(cohort.participants(), &args.target)?;
    let splits = splits(&cohort, args)?;
    let identity = json!({
        "method": method, "target": args.target, "recipe": recipe, "seed": common.seed,
        "cohort": splits.cohort_blake3,
    });
    claim(&args.out, &identity, &splits)?;
    let started = Instant::now();
    let set = ConnectomeSet::of_cohort(&cohort, method.inputs())?;
    if !set.left_out().is_empty() {
        note(common, &format!("{} scans have too few frames or regions and are left out", set.left_out().len()));
    }
    let watcher = Watcher::start(common.quiet, (recipe.epochs * splits.splits.len()) as u64)?;
    let mut results = Vec::new();
    for split in &splits.splits {
        results.push(one_seed(args, common, method, &recipe, &labels, &set, split, &watcher)?);
    }
    watcher.bar.finish_and_clear();
    let summary = summary(&results, labels.task);
    let json = json!({
        "method": method, "target": args.target, "task": labels.task, "classes": labels.classes,
        "data": args.data, "regions": set.regions(), "parameters": method.parameter_count(set.regions()),
        "recipe": recipe, "splits_blake3": splits.blake3, "summary": summary,
        "seeds": results.iter().map(without_predictions).collect::<Vec<_>>(),
        "seconds": started.elapsed().as_secs_f64(), "peak_rss_mib": peak_rss_mib(),
    });
    durable::write(&args.out.join("predictions.tsv"), predictions(&results).as_bytes())?;
    durable::write(&args.out.join("result.json"), (serde_json::to_string_pretty(&json)? + "\n").as_bytes())?;
    print(common, &json, &text(method, args, &results, &summary));
    Ok(Outcome::Done)
}

/// The method's own training, then `--epochs`, then `--set`.
fn recipe(method: ConnectivityMethod, args: &BaselineArgs) -> anyhow::Result<Recipe> {
    let mut table = serde_json::to_value(method.recipe())?;
    let mut sets: Vec<String> = args.epochs.iter().map(|epochs| format!("train.epochs={epochs}")).collect();
    sets.extend(args.set.iter().cloned());
    for set in sets {
        let (key, value) = set.split_once('=').with_context(|| format!("--set {set}: expected KEY=VALUE"))?;
        let known: Vec<String> =
            table.as_object().map(|o| o.keys().map(|k| format!("train.{k}")).collect()).unwrap_or_default();
        let name = key.trim().strip_prefix("train.").filter(|name| table.get(*name).is_some());
        let name = name.with_context(|| format!("--set {key}: expected one of {}", known.join(", ")))?;
        let value = value.trim();
        table[name] = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
    }
    let recipe: Recipe = serde_json::from_value(table).context("--set: a value does not fit its key")?;
    if recipe.epochs == 0 || recipe.batch_size == 0 {
        bail!("--set: expected train.epochs and train.batch_size of at least 1");
    }
    Ok(recipe)
}

fn splits(cohort: &Cohort, args: &BaselineArgs) -> anyhow::Result<SplitManifest> {
    let people = cohort.participants();
    let column = |name: &str| people.columns().iter().find(|c| *c == name).cloned();
    let spec = |&seed: &u64| SplitSpec {
        target: Some(args.target.clone()),
        family_column: column("family_id"),
        site_column: None,
        scheme: Scheme::Random,
        seed,
    };
    let specs: Vec<SplitSpec> = args.seeds.iter().map(spec).collect();
    Ok(SplitManifest::new(&cohort.content_blake3()?, people, &specs)?)
}

/// Makes the folder this run's own; one that holds another run is refused.
fn claim(out: &Path, identity: &serde_json::Value, splits: &SplitManifest) -> anyhow::Result<()> {
    let path = out.join("request.json");
    if path.exists() {
        let found: serde_json::Value = serde_json::from_slice(&durable::read(&path)?)
            .with_context(|| format!("{}: expected JSON", path.display()))?;
        if found != *identity {
            bail!("{} holds another run; give another --out, or remove it", out.display());
        }
    } else if out.is_dir() && std::fs::read_dir(out)?.next().is_some() {
        bail!("{} exists and is not a baseline run; give another --out", out.display());
    }
    durable::create_folder(out)?;
    durable::write(&path, serde_json::to_string_pretty(identity)?.as_bytes())?;
    durable::write(&out.join("splits.json"), serde_json::to_string_pretty(splits)?.as_bytes())?;
    Ok(())
}

#[allow(clippy::too_many_arguments)]
fn one_seed(
    args: &BaselineArgs,
    common: &Common,
    method: ConnectivityMethod,
    recipe: &Recipe,
    labels: &Labels,
    set: &ConnectomeSet,
    split: &Split,
    watcher: &Watcher,
) -> anyhow::Result<SeedResult> {
    let seed = split.spec.seed;
    let file = args.out.join(format!("seed-{seed}.json"));
    if file.exists()
        && let Ok(done) = serde_json::from_slice::<SeedResult>(&durable::read(&file)?)
        && done.split_blake3 == split.blake3
    {
        watcher.bar.inc(recipe.epochs as u64);
        return Ok(done);
    }
    let started = Instant::now();
    let scale = labels.scale(&split.train);
    let parts = set.parts(split, |subject| labels.value(subject).map(|y| scale.to_loss(y) as f32));
    let folder = args.out.join(format!("checkpoints-{seed}"));
    let checkpoints = Checkpoints::new(&folder, split.blake3.clone());
    let run = Run {
        recipe,
        task: labels.task,
        // Every split has its own weights, order and masks, and another --seed gives others again.
        seed: stream("baseline run", &[common.seed, seed]).next_u64(),
        kernels: Kernels::default(),
        checkpoints: Some(&checkpoints),
    };
    let outcome = method.run(set.regions(), &parts, &run, &mut |record| {
        watcher.bar.inc(1);
        watcher.bar.set_message(format!("seed {seed}, validation loss {:.4}", record.validation.loss));
        !watcher.stop.load(Ordering::Relaxed)
    })?;
    let people = set.by_person(&parts.test, &outcome.test);
    let predictions = people
        .into_iter()
        .filter_map(|(subject, p)| Some((subject.clone(), labels.value(&subject)?, scale.to_label(p))))
        .collect::<Vec<_>>();
    let result = SeedResult {
        seed,
        split_blake3: split.blake3.clone(),
        epoch: outcome.epoch,
        validation: outcome.score,
        test: Score::of(labels.task, &parts.test, &outcome.test),
        test_people: predictions.len(),
        seconds: started.elapsed().as_secs_f64(),
        predictions,
    };
    durable::write(&file, serde_json::to_string(&result)?.as_bytes())?;
    checkpoints.remove()?;
    Ok(result)
}

fn without_predictions(result: &SeedResult) -> serde_json::Value {
    let mut value = json!(result);
    if let Some(object) = value.as_object_mut() {
        object.remove("predictions");
    }
    value
}

/// Mean and population spread of each test metric over the seeds.
fn summary(results: &[SeedResult], task: Task) -> serde_json::Value {
    let over = |pick: &dyn Fn(&Score) -> Option<f64>| {
        let found: Option<Vec<f64>> = results.iter().map(|r| pick(&r.test)).collect();
        found.map(|values| {
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let spread = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
            json!({"mean": mean, "spread": spread})
        })
    };
    match task {
        Task::Class => json!({
            "accuracy_percent": over(&|s| s.accuracy.map(|x| 100.0 * x)),
            "macro_f1_percent": over(&|s| s.macro_f1.map(|x| 100.0 * x)),
        }),
        Task::Number => json!({"mse": over(&|s| Some(s.loss)), "rho": over(&|s| s.rho)}),
    }
}

fn predictions(results: &[SeedResult]) -> String {
    let mut table = String::from("seed\tparticipant_id\ttruth\tpredicted\n");
    for result in results {
        for (subject, truth, predicted) in &result.predictions {
            table.push_str(&format!("{}\t{subject}\t{truth}\t{predicted}\n", result.seed));
        }
    }
    table
}

fn text(
    method: ConnectivityMethod,
    args: &BaselineArgs,
    results: &[SeedResult],
    summary: &serde_json::Value,
) -> String {
    let mut text = format!("{} on {}, {} splits, test people:", method.name(), args.target, results.len());
    for (name, found) in summary.as_object().into_iter().flatten() {
        if let (Some(mean), Some(spread)) = (found["mean"].as_f64(), found["spread"].as_f64()) {
            text.push_str(&format!("\n  {name:<18} {mean:.4} +- {spread:.4}"));
        }
    }
    text
}

/// The progress bar, and the signals that end a run early.
struct Watcher {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
}

impl Watcher {
    fn start(quiet: bool, epochs: u64) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // The second signal ends the program at once: work that hangs must stay killable.
            signal_hook::flag::register_conditional_shutdown(signal, 2, stop.clone())?;
            signal_hook::flag::register(signal, stop.clone())?;
        }
        let visible = !quiet && std::io::stderr().is_terminal();
        let bar = if visible { ProgressBar::new(epochs) } else { ProgressBar::hidden() };
        bar.set_style(ProgressStyle::with_template("baseline {bar:30} {pos}/{len} epochs {eta} left {msg}")?);
        Ok(Self { bar, stop })
    }
}
