//! The configuration of a model: the keys of `[model]`, `[dynamics]` and `[loss]` with the values of the published method,
//! checked once with [`ModelConfig::check`]. Presets change them (`configs/`); unknown keys are errors.

use crate::key::{self, BDO, BELOW_ONE, NOT_NEGATIVE, POSITIVE, RangeError, SHARE, STORED, between};
use crate::{keys, words};
use serde::{Deserialize, Serialize};

/// Latent dimensions per attention head, where the number of heads is not given.
const WIDTH_PER_HEAD: usize = 64;

keys! {
    /// The whole model configuration, stored as `config.json` beside the weights.
    // Each flag is a key of its own in the file; grouping them would only hide that.
    #[allow(clippy::struct_excessive_bools)]
    pub struct ModelConfig in "model", once [pooling] {
        /// Always `bdo`: tells other tools what the folder holds.
        model_type: ModelType = ModelType::Bdo, SHARE, STORED;
        /// Number of regions in the parcellation; that of the cohort.
        regions: usize = 450, between(1, 1 << 17), STORED;
        /// Latent width. `auto` is that of the size.
        width: usize = 192, between(1, 1 << 14), BDO;
        /// Transformer blocks of the encoder; the paper has 12 at every size.
        blocks: usize = 12, between(1, 1 << 10), BDO;
        /// Attention heads. `auto` is one per 64 latent dimensions, as in vision transformers of these sizes.
        heads: usize = 3, between(1, 1 << 10), BDO;
        /// Width of the feed-forward layer as a multiple of `width`; agrees with the paper's parameter counts.
        ffn_ratio: usize = 4, between(1, 64), STORED;
        /// Number of basis rate vectors of the latent process; the paper's value.
        basis_count: usize = 100, between(1, 1 << 14), BDO;
        /// Added to the variance inside every layer norm, against division by zero.
        layer_norm_eps: f64 = 1e-6, POSITIVE, STORED;
        /// Layer norm after the last block, as in vision transformers: it fixes the scale of the latent target.
        final_norm: bool = true, SHARE, BDO;
        /// The extra layer norm between attention and its output projection, as the paper draws it.
        attention_norm: bool = true, SHARE, BDO;
        /// Bias of the query, key and value projections; the paper does not say, vision transformers have it.
        qkv_bias: bool = true, SHARE, BDO;
        /// Dropout in training: BDO's attention probabilities and decoder, BrainLM's tokens. BDO's paper does not mention any.
        dropout: f64 = 0.0, BELOW_ONE, &["bdo", "brainlm"];
        /// Clock of the sinusoidal time code: `scaled` by `time_scale`, as the latent process is, or `unscaled` seconds.
        time_encoding: TimeEncoding = TimeEncoding::Scaled, SHARE, BDO;
        /// Radians of the fastest sinusoid per unit of its clock. 1 is the usual code; above 1 attention can tell
        /// neighbouring frames apart.
        time_encoding_rate: f64 = 1.0, POSITIVE, BDO;
        /// Whether the last quarter of the time code holds the gaps to the visible frames before and after. Attention only
        /// compares times, while how much a neighbour is worth depends on the gap to it.
        gap_code: bool = false, SHARE, BDO;
        /// Scaled time per second: the clock of the latent process.
        time_scale: f64 = 0.1, POSITIVE, BDO;
        /// Initial attention matrices: drawn `independent`ly, or `local`, each head beginning at the frames around one lag.
        attention_start: AttentionStart = AttentionStart::Independent, SHARE, BDO;
        /// Factor on the initial weights of the output projections of attention. At 1 the norm before that projection
        /// starts every block with a vector as large as the token and nearly the same for all frames, which buries the data.
        attention_output_init: f64 = 1.0, NOT_NEGATIVE, BDO;
        /// Whether a scan is divided by the root mean square of its visible values before it is encoded, and predictions are
        /// multiplied by it again. Scanners differ in gain, and a loss of raw squares is that of the loudest scans.
        unit_input: bool = false, SHARE, BDO;
        /// Whether every region of a scan is divided by the root mean square of its own visible values, instead of the scan by
        /// that of all its regions: the encoder then sees how regions go together, and not how large they are.
        unit_regions: bool = false, SHARE, BDO;
        /// Whether the mean control tells how the regions of the visible frames go together, in as many coordinates as there are
        /// latent dimensions, those in which training people differ most. What single frames add to the control is then centred
        /// over the visible frames.
        fingerprint: bool = false, SHARE, BDO;
        /// What the fingerprint is made of: `correlations` of regions, or coefficients of `ridge` regression of every region on
        /// all, in which the global signal does not outweigh the rest.
        fingerprint_of: FingerprintOf = FingerprintOf::Correlations, SHARE, BDO;
        /// Whether the reconstruction starts from the best linear smoother of the visible frames, along principal directions of
        /// the training people with autocorrelations of their own, and the network adds the rest.
        smoother: bool = false, SHARE, BDO;
        /// Initial layers that read region values: drawn `independent`ly, or `affine`, nearly linear at first.
        embed_start: EmbedStart = EmbedStart::Independent, SHARE, BDO;
        /// Whether training draws the context latents around the encoder output, as the paper's objective says.
        sample_latent: bool = true, SHARE, BDO;
    }
    parts {
        /// The latent stochastic process.
        dynamics: DynamicsConfig;
        /// The training objective.
        loss: LossConfig;
    }
}

