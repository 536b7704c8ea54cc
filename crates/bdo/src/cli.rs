//! Arguments as typed.

use std::path::PathBuf;

use bdo_data::clean::Band;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::comparison_args::{BaselineArgs, CompareArgs, FitOnName};
use crate::downstream_args::{EmbedArgs, FinetuneArgs, PredictArgs, ProbeArgs};
use crate::infer_args::InferVerb;
use crate::report_args::{ReportArgs, ServeArgs, WatchArgs};
use crate::training_args::{EvaluateArgs, PretrainArgs, SweepArgs};

/// Brain dynamics from fMRI by stochastic optimal control.
#[derive(Debug, Parser)]
#[command(name = "bdo", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "Exit status: 0 done, 1 done but some inputs were rejected (listed), 2 could not run.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What every verb takes.
// Flags are independent of each other: there is no state machine to make of them.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Print the result as one JSON object on stdout
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// No progress, no notes; errors are still printed
    #[arg(long, global = true)]
    pub(crate) quiet: bool,
    /// Threads to use [default: all cores]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Seed of everything random
    #[arg(long, global = true, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Make results independent of the number of threads (what exists so far always is)
    #[arg(long, global = true)]
    pub(crate) deterministic: bool,
    /// Set where one verb runs another: only the outer one prints a result.
    #[arg(skip)]
    pub(crate) within: bool,
}

/// What a user wants to have afterwards.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// The whole path on a synthetic cohort, ending in an HTML page
    #[command(after_help = "Example:\n  bdo demo --out demo")]
    Demo(DemoArgs),
    /// Make a synthetic cohort with known dynamics and labels
    #[command(after_help = "Example:\n  bdo simulate cohort --subjects 200 --regions 100 --frames 300 --sites 3")]
    Simulate(SimulateArgs),
    /// Read scans into a cohort
    #[command(
        after_help = "Examples:\n  bdo ingest derivatives/fmriprep cohort participant --participant-label 01 02 --atlas atlas_dseg.nii.gz --denoise simple\n  bdo ingest derivatives/xcp_d cohort --atlas 4S456Parcels\n  bdo ingest abide/ abide-cohort --format abide-pcp\n  bdo ingest hcp/timeseries hcp-cohort --format series --tr 0.72 --labels hcp/region_names.txt"
    )]
    Ingest(Box<IngestArgs>),
    /// Join cohorts of one atlas into one
    #[command(after_help = "Example:\n  bdo merge cohort-a cohort-b both")]
    Merge(MergeArgs),
    /// Say what a cohort, a model, a run or a scan file is
    #[command(after_help = "Example:\n  bdo inspect cohort --verify")]
    Inspect(InspectArgs),
    /// Train a model on a cohort, without labels
    #[command(
        after_help = "Examples:\n  bdo pretrain --data cohort --out run --max-minutes 15\n  bdo pretrain --data cohort --out run --resume"
    )]
    Pretrain(PretrainArgs),
    /// Score a model on masked frames of people it has not seen, beside simple predictors
    #[command(
        after_help = "Example:\n  bdo evaluate --model run/model --data cohort --mask-ratio 0.5 --mask-ratio 0.75 --other-timings"
    )]
    Evaluate(EvaluateArgs),
    /// Turn scans into features, one vector each
    #[command(after_help = "Example:\n  bdo embed --model run/model --data cohort --out features.parquet")]
    Embed(EmbedArgs),
    /// Find out what a frozen model's features say about a label
    #[command(
        after_help = "Examples:\n  bdo probe --model run/model --data cohort --target age --out probe-age\n  bdo probe --model run/model --data cohort --target sex --out probe-sex --test-data further-cohort"
    )]
    Probe(ProbeArgs),
    /// Train a model further, end to end, on a label; run again to go on
    #[command(
        after_help = "Example:\n  bdo finetune --model run/model --data cohort --target sex --out tuned-sex --epochs 10 --frames 80"
    )]
    Finetune(FinetuneArgs),
    /// Apply a fitted head, with its model, to new people
    #[command(after_help = "Example:\n  bdo predict --head probe-age --data cohort --out predictions.tsv")]
    Predict(PredictArgs),
    /// Put the posterior to work: reconstruct, impute, forecast, with uncertainty that was checked
    #[command(subcommand)]
    Infer(InferVerb),
    /// Compare methods on labels of people under the same splits, beside what can be said without a brain
    #[command(
        after_help = "Examples:\n  bdo compare --data cohort --targets age,sex --out comparison\n  bdo compare --data cohort --targets diagnosis --methods fc,fc-combat --site-groups --out comparison"
    )]
    Compare(CompareArgs),
    /// Train once for each value of a setting, and see what it does
    #[command(
        after_help = "Examples:\n  bdo sweep --data cohort --vary mask.ratio=0.5,0.75,0.9 --max-minutes 2 --out sweep-ratio\n  bdo sweep --data cohort --vary loss.tau=0,0.03,0.3 --targets age --max-minutes 2 --out sweep-tau"
    )]
    Sweep(SweepArgs),
    /// Make a self-contained page of cohorts, runs, models, comparisons, sweeps, probes
    #[command(
        after_help = "Examples:\n  bdo report run --data cohort --out run.html\n  bdo report comparison --out comparison.html\n  bdo report run-tiny run-small run-base --out sizes.html"
    )]
    Report(ReportArgs),
    /// Watch a run in the terminal: curves, speed, time left
    #[command(after_help = "Example:\n  bdo watch run")]
    Watch(WatchArgs),
    /// Show a run as a live page on this machine only
    #[command(after_help = "Example:\n  bdo serve run --port 8080")]
    Serve(ServeArgs),
    /// Train a method BDO is compared with, and score it on people it has not seen
    #[command(
        after_help = "Examples:\n  bdo baseline brainnetcnn --data cohort --target sex --out cnn-sex\n  bdo baseline braingnn --data cohort --target age --out gnn-age --set train.epochs=20"
    )]
    Baseline(BaselineArgs),
    /// Measure how fast this machine trains, embeds and multiplies
    #[command(after_help = "Examples:\n  bdo bench train --size tiny --batch 32\n  bdo bench gemm --json")]
    Bench(BenchArgs),
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Where to put the cohort, the run, the comparison and the page
    #[arg(long, value_name = "DIR", default_value = "demo")]
    pub(crate) out: PathBuf,
}

