//! Arguments of the verbs that train a model and score what it has learned.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Arguments of `pretrain`.
#[derive(Debug, Args)]
pub(crate) struct PretrainArgs {
    /// The cohort to learn from
    #[arg(long, value_name = "COHORT")]
    pub(crate) data: PathBuf,
    /// The run folder to make; RUN/model is the model
    #[arg(long, value_name = "RUN")]
    pub(crate) out: PathBuf,
    /// Configuration (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// One key of the configuration, e.g. `loss.tau=0`
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Choose the number of epochs so that the run ends within this time
    #[arg(long, value_name = "M")]
    pub(crate) max_minutes: Option<f64>,
    /// Go on with the run that is there
    #[arg(long)]
    pub(crate) resume: bool,
}

/// Arguments of `evaluate`.
#[derive(Debug, Args)]
pub(crate) struct EvaluateArgs {
    /// The model directory
    #[arg(long, value_name = "DIR")]
    pub(crate) model: PathBuf,
    /// The cohort
    #[arg(long, value_name = "COHORT")]
    pub(crate) data: PathBuf,
    /// Share of hidden frames; may be given several times [default: that of the training]
    #[arg(long, value_name = "R")]
    pub(crate) mask_ratio: Vec<f64>,
    /// Draw frames from a stretch of this length, 0 for the whole scan [default: that of the training]
    #[arg(long, value_name = "S")]
    pub(crate) window_seconds: Option<f64>,
    /// Frames drawn a visit [default: that of the training]
    #[arg(long, value_name = "N")]
    pub(crate) frames: Option<usize>,
    /// Whom to score
    #[arg(long, value_enum, default_value_t = People::Test)]
    pub(crate) people: People,
    /// Also with frames left out: every second one, one of two at random, 30 % dropped
    #[arg(long)]
    pub(crate) other_timings: bool,
}

/// Whom `evaluate` scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum People {
    /// Neither trained on nor validated on
    Test,
    /// Those the run was validated on
    Validation,
    /// Everybody the model was not trained on
    Unseen,
    /// Everybody, training people too
    All,
}

/// Arguments of `sweep`.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// The cohort to learn from
    #[arg(long, value_name = "COHORT")]
    pub(crate) data: PathBuf,
    /// The key of the configuration that is varied, and its values; several pairs move together, separated by `+`
    #[arg(long, value_name = "KEY=V1,V2")]
    pub(crate) vary: String,
    /// Where runs, table and figure go; run again to go on
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Minutes of each run
    #[arg(long, value_name = "M")]
    pub(crate) max_minutes: Option<f64>,
    /// Configuration (TOML) that is varied
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// One more key for all runs
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Columns of the participants table that closed-form probes predict from the mean control
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) targets: Vec<String>,
    /// Share of hidden frames at which all are scored
    #[arg(long, value_name = "R", default_value_t = 0.75)]
    pub(crate) mask_ratio: f64,
}