keys! {
    /// Keys of the latent process.
    pub struct DynamicsConfig in "dynamics", once [] {
        /// Standard deviation of the driving noise per square root of scaled time. 1 is the paper's unit diffusion.
        diffusion: f64 = 1.0, NOT_NEGATIVE, BDO;
        /// Added to every basis rate so that none can reach zero.
        rate_floor: f64 = 1e-6, NOT_NEGATIVE, BDO;
        /// Added to the learned initial variance so that it cannot reach zero.
        variance_floor: f64 = 1e-6, NOT_NEGATIVE, BDO;
        /// Whether the eigenbasis is trained, as in the paper; if not it stays at its random start.
        learn_basis: bool = true, SHARE, BDO;
        /// Driver of the state before the first context frame: the `first_context` token carried backward, which adds no
        /// parameters, or a `learned_token` shared by all scans.
        lead: Lead = Lead::FirstContext, SHARE, BDO;
    }
}

keys! {
    /// Keys of the objective.
    pub struct LossConfig in "loss", once [fingerprint] {
        /// Share of the reconstruction in the mixture of the two targets; the latent target has the rest. Our choice, since it makes
        /// tau 0.03, the best value of the paper's ablation.
        lambda: f64 = 0.97, SHARE, BDO;
        /// Weight of the latent target distance. `auto` is `(1 - lambda) sigma_g^2 / sigma_q^2`: 0.03 at the
        /// defaults.
        tau: Option<f64> = None, NOT_NEGATIVE, BDO;
        /// Weight of the reconstruction; 0 trains on the latent target alone, an ablation of the paper.
        reconstruction_weight: f64 = 1.0, NOT_NEGATIVE, BDO;
        /// Standard deviation of the context latents around the encoder output. The paper gives none; 0.1 is small beside
        /// latents of unit size.
        sigma_q: f64 = 0.1, NOT_NEGATIVE, BDO;
        /// Standard deviation of a predicted latent around the state; as `sigma_q`. Above 0, since the draw takes a square
        /// root, whose slope at 0 is infinite.
        sigma_p: f64 = 0.1, POSITIVE, BDO;
        /// Standard deviation of the observation likelihood; as `sigma_q`.
        sigma_g: f64 = 0.1, NOT_NEGATIVE, BDO;
        /// Weight of the control energy. `auto` is `sigma_g` squared, which the paper's bound gives.
        energy_weight: Option<f64> = None, NOT_NEGATIVE, BDO;
        /// Whether the latent term is evaluated on the draw that is decoded (`sampled`) or in expectation (`analytic`).
        latent_term: LatentTerm = LatentTerm::Sampled, SHARE, BDO;
        /// State draws per training step; one is the cheapest unbiased choice.
        monte_carlo_samples: usize = 1, between(1, 1 << 10), BDO;
        /// Weight of the identity term: two visits of one scan, disjoint in time, must give the same mean control, and other
        /// people scanned in the same way must not. 0 is the paper.
        identity: f64 = 0.0, NOT_NEGATIVE, BDO;
        /// Temperature of the identity term: the smaller, the more the most similar strangers count.
        identity_temperature: f64 = 0.1, POSITIVE, BDO;
        /// Coordinates in which the identity term compares mean controls, behind a small network that is thrown away.
        identity_width: usize = 128, between(1, 1 << 14), BDO;
    }
}

/// The one architecture this crate reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelType {
    /// Brain dynamics by stochastic optimal control.
    #[default]
    Bdo,
}

/// The clock of the sinusoidal time code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeEncoding {
    /// Seconds times `time_scale`.
    #[default]
    Scaled,
    /// Seconds.
    Unscaled,
}