/// Arguments of `simulate`.
#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// The cohort to make
    pub(crate) out: PathBuf,
    /// People
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) subjects: usize,
    /// Regions: 450 is Schaefer-400 + Tian S3, fewer a balanced subset of it
    #[arg(long, value_name = "N", default_value_t = 450)]
    pub(crate) regions: usize,
    /// Volumes a scan
    #[arg(long, value_name = "N", default_value_t = 490)]
    pub(crate) frames: usize,
    /// Repetition time of the first site in seconds [default: typical ones]
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub(crate) tr: Option<f64>,
    /// Sites, each with its own repetition time, gain and noise
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) sites: usize,
    /// Scans a person
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) sessions: usize,
    /// Leave out volumes with more head motion than this (true times are kept)
    #[arg(long, value_name = "MM", num_args = 0..=1, default_missing_value = "0.5")]
    pub(crate) censor: Option<f64>,
    /// Share of labels that are missing
    #[arg(long, value_name = "F", default_value_t = 0.03)]
    pub(crate) missing_labels: f64,
    /// Seed of what all brains have in common; cohorts that share it are samples of one population
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) population_seed: u64,
    /// Size at which a file of scans is closed, in MiB; a kill costs at most one file of work
    #[arg(long, value_name = "N", default_value_t = crate::pipeline::PART_MIB, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub(crate) part_mib: u64,
    /// An effect size, e.g. `age_rate=0`; `none` sets all to zero (see docs/simulate.md)
    #[arg(long, value_name = "NAME=SIZE")]
    pub(crate) effect: Vec<String>,
}

/// Layouts of source files.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum FormatName {
    /// Region series of the Preprocessed Connectomes Project with their phenotypic table
    AbidePcp,
    /// Derivatives of fMRIPrep, XCP-D or `giga_connectome`
    Bids,
    /// CIFTI series: .dtseries.nii with a .dlabel.nii atlas, or .ptseries.nii
    Cifti,
    /// Volume images with a label image as atlas
    Nifti,
    /// One table a scan: TSV, CSV, .1D, .txt, .npy, .npz, .mat
    Series,
}

/// Levels of analysis, as BIDS-Apps name them.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum LevelName {
    /// Scans into a cohort
    Participant,
}

/// Sets of confounds, named as nilearn names them.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum DenoiseName {
    /// Nothing is regressed out
    None,
    /// Cosines, 24 motion parameters, white matter and fluid
    Simple,
    /// The same with all terms of white matter and fluid, and scrubbing
    Scrubbing,
    /// Cosines, 24 motion parameters, anatomical `CompCor`
    Compcor,
    /// White matter and fluid, on images cleaned by ICA-AROMA
    #[value(name = "ica_aroma")]
    IcaAroma,
}

