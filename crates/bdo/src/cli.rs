//! The program as typed: its verbs, and what every verb takes.

use bdo_model::device::{DeviceChoice, DeviceError};
use burn::tensor::Device;
use clap::{ArgAction, Args, Parser, Subcommand};

use crate::args::General;
use crate::commands::{
    baseline, bench, compare, completions, embed, evaluate, explain, finetune, infer, ingest, inspect, label, merge,
    predict, pretrain, probe, report, reproduce, serve, simulate, sweep, watch,
};
use crate::host::Host;
use crate::pipeline::DemoArgs;

/// Brain dynamics from fMRI by stochastic optimal control
#[derive(Debug, Parser)]
#[command(name = "bdo", version, propagate_version = true, arg_required_else_help = true)]
#[command(disable_help_flag = true, disable_version_flag = true)]
#[command(after_help = "Exit status: 0 done, 1 done but some inputs were rejected (listed), 2 could not run.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

// Flags are independent of each other: there is no state machine to make of them.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "General")]
pub(crate) struct Common {
    /// Print the result as one JSON object on stdout
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// No progress, no notes; errors are still printed
    #[arg(long, global = true)]
    pub(crate) quiet: bool,
    /// Threads to use; results do not depend on it [default: all cores]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Seed of everything random
    #[arg(long, global = true, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Where models run: cpu, wgpu, vulkan, metal, cuda or rocm, or one of several (cuda:1); see `bdo inspect --devices`
    #[arg(long, global = true, value_name = "DEVICE", default_value_t = DeviceChoice::CPU)]
    pub(crate) device: DeviceChoice,
    /// Accepted and ignored: results never depend on the number of threads
    #[arg(long, global = true, hide = true)]
    pub(crate) deterministic: bool,
    /// Print help
    #[arg(short, long, global = true, action = ArgAction::Help)]
    pub(crate) help: Option<bool>,
    /// Print version
    #[arg(short = 'V', long, global = true, action = ArgAction::Version)]
    pub(crate) version: Option<bool>,
    #[arg(skip)]
    pub(crate) host: Option<Host>,
}

impl Common {
    /// The device that models run on.
    pub(crate) fn place(&self) -> Result<Device, DeviceError> {
        self.device.open()
    }

    /// For the command line that repeats a request.
    pub(crate) fn general(&self) -> General {
        General { seed: self.seed, device: self.device }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Demo(DemoArgs),
    Simulate(simulate::SimulateArgs),
    Ingest(Box<ingest::IngestArgs>),
    Label(label::LabelArgs),
    Merge(merge::MergeArgs),
    Inspect(inspect::InspectArgs),
    Pretrain(pretrain::PretrainArgs),
    Evaluate(evaluate::EvaluateArgs),
    Embed(embed::EmbedArgs),
    Probe(probe::ProbeArgs),
    Finetune(finetune::FinetuneArgs),
    Predict(predict::PredictArgs),
    Explain(explain::ExplainArgs),
    /// Reconstruct, impute, forecast: region values at any time, with calibrated uncertainty
    #[command(subcommand)]
    Infer(infer::InferVerb),
    Compare(compare::CompareArgs),
    Sweep(sweep::SweepArgs),
    Reproduce(reproduce::ReproduceArgs),
    Report(report::ReportArgs),
    Watch(watch::WatchArgs),
    Serve(serve::ServeArgs),
    Baseline(baseline::BaselineArgs),
    Bench(bench::BenchArgs),
    Completions(completions::CompletionsArgs),
}
