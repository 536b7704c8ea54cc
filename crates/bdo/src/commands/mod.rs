//! One file a verb.

mod baseline;
mod baseline_plan;
mod baseline_rows;
mod bench;
mod compare;
mod demo;
mod embed;
mod evaluate;
mod finetune;
mod infer;
mod ingest;
mod inspect;
mod inspect_run;
mod merge;
mod model_rows;
mod predict;
mod pretrain;
mod pretraining_cost;
mod protocol;
mod probe;
mod report;
mod serve;
mod simulate;
mod sweep;
mod watch;

use crate::Outcome;
use crate::cli::{Cli, Common, Verb};

/// Sets up the threads and runs the verb.
pub(crate) fn run(cli: &Cli) -> anyhow::Result<Outcome> {
    if let Some(threads) = cli.common.threads {
        rayon::ThreadPoolBuilder::new().num_threads(usize::from(threads)).build_global()?;
    }
    verb(&cli.verb, &cli.common)
}

/// Runs the verb on the threads there are.
pub(crate) fn verb(verb: &Verb, common: &Common) -> anyhow::Result<Outcome> {
    match verb {
        Verb::Demo(args) => demo::run(args, common),
        Verb::Simulate(args) => simulate::run(args, common),
        Verb::Ingest(args) => ingest::run(args, common),
        Verb::Merge(args) => merge::run(args, common),
        Verb::Inspect(args) => inspect::run(args, common),
        Verb::Pretrain(args) => pretrain::run(args, common),
        Verb::Evaluate(args) => evaluate::run(args, common),
        Verb::Embed(args) => embed::run(args, common),
        Verb::Probe(args) => probe::run(args, common),
        Verb::Finetune(args) => finetune::run(args, common),
        Verb::Predict(args) => predict::run(args, common),
        Verb::Infer(verb) => infer::run(verb, common),
        Verb::Compare(args) => compare::run(args, common),
        Verb::Sweep(args) => sweep::run(args, common),
        Verb::Report(args) => report::run(args, common),
        Verb::Watch(args) => watch::run(args, common),
        Verb::Serve(args) => serve::run(args, common),
        Verb::Baseline(args) => baseline::run(args, common),
        Verb::Bench(args) => bench::run(args, common),
    }
}

/// Prints the result: JSON for programs, text for people. stdout is for data only.
pub(crate) fn print(common: &Common, json: &serde_json::Value, text: &str) {
    if common.within {
        return;
    }
    if common.json {
        println!("{json}");
    } else if !common.quiet {
        println!("{text}");
    }
}

/// A remark on stderr.
pub(crate) fn note(common: &Common, text: &str) {
    if !common.quiet {
        eprintln!("note: {text}");
    }
}

/// Most memory this process has held, where the system says it.
pub(crate) fn peak_rss_mib() -> Option<f64> {
    bdo_eval::memory::peak_mib()
}