/// The initial matrices of attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttentionStart {
    /// All four drawn independently.
    #[default]
    Independent,
    /// Every head begins as a look at the frames around one lag, from 16 s before to 16 s after its own, and hands their
    /// content on as it is. Attention drawn at random takes thousands of steps to find a frame's neighbours.
    Local,
}

/// The initial layers from region values to tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmbedStart {
    /// Weights and biases drawn independently, as the method says.
    #[default]
    Independent,
    /// Biases spread wider than the data, and weights to match: the units then pass the data on nearly as they are, and the
    /// layer norms divide by what is nearly a constant. Drawn at random, they divide every frame by its own size, and
    /// how strong a frame is has to be found again from what little is left of it.
    Affine,
}

/// What the fingerprint of a visit is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FingerprintOf {
    /// Correlations of regions.
    #[default]
    Correlations,
    /// Coefficients of ridge regression of every region on all of them.
    Ridge,
}

/// The driver of the gap before the first context frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lead {
    /// The first context token, carried backward.
    #[default]
    FirstContext,
    /// A learned latent shared by all scans.
    LearnedToken,
}

/// How the distance to the latent target is evaluated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatentTerm {
    /// On the same draw that is decoded.
    #[default]
    Sampled,
    /// Its expectation over draws, which has lower variance.
    Analytic,
}

words! {
    ModelType: "bdo";
    TimeEncoding: "scaled", "unscaled";
    AttentionStart: "independent", "local";
    EmbedStart: "independent", "affine";
    FingerprintOf: "correlations", "ridge";
    Lead: "first_context", "learned_token";
    LatentTerm: "sampled", "analytic";
}

/// A configuration that cannot describe a model.
#[derive(Debug, thiserror::Error, PartialEq)]
#[allow(missing_docs)] // The messages say it.
pub enum ConfigError {
    /// Heads do not divide the width.
    #[error("`model.heads`: expected a divisor of the width {width}, found {heads}")]
    Heads { width: usize, heads: usize },
    /// The sinusoid pairs components, so the width must be even.
    #[error("`model.width`: expected an even number, found {width}")]
    OddWidth { width: usize },
    #[error(transparent)]
    Range(#[from] RangeError),
}

impl ModelConfig {
    /// 5 M parameters: width 192.
    pub fn tiny() -> Self {
        Self::of_width(192)
    }

    /// 21 M parameters: width 384.
    pub fn small() -> Self {
        Self::of_width(384)
    }

    /// 85 M parameters: width 768.
    pub fn base() -> Self {
        Self::of_width(768)
    }

    fn of_width(width: usize) -> Self {
        Self { width, heads: Self::heads_of(width), ..Self::default() }
    }

    /// Attention heads of a width, where they are not given.
    pub fn heads_of(width: usize) -> usize {
        (width / WIDTH_PER_HEAD).max(1)
    }

    /// Accepts the configuration or says what is wrong with it.
    pub fn check(&self) -> Result<(), ConfigError> {
        key::check(self.numbers().chain(self.dynamics.numbers()).chain(self.loss.numbers()))?;
        if !self.width.is_multiple_of(self.heads) {
            return Err(ConfigError::Heads { width: self.width, heads: self.heads });
        }
        if !self.width.is_multiple_of(2) {
            return Err(ConfigError::OddWidth { width: self.width });
        }
        // A weight that follows from other keys can overflow where they are in range.
        let effective =
            LossConfig { tau: Some(self.tau()), energy_weight: Some(self.energy_weight()), ..self.loss.clone() };
        Ok(key::check(effective.numbers())?)
    }

    /// Radians of the fastest sinusoid of the time code per second.
    pub fn time_code_rate(&self) -> f64 {
        let clock = match self.time_encoding {
            TimeEncoding::Scaled => self.time_scale,
            TimeEncoding::Unscaled => 1.0,
        };
        clock * self.time_encoding_rate
    }

    /// The weight of the latent target in the objective.
    pub fn tau(&self) -> f64 {
        let LossConfig { lambda, sigma_q, sigma_g, .. } = self.loss;
        self.loss.tau.unwrap_or_else(|| decimal((1.0 - lambda) * (sigma_g * sigma_g) / (sigma_q * sigma_q)))
    }

    /// The weight of the control energy in the objective.
    pub fn energy_weight(&self) -> f64 {
        self.loss.energy_weight.unwrap_or(self.loss.sigma_g * self.loss.sigma_g)
    }
}

/// Rounded to twelve decimals: 1 - 0.97 is then 0.03, as it is on paper.
pub fn decimal(x: f64) -> f64 {
    (x * 1e12).round() / 1e12
}
