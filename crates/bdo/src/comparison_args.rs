//! Arguments of the verbs that compare methods on labels.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::positive;

/// Who closed-form methods are fitted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FitOnName {
    /// The training people, as methods have that need the others for their selection
    Train,
    /// Training and validation people; the penalty is chosen inside them
    TrainAndValidation,
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The cohort
    #[arg(long, value_name = "COHORT")]
    pub(crate) data: PathBuf,
    /// Columns of the participants table to predict
    #[arg(long, value_name = "A,B", value_delimiter = ',', required = true)]
    pub(crate) targets: Vec<String>,
    /// Rows besides those every table has (fc, motion, site, age-sex, majority)
    #[arg(long, value_name = "M,N", value_delimiter = ',')]
    pub(crate) methods: Vec<String>,
    /// Where results and tables go; what is there already is used again
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// A pre-trained model for the rows bdo-probe, bdo-mean, bdo-mean-std, bdo-covariance, bdo-correlation,
    /// bdo-log-covariance, bdo-regions, bdo-coupling, bdo-correlation-combat, bdo-coupling-combat and bdo-finetune; its
    /// training people among the tested are flagged
    /// [default: one is pre-trained for every split, on its training people]
    #[arg(long, value_name = "DIR")]
    pub(crate) model: Option<PathBuf>,
    /// Time for each pre-training where no model is given; 0 for the epochs of the configuration
    #[arg(long, value_name = "M", default_value_t = 15.0)]
    pub(crate) pretrain_minutes: f64,
    /// Configuration of those pre-trainings (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// One key of it
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Epochs of the row bdo-finetune; the protocol has 50
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = positive)]
    pub(crate) finetune_epochs: usize,
    /// Frames of a training visit of that row; 0 for all, as the protocol has it
    #[arg(long, value_name = "N", default_value_t = 160)]
    pub(crate) finetune_frames: usize,
    /// Configurations of that row, of the protocol's grid of 36
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = positive)]
    pub(crate) finetune_budget: usize,
    /// Epochs of the rows brainnetcnn, braingnn, brainnettf, brainlm and brainjepa [default: those of their authors]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) baseline_epochs: Option<usize>,
    /// Most time for each training of those rows and of brainlm-finetune and brainjepa-finetune: as many epochs are run as
    /// fit [default: no limit]
    #[arg(long, value_name = "M", default_value_t = 0.0)]
    pub(crate) baseline_minutes: f64,
    /// Repetitions with random splits
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "0,1,2")]
    pub(crate) seeds: Vec<u64>,
    /// Divide people once for each seed, evenly by this label, and use that for every target: one pre-training a seed
    /// instead of one a seed and target [default: evenly by each target, people without it left out]
    #[arg(long, value_name = "TARGET")]
    pub(crate) stratify_by: Option<String>,
    /// Also leave out groups of sites (rows that train end to end are run on random splits only)
    #[arg(long)]
    pub(crate) site_groups: bool,
    /// Who closed-form methods are fitted on
    #[arg(long, value_enum, default_value_t = FitOnName::Train)]
    pub(crate) fit_on: FitOnName,
    /// Column of families, whose members stay together [default: recognised]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) family_column: Option<String>,
    /// Column of sites [default: recognised]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) site_column: Option<String>,
    /// Resamples of people behind each interval
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = positive)]
    pub(crate) bootstraps: usize,
    /// Permutations of labels behind each p
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = positive)]
    pub(crate) permutations: usize,
    /// Do not ask how well connectivity predicts site, repetition time, scan length and head motion
    #[arg(long)]
    pub(crate) no_audit: bool,
}

/// Methods BDO is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BaselineName {
    /// Edge-to-edge convolutions of the correlation matrix
    Brainnetcnn,
    /// Region-aware graph convolutions of shrunk correlations and partial correlations
    Braingnn,
    /// Transformer over regions with an orthonormal clustering readout
    Brainnettf,
    /// Masked autoencoding of regions by windows, then a linear probe
    Brainlm,
    /// Prediction of codes of hidden regions and windows, then a linear probe
    Brainjepa,
}

/// Arguments of `baseline`.
#[derive(Debug, Args)]
pub(crate) struct BaselineArgs {
    /// The method
    #[arg(value_enum)]
    pub(crate) name: BaselineName,
    /// The cohort
    #[arg(long, value_name = "COHORT")]
    pub(crate) data: PathBuf,
    /// The label to predict: a number or two classes
    #[arg(long, value_name = "NAME")]
    pub(crate) target: String,
    /// Folder for the result and the predictions; one that is there is continued
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Seeds of the splits, 6:2:2
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [0, 1, 2])]
    pub(crate) seeds: Vec<u64>,
    /// Passes over the training scans [default: that of the method's public code]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) epochs: Option<u32>,
    /// One key, e.g. `train.batch_size=32`, `model.activate_output=true`; for brainlm and brainjepa those of pretrain, e.g.
    /// `model.size=small`
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// A model of `pretrain --set model.kind=brainlm|brainjepa`; its training people among the tested are counted [default:
    /// one is pre-trained for every split, on those who are not tested]
    #[arg(long, value_name = "DIR")]
    pub(crate) model: Option<PathBuf>,
    /// Train brainlm or brainjepa end to end with the labels, in place of a linear probe
    #[arg(long)]
    pub(crate) finetune: bool,
    /// Epochs of that; the protocol has 50
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = positive)]
    pub(crate) finetune_epochs: usize,
    /// Configurations of that, of the grid's 36
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = positive)]
    pub(crate) finetune_budget: usize,
}
