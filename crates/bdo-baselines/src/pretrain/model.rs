//! What differs between the two token models in training: masks and loss, what follows an update, what features are made with.

use crate::brainjepa::{BrainJepa, BrainJepaConfig, JepaMasks, JepaTeacher};
use crate::brainlm::{BrainLm, BrainLmConfig, UniformMask};
use crate::token::{TokenEncoder, TokenNet, TokenShape};
use bdo_model::dropout::Dropout;
use bdo_model::init::draw_parameters;
use bdo_model::ops::Kernels;
use bdo_model::parameters::{ParameterError, Parameters};
use bdo_model::weights::{AVERAGE_FILE, WEIGHTS_FILE};
use bdo_train::learner::WeightFiles;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::Rng;

/// A token model in training.
pub trait TokenModel: Clone + std::fmt::Debug + Send + Sync {
    /// What the optimiser changes.
    type Net: Module;
    type Config: TokenShape;
    /// What is random in the loss of a micro-batch.
    type Masks: Send + Sync;
    /// What features are made with.
    type Encoder: TokenEncoder<Config = Self::Config>;

    /// Files that keep it, and what each of them holds; the first is the trained part.
    fn files(config: &Self::Config) -> WeightFiles;

    /// A fresh one's values, one set a file.
    fn initial(config: &Self::Config, seed: u64) -> Vec<Parameters>;

    /// One with these values.
    fn of_parameters(
        config: &Self::Config,
        sets: Vec<Parameters>,
        kernels: Kernels,
        device: &Device,
    ) -> Result<Self, ParameterError>;

    fn fresh(config: &Self::Config, seed: u64, kernels: Kernels, device: &Device) -> Result<Self, ParameterError> {
        Self::of_parameters(config, Self::initial(config, seed), kernels, device)
    }

    fn config(&self) -> &Self::Config;

    /// Its values, one set a file.
    fn parameters(&self) -> Vec<Parameters>;

    /// Draws the masks of so many scans.
    fn masks(config: &Self::Config, scans: usize, rng: &mut ChaCha12Rng) -> Self::Masks;

    /// Loss of a batch of patches [B, N * W, 16].
    fn loss(&self, patches: Tensor<3>, masks: &Self::Masks) -> Tensor<1>;

    fn net(&self) -> &Self::Net;

    /// Exchanges the trained part and lets the rest follow with a momentum.
    fn updated(self, step: impl FnOnce(Self::Net) -> Self::Net, momentum: f64) -> Self;

    /// What features are made with, outside any tape.
    fn encoder(&self) -> Self::Encoder;
}

/// Brain-JEPA with its teacher.
#[derive(Clone, Debug)]
pub struct TrainedJepa {
    net: BrainJepa,
    teacher: JepaTeacher,
}

/// Sets of values in the order of the files.
fn taken<const N: usize>(sets: Vec<Parameters>) -> Result<[Parameters; N], ParameterError> {
    sets.try_into().map_err(|_| ParameterError::Missing { name: WEIGHTS_FILE.to_owned() })
}

impl TokenModel for BrainLm {
    type Net = Self;
    type Config = BrainLmConfig;
    type Masks = (Vec<UniformMask>, Dropout);
    type Encoder = Self;

    fn files(config: &BrainLmConfig) -> WeightFiles {
        vec![(WEIGHTS_FILE, Self::table(config))]
    }

    fn initial(config: &BrainLmConfig, seed: u64) -> Vec<Parameters> {
        vec![draw_parameters(&Self::table(config), seed)]
    }

    fn of_parameters(
        config: &BrainLmConfig,
        sets: Vec<Parameters>,
        kernels: Kernels,
        device: &Device,
    ) -> Result<Self, ParameterError> {
        let [values] = taken(sets)?;
        TokenNet::of_parameters(config, values, kernels, &device.clone().autodiff())
    }

    fn config(&self) -> &BrainLmConfig {
        &self.config
    }

    fn parameters(&self) -> Vec<Parameters> {
        vec![Parameters::of_module(self, "")]
    }

    fn masks(config: &BrainLmConfig, scans: usize, rng: &mut ChaCha12Rng) -> Self::Masks {
        let draw = |_| UniformMask::draw(config.grid.tokens(), config.mask_ratio, rng);
        let masks = (0..scans).map(draw).collect();
        let mut key = [0; 32];
        rng.fill_bytes(&mut key);
        (masks, Dropout { rate: config.dropout, key })
    }

    fn loss(&self, patches: Tensor<3>, (masks, dropout): &Self::Masks) -> Tensor<1> {
        self.loss(patches, masks, Some(*dropout))
    }

    fn net(&self) -> &Self {
        self
    }

    fn updated(self, step: impl FnOnce(Self) -> Self, _: f64) -> Self {
        step(self)
    }

    fn encoder(&self) -> Self {
        self.valid()
    }
}

impl TokenModel for TrainedJepa {
    type Net = BrainJepa;
    type Config = BrainJepaConfig;
    type Masks = JepaMasks;
    type Encoder = JepaTeacher;

    fn files(config: &BrainJepaConfig) -> WeightFiles {
        vec![(WEIGHTS_FILE, BrainJepa::table(config)), (AVERAGE_FILE, JepaTeacher::table(config))]
    }

    fn initial(config: &BrainJepaConfig, seed: u64) -> Vec<Parameters> {
        let net = draw_parameters(&BrainJepa::table(config), seed);
        let encoder = net.0.iter().filter(|(name, _)| name.starts_with("encoder."));
        let average = Parameters(encoder.map(|(name, values)| (name.clone(), values.clone())).collect());
        vec![net, average]
    }

    fn of_parameters(
        config: &BrainJepaConfig,
        sets: Vec<Parameters>,
        kernels: Kernels,
        device: &Device,
    ) -> Result<Self, ParameterError> {
        if config.places.is_none() {
            return Err(ParameterError::Missing { name: "places".to_owned() });
        }
        let [values, average] = taken(sets)?;
        let device = device.clone().autodiff();
        let net = BrainJepa::of_parameters(config, values, kernels, &device)?;
        let slow = JepaTeacher::of_parameters(config, average, kernels, &device)?;
        Ok(Self { net, teacher: slow.valid().no_grad() })
    }

    fn config(&self) -> &BrainJepaConfig {
        &self.net.encoder.config
    }

    fn parameters(&self) -> Vec<Parameters> {
        vec![Parameters::of_module(&self.net, ""), Parameters::of_module(&self.teacher, "")]
    }

    fn masks(config: &BrainJepaConfig, scans: usize, rng: &mut ChaCha12Rng) -> JepaMasks {
        JepaMasks::draw(config.grid, scans, rng)
    }

    fn loss(&self, patches: Tensor<3>, masks: &JepaMasks) -> Tensor<1> {
        self.net.loss(&self.teacher, patches, masks)
    }

    fn net(&self) -> &BrainJepa {
        &self.net
    }

    fn updated(self, step: impl FnOnce(BrainJepa) -> BrainJepa, momentum: f64) -> Self {
        let net = step(self.net);
        let mut teacher = self.teacher;
        teacher.update(&net.encoder, momentum);
        Self { net, teacher }
    }

    fn encoder(&self) -> JepaTeacher {
        self.teacher.clone()
    }
}
