//! The connectivity networks by name, each with the inputs and the training its public code gives it.

use crate::braingnn::{BrainGnn, BrainGnnConfig};
use crate::brainnetcnn::{BrainNetCnn, BrainNetCnnConfig};
use crate::brainnettf::{BrainNetTf, BrainNetTfConfig};
use crate::connectivity::{ConnectivityKind, Connectome};
use bdo_eval::fit::Loss;
use bdo_eval::supervised::learner::{FittedNetwork, Parts, Request, SupervisedError, fit_network};
use bdo_eval::supervised::network::{InMemory, Network, Scans};
use bdo_eval::supervised::recipe::Recipe;
use bdo_eval::supervised::select::{Score, by_person};
use bdo_model::ops::Kernels;
use bdo_model::parameters::trainable_count;
use bdo_train::fit::RunObserver;
use bdo_train::ranks::Ranks;
use burn::tensor::Device;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

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

/// Changed keys of a network's configuration, such as the oddities of its public code.
pub type NetworkKeys = BTreeMap<String, serde_json::Value>;

/// A network cannot be configured so.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[allow(missing_docs)] // The messages say it.
pub enum NetworkKeyError {
    /// It has no such key.
    #[error("model.{key}: expected one of {}", .known.join(", "))]
    Unknown { key: String, known: Vec<String> },
    /// The value does not fit.
    #[error("model.{key}: expected {expected}, found {found}")]
    Value { key: String, expected: String, found: String },
}

/// What training and predicting gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The chosen epoch, counted from 0.
    pub epoch: usize,
    /// Epochs that were run.
    pub epochs: usize,
    /// Score of the chosen epoch on the validation people.
    pub validation: Score,
    /// Score on the test people.
    pub test: Score,
    /// What is said of each test person, by number: the z-scored number, or the probabilities of all classes.
    pub said: BTreeMap<usize, Vec<f64>>,
}

impl Outcome {
    /// Predicts the test people with a trained network.
    pub fn of<N: Network, S: Scans<Input = N::Input>>(
        fitted: &FittedNetwork<N>,
        loss: Loss,
        scans: &S,
        parts: &Parts<S::Handle>,
    ) -> Result<Self, SupervisedError> {
        let test = fitted.predict(scans, &parts.test)?;
        Ok(Self {
            epoch: fitted.epoch,
            epochs: fitted.train_losses.len(),
            validation: fitted.score,
            test: Score::of(loss, &parts.test, &test),
            said: by_person(&parts.test, &test).into_iter().map(|(person, (_, said))| (person, said)).collect(),
        })
    }
}

/// Everything besides method and data that decides a result.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// How to train.
    pub recipe: &'a Recipe,
    /// What a wrong prediction costs.
    pub loss: Loss,
    /// Seed of everything random.
    pub seed: u64,
    /// What the layers run.
    pub kernels: Kernels,
    /// Where they run.
    pub device: &'a Device,
    /// Where the state is kept, if anywhere: a folder, and a name for all that decides the training.
    pub states: Option<(&'a Path, &'a str)>,
    /// The processes that train together.
    pub ranks: &'a dyn Ranks,
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

    /// Refuses keys the network does not have, and values that do not fit.
    pub fn check(self, keys: &NetworkKeys) -> Result<(), NetworkKeyError> {
        // Whatever the number of regions is, the keys are the same.
        let regions = 100;
        match self {
            Self::BrainNetCnn => changed(&BrainNetCnnConfig::new(regions), keys).map(|_| ()),
            Self::BrainGnn => changed(&BrainGnnConfig::new(regions), keys).map(|_| ()),
            Self::BrainNetTf => changed(&BrainNetTfConfig::new(regions), keys).map(|_| ()),
        }
    }

    /// Trained numbers.
    pub fn parameter_count(self, regions: usize, outputs: usize, keys: &NetworkKeys) -> Result<usize, NetworkKeyError> {
        Ok(trainable_count(&match self {
            Self::BrainNetCnn => {
                BrainNetCnn::table(&changed(&BrainNetCnnConfig { outputs, ..BrainNetCnnConfig::new(regions) }, keys)?)
            }
            Self::BrainGnn => {
                BrainGnn::table(&changed(&BrainGnnConfig { outputs, ..BrainGnnConfig::new(regions) }, keys)?)
            }
            Self::BrainNetTf => {
                BrainNetTf::table(&changed(&BrainNetTfConfig { outputs, ..BrainNetTfConfig::new(regions) }, keys)?)
            }
        }))
    }

    /// Trains on the training part, chooses the epoch on the validation part, predicts the test part once.
    pub fn run(
        self,
        regions: usize,
        keys: &NetworkKeys,
        parts: &Parts<Arc<Connectome>>,
        run: &Run,
        observer: &dyn RunObserver,
    ) -> Result<Outcome, MethodError> {
        let outputs = run.loss.outputs();
        Ok(match self {
            Self::BrainNetCnn => outcome::<BrainNetCnn>(
                &changed(&BrainNetCnnConfig { outputs, ..BrainNetCnnConfig::new(regions) }, keys)?,
                parts,
                run,
                observer,
            )?,
            Self::BrainGnn => outcome::<BrainGnn>(
                &changed(&BrainGnnConfig { outputs, ..BrainGnnConfig::new(regions) }, keys)?,
                parts,
                run,
                observer,
            )?,
            Self::BrainNetTf => outcome::<BrainNetTf>(
                &changed(&BrainNetTfConfig { outputs, ..BrainNetTfConfig::new(regions) }, keys)?,
                parts,
                run,
                observer,
            )?,
        })
    }
}