/// Arguments of `ingest`.
#[derive(Debug, Args)]
pub(crate) struct IngestArgs {
    /// Folder with the scans
    pub(crate) source: PathBuf,
    /// The cohort to make, or to add to
    pub(crate) out: PathBuf,
    /// Level of analysis, as BIDS-Apps want it; changes nothing
    #[arg(value_enum)]
    pub(crate) level: Option<LevelName>,
    /// Layout of the source [default: recognised]
    #[arg(long, value_enum)]
    pub(crate) format: Option<FormatName>,
    /// Label image (.nii, .nii.gz) or .dlabel.nii; for tables in several parcellations, the name of one
    #[arg(long, value_name = "FILE")]
    pub(crate) atlas: Option<PathBuf>,
    /// Region names: one a line, a table with a `name` column, or FSL-style label text
    #[arg(long, value_name = "FILE")]
    pub(crate) labels: Option<PathBuf>,
    /// Brain mask for images without one of their own
    #[arg(long, value_name = "FILE")]
    pub(crate) mask: Option<PathBuf>,
    /// Space of the images, e.g. `MNI152NLin6Asym` or `MNI152NLin6Asym:res-2` [default: the atlas']
    #[arg(long, value_name = "NAME")]
    pub(crate) space: Option<String>,
    /// Only these people
    #[arg(long, value_name = "LABEL", num_args = 1..)]
    pub(crate) participant_label: Vec<String>,
    /// Only these sessions
    #[arg(long, value_name = "LABEL", num_args = 1..)]
    pub(crate) session_label: Vec<String>,
    /// Only these tasks
    #[arg(long, value_name = "LABEL", num_args = 1..)]
    pub(crate) task_id: Vec<String>,
    /// Table of the people [default: found beside the scans]
    #[arg(long, value_name = "FILE")]
    pub(crate) participants: Option<PathBuf>,
    /// Repetition time in seconds, where the source does not say it
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub(crate) tr: Option<f64>,
    /// Volumes to drop from the start [default: 10 for images and abide-pcp, 0 for other series]
    #[arg(long, value_name = "N")]
    pub(crate) drop_volumes: Option<usize>,
    /// Confounds of fMRIPrep to regress out, with a linear trend [default: none]
    #[arg(long, value_enum, value_name = "PRESET")]
    pub(crate) denoise: Option<DenoiseName>,
    /// Leave out volumes of high motion; true times are kept, nothing is interpolated
    #[arg(long)]
    pub(crate) scrub: bool,
    /// With scrubbing: framewise displacement above which a volume goes
    #[arg(long, value_name = "MM", default_value_t = 0.5)]
    pub(crate) fd_threshold: f64,
    /// With scrubbing: standardised DVARS above which a volume goes
    #[arg(long, value_name = "X", default_value_t = 1.5)]
    pub(crate) std_dvars_threshold: f64,
    /// With scrubbing: stretches of fewer volumes than this go too
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) scrub_segment: usize,
    /// Butterworth band-pass in Hz, e.g. 0.01,0.1 (either side may be empty), with a linear trend taken out [default: off]
    #[arg(long, value_name = "LOW,HIGH", value_parser = band)]
    pub(crate) band_pass: Option<Band>,
    /// Take out a linear trend, or do not [default: with --denoise or --band-pass]
    #[arg(long, value_name = "BOOL")]
    pub(crate) detrend: Option<bool>,
    /// A region with a smaller share of its voxels in the image is missing (NaN)
    #[arg(long, value_name = "F", default_value_t = 0.5, value_parser = share)]
    pub(crate) coverage_threshold: f64,
    /// Take an image whose header has no affine as centred on the origin
    #[arg(long)]
    pub(crate) assume_affine: bool,
    /// Also write a page about the quality of the cohort, beside it as OUT.html
    #[arg(long)]
    pub(crate) report: bool,
    /// Only part I of N of the scans, for job arrays
    #[arg(long, value_name = "I/N", value_parser = shard)]
    pub(crate) shard: Option<(usize, usize)>,
}

/// Arguments of `merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The cohorts, then the one to make
    #[arg(value_name = "COHORT... OUT", num_args = 2.., required = true)]
    pub(crate) paths: Vec<PathBuf>,
}

/// Arguments of `inspect`.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// A cohort, model or run folder, or a series file
    pub(crate) path: PathBuf,
    /// Check every byte against its checksum
    #[arg(long)]
    pub(crate) verify: bool,
}

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchTask {
    /// A whole training step: student, teacher, dynamics, decoder, optimiser, moving average
    Train,
    /// Whole scans to features
    Embed,
    /// Moments of the latent process along scans of 100 to 100,000 frames
    Scan,
    /// Matrix products at the model's shapes
    Gemm,
    /// One scan reconstructed with and without its spread, beside embedding it (--frames 490)
    Infer,
    /// BDO, BrainLM and Brain-JEPA side by side: training step, embedding, peak memory (needs --data and --out)
    Efficiency,
    /// A 4D image to region means, beside inflating it alone (needs --image and --atlas)
    Ingest,
}

