//! BrainLM: masked autoencoding of regions by windows.

use crate::select::{rows, shared_rows};
use crate::token::grid::{Grid, PATCH};
use crate::token::place::{Places, alternating_code, for_all_regions, for_all_windows};
use crate::token::trunk::{Trunk, TrunkShape};
use crate::token::{TokenEncoder, TokenNet, TokenShape};
use bdo_data::random::shuffle;
use bdo_model::dropout::Dropout;
use bdo_model::layer::{Linear, LinearStart, Source};
use bdo_model::parameters::{ParameterError, Start};
use bdo_train::settings::{Preset, Settings};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, activation};
use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};

const SLOPE: f64 = 0.1;
/// Site of the dropout of tokens, apart from those of the blocks.
const TOKEN_SITE: usize = 1000;

/// How linear layers start.
const START: LinearStart = LinearStart::Xavier;
/// How other parameters start.
const NORMAL: Start = Start::TruncatedNormal(0.02);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrainLmConfig {
    pub grid: Grid,
    pub encoder: TrunkShape,
    pub decoder: TrunkShape,
    /// Whether regions are placed by their centres; if not, each has a learned code.
    pub centres: bool,
    /// Dropout of tokens, training only.
    pub dropout: f64,
    /// Dropout of attention, training only.
    pub attention_dropout: f64,
    /// Share of tokens that are hidden.
    pub mask_ratio: f64,
    /// Centres of the regions; a model directory keeps them beside the configuration.
    #[serde(skip)]
    pub places: Option<Places>,
}

impl BrainLmConfig {
    /// The size whose encoder has this width: 192, 384 or 768.
    pub fn of_width(grid: Grid, width: usize, centres: bool) -> Self {
        let decoder = if width >= 768 {
            TrunkShape { width: 512, blocks: 8, heads: 16 }
        } else {
            TrunkShape { width: 192, blocks: 4, heads: 3 }
        };
        let encoder = TrunkShape { width, blocks: 12, heads: (width / 64).max(1) };
        let Settings { method, model, mask, .. } = Settings::preset(Preset::BrainLm);
        let (dropout, attention_dropout) = (model.dropout, method.attention_dropout);
        Self { grid, encoder, decoder, centres, dropout, attention_dropout, mask_ratio: mask.ratio, places: None }
    }
}

impl TokenShape for BrainLmConfig {
    fn grid(&self) -> Grid {
        self.grid
    }

    fn encoder(&self) -> TrunkShape {
        self.encoder
    }

    /// Neighbouring frames.
    fn stride(&self, _frames: usize, _tr_seconds: f64) -> usize {
        1
    }
}

#[derive(Module, Debug)]
pub struct BrainLm {
    /// Visible tokens to codes.
    pub encoder: LmEncoder,
    /// Codes to the frames of hidden tokens.
    pub decoder: LmDecoder,
    #[module(skip)]
    pub(crate) config: BrainLmConfig,
}

/// Where a region is.
#[derive(Module, Debug)]
pub struct LmPlace {
    /// Centre to code.
    pub centre: Option<Linear>,
    /// [N, d] a code for every region, where centres are not known.
    pub learned: Option<Param<Tensor<2>>>,
}

#[derive(Module, Debug)]
pub struct LmEncoder {
    /// 16 -> d.
    pub patch: Linear,
    pub place: LmPlace,
    /// [d] a token that belongs to no place.
    pub cls: Param<Tensor<1>>,
    pub trunk: Trunk,
}

#[derive(Module, Debug)]
pub struct LmDecoder {
    /// d -> decoder width.
    pub embed: Linear,
    /// [decoder width] stands for what is hidden.
    pub mask_token: Param<Tensor<1>>,
    pub place: LmPlace,
    pub trunk: Trunk,
    /// decoder width -> half of it.
    pub head1: Linear,
    /// -> 16.
    pub head2: Linear,
}

impl LmPlace {
    fn build(name: &str, config: &BrainLmConfig, width: usize, source: &mut Source) -> Result<Self, ParameterError> {
        Ok(if config.centres {
            Self { centre: Some(source.linear_from(&format!("{name}.centre"), 3, width, START, true)?), learned: None }
        } else {
            let learned = source.take(&format!("{name}.learned"), [config.grid.regions, width], NORMAL)?;
            Self { centre: None, learned: Some(learned) }
        })
    }

    /// Codes of all tokens: place of the region plus sinusoid of the window, [N * W, width].
    fn codes(&self, config: &BrainLmConfig, width: usize, device: &Device) -> Tensor<2> {
        let grid = config.grid;
        let table = match (&self.centre, &self.learned) {
            (Some(centre), _) => {
                let places = config.places.as_ref().expect("a model with centres is given them").on(device);
                let [regions, three] = places.dims();
                centre.forward(places.reshape([1, regions, three])).reshape([regions, width])
            }
            (None, Some(learned)) => learned.val(),
            (None, None) => Tensor::zeros([grid.regions, width], device),
        };
        let windows = for_all_regions(&alternating_code(grid.windows, width), grid.regions, width, device);
        for_all_windows(table, grid.windows) + windows
    }
}

impl TokenNet for BrainLm {
    type Config = BrainLmConfig;

