//! Brain-JEPA: codes of hidden tokens are predicted, not their frames; the codes come from a slowly moving encoder.

use crate::select::{rows, shared_rows};
use crate::token::grid::{Grid, PATCH, WINDOWS};
use crate::token::place::{Places, for_all_regions, for_all_windows, split_code};
use crate::token::trunk::{Trunk, TrunkShape};
use crate::token::{TokenEncoder, TokenNet, TokenShape};
use bdo_data::random::{below, shuffle};
use bdo_model::ema::blended;
use bdo_model::layer::{Linear, LinearStart, Source};
use bdo_model::ops::Kernels;
use bdo_model::parameters::{ParameterError, Start};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};

/// Functional gradients a region is placed by.
pub const GRADIENTS: usize = 30;
/// Fewest windows for which the blocks of a mask leave a context.
pub const LEAST_WINDOWS: usize = 4;
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
    /// Where regions lie along functional gradients; a model directory keeps it beside the configuration.
    #[serde(skip)]
    pub places: Option<Places>,
}

impl BrainJepaConfig {
    /// The size whose encoder has this width: 192, 384 or 768. The predictor is half as wide, with as many heads.
    pub fn of_width(grid: Grid, width: usize) -> Self {
        let heads = (width / 64).max(1);
        let predictor = TrunkShape { width: width / 2, blocks: 6, heads };
        Self { grid, encoder: TrunkShape { width, blocks: 12, heads }, predictor, places: None }
    }
}

impl TokenShape for BrainJepaConfig {
    fn grid(&self) -> Grid {
        self.grid
    }

    fn encoder(&self) -> TrunkShape {
        self.encoder
    }

    /// Frames about 2.2 s apart.
    fn stride(&self, frames: usize, tr_seconds: f64) -> usize {
        self.grid.stride(frames, tr_seconds)
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
    pub(crate) config: BrainJepaConfig,
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
    config: BrainJepaConfig,
}

/// The encoder that moves slowly: it gives the targets, and features.
#[derive(Module, Debug)]
pub struct JepaTeacher {
    encoder: JepaEncoder,
}

impl TokenNet for BrainJepa {
    type Config = BrainJepaConfig;

    fn build(config: &BrainJepaConfig, source: &mut Source) -> Result<Self, ParameterError> {
        let (e, p) = (config.encoder, config.predictor);
        Ok(Self {
            encoder: JepaEncoder::build(config, source)?,
            predictor: JepaPredictor {
                embed: source.linear_from("predictor.embed", e.width, p.width, START, true)?,
                place: source.linear_from("predictor.place", GRADIENTS, p.width / 2, START, true)?,
                mask_token: source.take("predictor.mask_token", [p.width], NORMAL)?,
                trunk: Trunk::build("predictor.trunk", p, START, source)?,
                out: source.linear_from("predictor.out", p.width, e.width, START, true)?,
                config: config.clone(),
            },
        })
    }
}

impl BrainJepa {
    /// Smooth-L1 distance of predicted codes from the teacher's; patches [B, N * W, 16].
    pub fn loss(&self, teacher: &JepaTeacher, patches: Tensor<3>, masks: &JepaMasks) -> Tensor<1> {
        let codes = self.encoder.forward(rows(patches.clone(), &masks.context), &masks.context);
        let predicted = self.predictor.forward(codes, masks); // [B, K, d]
        let target = rows(teacher.targets(patches.inner()), &masks.target);
        smooth_l1(predicted, target.autodiff())
    }
}

impl JepaEncoder {
    fn build(config: &BrainJepaConfig, source: &mut Source) -> Result<Self, ParameterError> {
        let e = config.encoder;
        Ok(Self {
            patch: source.linear_from("encoder.patch", PATCH, e.width, START, true)?,
            place: source.linear_from("encoder.place", GRADIENTS, e.width / 2, START, true)?,
            trunk: Trunk::build("encoder.trunk", e, START, source)?,
            config: config.clone(),
            kernels: source.kernels,
        })
    }

    /// Codes of the given tokens: [B, K, 16] -> [B, K, d].
    fn forward(&self, patches: Tensor<3>, tokens: &[Vec<usize>]) -> Tensor<3> {
        let codes = position_codes(&self.place, &self.config, &patches.device());
        self.trunk.forward(self.patch.forward(patches) + shared_rows(codes, tokens), None)
    }

