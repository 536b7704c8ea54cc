//! `bdo baseline`: a method BDO is compared with, trained and scored on the shared splits.

mod plan;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use bdo_baselines::connectivity::ConnectomeSet;
use bdo_baselines::foundation::{FoundationMethod, FoundationRun};
use bdo_baselines::method::{ConnectivityMethod, Outcome as MethodOutcome, Run};
use bdo_baselines::pretrain::run::pretrain;
use bdo_data::cohort::Cohort;
use bdo_data::division::{Division, Split, SplitManifest};
use bdo_data::durable;
use bdo_data::random::stream;
use bdo_data::record::ValidationEntry;
use bdo_data::target::{LabelScale, Target, TargetKind};
use bdo_eval::fit::loss_of;
use bdo_eval::memory::peak_mib;
use bdo_eval::method::Prediction;
use bdo_eval::outcome::predictions_tsv;
use bdo_eval::score::{Score, mean_and_spread};
use bdo_train::fit::RunObserver;
use bdo_train::ranks::Ranks;
use bdo_train::run::{Request, Summary};
use burn::tensor::Device;
use clap::Args;
use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::pretrain::continued;
use crate::answer::Answer;
use crate::args::{Choice, Choices, Data, Same, Seeds, one_of, positive};
use crate::cli::Common;
use crate::job::{RankArgs, Stopped};
use crate::progress::Progress;
use plan::{Plan, Pretraining};

/// Train a method BDO is compared with, and score it on people it has not seen
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bdo baseline brainnetcnn --data cohort --target sex --out cnn-sex\n  bdo baseline braingnn --data cohort --target age --out gnn-age --set train.epochs=20\n  mpirun -n 4 bdo baseline brainlm --data cohort --target sex --out lm-sex"
)]
pub(crate) struct BaselineArgs {
    /// The method
    #[arg(value_parser = one_of::<Baseline>())]
    name: Baseline,
    #[command(flatten)]
    cohort: Data,
    /// The label to predict: a number or classes
    #[arg(long, value_name = "NAME", help_heading = "Input")]
    target: String,
    /// Folder for the result and the predictions; one that is there is continued
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: PathBuf,
    #[command(flatten)]
    repetitions: Seeds,
    #[command(flatten)]
    training: Training,
    #[command(flatten)]
    ranks: RankArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Training")]
struct Training {
    /// Passes over the training scans [default: that of the method's public code]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    epochs: Option<u32>,
    /// One key, e.g. `train.batch_size=32`, `model.activate_output=true`; for brainlm and brainjepa those of pretrain, e.g.
    /// `model.size=small`
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// A model of `pretrain --set model.kind=brainlm|brainjepa`; its training people among the tested are counted [default:
    /// one is pre-trained for every split, on those who are not tested]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Train brainlm or brainjepa end to end with the labels, in place of a linear probe
    #[arg(long)]
    finetune: bool,
    /// Epochs of that; the protocol has 50
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = positive)]
    finetune_epochs: usize,
    /// Configurations of that, of the grid's 36
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = positive)]
    finetune_budget: usize,
    #[command(flatten)]
    same: Same,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Baseline {
    Network(ConnectivityMethod),
    Tokens(FoundationMethod),
}

