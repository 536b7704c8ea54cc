//! Brain-JEPA: codes of hidden tokens are predicted, not their frames; the codes come from a slowly moving encoder.

mod mask;

pub use mask::{BlockSizes, JepaMasks, LEAST_WINDOWS};

use crate::token::grid::{Grid, PATCH, rows, shared_rows};
use crate::token::place::{Places, for_all_regions, for_all_windows, split_code};
use crate::token::trunk::{Trunk, TrunkShape};
use bdo_model::ema::blended;
use bdo_model::layer::{Linear, LinearStart, Source};
use bdo_model::ops::Kernels;
use bdo_model::parameters::{ParameterError, ParameterSpec, Start};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

/// Functional gradients a region is placed by.
pub const GRADIENTS: usize = 30;
/// Of the norm without parameters that codes go through before they are compared.
const TARGET_EPS: f64 = 1e-5;

/// How weights start; biases of linear layers start at zero.
const NORMAL: Start = Start::TruncatedNormal(0.02);
const START: LinearStart = LinearStart::Weight(NORMAL);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrainJepaConfig {
    pub grid: Grid,
    pub encoder: TrunkShape,
    pub predictor: TrunkShape,
}

impl BrainJepaConfig {
    /// The size whose encoder has this width: 192, 384 or 768. The predictor is half as wide, with as many heads.
    pub fn of_width(grid: Grid, width: usize) -> Self {
        let heads = (width / 64).max(1);
        let predictor = TrunkShape { width: width / 2, blocks: 6, heads };
        Self { grid, encoder: TrunkShape { width, blocks: 12, heads }, predictor }
    }
}

#[derive(Module, Debug)]
pub struct BrainJepa {
    /// Tokens to codes.
    pub encoder: JepaEncoder,
    /// Codes of the context to codes of targets.
    pub predictor: JepaPredictor,
}

/// The encoder: what the moving average covers.
#[derive(Module, Debug)]
pub struct JepaEncoder {
    /// 16 -> d.
    pub patch: Linear,
    /// Gradients -> d / 2.
    pub place: Linear,
    pub trunk: Trunk,
    #[module(skip)]
    grid: Grid,
    #[module(skip)]
    kernels: Kernels,
}

#[derive(Module, Debug)]
pub struct JepaPredictor {
    /// d -> predictor width.
    pub embed: Linear,
    /// Gradients -> half the predictor width.
    pub place: Linear,
    /// [predictor width] stands for a target.
    pub mask_token: Param<Tensor<1>>,
    pub trunk: Trunk,
    /// predictor width -> d.
    pub out: Linear,
    #[module(skip)]
    grid: Grid,
}

/// The encoder that gives targets: outside the gradient tape, moved slowly.
#[derive(Clone, Debug)]
pub struct JepaTeacher(JepaEncoder);

impl BrainJepa {
    pub fn table(config: &BrainJepaConfig) -> Vec<ParameterSpec> {
        Source::list(|source| Self::build(config, source))
    }

    pub fn build(config: &BrainJepaConfig, source: &mut Source) -> Result<Self, ParameterError> {
        let (e, p) = (config.encoder, config.predictor);
        Ok(Self {
            encoder: JepaEncoder::build(config, source)?,
            predictor: JepaPredictor {
                embed: source.linear_from("predictor.embed", e.width, p.width, START, true)?,
                place: source.linear_from("predictor.place", GRADIENTS, p.width / 2, START, true)?,
                mask_token: source.take("predictor.mask_token", [p.width], NORMAL)?,
                trunk: Trunk::build("predictor.trunk", p, START, source)?,
                out: source.linear_from("predictor.out", p.width, e.width, START, true)?,
                grid: config.grid,
            },
        })
    }

    /// Smooth-L1 distance of predicted codes from the teacher's; patches [B, N * W, 16], gradients [N, 30].
    pub fn loss(&self, teacher: &JepaTeacher, patches: Tensor<3>, masks: &JepaMasks, places: &Places) -> Tensor<1> {
        let codes = self.encoder.forward(rows(patches.clone(), &masks.context), &masks.context, places);
        let predicted = self.predictor.forward(codes, masks, places); // [B, K, d]
        let target = rows(teacher.targets(patches.inner(), places), &masks.target);
        smooth_l1(predicted, target.autodiff())
    }
}

impl JepaEncoder {
    pub fn table(config: &BrainJepaConfig) -> Vec<ParameterSpec> {
        Source::list(|source| Self::build(config, source))
    }

