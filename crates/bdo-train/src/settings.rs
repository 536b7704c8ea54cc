//! The configuration of a run: read once, checked once, saved and hashed before the first step.

use crate::schedule::{CosineEnd, LearningRate, Warmup};
use bdo_model::config::{
    AttentionStart, ConfigError, DynamicsConfig, EmbedStart, LossConfig, ModelConfig, TimeEncoding,
};
use bdo_model::intake::MaskSettings;
use bdo_model::ops::{Kernels, Precision};
use serde::{Deserialize, Serialize};

/// Everything a user may set, by table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The network.
    pub model: ModelSettings,
    /// Frames and targets.
    pub mask: MaskSettings,
    /// The latent process.
    pub dynamics: DynamicsConfig,
    /// The objective.
    pub loss: LossConfig,
    /// The run.
    pub train: TrainSettings,
}

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

/// Which method is trained.
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
    /// As typed and printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bdo => "bdo",
            Self::BrainLm => "brainlm",
            Self::BrainJepa => "brainjepa",
        }
    }
}

/// Keys of `[model]`; what is absent follows from the size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelSettings {
    /// One of the paper's sizes.
    pub size: Size,
    /// The method.
    pub kind: Kind,
    /// Latent width.
    pub width: Option<usize>,
    /// Transformer blocks.
    pub blocks: Option<usize>,
    /// Attention heads.
    pub heads: Option<usize>,
    /// Basis rate vectors.
    pub basis_count: Option<usize>,
    /// Dropout in training.
    pub dropout: Option<f64>,
    /// Layer norm after the last block.
    pub final_norm: Option<bool>,
    /// The extra layer norm inside attention.
    pub attention_norm: Option<bool>,
    /// Bias of query, key and value.
    pub qkv_bias: Option<bool>,
    /// Which time the sinusoid sees.
    pub time_encoding: Option<TimeEncoding>,
    /// Radians of the fastest sinusoid per unit of its clock.
    pub time_encoding_rate: Option<f64>,
    /// Whether the time code tells the gaps to the visible frames before and after.
    pub gap_code: Option<bool>,
    /// Scaled time per second.
    pub time_scale: Option<f64>,
    /// How the matrices of attention begin.
    pub attention_start: Option<AttentionStart>,
    /// Factor on the initial weights of the output projections of attention.
    pub attention_output_init: Option<f64>,
    /// Whether scans are divided by the size of what is visible of them.
    pub unit_input: Option<bool>,
    /// How the layers that read region values begin.
    pub embed_start: Option<EmbedStart>,
    /// Whether training draws the context latents.
    pub sample_latent: Option<bool>,
    /// Dropout of attention in training (BrainLM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention_dropout: Option<f64>,
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

/// Keys of `[train]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainSettings {
    /// Passes over the training scans; fixed by the clock if `max_minutes` is set.
    pub epochs: f64,
    /// Scans a step.
    pub batch_size: usize,
    /// Scans at once in memory; gradients are accumulated up to the batch size.
    pub micro_batch_size: usize,
    /// Choose the number of epochs so that the run ends within this time; 0 means no limit.
    pub max_minutes: f64,
    /// Learning rate at the first step.
    pub learning_rate_start: f64,
    /// Learning rate after the warm-up.
    pub learning_rate: f64,
    /// Learning rate at the last step.
    pub learning_rate_end: f64,
    /// Decay of Adam's first moment.
    pub beta1: f64,
    /// Decay of Adam's second moment.
    pub beta2: f64,
    /// Added to the root of Adam's second moment.
    pub adam_eps: f64,
    /// Largest gradient norm.
    pub clip_norm: f64,
    /// Share of all steps that are over when the latent target enters. Before that it is not even computed, which halves
    /// the cost of a step.
    pub tau_start: f64,
    /// Share of all steps over which the weight of the latent target grows from 0 when it has entered.
    pub tau_warmup: f64,
    /// Share of all steps over which the drawn noise grows from 0.
    pub noise_warmup: f64,
    /// Share of the training people that is used, for ablations of the amount of data.
    pub data_fraction: f64,
    /// Share of the people held out for validation, and again for testing, in percent.
    pub held_out_percent: u32,
    /// Seed of the division of people, apart from the seed of the run.
    pub split_seed: u64,
    /// Most scans looked at in a validation.
    pub validation_scans: usize,
    /// Fewest steps between validations at ends of epochs.
    pub validation_steps: u64,
    /// Steps between checkpoints; 0 leaves it to the clock.
    pub checkpoint_steps: u64,
    /// Minutes between checkpoints.
    pub checkpoint_minutes: f64,
    /// Checkpoints kept.
    pub keep_checkpoints: usize,
    /// Precision of linear layers.
    pub precision: PrecisionName,
    /// Share of all steps that warm up (BrainLM, Brain-JEPA).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<f64>,
    /// Decoupled weight decay at the first step (BrainLM, Brain-JEPA).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_decay_start: Option<f64>,
    /// Decoupled weight decay at the last step (BrainLM, Brain-JEPA).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_decay_end: Option<f64>,
    /// Momentum of the moving average at the first step (Brain-JEPA).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ema_start: Option<f64>,
    /// Momentum of the moving average at the last step (Brain-JEPA).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ema_end: Option<f64>,
}

