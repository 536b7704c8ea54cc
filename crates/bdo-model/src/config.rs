//! Every choice the method leaves open, as keys with the values the specification settles on. Read once, checked
//! once with [`ModelConfig::check`]; unknown keys are errors.

use serde::{Deserialize, Serialize};

/// The whole model configuration, stored as `config.json` beside the weights.
// Each flag is a key of its own in the file; grouping them would only hide that.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelConfig {
    /// Always `bdo`: tells other tools what the folder holds.
    pub model_type: ModelType,
    /// Number of regions in the parcellation, N.
    pub regions: usize,
    /// Latent width, d.
    pub width: usize,
    /// Transformer blocks.
    pub blocks: usize,
    /// Attention heads; the default is one per 64 latent dimensions.
    pub heads: usize,
    /// Width of the feed-forward layer as a multiple of `width`.
    pub ffn_ratio: usize,
    /// Number of basis rate vectors, L.
    pub basis_count: usize,
    /// Added to the variance inside every layer norm.
    pub layer_norm_eps: f64,
    /// Layer norm after the last block.
    pub final_norm: bool,
    /// The extra layer norm between attention and its output projection.
    pub attention_norm: bool,
    /// Bias of the query, key and value projections.
    pub qkv_bias: bool,
    /// Dropout of attention probabilities and in the decoder, training only.
    pub dropout: f64,
    /// Which time the sinusoid sees.
    pub time_encoding: TimeEncoding,
    /// Radians of the fastest sinusoid per unit of its clock; above 1 lets attention tell neighbouring frames apart.
    pub time_encoding_rate: f64,
    /// Whether the last quarter of the time code tells how far away the visible frames before and after are. Attention can
    /// only compare times; how much a neighbour is worth depends on the gap to it.
    pub gap_code: bool,
    /// Scaled time per second.
    pub time_scale: f64,
    /// How the matrices of attention begin.
    pub attention_start: AttentionStart,
    /// Factor on the initial weights of the output projections of attention. At 1 the norm before that projection
    /// starts every block with a vector as large as the token and nearly the same for all frames, which buries the data.
    pub attention_output_init: f64,
    /// Whether a scan is divided by the root mean square of what is visible of it before the model looks, and predictions
    /// are multiplied by it again. Scanners differ in gain, and a loss of raw squares is that of the loudest scans.
    pub unit_input: bool,
    /// How the layers that read region values begin.
    pub embed_start: EmbedStart,
    /// Whether training draws the context latents around the encoder output.
    pub sample_latent: bool,
    /// How frames become one feature vector.
    pub pooling: Pooling,
    /// The latent stochastic process.
    pub dynamics: DynamicsConfig,
    /// The training objective.
    pub loss: LossConfig,
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

/// Reduction of per-frame controls to one vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// The mean over frames.
    #[default]
    Mean,
}

/// Keys of the latent process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DynamicsConfig {
    /// Standard deviation of the driving noise per square root of scaled time.
    pub diffusion: f64,
    /// Added to every basis rate so that none can reach zero.
    pub rate_floor: f64,
    /// Added to the learned initial variance.
    pub variance_floor: f64,
    /// Whether the eigenbasis is trained; if not it stays at its random start.
    pub learn_basis: bool,
    /// What drives the state before the first context frame.
    pub lead: Lead,
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

/// Keys of the objective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LossConfig {
    /// Weight of the latent target distance.
    pub tau: f64,
    /// Weight of the reconstruction; 0 trains on the latent target alone.
    pub reconstruction_weight: f64,
    /// Standard deviation of the context latents around the encoder output.
    pub sigma_q: f64,
    /// Standard deviation of a predicted latent around the state.
    pub sigma_p: f64,
    /// Standard deviation of the observation likelihood.
    pub sigma_g: f64,
    /// Weight of the control energy; `null` means `sigma_g` squared.
    pub energy_weight: Option<f64>,
    /// Whether the latent term is evaluated on the draw or in expectation.
    pub latent_term: LatentTerm,
    /// State draws per training step.
    pub monte_carlo_samples: usize,
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