/// There is no result.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum MethodError {
    #[error(transparent)]
    Key(#[from] NetworkKeyError),
    #[error(transparent)]
    Fit(#[from] SupervisedError),
}

/// A configuration with some of its keys changed. Regions and outputs follow from the data.
fn changed<C: Serialize + DeserializeOwned>(config: &C, keys: &NetworkKeys) -> Result<C, NetworkKeyError> {
    let mut table = serde_json::to_value(config).expect("a configuration is words and numbers");
    let known: Vec<String> = table
        .as_object()
        .map(|o| o.keys().filter(|k| !["regions", "outputs"].contains(&k.as_str())).map(|k| format!("model.{k}")))
        .map(Iterator::collect)
        .unwrap_or_default();
    for (key, value) in keys {
        if !known.contains(&format!("model.{key}")) {
            return Err(NetworkKeyError::Unknown { key: key.clone(), known });
        }
        table[key] = value.clone();
        serde_json::from_value::<C>(table.clone()).map_err(|error| NetworkKeyError::Value {
            key: key.clone(),
            expected: error.to_string(),
            found: value.to_string(),
        })?;
    }
    serde_json::from_value(table)
        .map_err(|error| NetworkKeyError::Unknown { key: error.to_string(), known: Vec::new() })
}

fn outcome<N: Network<Input = Connectome>>(
    config: &N::Config,
    parts: &Parts<Arc<Connectome>>,
    run: &Run,
    observer: &dyn RunObserver,
) -> Result<Outcome, SupervisedError> {
    let Run { recipe, loss, seed, kernels, device, states, ranks } = *run;
    let scans = &InMemory::new();
    let request = Request { config, recipe, loss, scans, parts, seed, kernels, device, states, ranks };
    Outcome::of(&fit_network::<N, _>(&request, observer)?, loss, scans, parts)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn oddities_are_keys_and_others_are_refused() {
        let keys = |key: &str, value| NetworkKeys::from([(key.to_owned(), value)]);
        for (method, key) in [
            (ConnectivityMethod::BrainNetCnn, "dropout_when_predicting"),
            (ConnectivityMethod::BrainNetCnn, "activate_output"),
            (ConnectivityMethod::BrainGnn, "repeat_sigmoid"),
            (ConnectivityMethod::BrainGnn, "penalise_kept_only"),
            (ConnectivityMethod::BrainNetTf, "first_centre_unnormalised"),
        ] {
            method.check(&keys(key, json!(true))).unwrap();
            let wrong = method.check(&keys(key, json!("often"))).unwrap_err().to_string();
            assert!(wrong.contains("often"), "{wrong}");
        }
        let other = ConnectivityMethod::BrainGnn.check(&keys("activate_output", json!(true))).unwrap_err();
        assert!(other.to_string().contains("model.repeat_sigmoid"), "{other}");
        assert!(ConnectivityMethod::BrainGnn.check(&keys("regions", json!(3))).is_err());
        let wide = ConnectivityMethod::BrainNetTf.parameter_count(20, 1, &keys("ffn", json!(8))).unwrap();
        assert!(wide < ConnectivityMethod::BrainNetTf.parameter_count(20, 1, &NetworkKeys::new()).unwrap());
    }
}