    /// Codes of all tokens: patches [B, N * W, 16] -> [B, N * W, d].
    fn all(&self, patches: Tensor<3>) -> Tensor<3> {
        let [samples, tokens, _] = patches.dims();
        self.forward(patches, &vec![(0..tokens).collect(); samples])
    }
}

impl JepaPredictor {
    fn forward(&self, codes: Tensor<3>, masks: &JepaMasks) -> Tensor<3> {
        let x = self.embed.forward(codes);
        let [samples, seen, width] = x.dims();
        let table = position_codes(&self.place, &self.config, &x.device());
        let wanted = masks.target.first().map_or(0, Vec::len);
        let token = self.mask_token.val().reshape([1, 1, width]).expand([samples, wanted, width]);
        let known = x + shared_rows(table.clone(), &masks.context);
        let unknown = token + shared_rows(table, &masks.target);
        let x = self.trunk.forward(Tensor::cat(vec![known, unknown], 1), None);
        self.out.forward(x.narrow(1, seen, wanted))
    }
}

impl TokenNet for JepaTeacher {
    type Config = BrainJepaConfig;

    fn build(config: &BrainJepaConfig, source: &mut Source) -> Result<Self, ParameterError> {
        Ok(Self { encoder: JepaEncoder::build(config, source)? })
    }
}

impl TokenEncoder for JepaTeacher {
    /// The mean code.
    fn feature(&self, patches: Tensor<3>) -> Tensor<2> {
        let codes = self.encoder.all(patches);
        let [samples, _, width] = codes.dims();
        codes.mean_dim(1).reshape([samples, width])
    }
}

impl JepaTeacher {
    /// Starts as a copy of the encoder.
    pub fn new(online: &JepaEncoder) -> Self {
        Self { encoder: online.valid().no_grad() }
    }

    /// Codes of all tokens, each with mean 0 and variance 1.
    fn targets(&self, patches: Tensor<3>) -> Tensor<3> {
        let codes = self.encoder.all(patches);
        let centred = codes.clone() - codes.mean_dim(2);
        let variance = centred.clone().square().mean_dim(2);
        centred / (variance + TARGET_EPS).sqrt()
    }

    /// slow <- momentum slow + (1 - momentum) online, for every parameter.
    pub fn update(&mut self, online: &JepaEncoder, momentum: f64) {
        self.encoder = blended(self.encoder.clone(), online, momentum, self.encoder.kernels);
    }
}

/// Codes of all tokens, [N * W, d]: sinusoid of the window, then the projected gradients of the region, rescaled so that the
/// whole table runs from -1 to 1.
fn position_codes(place: &Linear, config: &BrainJepaConfig, device: &Device) -> Tensor<2> {
    let grid = config.grid;
    let coordinates = config.places.as_ref().expect("a Brain-JEPA is never without places").on(device);
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

/// Context and targets of the scans of a batch, as tokens; every scan has as many as the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JepaMasks {
    /// Encoded.
    pub context: Vec<Vec<usize>>,
    /// Predicted: other regions, then later windows, then earlier ones; a token may occur twice.
    pub target: Vec<Vec<usize>>,
}

/// Sizes of blocks, drawn once a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Regions of the observation.
    pub observed_regions: usize,
    /// Windows of the observation.
    pub observed_windows: usize,
    /// Regions that are predicted from other regions.
    pub crossed_regions: usize,
    /// Windows in which they are.
    pub crossed_windows: usize,
}

/// One scan before lists are cut to the length of the shortest.
struct Drawn {
    context: Vec<usize>,
    target: Vec<usize>,
}

impl BlockSizes {
    /// The ranges of the original.
    pub fn draw(grid: Grid, rng: &mut impl Rng) -> Self {
        let Grid { regions, windows } = grid;
        let observed_windows = share(windows, between(0.84, 1.0, rng)).max(1);
        Self {
            observed_regions: share(regions, between(0.84, 1.0, rng)).max(1),
            observed_windows,
            crossed_regions: share(regions, between(0.45, 0.6, rng)),
            crossed_windows: share(windows, between(0.2, 0.6, rng)).clamp(1, observed_windows),
        }
    }
}