/// A configuration that cannot describe a model.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum ConfigError {
    /// A count that must be positive is zero.
    #[error("`{key}` must be at least 1, found 0")]
    Zero {
        /// The offending key.
        key: &'static str,
    },
    /// Heads do not divide the width.
    #[error("`heads` must divide `width`: width {width}, heads {heads}")]
    Heads {
        /// The width found.
        width: usize,
        /// The heads found.
        heads: usize,
    },
    /// The sinusoid pairs components, so the width must be even.
    #[error("`width` must be even, found {width}")]
    OddWidth {
        /// The width found.
        width: usize,
    },
    /// A size no real model has; refused before memory is asked for.
    #[error("`{key}` must be at most {limit}, found {found}")]
    TooLarge {
        /// The offending key.
        key: &'static str,
        /// The largest accepted value.
        limit: usize,
        /// The value found.
        found: usize,
    },
    /// A number outside its range.
    #[error("`{key}` must be {expected}, found {found}")]
    Range {
        /// The offending key.
        key: &'static str,
        /// The accepted range in words.
        expected: &'static str,
        /// The value found.
        found: f64,
    },
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
        Self { width, heads: width / 64, ..Self::default() }
    }

    /// Accepts the configuration or says what is wrong with it.
    pub fn check(&self) -> Result<(), ConfigError> {
        for (key, found, limit) in [
            ("regions", self.regions, 1 << 17),
            ("width", self.width, 1 << 14),
            ("blocks", self.blocks, 1 << 10),
            ("heads", self.heads, 1 << 10),
            ("ffn_ratio", self.ffn_ratio, 64),
            ("basis_count", self.basis_count, 1 << 14),
            ("loss.monte_carlo_samples", self.loss.monte_carlo_samples, 1 << 10),
        ] {
            if found == 0 {
                return Err(ConfigError::Zero { key });
            }
            if found > limit {
                return Err(ConfigError::TooLarge { key, limit, found });
            }
        }
        if !self.width.is_multiple_of(self.heads) {
            return Err(ConfigError::Heads { width: self.width, heads: self.heads });
        }
        if !self.width.is_multiple_of(2) {
            return Err(ConfigError::OddWidth { width: self.width });
        }
        self.check_numbers()
    }

    fn check_numbers(&self) -> Result<(), ConfigError> {
        const POSITIVE: &str = "finite and above 0";
        const NOT_NEGATIVE: &str = "finite and at least 0";
        let positive = |x: f64| x > 0.0 && x.is_finite();
        let not_negative = |x: f64| x >= 0.0 && x.is_finite();
        let energy_weight = self.energy_weight();
        for (key, found, expected, accepted) in [
            ("layer_norm_eps", self.layer_norm_eps, POSITIVE, positive(self.layer_norm_eps)),
            ("time_encoding_rate", self.time_encoding_rate, POSITIVE, positive(self.time_encoding_rate)),
            (
                "attention_output_init",
                self.attention_output_init,
                NOT_NEGATIVE,
                not_negative(self.attention_output_init),
            ),
            ("time_scale", self.time_scale, POSITIVE, positive(self.time_scale)),
            ("dropout", self.dropout, "in [0, 1)", (0.0..1.0).contains(&self.dropout)),
            ("dynamics.diffusion", self.dynamics.diffusion, NOT_NEGATIVE, not_negative(self.dynamics.diffusion)),
            ("dynamics.rate_floor", self.dynamics.rate_floor, NOT_NEGATIVE, not_negative(self.dynamics.rate_floor)),
            (
                "dynamics.variance_floor",
                self.dynamics.variance_floor,
                NOT_NEGATIVE,
                not_negative(self.dynamics.variance_floor),
            ),
            ("loss.tau", self.loss.tau, NOT_NEGATIVE, not_negative(self.loss.tau)),
            (
                "loss.reconstruction_weight",
                self.loss.reconstruction_weight,
                NOT_NEGATIVE,
                not_negative(self.loss.reconstruction_weight),
            ),
            ("loss.sigma_q", self.loss.sigma_q, NOT_NEGATIVE, not_negative(self.loss.sigma_q)),
            // The draw takes a square root of the variance plus sigma_p squared; zero would make its slope infinite.
            ("loss.sigma_p", self.loss.sigma_p, POSITIVE, positive(self.loss.sigma_p)),
            ("loss.sigma_g", self.loss.sigma_g, NOT_NEGATIVE, not_negative(self.loss.sigma_g)),
            ("loss.energy_weight", energy_weight, NOT_NEGATIVE, not_negative(energy_weight)),
        ] {
            if !accepted {
                return Err(ConfigError::Range { key, expected, found });
            }
        }
        Ok(())
    }

    /// Radians of the fastest sinusoid of the time code per second.
    pub fn time_code_rate(&self) -> f64 {
        let clock = match self.time_encoding {
            TimeEncoding::Scaled => self.time_scale,
            TimeEncoding::Unscaled => 1.0,
        };
        clock * self.time_encoding_rate
    }

    /// The weight of the control energy in the objective.
    pub fn energy_weight(&self) -> f64 {
        self.loss.energy_weight.unwrap_or(self.loss.sigma_g * self.loss.sigma_g)
    }
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            model_type: ModelType::Bdo,
            regions: 450,
            width: 192,
            blocks: 12,
            heads: 3,
            ffn_ratio: 4,
            basis_count: 100,
            layer_norm_eps: 1e-6,
            final_norm: true,
            attention_norm: true,
            qkv_bias: true,
            dropout: 0.0,
            time_encoding: TimeEncoding::Scaled,
            time_encoding_rate: 1.0,
            gap_code: false,
            time_scale: 0.1,
            attention_start: AttentionStart::Independent,
            attention_output_init: 1.0,
            unit_input: false,
            embed_start: EmbedStart::Independent,
            sample_latent: true,
            pooling: Pooling::Mean,
            dynamics: DynamicsConfig::default(),
            loss: LossConfig::default(),
        }
    }
}

impl Default for DynamicsConfig {
    fn default() -> Self {
        Self { diffusion: 1.0, rate_floor: 1e-6, variance_floor: 1e-6, learn_basis: true, lead: Lead::FirstContext }
    }
}

impl Default for LossConfig {
    fn default() -> Self {
        Self {
            tau: 0.03,
            reconstruction_weight: 1.0,
            sigma_q: 0.1,
            sigma_p: 0.1,
            sigma_g: 0.1,
            energy_weight: None,
            latent_term: LatentTerm::Sampled,
            monte_carlo_samples: 1,
        }
    }
}