impl Default for TrainSettings {
    fn default() -> Self {
        Self {
            epochs: 200.0,
            batch_size: 128,
            micro_batch_size: 16,
            max_minutes: 0.0,
            learning_rate_start: 1e-4,
            learning_rate: 1e-3,
            learning_rate_end: 1e-4,
            beta1: 0.9,
            beta2: 0.999,
            adam_eps: 1e-8,
            clip_norm: 1.0,
            tau_start: 0.0,
            tau_warmup: 0.0,
            noise_warmup: 0.0,
            data_fraction: 1.0,
            held_out_percent: 10,
            split_seed: 42,
            validation_scans: 128,
            validation_steps: 20,
            checkpoint_steps: 0,
            checkpoint_minutes: 5.0,
            keep_checkpoints: 3,
            precision: PrecisionName::Auto,
            warmup: None,
            weight_decay_start: None,
            weight_decay_end: None,
            ema_start: None,
            ema_end: None,
        }
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// Not TOML, an unknown key, or a value of the wrong type.
    #[error("configuration: {0}")]
    Parse(String),
    /// Not of the form KEY=VALUE.
    #[error("--set: expected KEY=VALUE with a dotted key, found {0:?}")]
    Set(String),
    /// A number outside its range.
    #[error("`{key}`: expected {expected}, found {found}")]
    Range {
        /// The key.
        key: &'static str,
        /// What is accepted, in words.
        expected: &'static str,
        /// What was found.
        found: f64,
    },
    /// The model keys describe no model.
    #[error(transparent)]
    Model(#[from] ConfigError),
}

impl Settings {
    /// Defaults, changed by a TOML text and then by `KEY=VALUE` pairs.
    pub fn resolve(text: &str, sets: &[String]) -> Result<Self, SettingsError> {
        Self::of_table(Self::given(text, sets)?)
    }

    /// What a TOML text and `KEY=VALUE` pairs say, before any default.
    pub fn given(text: &str, sets: &[String]) -> Result<toml::Table, SettingsError> {
        let mut table: toml::Table = text.parse().map_err(|e: toml::de::Error| unreadable(&e))?;
        for set in sets {
            let (key, value) = set.split_once('=').ok_or_else(|| SettingsError::Set(set.clone()))?;
            insert(&mut table, key.trim(), value.trim()).ok_or_else(|| SettingsError::Set(set.clone()))?;
        }
        Ok(table)
    }

    /// Defaults, changed by what was given.
    pub fn of_table(table: toml::Table) -> Result<Self, SettingsError> {
        let settings: Self = table.try_into().map_err(|e: toml::de::Error| unreadable(&e))?;
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), SettingsError> {
        let train = &self.train;
        let range = |key, expected, found: f64, accepted: bool| {
            if accepted { Ok(()) } else { Err(SettingsError::Range { key, expected, found }) }
        };
        // BrainLM starts and ends at a rate of 0.
        let least_rate = |rate: f64| if self.model.kind == Kind::Bdo || rate != 0.0 { rate } else { 1.0 };
        for (key, found) in [
            ("train.epochs", train.epochs),
            ("train.learning_rate_start", least_rate(train.learning_rate_start)),
            ("train.learning_rate", train.learning_rate),
            ("train.learning_rate_end", least_rate(train.learning_rate_end)),
            ("train.adam_eps", train.adam_eps),
            ("train.clip_norm", train.clip_norm),
            ("train.checkpoint_minutes", train.checkpoint_minutes),
        ] {
            range(key, "finite and above 0", found, found.is_finite() && found > 0.0)?;
        }
        for (key, found) in [
            ("train.max_minutes", train.max_minutes),
            ("mask.window_seconds", self.mask.window_seconds),
            ("mask.stretch", self.mask.stretch),
        ] {
            range(key, "finite and at least 0", found, found.is_finite() && found >= 0.0)?;
        }
        for (key, found) in [
            ("train.beta1", train.beta1),
            ("train.beta2", train.beta2),
            ("mask.ratio", self.mask.ratio),
            ("mask.region_ratio", self.mask.region_ratio),
        ] {
            range(key, "at least 0 and below 1", found, (0.0..1.0).contains(&found))?;
        }
        for (key, found) in [
            ("train.tau_start", train.tau_start),
            ("train.tau_warmup", train.tau_warmup),
            ("train.noise_warmup", train.noise_warmup),
        ] {
            range(key, "from 0 to 1", found, (0.0..=1.0).contains(&found))?;
        }
        range(
            "train.data_fraction",
            "above 0 and at most 1",
            train.data_fraction,
            train.data_fraction > 0.0 && train.data_fraction <= 1.0,
        )?;
        for (key, found) in [
            ("model.attention_dropout", self.model.attention_dropout),
            ("train.warmup", train.warmup),
            ("train.weight_decay_start", train.weight_decay_start),
            ("train.weight_decay_end", train.weight_decay_end),
            ("train.ema_start", train.ema_start),
            ("train.ema_end", train.ema_end),
        ] {
            let found = found.unwrap_or(0.0);
            range(key, "from 0 to 1", found, (0.0..=1.0).contains(&found))?;
        }
        let held_out = train.held_out_percent;
        range("train.held_out_percent", "from 0 to 40", f64::from(held_out), held_out <= 40)?;
        for (key, found, least) in [
            ("train.batch_size", train.batch_size, 1),
            ("train.micro_batch_size", train.micro_batch_size, 1),
            ("train.keep_checkpoints", train.keep_checkpoints, 1),
            ("mask.frames", self.mask.frames, 2),
        ] {
            range(
                key,
                if least == 2 { "at least 2" } else { "at least 1" },
                found as f64,
                found >= least && found < 1 << 20,
            )?;
        }
        let fewest = self.mask.fewest_frames;
        range("mask.fewest_frames", "0, or at least 2", fewest as f64, fewest != 1)?;
        Ok(self.model_config(1).check()?)
    }

    /// The configuration of the model for a number of regions.
    pub fn model_config(&self, regions: usize) -> ModelConfig {
        let keys = &self.model;
        let base = match keys.size {
            Size::Tiny => ModelConfig::tiny(),
            Size::Small => ModelConfig::small(),
            Size::Base => ModelConfig::base(),
        };
        let width = keys.width.unwrap_or(base.width);
        ModelConfig {
            regions,
            width,
            blocks: keys.blocks.unwrap_or(base.blocks),
            heads: keys.heads.unwrap_or((width / 64).max(1)),
            basis_count: keys.basis_count.unwrap_or(base.basis_count),
            dropout: keys.dropout.unwrap_or(base.dropout),
            final_norm: keys.final_norm.unwrap_or(base.final_norm),
            attention_norm: keys.attention_norm.unwrap_or(base.attention_norm),
            qkv_bias: keys.qkv_bias.unwrap_or(base.qkv_bias),
            time_encoding: keys.time_encoding.unwrap_or(base.time_encoding),
            time_encoding_rate: keys.time_encoding_rate.unwrap_or(base.time_encoding_rate),
            time_scale: keys.time_scale.unwrap_or(base.time_scale),
            gap_code: keys.gap_code.unwrap_or(base.gap_code),
            attention_start: keys.attention_start.unwrap_or(base.attention_start),
            attention_output_init: keys.attention_output_init.unwrap_or(base.attention_output_init),
            unit_input: keys.unit_input.unwrap_or(base.unit_input),
            embed_start: keys.embed_start.unwrap_or(base.embed_start),
            sample_latent: keys.sample_latent.unwrap_or(base.sample_latent),
            dynamics: self.dynamics.clone(),
            loss: self.loss.clone(),
            ..base
        }
    }

    /// The shape of the learning rate.
    pub fn rate(&self) -> LearningRate {
        let train = &self.train;
        LearningRate::Cosine {
            start: train.learning_rate_start,
            peak: train.learning_rate,
            end: train.learning_rate_end,
            warmup: Warmup::TenEpochs,
            ends: CosineEnd::LastStep,
        }
    }

    /// Which kernels run.
    pub fn kernels(&self) -> Kernels {
        Kernels::Fused(match self.train.precision {
            PrecisionName::Auto => Precision::fastest(),
            PrecisionName::F32 => Precision::F32,
            PrecisionName::Bf16 => Precision::Bf16,
        })
    }

    /// As TOML, every key that has a value.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("settings are tables of numbers and words")
    }

    /// BLAKE3 of the TOML.
    pub fn blake3(&self) -> String {
        blake3::hash(self.to_toml().as_bytes()).to_hex().to_string()
    }

    /// Every key with its value, for comparisons that name what differs.
    pub fn flat(&self) -> Vec<(String, String)> {
        let table = toml::Table::try_from(self).expect("settings are tables of numbers and words");
        let mut found = Vec::new();
        for (section, keys) in table {
            for (key, value) in keys.as_table().into_iter().flatten() {
                found.push((format!("{section}.{key}"), value.to_string()));
            }
        }
        found
    }
}

fn unreadable(error: &toml::de::Error) -> SettingsError {
    SettingsError::Parse(error.message().to_owned())
}

/// Puts `value` under a dotted key; what is not a TOML value is taken as a word.
fn insert(table: &mut toml::Table, key: &str, value: &str) -> Option<()> {
    let (section, name) = key.split_once('.')?;
    if section.is_empty() || name.is_empty() || name.contains('.') {
        return None;
    }
    let parsed = format!("v = {value}").parse::<toml::Table>().ok().and_then(|mut t| t.remove("v"));
    let value = parsed.unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let entry = table.entry(section).or_insert_with(|| toml::Value::Table(toml::Table::new()));
    entry.as_table_mut()?.insert(name.to_owned(), value);
    Some(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn keys_are_set_and_unknown_ones_refused() {
        let sets = ["model.size=small", "train.epochs=3", "loss.tau=0", "mask.ratio = 0.5"].map(String::from);
        let settings = Settings::resolve("[train]\nbatch_size = 7\n", &sets).unwrap();
        assert_eq!(settings.model.size, Size::Small);
        assert_eq!((settings.train.epochs, settings.train.batch_size), (3.0, 7));
        assert_eq!((settings.loss.tau, settings.mask.ratio), (0.0, 0.5));
        assert_eq!(settings.model_config(90).heads, 6);
        for (bad, word) in [("train.epoch=3", "epoch"), ("nothing.at=1", "nothing"), ("model.kind=cnn", "cnn")] {
            let error = Settings::resolve("", &[bad.to_owned()]).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        assert!(matches!(Settings::resolve("", &["epochs".to_owned()]), Err(SettingsError::Set(_))));
    }

    #[test]
    fn numbers_out_of_range_are_named() {
        for (set, key) in [
            ("train.epochs=0", "train.epochs"),
            ("mask.ratio=1", "mask.ratio"),
            ("train.batch_size=0", "train.batch_size"),
            ("dynamics.diffusion=-1", "dynamics.diffusion"),
        ] {
            let error = Settings::resolve("", &[set.to_owned()]).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }

    #[test]
    fn the_text_of_settings_reads_back() {
        let settings = Settings::resolve("", &["loss.energy_weight=0.5".to_owned()]).unwrap();
        assert_eq!(Settings::resolve(&settings.to_toml(), &[]).unwrap(), settings);
        assert_eq!(settings.blake3().len(), 64);
    }
}