/// Sizes of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SizeName {
    /// Width 192
    Tiny,
    /// Width 384
    Small,
    /// Width 768
    Base,
}

/// Precision of the linear layers' operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PrecisionName {
    /// bf16 where the processor has tiles for it, else f32
    Fastest,
    /// Single precision
    F32,
    /// Operands rounded to bfloat16, sums in f32
    Bf16,
}

macro_rules! display_as_typed {
    ($($name:ident),*) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let value = self.to_possible_value().expect("no value is hidden");
                f.write_str(value.get_name())
            }
        }
    )*};
}
/// What a process of `bench efficiency` measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Phase {
    /// Training steps
    Train,
    /// Features
    Embed,
}

display_as_typed!(BenchTask, SizeName, FitOnName, Phase);

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// What to time
    #[arg(value_enum)]
    pub(crate) task: BenchTask,
    /// Size of the model
    #[arg(long, value_enum, default_value_t = SizeName::Tiny)]
    pub(crate) size: SizeName,
    /// Scans at once
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = positive)]
    pub(crate) batch: usize,
    /// With train: scans of a micro-batch, of which each thread works on one at a time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = positive)]
    pub(crate) micro_batch: usize,
    /// Timed repetitions
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = positive)]
    pub(crate) steps: usize,
    /// Regions of a scan
    #[arg(long, value_name = "N", default_value_t = 450, value_parser = positive)]
    pub(crate) regions: usize,
    /// Frames of a scan
    #[arg(long, value_name = "N", default_value_t = 160, value_parser = positive)]
    pub(crate) frames: usize,
    /// Precision of the linear layers
    #[arg(long, value_enum, default_value_t = PrecisionName::Fastest)]
    pub(crate) precision: PrecisionName,
    /// With efficiency: the cohort whose scans are used
    #[arg(long, value_name = "COHORT")]
    pub(crate) data: Option<PathBuf>,
    /// With efficiency: where table and figure go
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// With efficiency: one model alone, in this process
    #[arg(long, hide = true, requires = "phase")]
    pub(crate) only: Option<String>,
    /// With efficiency: what is measured of it
    #[arg(long, value_enum, hide = true)]
    pub(crate) phase: Option<Phase>,
    /// With ingest: the 4D image
    #[arg(long, value_name = "FILE")]
    pub(crate) image: Option<PathBuf>,
    /// With ingest: the label image
    #[arg(long, value_name = "FILE")]
    pub(crate) atlas: Option<PathBuf>,
    /// Use the framework's own operations instead of our kernels
    #[arg(long)]
    pub(crate) composed: bool,
    /// Answer lines `step` on stdin with milliseconds, until `quit`
    #[arg(long)]
    pub(crate) serve: bool,
}

pub(crate) fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if n > 0 && n <= 1_000_000 => Ok(n),
        _ => Err("expected a number from 1 to 1000000".to_owned()),
    }
}

fn band(text: &str) -> Result<Band, String> {
    let malformed = || "expected LOW,HIGH in Hz, for example 0.01,0.1 or 0.01, or ,0.1".to_owned();
    let limit = |text: &str| match text.trim() {
        "" => Ok(None),
        number => number.parse::<f64>().ok().filter(|hz| hz.is_finite() && *hz > 0.0).map(Some).ok_or_else(malformed),
    };
    let (low, high) = text.split_once(',').ok_or_else(malformed)?;
    let band = Band { high_pass_hz: limit(low)?, low_pass_hz: limit(high)? };
    match band {
        Band { high_pass_hz: None, low_pass_hz: None } => Err(malformed()),
        Band { high_pass_hz: Some(low), low_pass_hz: Some(high) } if low >= high => Err(malformed()),
        band => Ok(band),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let parsed = text.parse::<f64>().ok().filter(|x| (0.0..=1.0).contains(x));
    parsed.ok_or_else(|| "expected a share from 0 to 1".to_owned())
}

fn shard(text: &str) -> Result<(usize, usize), String> {
    let parsed = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match parsed {
        Some((i, n)) if (1..=n).contains(&i) => Ok((i, n)),
        _ => Err("expected I/N with I from 1 to N, for example 2/8".to_owned()),
    }
}
