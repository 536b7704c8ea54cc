//! Keys that are not part of a stored model: the method, and how it is trained.

use bdo_model::key::{BDO, BELOW_ONE, EVERY, KeyValue, NOT_NEGATIVE, POSITIVE, SHARE, SOME_OF, between};
use bdo_model::{keys, words};
use serde::{Deserialize, Serialize};

/// Used by BrainLM and Brain-JEPA.
const TOKENS: &[&str] = &["brainlm", "brainjepa"];
/// Used by the methods with a moving average of the encoder.
const AVERAGING: &[&str] = &["bdo", "brainjepa"];

/// The paper's sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// Width 192, 5 M parameters.
    #[default]
    Tiny,
    /// Width 384, 21 M.
    Small,
    /// Width 768, 85 M.
    Base,
}

impl Size {
    /// Width of the encoder.
    pub fn width(self) -> usize {
        match self {
            Self::Tiny => 192,
            Self::Small => 384,
            Self::Base => 768,
        }
    }
}

/// The method that is trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Brain dynamics by stochastic optimal control.
    #[default]
    Bdo,
    /// Masked autoencoding of regions by windows.
    BrainLm,
    /// Prediction of codes of hidden regions and windows.
    BrainJepa,
}

impl Kind {
    pub fn name(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

/// Scaling of Brain-JEPA's input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScalingName {
    /// By the means over time where people differ in them, else pooled.
    #[default]
    Auto,
    /// By the means over time.
    Means,
    /// As for the other models.
    Pooled,
}

/// Precision of the operands of linear layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrecisionName {
    /// The fastest that trains as well as full precision on this machine.
    #[default]
    Auto,
    /// Full single precision.
    F32,
    /// Rounded to bfloat16.
    Bf16,
}

words! {
    Size: "tiny", "small", "base";
    Kind: "bdo", "brainlm", "brainjepa";
    ScalingName: "auto", "means", "pooled";
    PrecisionName: "auto", "f32", "bf16";
}

keys! {
    /// Keys of `[model]` that are not part of the configuration of a BDO model.
    #[derive(Copy)]
    pub struct MethodSettings in "model", once [] {
        /// Size of the encoder: width 192, 384 or 768. The smallest trains on a workstation in minutes.
        size: Size = Size::Tiny, SHARE, EVERY;
        /// The method that is trained.
        kind: Kind = Kind::Bdo, SHARE, EVERY;
        /// Dropout of attention in training. The public code of BrainLM has 0.1.
        attention_dropout: f64 = 0.0, BELOW_ONE, &["brainlm"];
        /// What each region is shifted and divided by. `means`, as in the public code of Brain-JEPA: median and inter-quartile range
        /// over people of the mean over time, scans not centred. `pooled`, as for the other models: of the values of all scans, each
        /// centred. `auto` is `means` unless series were centred before, which leaves only rounding to divide by; then `pooled`, with a note.
        scaling: ScalingName = ScalingName::Auto, SHARE, &["brainjepa"];
    }
}

keys! {
    /// Keys of `[train]`.
    pub struct TrainSettings in "train", once [noise_warmup] {
        /// Passes over the training scans; chosen by the clock if `max_minutes` is set. The paper's value.
        epochs: f64 = 200.0, POSITIVE, EVERY;
        /// Scans per step; the paper has 128.
        batch_size: usize = 128, between(1, (1 << 20) - 1), EVERY;
        /// Scans at once in memory; gradients are accumulated up to the batch size, so it changes memory and speed only.
        micro_batch_size: usize = 16, between(1, (1 << 20) - 1), EVERY;
        /// The number of epochs is chosen so that the run ends within this time; 0 means no limit.
        max_minutes: f64 = 0.0, NOT_NEGATIVE, EVERY;
        /// Learning rate at the first step; the paper's value. Token models also start at 0.
        learning_rate_start: f64 = 1e-4, NOT_NEGATIVE, EVERY;
        /// Learning rate after the warm-up; the paper's value. `auto` is 1e-3 per 256 scans of a batch, BrainLM's rule.
        learning_rate: f64 = 1e-3, POSITIVE, EVERY;
        /// Learning rate at the last step; the paper's value.
        learning_rate_end: f64 = 1e-4, NOT_NEGATIVE, EVERY;
        /// Decay of Adam's first moment; the usual value.
        beta1: f64 = 0.9, BELOW_ONE, BDO;
        /// Decay of Adam's second moment; the usual value.
        beta2: f64 = 0.999, BELOW_ONE, BDO;
        /// Added to the root of Adam's second moment; the usual value.
        adam_eps: f64 = 1e-8, POSITIVE, BDO;
        /// Largest gradient norm; larger gradients are scaled down. The paper does not say; the usual value.
        clip_norm: f64 = 1.0, POSITIVE, BDO;
        /// Share of all steps before the latent target enters. Until then it is not computed, which halves the cost of a
        /// step. The paper has it from the start.
        tau_start: f64 = 0.0, SHARE, BDO;
        /// Share of all steps over which the weight of the latent target grows from 0 once it has entered.
        tau_warmup: f64 = 0.0, SHARE, BDO;
        /// Momentum of the moving average of the encoder at the first step; linear from there. The papers' value.
        ema_start: f64 = 0.996, SHARE, AVERAGING;
        /// Momentum of the moving average at the last step. The papers' value; the public code of Brain-JEPA ends at 0.9965
        /// by mistake.
        ema_end: f64 = 1.0, SHARE, AVERAGING;
        /// Share of all steps that warm up. BDO takes ten epochs or a twentieth of all steps, whichever is shorter.
        warmup: f64 = 0.05, SHARE, TOKENS;
        /// Decoupled weight decay at the first step, half a cosine from there; none on vectors.
        weight_decay_start: f64 = 0.05, SHARE, TOKENS;
        /// Decoupled weight decay at the last step.
        weight_decay_end: f64 = 0.05, SHARE, TOKENS;
        /// Share of the training people that is used, for ablations of the amount of data.
        data_fraction: f64 = 1.0, SOME_OF, EVERY;
        /// Share of the people held out for validation, and again for testing, in percent; the paper trains on 80 %.
        held_out_percent: u32 = 10, between(0, 40), EVERY;
        /// Seed of the division of people, apart from the seed of the run, so that all runs hold out the same people. The paper's
        /// value.
        split_seed: u64 = 42, NOT_NEGATIVE, EVERY;
        /// Most scans of one validation, which bounds its time.
        validation_scans: usize = 128, NOT_NEGATIVE, BDO;
        /// Fewest steps between validations, which are at ends of epochs.
        validation_steps: u64 = 20, NOT_NEGATIVE, BDO;
        /// Steps between checkpoints; 0 leaves it to the clock.
        checkpoint_steps: u64 = 0, NOT_NEGATIVE, EVERY;
        /// Minutes between checkpoints: what an interruption costs at most.
        checkpoint_minutes: f64 = 5.0, POSITIVE, EVERY;
        /// Checkpoints kept.
        keep_checkpoints: usize = 3, between(1, (1 << 20) - 1), EVERY;
        /// Precision of linear layers: `auto` is the fastest that trains as well as `f32` on this machine.
        precision: PrecisionName = PrecisionName::Auto, SHARE, EVERY;
    }
}