impl JepaMasks {
    /// Masks of a batch. The grid has at least [`LEAST_WINDOWS`] windows and ten regions.
    pub fn draw(grid: Grid, samples: usize, rng: &mut impl Rng) -> Self {
        let sizes = BlockSizes::draw(grid, rng);
        let drawn: Vec<Drawn> = (0..samples).map(|_| Drawn::of(grid, sizes, rng)).collect();
        let shortest = |pick: fn(&Drawn) -> &Vec<usize>| drawn.iter().map(|d| pick(d).len()).min().unwrap_or(0);
        let (context, target) = (shortest(|d| &d.context), shortest(|d| &d.target));
        // The heads of the lists are kept, as in the original.
        Self {
            context: drawn.iter().map(|d| d.context[..context].to_vec()).collect(),
            target: drawn.iter().map(|d| d.target[..target].to_vec()).collect(),
        }
    }
}

impl Drawn {
    /// A scan of a small grid can come out without a context or a target; then it is drawn again.
    fn of(grid: Grid, sizes: BlockSizes, rng: &mut impl Rng) -> Self {
        loop {
            let drawn = Self::once(grid, sizes, rng);
            if !drawn.context.is_empty() && !drawn.target.is_empty() {
                return drawn;
            }
        }
    }

    fn once(grid: Grid, sizes: BlockSizes, rng: &mut impl Rng) -> Self {
        let Grid { regions, windows } = grid;
        let observed = subset(&(0..regions).collect::<Vec<_>>(), sizes.observed_regions, rng);
        let start = start(windows - sizes.observed_windows, rng);
        let crossed = subset(&(0..regions).collect::<Vec<_>>(), sizes.crossed_regions, rng);
        let crossed_start = start + self::start(sizes.observed_windows - sizes.crossed_windows, rng);
        let mut target = tokens(grid, &crossed, &range(crossed_start, sizes.crossed_windows));

        let is_crossed = membership(&crossed, regions);
        let inside: Vec<usize> = observed.iter().copied().filter(|r| !is_crossed[*r]).collect();
        let is_inside = membership(&inside, regions);
        let outside: Vec<usize> = (0..regions).filter(|r| !is_inside[*r]).collect();
        // Three of ten windows at either end.
        let edge = (3 * windows / WINDOWS).clamp(1, windows / 2);
        let mut removed = vec![false; windows];
        for ends in [range(windows - edge, edge), range(0, edge)] {
            let u = between(0.15, 0.3, rng);
            let mut chosen = subset(&inside, share(inside.len(), u), rng);
            chosen.extend(subset(&outside, share(outside.len(), u), rng));
            let count = share(windows, between(0.0, 0.4, rng)).min(edge);
            let ends = subset(&ends, count, rng);
            ends.iter().for_each(|w| removed[*w] = true);
            target.extend(tokens(grid, &chosen, &ends));
        }
        let kept: Vec<usize> = range(start, sizes.observed_windows).into_iter().filter(|w| !removed[*w]).collect();
        Self { context: tokens(grid, &inside, &kept), target }
    }
}

fn tokens(grid: Grid, regions: &[usize], windows: &[usize]) -> Vec<usize> {
    regions.iter().flat_map(|r| windows.iter().map(move |w| r * grid.windows + w)).collect()
}

fn range(start: usize, length: usize) -> Vec<usize> {
    (start..start + length).collect()
}

fn membership(members: &[usize], count: usize) -> Vec<bool> {
    let mut flags = vec![false; count];
    members.iter().for_each(|m| flags[*m] = true);
    flags
}

/// The whole part of a share.
fn share(of: usize, u: f64) -> usize {
    (of as f64 * u) as usize
}

/// Uniform below `room`, the last place left out as in the original; 0 where there is no choice.
fn start(room: usize, rng: &mut impl Rng) -> usize {
    if room == 0 { 0 } else { below(rng, room as u64) as usize }
}

fn between(low: f64, high: f64, rng: &mut impl Rng) -> f64 {
    low + (high - low) * ((rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64)
}

/// `count` of the items without repetition, in ascending order.
fn subset(items: &[usize], count: usize, rng: &mut impl Rng) -> Vec<usize> {
    let mut order = items.to_vec();
    shuffle(&mut order, rng);
    order.truncate(count);
    order.sort_unstable();
    order
}
