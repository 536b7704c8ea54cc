//! The connectivity networks by name, each with the inputs and the training its public code gives it.

use crate::braingnn::{BrainGnn, BrainGnnConfig};
use crate::brainnetcnn::{BrainNetCnn, BrainNetCnnConfig};
use crate::brainnettf::{BrainNetTf, BrainNetTfConfig};
use crate::connectivity::{ConnectivityKind, Connectome};
use crate::cost::{of_brain_gnn, of_brain_net_cnn, of_brain_net_tf};
use bdo_eval::error::EvalError;
use bdo_eval::fit::Loss;
use bdo_eval::score::{Score, by_person};
use bdo_eval::supervised::learner::{FittedNetwork, Parts, Request, fit_network};
use bdo_eval::supervised::network::{InMemory, Network};
use bdo_eval::supervised::recipe::Recipe;
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectivityMethod {
    BrainNetCnn,
    BrainGnn,
    BrainNetTf,
}

/// Changed keys of a network's configuration, such as the oddities of its public code.
pub type NetworkKeys = BTreeMap<String, serde_json::Value>;

#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The chosen epoch, counted from 0.
    pub epoch: usize,
    pub epochs: usize,
    /// Score of the chosen epoch on the validation people.
    pub validation: Score,
    pub test: Score,
    /// What is said of each test person, by number: the z-scored number, or the probabilities of all classes.
    pub said: BTreeMap<usize, Vec<f64>>,
}

impl Outcome {
    /// Predicts the test people with a trained network.
    pub fn of<N: Network>(fitted: &FittedNetwork<N>, parts: &Parts<Arc<N::Input>>) -> Result<Self, EvalError> {
        let test = fitted.predict(&InMemory::new(), &parts.test)?;
        Ok(Self {
            epoch: fitted.epoch,
            epochs: fitted.train_losses.len(),
            validation: fitted.score,
            test: Score::of(fitted.loss, &parts.test, &test),
            said: by_person(&parts.test, &test).into_iter().map(|(person, (_, said))| (person, said)).collect(),
        })
    }
}

/// Everything besides method, recipe and data that decides a result.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    pub loss: Loss,
    pub seed: u64,
    pub device: &'a Device,
    /// Where the state is kept, if anywhere: a folder, and a name for all that decides the training.
    pub states: Option<(&'a Path, &'a str)>,
    pub ranks: &'a dyn Ranks,
}

impl Run<'_> {
    /// Trains a network. Operands of linear layers in full precision: the networks are small, and some of their inputs nearly equal.
    pub fn fit<N: Network>(
        &self,
        config: &N::Config,
        recipe: &Recipe,
        parts: &Parts<Arc<N::Input>>,
        observer: &dyn RunObserver,
    ) -> Result<FittedNetwork<N>, EvalError> {
        let Run { loss, seed, device, states, ranks } = *self;
        let (scans, kernels) = (&InMemory::new(), Kernels::default());
        fit_network(&Request { config, recipe, loss, scans, parts, seed, kernels, device, states, ranks }, observer)
    }
}

impl ConnectivityMethod {
    pub const ALL: [Self; 3] = [Self::BrainNetCnn, Self::BrainGnn, Self::BrainNetTf];

    pub fn name(self) -> &'static str {
        match self {
            Self::BrainNetCnn => "brainnetcnn",
            Self::BrainGnn => "braingnn",
            Self::BrainNetTf => "brainnettf",
        }
    }

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
    pub fn check(self, keys: &NetworkKeys) -> Result<(), EvalError> {
        // Whatever the number of regions is, the keys are the same.
        self.configured(100, 1, keys).map(|_| ())
    }

    /// Trained numbers.
    pub fn parameter_count(self, regions: usize, outputs: usize, keys: &NetworkKeys) -> Result<usize, EvalError> {
        Ok(trainable_count(&match self.configured(regions, outputs, keys)? {
            Configured::Cnn(config) => BrainNetCnn::table(&config),
            Configured::Gnn(config) => BrainGnn::table(&config),
            Configured::Tf(config) => BrainNetTf::table(&config),
        }))
    }

    /// Operations of one training step, per scan.
    pub fn train_flops(self, regions: usize, outputs: usize, keys: &NetworkKeys) -> Result<f64, EvalError> {
        Ok(match self.configured(regions, outputs, keys)? {
            Configured::Cnn(config) => of_brain_net_cnn(&config),
            Configured::Gnn(config) => of_brain_gnn(&config),
            Configured::Tf(config) => of_brain_net_tf(&config),
        })
    }

    /// Trains on the training part, chooses the epoch on the validation part, predicts the test part once.
    pub fn run(
        self,
        regions: usize,
        (keys, recipe): (&NetworkKeys, &Recipe),
        parts: &Parts<Arc<Connectome>>,
        run: &Run,
        observer: &dyn RunObserver,
    ) -> Result<Outcome, EvalError> {
        match self.configured(regions, run.loss.outputs(), keys)? {
            Configured::Cnn(config) => Outcome::of(&run.fit::<BrainNetCnn>(&config, recipe, parts, observer)?, parts),
            Configured::Gnn(config) => Outcome::of(&run.fit::<BrainGnn>(&config, recipe, parts, observer)?, parts),
            Configured::Tf(config) => Outcome::of(&run.fit::<BrainNetTf>(&config, recipe, parts, observer)?, parts),
        }
    }

    fn configured(self, regions: usize, outputs: usize, keys: &NetworkKeys) -> Result<Configured, EvalError> {
        Ok(match self {
            Self::BrainNetCnn => Configured::Cnn(changed(&BrainNetCnnConfig::new(regions), outputs, keys)?),
            Self::BrainGnn => Configured::Gnn(changed(&BrainGnnConfig::new(regions), outputs, keys)?),
            Self::BrainNetTf => Configured::Tf(changed(&BrainNetTfConfig::new(regions), outputs, keys)?),
        })
    }
}

enum Configured {
    Cnn(BrainNetCnnConfig),
    Gnn(BrainGnnConfig),
    Tf(BrainNetTfConfig),
}

/// A configuration with some of its keys changed. Regions and outputs follow from the data.
fn changed<C: Serialize + DeserializeOwned>(config: &C, outputs: usize, keys: &NetworkKeys) -> Result<C, EvalError> {
    let mut table = serde_json::to_value(config).expect("a configuration is words and numbers");
    table["outputs"] = outputs.into();
    let data = |key: &String| ["regions", "outputs"].contains(&key.as_str());
    let known: Vec<String> =
        table.as_object().into_iter().flat_map(|t| t.keys()).filter(|k| !data(k)).cloned().collect();
    for (key, value) in keys {
        if !known.contains(key) {
            let known: Vec<String> = known.iter().map(|key| format!("model.{key}")).collect();
            return Err(EvalError::Unknown { name: format!("model.{key}"), known: known.join(", ") });
        }
        table[key] = value.clone();
        serde_json::from_value::<C>(table.clone())
            .map_err(|error| EvalError::named(format!("model.{key}"), error, value))?;
    }
    Ok(serde_json::from_value(table).expect("every key was checked"))
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
