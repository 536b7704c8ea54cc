//! Arguments of the verbs that put a trained model to use.

use std::path::PathBuf;

use bdo_eval::fitted::HeadKind;
use bdo_model::pooling::Pooling;
use clap::{Args, ValueEnum};

/// How the frames of a scan become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PoolingName {
    /// Mean of the control over time: d numbers
    Mean,
    /// Mean and standard deviation: 2 d numbers
    MeanStd,
    /// Covariance over time, upper triangle with the diagonal: d (d + 1) / 2 numbers
    Covariance,
    /// Fisher-transformed correlation over time, upper triangle: d (d - 1) / 2 numbers
    Correlation,
    /// Logarithm of the shrunk covariance: d (d + 1) / 2 numbers
    LogCovariance,
    /// The same minus its mean over training people (a probe only)
    Tangent,
    /// Fisher-transformed correlation over time of what the control says of the regions: N (N - 1) / 2 numbers
    Regions,
    /// Correlation of every region with what the control says of every region: N N numbers
    Coupling,
}

impl From<PoolingName> for Pooling {
    fn from(name: PoolingName) -> Self {
        match name {
            PoolingName::Mean => Self::Mean,
            PoolingName::MeanStd => Self::MeanStd,
            PoolingName::Covariance => Self::Covariance,
            PoolingName::Correlation => Self::Correlation,
            PoolingName::LogCovariance => Self::LogCovariance,
            PoolingName::Tangent => Self::Tangent,
            PoolingName::Regions => Self::Regions,
            PoolingName::Coupling => Self::Coupling,
        }
    }
}

/// Arguments of `embed`.
#[derive(Debug, Args)]
pub(crate) struct EmbedArgs {
    /// The model directory
    #[arg(long, value_name = "DIR")]
    pub(crate) model: PathBuf,
    /// The cohort
    #[arg(long, value_name = "COHORT")]
    pub(crate) data: PathBuf,
    /// The table to make: .parquet, .tsv or .npy
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// How frames become one vector
    #[arg(long, value_enum, default_value = "mean")]
    pub(crate) pooling: PoolingName,
}

/// What stands on the features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HeadName {
    /// One linear layer trained by Adam: the protocol
    Linear,
    /// A learned query over the frames, then a linear layer
    Attention,
    /// Ridge or logistic regression in closed form, its penalty chosen inside the training people (probe only)
    Ridge,
}

impl From<HeadName> for HeadKind {
    fn from(name: HeadName) -> Self {
        match name {
            HeadName::Linear => Self::Linear,
            HeadName::Attention => Self::Attention,
            HeadName::Ridge => Self::Ridge,
        }
    }
}

/// Arguments of `probe`.
#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// The model directory
    #[arg(long, value_name = "DIR")]
    pub(crate) model: PathBuf,
    /// The cohort
    #[arg(long, value_name = "COHORT")]
    pub(crate) data: PathBuf,
    /// The label to predict: a column of the cohort's participants table
    #[arg(long, value_name = "NAME")]
    pub(crate) target: String,
    /// The folder to make; holds results, splits and the fitted head
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Further people to score with the fitted head
    #[arg(long, value_name = "COHORT")]
    pub(crate) test_data: Option<PathBuf>,
    /// How frames become one vector
    #[arg(long, value_enum, default_value = "mean")]
    pub(crate) pooling: PoolingName,
    /// What stands on the features
    #[arg(long, value_enum, default_value = "linear")]
    pub(crate) head: HeadName,
    /// Scale features by the training people's mean and spread (the protocol takes them raw)
    #[arg(long)]
    pub(crate) standardise: bool,
    /// Seeds of splits and heads
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_value = "0,1,2")]
    pub(crate) seeds: Vec<u64>,
    /// Passes over the training scans
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) epochs: usize,
}

/// Arguments of `predict`.
#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    /// The folder of `bdo probe` or `bdo finetune`
    #[arg(long, value_name = "DIR")]
    pub(crate) head: PathBuf,
    /// The cohort
    #[arg(long, value_name = "COHORT")]
    pub(crate) data: PathBuf,
    /// The table to make (TSV)
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Also intervals, or sets of classes, that hold for new people (`bdo infer conformal`); a set that does not name one
    /// class is an abstention
    #[arg(long, value_name = "FILE")]
    pub(crate) conformal: Option<PathBuf>,
}

/// Arguments of `finetune`.
#[derive(Debug, Args)]
pub(crate) struct FinetuneArgs {
    /// The pre-trained model directory
    #[arg(long, value_name = "DIR")]
    pub(crate) model: PathBuf,
    /// The cohort
    #[arg(long, value_name = "COHORT")]
    pub(crate) data: PathBuf,
    /// The label to predict: a column of the cohort's participants table
    #[arg(long, value_name = "NAME")]
    pub(crate) target: String,
    /// The folder to make, or to go on with
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Further people to score with what was fitted
    #[arg(long, value_name = "COHORT")]
    pub(crate) test_data: Option<PathBuf>,
    /// Configurations to run of the grid of 36; which ones is printed and saved
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=36))]
    pub(crate) budget: u64,
    /// Passes over the training scans
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) epochs: usize,
    /// Frames drawn of a scan at each visit, 0 for the whole scan; validation and test see whole scans
    #[arg(long, value_name = "N", default_value_t = 160)]
    pub(crate) frames: usize,
    /// How frames are pooled: their mean under a linear layer, or a learned query
    #[arg(long, value_enum, default_value = "linear")]
    pub(crate) head: HeadName,
    /// Seeds of splits, heads and orders
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_value = "0,1,2")]
    pub(crate) seeds: Vec<u64>,
}