impl Choice for Baseline {
    const CHOICES: Choices<Self> = &[
        (Self::Network(ConnectivityMethod::BrainNetCnn), "brainnetcnn", "Edge-to-edge convolutions of connectivity"),
        (Self::Network(ConnectivityMethod::BrainGnn), "braingnn", "Region-aware graph convolutions of connectivity"),
        (
            Self::Network(ConnectivityMethod::BrainNetTf),
            "brainnettf",
            "Transformer over regions with a clustering readout",
        ),
        (Self::Tokens(FoundationMethod::BrainLm), "brainlm", "Masked autoencoding, then a linear probe"),
        (Self::Tokens(FoundationMethod::BrainJepa), "brainjepa", "Prediction of hidden codes, then a linear probe"),
    ];
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct SeedResult {
    seed: u64,
    split_blake3: String,
    epoch: usize,
    validation: Score,
    test: Score,
    test_people: usize,
    #[serde(default)]
    test_people_pretrained_on: usize,
    seconds: f64,
    /// In units of the label, or as probabilities of all classes.
    predictions: Vec<Prediction>,
}

pub(crate) fn run(args: &BaselineArgs, common: &Common) -> anyhow::Result<Answer> {
    bdo_kernels::allocator::tune_allocator();
    args.ranks.train(common, |common, ranks| train(args, common, ranks))
}

fn train(args: &BaselineArgs, common: &Common, ranks: &dyn Ranks) -> anyhow::Result<Answer> {
    let plan = Plan::of(args)?;
    let cohort = Cohort::open(&args.cohort.data)?;
    let labels = Target::of(cohort.participants(), &args.target)?;
    let splits = Division::of(&cohort)?.random(&args.target, &args.repetitions.list())?;
    let identity = json!({
        "plan": plan, "target": args.target, "seed": common.seed, "cohort": splits.cohort_blake3,
    });
    ranks.agree_on_request(&identity, &splits.cohort_blake3, common.seed)?;
    if ranks.is_first() {
        claim(&args.out, &identity, &splits)?;
    }
    ranks.meet()?;
    let started = Instant::now();
    let regions = cohort.regions().len();
    let progress = Progress::start("baseline", plan.epochs() * splits.splits.len(), common)?;
    let set = match &plan {
        Plan::Connectivity { method, .. } => {
            if ranks.size() > 1 {
                common.note(format!("a step of {} is one micro-batch: other ranks wait for the first", method.name()));
            }
            let set = ConnectomeSet::of_cohort(&cohort, method.inputs())?;
            if !set.left_out.is_empty() {
                common.note(format!("{} scans have too few frames or regions and are left out", set.left_out.len()));
            }
            Some(set)
        }
        Plan::Foundation { .. } => None,
    };
    let (set, device) = (set.as_ref(), common.place()?);
    let work = Work { args, common, plan: &plan, cohort: &cohort, labels: &labels, set, progress, ranks, device };
    let results = splits.splits.iter().map(|split| work.one_seed(split)).collect::<anyhow::Result<Vec<_>>>()?;
    drop(work);
    let (loss, summary) = (loss_of(&labels.kind), summary(&results, &labels.kind));
    let (task, classes) = match &labels.kind {
        TargetKind::Regression => ("number", &[][..]),
        TargetKind::Classification { classes } => ("class", classes.as_slice()),
    };
    let json = json!({
        "method": plan.name(), "target": args.target, "task": task, "classes": classes,
        "data": args.cohort.data, "regions": regions, "parameters": plan.parameter_count(regions, loss.outputs())?,
        "plan": plan, "splits_blake3": splits.blake3, "summary": summary,
        "seeds": results.iter().map(without_predictions).collect::<Vec<_>>(),
        "seconds": started.elapsed().as_secs_f64(), "peak_rss_mib": peak_mib(),
    });
    if !ranks.is_first() {
        return Ok(Answer::nothing());
    }
    let seeds = results.iter().map(|result| (result.seed, result.predictions.as_slice()));
    durable::write(&args.out.join("predictions.tsv"), predictions_tsv(&labels.kind, seeds).as_bytes())?;
    durable::write_json(&args.out.join("result.json"), &json)?;
    let text = text(plan.name(), args, &results, &summary);
    Ok(Answer::new(json, text))
}

/// Makes the folder this run's own; one that holds another run is refused.
fn claim(out: &Path, identity: &serde_json::Value, splits: &SplitManifest) -> anyhow::Result<()> {
    let path = out.join("request.json");
    if path.exists() {
        let found: serde_json::Value = serde_json::from_slice(&durable::read(&path)?)
            .with_context(|| format!("{}: expected JSON", path.display()))?;
        let begun = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.is_ok_and(|e| e.file_name() != "request.json" && e.file_name() != "splits.json")
        };
        // A request that failed before its first result does not stand in the way of a corrected one.
        if found != *identity && std::fs::read_dir(out)?.any(begun) {
            bail!("{} holds another run; hint: give another --out, or remove it", out.display());
        }
    } else if out.is_dir() && std::fs::read_dir(out)?.next().is_some() {
        bail!("{} exists and is not a baseline run; hint: give another --out", out.display());
    }
    durable::create_folder(out)?;
    durable::write(&path, serde_json::to_string_pretty(identity)?.as_bytes())?;
    durable::write(&out.join("splits.json"), serde_json::to_string_pretty(splits)?.as_bytes())?;
    Ok(())
}

