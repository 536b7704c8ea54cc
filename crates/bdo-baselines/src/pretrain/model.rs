//! What differs between the two token models in training: how a scan is cut, masks and loss, what follows an update, what a
//! feature is.

use crate::brainjepa::{BrainJepa, BrainJepaConfig, JepaEncoder, JepaMasks, JepaTeacher};
use crate::brainlm::{BrainLm, BrainLmConfig, UniformMask};
use crate::token::grid::{Cut, Grid};
use crate::token::place::Places;
use crate::tune::{SlowJepa, TokenEncoder};
use bdo_model::dropout::Dropout;
use bdo_model::init::draw_parameters;
use bdo_model::layer::Source;
use bdo_model::ops::Kernels;
use bdo_model::parameters::{ParameterError, ParameterSpec, Parameters};
use bdo_model::weights::{AVERAGE_FILE, WEIGHTS_FILE};
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::Rng;

/// A token model in training.
pub trait TokenModel: Clone + std::fmt::Debug + Sized + Send + Sync {
    /// What the optimiser changes.
    type Net: Module;
    type Config: Clone + std::fmt::Debug + Send + Sync;
    /// What is random in the loss of a micro-batch.
    type Masks: Send + Sync;
    /// What is trained further with labels.
    type Encoder: TokenEncoder<Config = Self::Config>;

    /// Files that keep it, and what each of them holds; the first is the trained part.
    fn files(config: &Self::Config) -> Vec<(&'static str, Vec<ParameterSpec>)>;

    /// A fresh one's values, one set a file.
    fn initial(config: &Self::Config, seed: u64) -> Vec<Parameters>;

    /// One with these values.
    fn of_parameters(
        config: &Self::Config,
        places: Option<Places>,
        sets: Vec<Parameters>,
        kernels: Kernels,
        device: &Device,
    ) -> Result<Self, ParameterError>;

    /// A fresh one; without places, the regions of a BrainLM must have learned codes.
    fn fresh(
        config: &Self::Config,
        places: Option<Places>,
        seed: u64,
        kernels: Kernels,
        device: &Device,
    ) -> Result<Self, ParameterError> {
        Self::of_parameters(config, places, Self::initial(config, seed), kernels, device)
    }

    /// Its values, one set a file.
    fn parameters(&self) -> Vec<Parameters>;

    fn grid(&self) -> Grid;

    /// Which frames of a scan a visit sees.
    fn cut(&self, frames: usize, tr_seconds: f64, rng: &mut ChaCha12Rng) -> Cut;

    /// Which frames a feature is made from.
    fn feature_cut(&self, frames: usize, tr_seconds: f64) -> Cut;

    /// Draws the masks of so many scans.
    fn masks(&self, scans: usize, rng: &mut ChaCha12Rng) -> Self::Masks;

    /// Loss of a batch of patches [B, N * W, 16].
    fn loss(&self, patches: Tensor<3>, masks: &Self::Masks) -> Tensor<1>;

    fn net(&self) -> &Self::Net;

    /// Exchanges the trained part and lets the rest follow with a momentum.
    fn updated(self, step: impl FnOnce(Self::Net) -> Self::Net, momentum: f64) -> Self;

    /// Patches [B, N * W, 16] outside any tape to features [B, d].
    fn feature(&self, patches: Tensor<3>) -> Tensor<2>;
}

/// BrainLM with the places of its regions.
#[derive(Clone, Debug)]
pub struct TrainedLm {
    net: BrainLm,
    places: Option<Places>,
}

/// Brain-JEPA with its teacher.
#[derive(Clone, Debug)]
pub struct TrainedJepa {
    net: BrainJepa,
    teacher: JepaTeacher,
    places: Places,
    grid: Grid,
}

/// Sets of values in the order of the files.
fn taken<const N: usize>(sets: Vec<Parameters>) -> Result<[Parameters; N], ParameterError> {
    sets.try_into().map_err(|_| ParameterError::Missing { name: WEIGHTS_FILE.to_owned() })
}

impl TokenModel for TrainedLm {
    type Net = BrainLm;
    type Config = BrainLmConfig;
    type Masks = (Vec<UniformMask>, Dropout);
    type Encoder = BrainLm;

    fn files(config: &BrainLmConfig) -> Vec<(&'static str, Vec<ParameterSpec>)> {
        vec![(WEIGHTS_FILE, BrainLm::table(config))]
    }

    fn initial(config: &BrainLmConfig, seed: u64) -> Vec<Parameters> {
        vec![draw_parameters(&BrainLm::table(config), seed)]
    }