    pub fn build(config: &BrainJepaConfig, source: &mut Source) -> Result<Self, ParameterError> {
        let e = config.encoder;
        Ok(Self {
            patch: source.linear_from("encoder.patch", PATCH, e.width, START, true)?,
            place: source.linear_from("encoder.place", GRADIENTS, e.width / 2, START, true)?,
            trunk: Trunk::build("encoder.trunk", e, START, source)?,
            grid: config.grid,
            kernels: source.kernels,
        })
    }

    /// Codes of the given tokens: [B, K, 16] -> [B, K, d].
    fn forward(&self, patches: Tensor<3>, tokens: &[Vec<usize>], places: &Places) -> Tensor<3> {
        let codes = position_codes(&self.place, self.grid, places, &patches.device());
        self.trunk.forward(self.patch.forward(patches) + shared_rows(codes, tokens), None)
    }

    /// Mean code with every token visible: patches [B, N * W, 16] -> [B, d].
    pub fn feature(&self, patches: Tensor<3>, places: &Places) -> Tensor<2> {
        let [samples, tokens, _] = patches.dims();
        let all: Vec<Vec<usize>> = vec![(0..tokens).collect(); samples];
        let codes = self.forward(patches, &all, places);
        let width = codes.dims()[2];
        codes.mean_dim(1).reshape([samples, width])
    }
}

impl JepaPredictor {
    fn forward(&self, codes: Tensor<3>, masks: &JepaMasks, places: &Places) -> Tensor<3> {
        let x = self.embed.forward(codes);
        let [samples, seen, width] = x.dims();
        let table = position_codes(&self.place, self.grid, places, &x.device());
        let wanted = masks.target.first().map_or(0, Vec::len);
        let token = self.mask_token.val().reshape([1, 1, width]).expand([samples, wanted, width]);
        let known = x + shared_rows(table.clone(), &masks.context);
        let unknown = token + shared_rows(table, &masks.target);
        let x = self.trunk.forward(Tensor::cat(vec![known, unknown], 1), None);
        self.out.forward(x.narrow(1, seen, wanted))
    }
}

impl JepaTeacher {
    /// Starts as a copy of the encoder.
    pub fn new(online: &JepaEncoder) -> Self {
        Self(online.valid().no_grad())
    }

    /// The copy itself: what features are made with.
    pub fn encoder(&self) -> &JepaEncoder {
        &self.0
    }

    /// Codes of all tokens, each with mean 0 and variance 1.
    fn targets(&self, patches: Tensor<3>, places: &Places) -> Tensor<3> {
        let [samples, tokens, _] = patches.dims();
        let all: Vec<Vec<usize>> = vec![(0..tokens).collect(); samples];
        let codes = self.0.forward(patches, &all, places);
        let centred = codes.clone() - codes.mean_dim(2);
        let variance = centred.clone().square().mean_dim(2);
        centred / (variance + TARGET_EPS).sqrt()
    }

    /// slow <- momentum slow + (1 - momentum) online, for every parameter.
    pub fn update(&mut self, online: &JepaEncoder, momentum: f64) {
        self.0 = blended(self.0.clone(), online, momentum, self.0.kernels);
    }
}

/// Codes of all tokens, [N * W, d]: sinusoid of the window, then the projected gradients of the region, rescaled so that the
/// whole table runs from -1 to 1.
fn position_codes(place: &Linear, grid: Grid, places: &Places, device: &Device) -> Tensor<2> {
    let coordinates = places.on(device);
    let [regions, width] = coordinates.dims();
    let table = place.forward(coordinates.reshape([1, regions, width])); // [1, N, d / 2]
    let half = table.dims()[2];
    let flat = table.reshape([1, regions * half]);
    let (least, largest) = (flat.clone().min_dim(1), flat.clone().max_dim(1));
    let scaled = (flat - least.clone()) / (largest - least) * 2.0 - 1.0;
    let space = for_all_windows(scaled.reshape([regions, half]), grid.windows);
    let time = for_all_regions(&split_code(grid.windows, half), grid.regions, half, device);
    Tensor::cat(vec![time, space], 1)
}

/// Mean over elements of d^2 / 2 below one and |d| - 1/2 above.
fn smooth_l1(predicted: Tensor<3>, target: Tensor<3>) -> Tensor<1> {
    let distance = (predicted - target).abs();
    // min(|d|, 1) times (|d| - min(|d|, 1) / 2) is both branches at once.
    let near = distance.clone().clamp_max(1.0);
    (near.clone() * (distance - near * 0.5)).mean()
}