/// What every seed of a run shares.
struct Work<'a> {
    args: &'a BaselineArgs,
    common: &'a Common,
    plan: &'a Plan,
    cohort: &'a Cohort,
    labels: &'a Target,
    set: Option<&'a ConnectomeSet>,
    progress: Progress,
    ranks: &'a dyn Ranks,
    device: Device,
}

impl Work<'_> {
    /// Trains and predicts for one split, unless its result is there.
    fn one_seed(&self, split: &Split) -> anyhow::Result<SeedResult> {
        let seed = split.seed();
        let file = self.args.out.join(format!("seed-{seed}.json"));
        let done = || -> anyhow::Result<Option<SeedResult>> {
            let found = if file.exists() { serde_json::from_slice(&durable::read(&file)?).ok() } else { None };
            Ok(found.filter(|done: &SeedResult| done.split_blake3 == split.blake3))
        };
        // The first rank has written it, and knows whether it has.
        if self.ranks.first(done()?.is_some())? {
            self.progress.skip(self.plan.epochs());
            return done()?.with_context(|| format!("{}: expected what the first rank sees", file.display()));
        }
        let started = Instant::now();
        let scale = self.labels.scale(&split.train);
        // Every split has its own weights, order and masks, and another --seed gives others again.
        let run_seed = stream("baseline run", &[self.common.seed, seed]).next_u64();
        let label = |subject: &str| self.labels.value(subject).map(|y| scale.to_loss(y) as f32);
        let states = self.out_of("checkpoints", seed);
        let (outcome, people, pretrained_on) = self.trained(split, run_seed, &label, &states)?;
        let predictions = predictions(&outcome, &people, self.labels, scale);
        let result = SeedResult {
            seed,
            split_blake3: split.blake3.clone(),
            epoch: outcome.epoch,
            validation: outcome.validation,
            test: outcome.test,
            test_people: predictions.len(),
            test_people_pretrained_on: pretrained_on,
            seconds: started.elapsed().as_secs_f64(),
            predictions,
        };
        if !self.ranks.is_first() {
            return Ok(result);
        }
        durable::write(&file, serde_json::to_string(&result)?.as_bytes())?;
        if states.is_dir() {
            std::fs::remove_dir_all(&states).with_context(|| format!("cannot remove {}", states.display()))?;
        }
        Ok(result)
    }

    /// What was said of whom under a split, and how many of those who are tested a model was pre-trained on.
    fn trained(
        &self,
        split: &Split,
        seed: u64,
        label: &dyn Fn(&str) -> Option<f32>,
        states: &Path,
    ) -> anyhow::Result<(MethodOutcome, Vec<String>, usize)> {
        let (loss, states) = (loss_of(&self.labels.kind), Some((states, split.blake3.as_str())));
        let run = Run { loss, seed, device: &self.device, states, ranks: self.ranks };
        let epochs = Epochs { progress: &self.progress, seed: split.seed() };
        match self.plan {
            Plan::Connectivity { method, model, train } => {
                let set = self.set.context("connectomes are computed for methods that use them")?;
                let outcome = method.run(set.regions, (model, train), &set.parts(split, label), &run, &epochs)?;
                Ok((outcome, set.people.clone(), 0))
            }
            Plan::Foundation { method, pretraining, tuning } => {
                let (model, seen) = self.pretrained(pretraining, split, seed)?;
                if seen > 0 {
                    let (tested, seed) = (split.test.subjects().len(), split.seed());
                    self.common.note(format!("seed {seed}: {seen} of {tested} test people were pre-trained on"));
                }
                let trusting = self.args.training.same.trusting();
                let run = FoundationRun { run, model: &model, trusting, tuning: tuning.as_ref(), features: None };
                let found = method.run(self.cohort, split, &run, label, &epochs)?;
                found.notes.iter().for_each(|text| self.common.note(text));
                Ok((found.outcome, found.people, seen))
            }
        }
    }

    /// The token model of a split, and how many of those it is tested on it has seen.
    fn pretrained(&self, from: &Pretraining, split: &Split, run_seed: u64) -> anyhow::Result<(PathBuf, usize)> {
        match from {
            Pretraining::Given { folder, people, .. } => {
                let known = people.known_in(self.cohort);
                let seen = split.test.subjects().iter().filter(|person| known.is_trained(person)).count();
                Ok((folder.clone(), seen))
            }
            Pretraining::Own(settings) => {
                let (data, out) = (&self.args.cohort.data, self.out_of("pretraining", split.seed()));
                let (settings, people) = ((**settings).clone(), Some(split.clone()));
                let request = continued(data, &out, settings, run_seed, people, self.common)?;
                Ok((pretrain_tokens(&request, self.common, self.ranks)?.model, 0))
            }
        }
    }

    /// A folder of one seed.
    fn out_of(&self, what: &str, seed: u64) -> PathBuf {
        self.args.out.join(format!("{what}-{seed}"))
    }
}