    fn of_parameters(
        config: &BrainLmConfig,
        places: Option<Places>,
        sets: Vec<Parameters>,
        kernels: Kernels,
        device: &Device,
    ) -> Result<Self, ParameterError> {
        let [values] = taken(sets)?;
        let device = device.clone().autodiff();
        let net = Source::build(values, &device, kernels, |source| BrainLm::build(config, source))?;
        Ok(Self { net, places })
    }

    fn parameters(&self) -> Vec<Parameters> {
        vec![Parameters::of_module(&self.net, "")]
    }

    fn grid(&self) -> Grid {
        self.net.config().grid
    }

    fn cut(&self, frames: usize, _: f64, rng: &mut ChaCha12Rng) -> Cut {
        self.grid().random_cut(frames, rng)
    }

    fn feature_cut(&self, frames: usize, _: f64) -> Cut {
        self.grid().middle_cut(frames, 1)
    }

    fn masks(&self, scans: usize, rng: &mut ChaCha12Rng) -> (Vec<UniformMask>, Dropout) {
        let config = self.net.config();
        let draw = |_| UniformMask::draw(config.grid.tokens(), config.mask_ratio, rng);
        let masks = (0..scans).map(draw).collect();
        let mut key = [0; 32];
        rng.fill_bytes(&mut key);
        (masks, Dropout { rate: config.dropout, key })
    }

    fn loss(&self, patches: Tensor<3>, (masks, dropout): &(Vec<UniformMask>, Dropout)) -> Tensor<1> {
        self.net.loss(patches, masks, self.places.as_ref(), Some(*dropout))
    }

    fn net(&self) -> &BrainLm {
        &self.net
    }

    fn updated(self, step: impl FnOnce(BrainLm) -> BrainLm, _: f64) -> Self {
        Self { net: step(self.net), ..self }
    }

    fn feature(&self, patches: Tensor<3>) -> Tensor<2> {
        self.net.valid().feature(patches, self.places.as_ref())
    }
}

impl TokenModel for TrainedJepa {
    type Net = BrainJepa;
    type Config = BrainJepaConfig;
    type Masks = JepaMasks;
    type Encoder = SlowJepa;

    fn files(config: &BrainJepaConfig) -> Vec<(&'static str, Vec<ParameterSpec>)> {
        vec![(WEIGHTS_FILE, BrainJepa::table(config)), (AVERAGE_FILE, JepaEncoder::table(config))]
    }

    fn initial(config: &BrainJepaConfig, seed: u64) -> Vec<Parameters> {
        let net = draw_parameters(&BrainJepa::table(config), seed);
        let encoder = net.0.iter().filter(|(name, _)| name.starts_with("encoder."));
        let average = Parameters(encoder.map(|(name, values)| (name.clone(), values.clone())).collect());
        vec![net, average]
    }

    fn of_parameters(
        config: &BrainJepaConfig,
        places: Option<Places>,
        sets: Vec<Parameters>,
        kernels: Kernels,
        device: &Device,
    ) -> Result<Self, ParameterError> {
        let places = places.ok_or_else(|| ParameterError::Missing { name: "places".to_owned() })?;
        let [values, average] = taken(sets)?;
        let device = device.clone().autodiff();
        let net = Source::build(values, &device, kernels, |source| BrainJepa::build(config, source))?;
        let slow = Source::build(average, &device, kernels, |source| JepaEncoder::build(config, source))?;
        Ok(Self { net, teacher: JepaTeacher::new(&slow), places, grid: config.grid })
    }

    fn parameters(&self) -> Vec<Parameters> {
        vec![Parameters::of_module(&self.net, ""), Parameters::of_module(self.teacher.encoder(), "encoder")]
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn cut(&self, frames: usize, tr_seconds: f64, rng: &mut ChaCha12Rng) -> Cut {
        self.grid.strided_cut(frames, tr_seconds, rng)
    }

    fn feature_cut(&self, frames: usize, tr_seconds: f64) -> Cut {
        self.grid.middle_cut(frames, self.grid.stride(frames, tr_seconds))
    }

    fn masks(&self, scans: usize, rng: &mut ChaCha12Rng) -> JepaMasks {
        JepaMasks::draw(self.grid, scans, rng)
    }

    fn loss(&self, patches: Tensor<3>, masks: &JepaMasks) -> Tensor<1> {
        self.net.loss(&self.teacher, patches, masks, &self.places)
    }

    fn net(&self) -> &BrainJepa {
        &self.net
    }

    fn updated(self, step: impl FnOnce(BrainJepa) -> BrainJepa, momentum: f64) -> Self {
        let net = step(self.net);
        let mut teacher = self.teacher;
        teacher.update(&net.encoder, momentum);
        Self { net, teacher, ..self }
    }

    fn feature(&self, patches: Tensor<3>) -> Tensor<2> {
        self.teacher.encoder().feature(patches, &self.places)
    }
}
