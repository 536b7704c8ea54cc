//! The connectivity networks by name, each with the inputs and the training its public code gives it.

use crate::braingnn::{BrainGnn, BrainGnnConfig};
use crate::brainnetcnn::{BrainNetCnn, BrainNetCnnConfig};
use crate::brainnettf::{BrainNetTf, BrainNetTfConfig};
use crate::connectivity::ConnectivityKind;
use crate::network::Network;
use crate::train::checkpoint::Checkpoints;
use crate::train::example::Parts;
use crate::train::fit::{EpochRecord, FitError, Request, fit};
use crate::train::objective::Task;
use crate::train::recipe::Recipe;
use crate::train::select::Score;
use bdo_model::ops::Kernels;
use bdo_model::parameters::trainable_count;
use serde::{Deserialize, Serialize};

/// A network over connectomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectivityMethod {
    /// BrainNetCNN.
    BrainNetCnn,
    /// BrainGNN.
    BrainGnn,
    /// BrainNetTF.
    BrainNetTf,
}

/// What training and predicting gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The chosen epoch.
    pub epoch: usize,
    /// Its score on the validation people.
    pub score: Score,
    /// Every epoch.
    pub history: Vec<EpochRecord>,
    /// One prediction a validation scan: probability of class 1, or z-scored number.
    pub validation: Vec<f32>,
    /// One a test scan.
    pub test: Vec<f32>,
}

/// Everything besides method and data that decides a result.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// How to train.
    pub recipe: &'a Recipe,
    /// Kind of label.
    pub task: Task,
    /// Seed of everything random.
    pub seed: u64,
    /// What the layers run.
    pub kernels: Kernels,
    /// Where states are kept, if anywhere.
    pub checkpoints: Option<&'a Checkpoints>,
}

impl ConnectivityMethod {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::BrainNetCnn, Self::BrainGnn, Self::BrainNetTf];

    /// As typed and printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::BrainNetCnn => "brainnetcnn",
            Self::BrainGnn => "braingnn",
            Self::BrainNetTf => "brainnettf",
        }
    }

    /// The matrices it looks at.
    pub fn inputs(self) -> ConnectivityKind {
        match self {
            Self::BrainNetCnn | Self::BrainNetTf => ConnectivityKind::Pearson,
            Self::BrainGnn => ConnectivityKind::ShrunkFisher,
        }
    }

    /// The training of its public code.
    pub fn recipe(self) -> Recipe {
        match self {
            Self::BrainNetCnn | Self::BrainNetTf => Recipe::brain_network_transformer(),
            Self::BrainGnn => Recipe::brain_gnn(),
        }
    }

    /// Trained numbers, with one output.
    pub fn parameter_count(self, regions: usize) -> usize {
        trainable_count(&match self {
            Self::BrainNetCnn => BrainNetCnn::table(&BrainNetCnnConfig::new(regions)),
            Self::BrainGnn => BrainGnn::table(&BrainGnnConfig::new(regions)),
            Self::BrainNetTf => BrainNetTf::table(&BrainNetTfConfig::new(regions)),
        })
    }

    /// Trains on the training part, chooses the epoch on the validation part, predicts the test part once.
    pub fn run(
        self,
        regions: usize,
        parts: &Parts,
        run: &Run,
        watch: &mut dyn FnMut(&EpochRecord) -> bool,
    ) -> Result<Outcome, FitError> {
        match self {
            Self::BrainNetCnn => outcome::<BrainNetCnn>(&BrainNetCnnConfig::new(regions), parts, run, watch),
            Self::BrainGnn => outcome::<BrainGnn>(&BrainGnnConfig::new(regions), parts, run, watch),
            Self::BrainNetTf => outcome::<BrainNetTf>(&BrainNetTfConfig::new(regions), parts, run, watch),
        }
    }
}

fn outcome<N: Network>(
    config: &N::Config,
    parts: &Parts,
    run: &Run,
    watch: &mut dyn FnMut(&EpochRecord) -> bool,
) -> Result<Outcome, FitError> {
    let Run { recipe, task, seed, kernels, checkpoints } = *run;
    let fitted = fit::<N>(&Request { config, recipe, task, parts, seed, kernels, checkpoints }, watch)?;
    Ok(Outcome {
        validation: fitted.predict(&parts.validation),
        test: fitted.predict(&parts.test),
        epoch: fitted.epoch,
        score: fitted.score,
        history: fitted.history,
    })
}