/// Shows the epochs of a training.
struct Epochs<'a> {
    progress: &'a Progress,
    seed: u64,
}

impl RunObserver for Epochs<'_> {
    fn validated(&self, entry: &ValidationEntry) {
        self.progress.step(format!("seed {}, validation loss {:.4}", self.seed, entry.loss.total));
    }

    fn stop_requested(&self) -> bool {
        self.progress.stop_requested()
    }
}

/// Pre-trains a token model on those of a split who are not tested, or goes on with it.
pub(crate) fn pretrain_tokens(request: &Request, common: &Common, ranks: &dyn Ranks) -> anyhow::Result<Summary> {
    let progress = Progress::start("pretrain", 0, common)?;
    pretrain(request, ranks, &progress).map_err(|error| match error.stopped_at() {
        Some(step) => {
            Stopped(format!("interrupted at step {step} of pre-training; run the same command again to go on")).into()
        }
        None => error.into(),
    })
}

/// What was said of people, in units of the label.
pub(crate) fn predictions(
    outcome: &MethodOutcome,
    people: &[String],
    target: &Target,
    scale: LabelScale,
) -> Vec<Prediction> {
    let person = |(&person, said): (&usize, &Vec<f64>)| {
        let (subject, predicted) = (people[person].clone(), scale.said(said.clone()));
        Some(Prediction { truth: target.value(&subject)?, subject, predicted })
    };
    outcome.said.iter().filter_map(person).collect()
}

fn without_predictions(result: &SeedResult) -> serde_json::Value {
    let mut value = json!(result);
    if let Some(object) = value.as_object_mut() {
        object.remove("predictions");
    }
    value
}

/// Mean and population spread of each test metric over the seeds.
fn summary(results: &[SeedResult], task: &TargetKind) -> serde_json::Value {
    let over = |pick: &dyn Fn(&Score) -> Option<f64>| {
        let found: Option<Vec<f64>> = results.iter().map(|r| pick(&r.test)).collect();
        found.map(|values| {
            let (mean, spread) = mean_and_spread(&values);
            json!({"mean": mean, "spread": (values.len() > 1).then_some(spread)})
        })
    };
    match task {
        TargetKind::Classification { .. } => json!({
            "accuracy_percent": over(&|s| s.accuracy.map(|x| 100.0 * x)),
            "macro_f1_percent": over(&|s| s.macro_f1.map(|x| 100.0 * x)),
        }),
        TargetKind::Regression => json!({"mse": over(&|s| Some(s.loss)), "rho": over(&|s| s.rho)}),
    }
}

fn text(method: &str, args: &BaselineArgs, results: &[SeedResult], summary: &serde_json::Value) -> String {
    let mut text = format!("{method} on {}, {} splits, test people:", args.target, results.len());
    for (name, found) in summary.as_object().into_iter().flatten() {
        if let Some(mean) = found["mean"].as_f64() {
            let spread = found["spread"].as_f64().map_or_else(String::new, |spread| format!(" +- {spread:.4}"));
            text.push_str(&format!("\n  {name:<18} {mean:.4}{spread}"));
        }
    }
    text
}