    fn build(config: &BrainLmConfig, source: &mut Source) -> Result<Self, ParameterError> {
        let (e, d) = (config.encoder, config.decoder);
        Ok(Self {
            encoder: LmEncoder {
                patch: source.linear_from("encoder.patch", PATCH, e.width, START, true)?,
                place: LmPlace::build("encoder.place", config, e.width, source)?,
                cls: source.take("encoder.cls", [e.width], NORMAL)?,
                trunk: Trunk::build("encoder.trunk", e, START, source)?,
            },
            decoder: LmDecoder {
                embed: source.linear_from("decoder.embed", e.width, d.width, START, true)?,
                mask_token: source.take("decoder.mask_token", [d.width], NORMAL)?,
                place: LmPlace::build("decoder.place", config, d.width, source)?,
                trunk: Trunk::build("decoder.trunk", d, START, source)?,
                head1: source.linear_from("decoder.head1", d.width, d.width / 2, START, true)?,
                head2: source.linear_from("decoder.head2", d.width / 2, PATCH, START, true)?,
            },
            config: config.clone(),
        })
    }
}

/// The decoder is carried along untouched.
impl TokenEncoder for BrainLm {
    /// The code of the CLS token.
    fn feature(&self, patches: Tensor<3>) -> Tensor<2> {
        let [samples, tokens, _] = patches.dims();
        let all: Vec<Vec<usize>> = vec![(0..tokens).collect(); samples];
        let width = self.config.encoder.width;
        self.encode(patches, &all, None).narrow(1, 0, 1).reshape([samples, width])
    }
}

impl BrainLm {
    /// Mean squared error of hidden tokens; patches [B, N * W, 16].
    pub fn loss(&self, patches: Tensor<3>, masks: &[UniformMask], dropout: Option<Dropout>) -> Tensor<1> {
        let visible: Vec<Vec<usize>> = masks.iter().map(|mask| mask.visible.clone()).collect();
        let masked: Vec<Vec<usize>> = masks.iter().map(|mask| mask.masked.clone()).collect();
        let codes = self.encode(rows(patches.clone(), &visible), &visible, dropout);
        let predicted = self.decode(codes, &visible, &masked, dropout);
        (predicted - rows(patches, &masked)).square().mean()
    }

    /// Codes of the CLS token and the given tokens: [B, K, 16] -> [B, 1 + K, d].
    fn encode(&self, patches: Tensor<3>, tokens: &[Vec<usize>], dropout: Option<Dropout>) -> Tensor<3> {
        let [samples, _, _] = patches.dims();
        let width = self.config.encoder.width;
        let device = patches.device();
        let codes = self.encoder.place.codes(&self.config, width, &device);
        let mut x = self.encoder.patch.forward(patches) + shared_rows(codes, tokens);
        if let Some(dropout) = dropout.filter(|dropout| dropout.rate > 0.0) {
            x = dropout.apply(TOKEN_SITE, x);
        }
        let cls = self.encoder.cls.val().reshape([1, 1, width]).expand([samples, 1, width]);
        self.encoder.trunk.forward(Tensor::cat(vec![cls, x], 1), self.of_attention(dropout))
    }

    /// The dropout of attention that goes with a dropout of tokens.
    fn of_attention(&self, dropout: Option<Dropout>) -> Option<Dropout> {
        let rate = self.config.attention_dropout;
        dropout.filter(|_| rate > 0.0).map(|dropout| Dropout { rate, ..dropout })
    }

    /// Frames of the hidden tokens: [B, M, 16].
    fn decode(
        &self,
        codes: Tensor<3>,
        visible: &[Vec<usize>],
        masked: &[Vec<usize>],
        dropout: Option<Dropout>,
    ) -> Tensor<3> {
        let decoder = &self.decoder;
        let width = self.config.decoder.width;
        let (samples, hidden) = (masked.len(), masked.first().map_or(0, Vec::len));
        let x = decoder.embed.forward(codes); // [B, 1 + K, width]
        let seen = x.dims()[1];
        let device = x.device();
        let table = decoder.place.codes(&self.config, width, &device);
        let token = decoder.mask_token.val().reshape([1, 1, width]).expand([samples, hidden, width]);
        // Attention does not care about the order of tokens, so hidden ones simply follow the visible ones.
        let cls = x.clone().narrow(1, 0, 1);
        let known = x.narrow(1, 1, seen - 1) + shared_rows(table.clone(), visible);
        let unknown = token + shared_rows(table, masked);
        // Sites of the decoder's dropout follow those of the encoder.
        let dropout = self.of_attention(dropout).map(|d| Dropout { key: d.key.map(|byte| !byte), ..d });
        let x = decoder.trunk.forward(Tensor::cat(vec![cls, known, unknown], 1), dropout);
        let x = x.narrow(1, seen, hidden);
        decoder.head2.forward(activation::leaky_relu(decoder.head1.forward(x), SLOPE))
    }
}

/// Visible and masked tokens of one scan, each ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniformMask {
    /// Encoded.
    pub visible: Vec<usize>,
    /// To be predicted.
    pub masked: Vec<usize>,
}

impl UniformMask {
    /// Hides a share of the tokens: what is left is rounded down, but at least one on either side.
    pub fn draw(tokens: usize, ratio: f64, rng: &mut impl Rng) -> Self {
        // The share is given in decimals: 4500 (1 - 0.75) must not become 1124 for want of a last bit.
        let keep = ((tokens as f64 * (1.0 - ratio) + 1e-9) as usize).clamp(1, tokens.saturating_sub(1).max(1));
        let mut order: Vec<usize> = (0..tokens).collect();
        shuffle(&mut order, rng);
        let mut masked = order.split_off(keep);
        order.sort_unstable();
        masked.sort_unstable();
        Self { visible: order, masked }
    }
}
