//! One file per verb: its arguments and what it does.

pub(crate) mod baseline;
pub(crate) mod bench;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod embed;
pub(crate) mod evaluate;
pub(crate) mod explain;
pub(crate) mod finetune;
pub(crate) mod infer;
pub(crate) mod ingest;
pub(crate) mod inspect;
pub(crate) mod label;
pub(crate) mod merge;
pub(crate) mod predict;
pub(crate) mod pretrain;
pub(crate) mod probe;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod serve;
pub(crate) mod simulate;
pub(crate) mod sweep;
pub(crate) mod watch;

use anyhow::bail;
use bdo_model::device::{DeviceChoice, guarded};

use crate::answer::Answer;
use crate::cli::{Cli, Common, Verb};
use crate::job::refuse_ranks;
use crate::pipeline;

/// Sets up the threads and runs the verb.
pub(crate) fn run(Cli { common, verb }: &Cli) -> anyhow::Result<Answer> {
    if let Some(threads) = common.threads {
        rayon::ThreadPoolBuilder::new().num_threads(usize::from(threads)).build_global()?;
    }
    if !matches!(verb, Verb::Pretrain(_) | Verb::Finetune(_) | Verb::Baseline(_)) {
        refuse_ranks()?;
    }
    if common.device != DeviceChoice::CPU && !runs_models(verb) {
        bail!(
            "--device {}: expected a verb that runs a model, found one that does not; hint: leave out --device",
            common.device
        );
    }
    // Whether there is such a device shows before anything else is read.
    guarded(&common.place()?, || verb_of(verb, common))?
}

/// Whether a verb computes with tensors.
fn runs_models(verb: &Verb) -> bool {
    !matches!(
        verb,
        Verb::Simulate(_)
            | Verb::Ingest(_)
            | Verb::Label(_)
            | Verb::Merge(_)
            | Verb::Inspect(_)
            | Verb::Watch(_)
            | Verb::Serve(_)
            | Verb::Completions(_)
    )
}

fn verb_of(verb: &Verb, common: &Common) -> anyhow::Result<Answer> {
    match verb {
        Verb::Demo(args) => pipeline::run(args, common),
        Verb::Simulate(args) => simulate::run(args, common),
        Verb::Ingest(args) => ingest::run(args, common),
        Verb::Merge(args) => merge::run(args, common),
        Verb::Label(args) => label::run(args),
        Verb::Inspect(args) => inspect::run(args, common),
        Verb::Pretrain(args) => pretrain::run(args, common),
        Verb::Evaluate(args) => evaluate::run(args, common),
        Verb::Embed(args) => embed::run(args, common),
        Verb::Probe(args) => probe::run(args, common),
        Verb::Finetune(args) => finetune::run(args, common),
        Verb::Predict(args) => predict::run(args, common),
        Verb::Explain(args) => explain::run(args, common),
        Verb::Infer(verb) => infer::run(verb, common),
        Verb::Compare(args) => compare::run(args, common),
        Verb::Sweep(args) => sweep::run(args, common),
        Verb::Reproduce(args) => reproduce::run(args, common),
        Verb::Report(args) => report::run(args, common),
        Verb::Watch(args) => watch::run(args, common),
        Verb::Serve(args) => serve::run(args, common),
        Verb::Baseline(args) => baseline::run(args, common),
        Verb::Bench(args) => bench::run(args, common),
        Verb::Completions(args) => completions::run(args),
    }
}
