//! The two token models as things that learn: how a scan is cut, what a step costs, what a feature is.

use crate::brainjepa::{BrainJepa, BrainJepaConfig, JepaMasks, JepaTeacher};
use crate::brainlm::{BrainLm, BrainLmConfig, UniformMask};
use crate::token::grid::{Cut, Grid};
use crate::token::place::Places;
use bdo_model::dropout::Dropout;
use bdo_model::init::draw_parameters;
use bdo_model::layer::Source;
use bdo_model::ops::Kernels;
use bdo_model::parameters::ParameterError;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::Rng;

/// A token model that is being trained.
pub trait Learner: Sized {
    /// What the optimiser changes.
    type Net: Module;

    /// Regions by windows.
    fn grid(&self) -> Grid;

    /// Which frames of a scan a visit sees.
    fn cut(&self, frames: usize, tr_seconds: f64, rng: &mut ChaCha12Rng) -> Cut;

    /// Which frames a feature is made from.
    fn feature_cut(&self, frames: usize, tr_seconds: f64) -> Cut;

    /// Loss of a batch of patches [B, N * W, 16]; masks and dropout come from `rng`.
    fn loss(&self, patches: Tensor<3>, rng: &mut ChaCha12Rng) -> Tensor<1>;

    /// The trained part.
    fn net(&self) -> &Self::Net;

    /// Exchanges the trained part and lets the rest follow with a momentum.
    fn updated(self, step: impl FnOnce(Self::Net) -> Self::Net, momentum: f64) -> Self;

    /// Patches [B, N * W, 16] outside any tape to features [B, d].
    fn feature(&self, patches: Tensor<3>) -> Tensor<2>;
}

/// BrainLM in training.
#[derive(Clone, Debug)]
pub struct LmLearner {
    net: BrainLm,
    places: Option<Places>,
}

/// Brain-JEPA in training, with its teacher.
#[derive(Clone, Debug)]
pub struct JepaLearner {
    net: BrainJepa,
    teacher: JepaTeacher,
    places: Places,
    grid: Grid,
}

impl LmLearner {
    /// A fresh one; without places, regions have learned codes.
    pub fn fresh(
        config: &BrainLmConfig,
        places: Option<Places>,
        seed: u64,
        kernels: Kernels,
    ) -> Result<Self, ParameterError> {
        let config = BrainLmConfig { centres: places.is_some(), ..config.clone() };
        let mut values = draw_parameters(&BrainLm::table(&config), seed);
        let device = Device::flex().autodiff();
        let net = BrainLm::build(&config, &mut Source { parameters: &mut values, device: &device, kernels })?;
        values.finish()?;
        Ok(Self { net, places })
    }
}

impl JepaLearner {
    /// A fresh one.
    pub fn fresh(
        config: &BrainJepaConfig,
        places: Places,
        seed: u64,
        kernels: Kernels,
    ) -> Result<Self, ParameterError> {
        let mut values = draw_parameters(&BrainJepa::table(config), seed);
        let device = Device::flex().autodiff();
        let net = BrainJepa::build(config, &mut Source { parameters: &mut values, device: &device, kernels })?;
        values.finish()?;
        let teacher = JepaTeacher::new(&net.encoder);
        Ok(Self { net, teacher, places, grid: config.grid })
    }
}

impl Learner for LmLearner {
    type Net = BrainLm;

    fn grid(&self) -> Grid {
        self.net.config().grid
    }

    fn cut(&self, frames: usize, _: f64, rng: &mut ChaCha12Rng) -> Cut {
        self.grid().random_cut(frames, rng)
    }

    fn feature_cut(&self, frames: usize, _: f64) -> Cut {
        self.grid().middle_cut(frames, 1)
    }

    fn loss(&self, patches: Tensor<3>, rng: &mut ChaCha12Rng) -> Tensor<1> {
        let config = self.net.config();
        let samples = patches.dims()[0];
        let masks: Vec<UniformMask> =
            (0..samples).map(|_| UniformMask::draw(config.grid.tokens(), config.mask_ratio, rng)).collect();
        let mut key = [0; 32];
        rng.fill_bytes(&mut key);
        let dropout = Some(Dropout { rate: config.dropout, key });
        self.net.loss(patches, &masks, self.places.as_ref(), dropout)
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

impl Learner for JepaLearner {
    type Net = BrainJepa;

    fn grid(&self) -> Grid {
        self.grid
    }

    fn cut(&self, frames: usize, tr_seconds: f64, rng: &mut ChaCha12Rng) -> Cut {
        self.grid.strided_cut(frames, tr_seconds, rng)
    }

    fn feature_cut(&self, frames: usize, tr_seconds: f64) -> Cut {
        self.grid.middle_cut(frames, self.grid.stride(frames, tr_seconds))
    }

    fn loss(&self, patches: Tensor<3>, rng: &mut ChaCha12Rng) -> Tensor<1> {
        let masks = JepaMasks::draw(self.grid, patches.dims()[0], rng);
        self.net.loss(&self.teacher, patches, &masks, &self.places)
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
