//! Arguments of `infer`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::training_args::People;

/// What to infer.
#[derive(Debug, Subcommand)]
pub(crate) enum InferVerb {
    /// Fit observation noise, temperature and bands on validation people, and check them on test people
    #[command(after_help = "Example:\n  bdo infer calibrate --model run/model --data cohort --out calibration.json")]
    Calibrate(CalibrateArgs),
    /// Every frame from all frames, or times between them, with standard deviations
    #[command(
        after_help = "Examples:\n  bdo infer reconstruct --model run/model --data cohort --out rec --calibration calibration.json\n  bdo infer reconstruct --model run/model --data cohort --out fine --every 0.5"
    )]
    Reconstruct(ReconstructArgs),
    /// Fill censored frames and regions that a scan does not cover; or hide frames and see how well they are filled
    #[command(
        after_help = "Examples:\n  bdo infer impute --model run/model --data cohort --out filled --fd-above 0.5\n  bdo infer impute --model run/model --data cohort --out scores --missing 0.25,0.5,0.75,0.9"
    )]
    Impute(ImputeArgs),
    /// What comes after the last frame; or hide the last frames and see how well they are forecast
    #[command(
        after_help = "Examples:\n  bdo infer forecast --model run/model --data cohort --out next --horizon 20\n  bdo infer forecast --model run/model --data cohort --out skill --horizon 10 --score"
    )]
    Forecast(ForecastArgs),
    /// The latent path: mean, variance, control energy and time constants by network
    #[command(after_help = "Example:\n  bdo infer trajectory --model run/model --data cohort --out path")]
    Trajectory(TrajectoryArgs),
    /// Does it hold together: other timings, a simulation of the same equation, test and retest, known truth
    #[command(after_help = "Example:\n  bdo infer check --model run/model --data cohort --out checks")]
    Check(CheckArgs),
    /// Intervals and sets around the predictions of a fitted head that hold for new people
    #[command(
        after_help = "Example:\n  bdo probe --model run/model --data cohort --target age --seeds 0 --out age\n  bdo infer conformal --head age --data cohort --out age-90.json --level 0.9\n  bdo predict --head age --data others --conformal age-90.json --out predictions.tsv"
    )]
    Conformal(ConformalArgs),
}

/// How a spread passes the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UncertaintyName {
    /// States are drawn and decoded
    Sampled,
    /// The decoder is taken as linear around the mean state
    Linearised,
}

/// What every kind of inference needs.
#[derive(Debug, Args)]
pub(crate) struct Asked {
    /// The model directory
    #[arg(long, value_name = "DIR")]
    pub(crate) model: PathBuf,
    /// A cohort, or one series file (then also --tr, and --labels if it has no header)
    #[arg(long, value_name = "COHORT")]
    pub(crate) data: PathBuf,
    /// The folder to make
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Bands from `bdo infer calibrate` [default: fitted on the model's validation people if the cohort has them]
    #[arg(long, value_name = "FILE")]
    pub(crate) calibration: Option<PathBuf>,
    /// Whose scans
    #[arg(long, value_enum, default_value = "all")]
    pub(crate) people: People,
    /// How the spread of the state passes the decoder, where no calibration says it
    #[arg(long, value_enum, default_value = "sampled")]
    pub(crate) uncertainty: UncertaintyName,
    /// States drawn, where no calibration says it
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u64).range(2..=4096))]
    pub(crate) draws: u64,
    /// Repetition time of a series file
    #[arg(long, value_name = "S")]
    pub(crate) tr: Option<f64>,
    /// Region names of a series file
    #[arg(long, value_name = "FILE")]
    pub(crate) labels: Option<PathBuf>,
    /// Leave out the tables of each scan and write only the Parquet table
    #[arg(long)]
    pub(crate) no_bids: bool,
}

/// Arguments of `infer calibrate`.
#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// The model directory
    #[arg(long, value_name = "DIR")]
    pub(crate) model: PathBuf,
    /// The cohort of its training
    #[arg(long, value_name = "COHORT")]
    pub(crate) data: PathBuf,
    /// The file to make
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// How the spread of the state passes the decoder
    #[arg(long, value_enum, default_value = "sampled")]
    pub(crate) uncertainty: UncertaintyName,
    /// States drawn
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u64).range(2..=4096))]
    pub(crate) draws: u64,
}

/// Arguments of `infer reconstruct`.
#[derive(Debug, Args)]
pub(crate) struct ReconstructArgs {
    #[command(flatten)]
    pub(crate) asked: Asked,
    /// Also at times this far apart, between the frames
    #[arg(long, value_name = "S", value_parser = above_zero)]
    pub(crate) every: Option<f64>,
}

/// Arguments of `infer impute`.
#[derive(Debug, Args)]
pub(crate) struct ImputeArgs {
    #[command(flatten)]
    pub(crate) asked: Asked,
    /// Take frames with more motion than this as missing
    #[arg(long, value_name = "MM", value_parser = above_zero)]
    pub(crate) fd_above: Option<f64>,
    /// Take regions with a smaller share of covered voxels as missing
    #[arg(long, value_name = "SHARE", value_parser = above_zero)]
    pub(crate) coverage_below: Option<f64>,
    /// Score instead: hide these shares of the frames and fill them
    #[arg(long, value_name = "R,R,...", value_delimiter = ',')]
    pub(crate) missing: Vec<f64>,
}

/// Arguments of `infer forecast`.
#[derive(Debug, Args)]
pub(crate) struct ForecastArgs {
    #[command(flatten)]
    pub(crate) asked: Asked,
    /// Frames ahead
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) horizon: u64,
    /// Score instead: hide the last frames and forecast them
    #[arg(long)]
    pub(crate) score: bool,
}

/// Arguments of `infer trajectory`.
#[derive(Debug, Args)]
pub(crate) struct TrajectoryArgs {
    #[command(flatten)]
    pub(crate) asked: Asked,
}

/// Arguments of `infer check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) asked: Asked,
    /// Most scans looked at
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) scans: usize,
    /// Paths of the simulation
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) paths: usize,
}

/// Arguments of `infer conformal`.
#[derive(Debug, Args)]
pub(crate) struct ConformalArgs {
    /// The folder of `bdo probe` or `bdo finetune`
    #[arg(long, value_name = "DIR")]
    pub(crate) head: PathBuf,
    /// A cohort with labelled people the head has not seen
    #[arg(long, value_name = "COHORT")]
    pub(crate) data: PathBuf,
    /// The file to make
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Wanted chance that the truth is inside
    #[arg(long, value_name = "P", default_value_t = 0.9)]
    pub(crate) level: f64,
    /// Random halvings of those people over which the coverage is checked
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) splits: u64,
}

fn above_zero(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if x > 0.0 && x.is_finite() => Ok(x),
        _ => Err("expected a number above 0".to_owned()),
    }
}
