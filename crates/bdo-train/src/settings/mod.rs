//! The configuration of a run: resolved once from a preset, a file and single keys, checked, saved and hashed before the first
//! step. `keys` declares what may be set, `preset` holds the named configurations, `reference` prints them.

mod keys;
mod preset;
pub mod reference;

pub use keys::{Kind, MethodSettings, PrecisionName, ScalingName, Size, TrainSettings};
pub use preset::Preset;

use crate::schedule::{LearningRate, Warmup};
use bdo_model::config::{ConfigError, DynamicsConfig, LossConfig, ModelConfig};
use bdo_model::intake::MaskSettings;
use bdo_model::key::{self, Key, RangeError};
use bdo_model::ops::{Kernels, Precision};
use burn::tensor::Device;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Tables of a configuration, in the order they are printed.
const TABLES: [&str; 5] = ["model", "mask", "dynamics", "loss", "train"];
/// Keys that follow from others where they are `auto`.
const FOLLOWING: [(&str, &str); 5] =
    [("model", "width"), ("model", "heads"), ("loss", "tau"), ("loss", "energy_weight"), ("train", "learning_rate")];
const AUTO: &str = "auto";
/// Keys of earlier versions, and what to do instead. At 0 they had no effect and are ignored.
const RETIRED: [(&str, &str, &str); 3] = [
    ("mask", "fewest_frames", "every visit has `mask.frames` frames"),
    ("mask", "window_seconds", "`mask.stretch` gives the length of a stretch in multiples of `mask.frames`"),
    ("train", "noise_warmup", "`dynamics.diffusion` and `loss.sigma_p` set the noise"),
];

/// Everything a user may set.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Method and size, the rest of `[model]`.
    pub method: MethodSettings,
    /// `[model]`, `[dynamics]` and `[loss]`. The number of regions is that of the cohort: see [`Self::model_config`].
    pub model: ModelConfig,
    pub mask: MaskSettings,
    pub train: TrainSettings,
}

/// A configuration, and the keys that were given but have no effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    pub settings: Settings,
    /// Given keys that this method does not use.
    pub unused: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// Not TOML, or a value of the wrong type.
    #[error("configuration: {0}")]
    Parse(String),
    /// Not of the form KEY=VALUE.
    #[error(
        "--set: expected TABLE.KEY=VALUE with one of the tables {}, found {found:?}{near}", TABLES.join(", ")
    )]
    Set { found: String, near: String },
    #[error("`{key}`: expected {expected}")]
    Key { key: String, expected: String },
    /// A key that existed once.
    #[error("`{key}` was removed: {instead}")]
    Retired { key: String, instead: &'static str },
    /// A preset of another method.
    #[error("preset {preset} is one of {}: expected no other model.kind, found {}", .preset.kind().name(), .kind.name())]
    Preset { preset: Preset, kind: Kind },
    #[error(transparent)]
    Range(#[from] RangeError),
    #[error(transparent)]
    Model(#[from] ConfigError),
}

/// Every key that can be set, by table.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    let tables = [
        MethodSettings::KEYS,
        ModelConfig::KEYS,
        MaskSettings::KEYS,
        DynamicsConfig::KEYS,
        LossConfig::KEYS,
        TrainSettings::KEYS,
    ];
    tables.into_iter().flatten().filter(|key| !key.users.is_empty())
}

impl Settings {
    pub fn preset(preset: Preset) -> Self {
        Self::resolve(Some(preset), "", &[]).expect("the tests resolve every preset").settings
    }

    /// A preset (without one, that of the method), changed by a TOML text and then by `KEY=VALUE` pairs.
    pub fn resolve(preset: Option<Preset>, text: &str, sets: &[String]) -> Result<Resolved, SettingsError> {
        let mut given = Table::new();
        let mut unused = overlay(&mut given, &parsed(text)?)?;
        for set in sets {
            unused.extend(overlay(&mut given, &single(set)?)?);
        }
        let kind = kind_of(&given)?.or(preset.map(Preset::kind)).unwrap_or_default();
        let preset = preset.unwrap_or_else(|| Preset::of_kind(kind));
        if preset.kind() != kind {
            return Err(SettingsError::Preset { preset, kind });
        }
        let of_others = |key: &&Key| !key.users.contains(&kind.name()) && get(&given, key.table, key.name).is_some();
        unused.extend(keys().filter(of_others).map(Key::path));
        let mut table = preset_table(preset)?;
        overlay(&mut table, &given)?;
        let settings = Self::typed(table)?;
        settings.check()?;
        Ok(Resolved { settings, unused })
    }

    fn check(&self) -> Result<(), SettingsError> {
        key::check(self.method.numbers().chain(self.mask.numbers()).chain(self.train.numbers()))?;
        Ok(self.model.check()?)
    }

    /// From a table that has every key.
    fn typed(mut table: Table) -> Result<Self, SettingsError> {
        for (section, name) in FOLLOWING {
            if get(&table, section, name).and_then(Value::as_str) == Some(AUTO) {
                section_of(&mut table, section).remove(name);
            }
        }
        let [mut model, mask, dynamics, loss, mut train] =
            TABLES.map(|name| std::mem::take(section_of(&mut table, name)));
        let own = MethodSettings::KEYS.iter().filter_map(|key| model.remove_entry(key.name)).collect();
        let method: MethodSettings = typed("model", own)?;
        let count = |table: &Table, name| table.get(name).and_then(Value::as_integer).unwrap_or(0).max(0);
        model.entry("width").or_insert(Value::Integer(method.size.width() as i64));
        let heads = ModelConfig::heads_of(count(&model, "width") as usize);
        model.entry("heads").or_insert(Value::Integer(heads as i64));
        let rate = rate_of_batch(count(&train, "batch_size") as usize);
        train.entry("learning_rate").or_insert(Value::Float(rate));
        model.insert("dynamics".to_owned(), Value::Table(dynamics));
        model.insert("loss".to_owned(), Value::Table(loss));
        Ok(Self { method, model: typed("model", model)?, mask: typed("mask", mask)?, train: typed("train", train)? })
    }

    /// Every key by table. With `auto`, what follows from other keys says so; without, it has the number that is used.
    fn table(&self, auto: bool) -> Table {
        let mut model = self.model.clone();
        if !auto {
            model.loss.tau = Some(self.model.tau());
            model.loss.energy_weight = Some(self.model.energy_weight());
        }
        let mut model = untyped(&model);
        let [dynamics, loss] = ["dynamics", "loss"].map(|name| model.remove(name).expect("a part of the model"));
        model.extend(untyped(&self.method));
        model.retain(|name, _| keys().any(|key| key.table == "model" && key.name == name));
        let [mask, train] = [untyped(&self.mask), untyped(&self.train)].map(Value::Table);
        let mut table = Table::new();
        for (name, keys) in TABLES.into_iter().zip([Value::Table(model), mask, dynamics, loss, train]) {
            table.insert(name.to_owned(), keys);
        }
        for (section, name) in FOLLOWING {
            if auto && self.follows(name) {
                section_of(&mut table, section).insert(name.to_owned(), Value::String(AUTO.to_owned()));
            }
        }
        table
    }

    /// Whether a key of [`FOLLOWING`] has the value that follows from the others.
    fn follows(&self, name: &str) -> bool {
        let (model, train) = (&self.model, &self.train);
        match name {
            "width" => model.width == self.method.size.width(),
            "heads" => model.heads == ModelConfig::heads_of(model.width),
            "tau" => model.loss.tau.is_none(),
            "energy_weight" => model.loss.energy_weight.is_none(),
            _ => self.method.kind == Kind::BrainLm && train.learning_rate == rate_of_batch(train.batch_size),
        }
    }

    /// The value of a key; with `auto`, the word where it follows from other keys.
    pub fn value(&self, key: &Key, auto: bool) -> Value {
        get(&self.table(auto), key.table, key.name).expect("settings have every key").clone()
    }

    /// The configuration of the model for a number of regions.
    pub fn model_config(&self, regions: usize) -> ModelConfig {
        ModelConfig { regions, ..self.model.clone() }
    }

    /// Which kernels run on a device.
    pub fn kernels(&self, device: &Device) -> Kernels {
        self.train.precision.kernels(device)
    }

    /// As TOML, every key; what follows from others is `auto`.
    pub fn to_toml(&self) -> String {
        self.table(true).to_string()
    }

    /// BLAKE3 of the values that are used.
    pub fn blake3(&self) -> String {
        blake3::hash(self.table(false).to_string().as_bytes()).to_hex().to_string()
    }
}

impl TrainSettings {
    /// The learning rate after a warm-up.
    pub fn rate(&self, warmup: Warmup) -> LearningRate {
        let (start, peak, end) = (self.learning_rate_start, self.learning_rate, self.learning_rate_end);
        LearningRate { start, peak, end, warmup }
    }
}

impl PrecisionName {
    /// Which kernels run at this precision on a device.
    pub fn kernels(self, device: &Device) -> Kernels {
        match self {
            Self::Auto => Kernels::fastest_on(device),
            Self::F32 => Kernels::Fused(Precision::F32),
            Self::Bf16 => Kernels::Fused(Precision::Bf16),
        }
    }
}

/// Every key with the value that is used.
impl Serialize for Settings {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.table(false).serialize(to)
    }
}

/// Settings as they were stored by this or an earlier version: what a version did not know has the value it had then.
impl<'de> Deserialize<'de> for Settings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let stored = BTreeMap::<String, BTreeMap<String, Option<Value>>>::deserialize(from)?;
        let mut given = Table::new();
        for (section, keys) in stored {
            let keys = keys.into_iter().filter(|(name, _)| retired(&section, name).is_none());
            let keys = keys.filter_map(|(name, value)| Some((name, value?))).collect();
            given.insert(section, Value::Table(keys));
        }
        let resolve = || -> Result<Self, SettingsError> {
            let kind = kind_of(&given)?.unwrap_or_default();
            let base = if kind == Kind::Bdo { Preset::Paper } else { Preset::of_kind(kind) };
            let mut table = preset_table(base)?;
            // Presets of earlier versions had these values.
            let model = section_of(&mut table, "model");
            model.insert("scaling".to_owned(), Value::String("pooled".to_owned()));
            model.insert("attention_dropout".to_owned(), Value::Float(0.0));
            overlay(&mut table, &given)?;
            let mut settings = Self::typed(table)?;
            // Numbers that follow from other keys are stored; they are no choice of the user.
            let loss = LossConfig { tau: None, energy_weight: None, ..settings.model.loss.clone() };
            let following = ModelConfig { loss, ..settings.model.clone() };
            let own = &mut settings.model.loss;
            own.tau = own.tau.filter(|tau| *tau != following.tau());
            own.energy_weight = own.energy_weight.filter(|weight| *weight != following.energy_weight());
            Ok(settings)
        };
        resolve().map_err(serde::de::Error::custom)
    }
}

/// The learning rate of BrainLM's public code.
fn rate_of_batch(batch_size: usize) -> f64 {
    1e-3 * batch_size as f64 / 256.0
}

/// Every key with its value in a preset.
fn preset_table(preset: Preset) -> Result<Table, SettingsError> {
    let defaults = Settings {
        method: MethodSettings::default(),
        model: ModelConfig::default(),
        mask: MaskSettings::default(),
        train: TrainSettings::default(),
    };
    let mut table = defaults.table(true);
    overlay(&mut table, &parsed(preset.text())?)?;
    Ok(table)
}

fn kind_of(given: &Table) -> Result<Option<Kind>, SettingsError> {
    let kind = get(given, "model", "kind").map(|kind| Table::from_iter([("kind".to_owned(), kind.clone())]));
    Ok(kind.map(|kind| typed::<MethodSettings>("model", kind)).transpose()?.map(|method| method.kind))
}

/// Puts the keys of `layer` into `table`; gives those that are retired and had no effect.
fn overlay(table: &mut Table, layer: &Table) -> Result<Vec<String>, SettingsError> {
    let mut without_effect = Vec::new();
    for (section, given) in layer {
        let wrong = || unknown(section, "");
        for (name, value) in given.as_table().ok_or_else(wrong)? {
            let path = || format!("{section}.{name}");
            if let Some(instead) = retired(section, name) {
                if value.as_float() != Some(0.0) && value.as_integer() != Some(0) {
                    return Err(SettingsError::Retired { key: path(), instead });
                }
                without_effect.push(path());
                continue;
            }
            let key = keys().find(|key| key.table == section && key.name == name);
            let key = key.ok_or_else(|| unknown(section, name))?;
            let follows = FOLLOWING.contains(&(key.table, key.name)) && value.as_str() == Some(AUTO);
            let word = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let number = key.words.is_empty() && (value.is_integer() || value.is_float());
            if !follows && !number && !key.words.contains(&word.as_str()) {
                let expected = if key.words.is_empty() { "a number".to_owned() } else { key.words.join(", ") };
                return Err(SettingsError::Key { key: path(), expected: format!("{expected}, found {value}") });
            }
            section_of(table, section).insert(name.clone(), value.clone());
        }
    }
    Ok(without_effect)
}

fn retired(section: &str, name: &str) -> Option<&'static str> {
    RETIRED.iter().find(|(table, key, _)| *table == section && *key == name).map(|(_, _, instead)| *instead)
}

fn unknown(section: &str, name: &str) -> SettingsError {
    let names: Vec<&str> = keys().filter(|key| key.table == section).map(|key| key.name).collect();
    if names.is_empty() {
        let expected = format!("one of the tables {}", TABLES.join(", "));
        return SettingsError::Key { key: section.to_owned(), expected };
    }
    let meant = nearest(name, keys().filter(|key| key.table == section));
    let meant = meant.map_or_else(String::new, |key| format!("`{}`, or another ", key.path()));
    let expected = format!("{meant}key of [{section}]: {}", names.join(", "));
    SettingsError::Key { key: format!("{section}.{name}"), expected }
}

/// The key whose name differs by the fewest letters, if they are few.
fn nearest(name: &str, among: impl Iterator<Item = &'static Key>) -> Option<&'static Key> {
    let (distance, key) = among.map(|key| (edits(name, key.name), key)).min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + name.len() / 4).then_some(key)
}

/// Letters to insert, delete or exchange.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.chars().enumerate() {
            let exchanged = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = exchanged.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[row.len() - 1]
}

fn parsed(text: &str) -> Result<Table, SettingsError> {
    text.parse().map_err(|error: toml::de::Error| SettingsError::Parse(error.message().to_owned()))
}

/// One `TABLE.KEY=VALUE`; what is not a TOML value is taken as a word.
fn single(set: &str) -> Result<Table, SettingsError> {
    let (path, value) = set.split_once('=').unwrap_or((set, ""));
    let (path, value) = (path.trim(), value.trim());
    let parts = path.split_once('.').filter(|(section, name)| !section.is_empty() && !name.is_empty());
    let Some((section, name)) = parts.filter(|_| set.contains('=')) else {
        let all = || format!("; the keys are {}", keys().map(Key::path).collect::<Vec<_>>().join(", "));
        let near = nearest(path, keys()).map_or_else(all, |key| format!("; did you mean `{}`?", key.path()));
        return Err(SettingsError::Set { found: set.to_owned(), near });
    };
    let value = format!("v = {value}")
        .parse::<Table>()
        .ok()
        .and_then(|mut t| t.remove("v"))
        .unwrap_or_else(|| Value::String(value.to_owned()));
    let keys = Table::from_iter([(name.to_owned(), value)]);
    Ok(Table::from_iter([(section.to_owned(), Value::Table(keys))]))
}

fn get<'a>(table: &'a Table, section: &str, name: &str) -> Option<&'a Value> {
    table.get(section)?.get(name)
}

fn section_of<'a>(table: &'a mut Table, section: &str) -> &'a mut Table {
    let entry = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
    entry.as_table_mut().expect("only tables are put there")
}

fn typed<T: DeserializeOwned>(section: &str, table: Table) -> Result<T, SettingsError> {
    let wrong = |error: toml::de::Error| SettingsError::Parse(format!("[{section}]: {}", error.message()));
    Value::Table(table).try_into().map_err(wrong)
}

fn untyped(keys: &impl Serialize) -> Table {
    Table::try_from(keys).expect("settings are tables of numbers and words")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn resolve(text: &str, sets: &[&str]) -> Result<Resolved, SettingsError> {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        Settings::resolve(None, text, &sets)
    }

    #[test]
    fn keys_are_set_and_unknown_ones_refused() {
        let sets = ["model.size=small", "train.epochs=3", "loss.tau=0", "mask.ratio = 0.5"];
        let settings = resolve("[train]\nbatch_size = 7\n", &sets).unwrap().settings;
        assert_eq!(settings.method.size, Size::Small);
        assert_eq!((settings.train.epochs, settings.train.batch_size), (3.0, 7));
        assert_eq!((settings.model.tau(), settings.mask.ratio), (0.0, 0.5));
        assert_eq!((settings.model_config(90).width, settings.model_config(90).heads), (384, 6));
        for (bad, words) in [
            ("train.epoch=3", "`train.epoch`: expected `train.epochs`, or another key of [train]: epochs, batch_size,"),
            ("mask.nonsense=3", "`mask.nonsense`: expected key of [mask]: ratio, ratio_least, varied, frames,"),
            ("nothing.at=1", "`nothing`: expected one of the tables model, mask,"),
            ("model.kind=cnn", "`model.kind`: expected bdo, brainlm, brainjepa, found \"cnn\""),
            ("model.regions=3", "`model.regions`: expected"),
            ("mask.stretch=far", "`mask.stretch`: expected a number, found \"far\""),
            ("train.batch_size=1.5", "configuration: [train]: invalid type"),
            ("mask.window_seconds=100", "`mask.window_seconds` was removed: `mask.stretch` gives"),
            ("epochs=3", "found \"epochs=3\"; did you mean `train.epochs`?"),
            ("train.epochs", "expected TABLE.KEY=VALUE"),
            ("nonsense=1", "found \"nonsense=1\"; the keys are"),
            ("nonsense=1", "train.max_minutes"),
        ] {
            let error = resolve("", &[bad]).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_named() {
        for (set, key) in [
            ("train.epochs=0", "train.epochs"),
            ("train.epochs=nan", "train.epochs"),
            ("mask.ratio=1", "mask.ratio"),
            ("train.batch_size=0", "train.batch_size"),
            ("train.held_out_percent=41", "train.held_out_percent"),
            ("train.data_fraction=0", "train.data_fraction"),
            ("dynamics.diffusion=-1", "dynamics.diffusion"),
        ] {
            let error = resolve("", &[set]).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }

    #[test]
    fn the_text_of_settings_reads_back() {
        for sets in [vec!["loss.energy_weight=0.5"], vec!["model.kind=brainlm"], vec!["model.width=64"]] {
            let settings = resolve("", &sets).unwrap().settings;
            assert_eq!(resolve(&settings.to_toml(), &[]).unwrap().settings, settings);
            let json = serde_json::to_string(&settings).unwrap();
            assert_eq!(serde_json::from_str::<Settings>(&json).unwrap(), settings);
            assert_eq!(settings.blake3().len(), 64);
        }
        // A saved configuration of the paper is not changed by the preset it is put on.
        let paper = Settings::preset(Preset::Paper);
        assert_eq!(resolve(&paper.to_toml(), &[]).unwrap().settings, paper);
        let small = resolve(&paper.to_toml(), &["model.size=small"]).unwrap().settings;
        assert_eq!((small.model.width, small.model.heads), (384, 6));
    }

    #[test]
    fn the_presets_have_the_values_they_had() {
        let paper = Settings::preset(Preset::Paper);
        assert_eq!(paper.model, ModelConfig::default());
        assert_eq!((paper.model.tau(), paper.model.energy_weight()), (0.03, 0.1 * 0.1));
        let default = Settings::preset(Preset::Default);
        assert_eq!(
            (default.model.tau(), default.model.energy_weight(), default.model.loss.sigma_p),
            (0.03, 1e-5, 0.01)
        );
        let train = &default.train;
        assert_eq!((train.learning_rate_start, train.learning_rate, train.learning_rate_end), (1e-4, 1e-3, 5e-5));
        assert_eq!(default.model.loss.identity, 0.0);
        assert_eq!((default.mask.ratio_least, default.mask.ratio, default.mask.varied), (0.2, 0.6, 0.5));
        let lm = resolve("", &["model.kind=brainlm", "train.batch_size=128"]).unwrap().settings;
        assert_eq!((lm.train.learning_rate, lm.train.warmup, lm.train.epochs), (5e-4, 0.05, 100.0));
        assert_eq!((lm.model.dropout, lm.method.attention_dropout, lm.mask.ratio), (0.1, 0.1, 0.75));
        let jepa = Settings::preset(Preset::BrainJepa).train;
        assert_eq!((jepa.warmup, jepa.epochs, jepa.batch_size), (40.0 / 300.0, 300.0, 16));
        assert_eq!((jepa.weight_decay_start, jepa.weight_decay_end), (0.04, 0.4));
        assert_eq!((jepa.ema_start, jepa.ema_end), (0.996, 1.0));
    }

    #[test]
    fn keys_of_another_method_and_retired_ones_without_effect_are_named() {
        let lm = resolve("[loss]\ntau = 0.0\n", &["model.kind=brainlm", "train.ema_start=0.9"]).unwrap();
        assert_eq!(lm.unused, ["loss.tau", "train.ema_start"]);
        let bdo = resolve("", &["train.warmup=0.1", "loss.tau=0", "mask.window_seconds=0.0"]).unwrap();
        assert_eq!(bdo.unused, ["mask.window_seconds", "train.warmup"]);
        let sets = ["model.kind=brainlm".to_owned()];
        assert!(matches!(Settings::resolve(Some(Preset::Paper), "", &sets), Err(SettingsError::Preset { .. })));
    }

    #[test]
    fn settings_that_earlier_versions_stored_are_read() {
        let stored = r#"{"model": {"size": "small", "kind": "bdo", "width": null, "gap_code": null, "sample_latent": false},
            "mask": {"ratio": 0.5, "frames": 160, "fewest_frames": 4, "stretch": 0.0, "window_seconds": 115.0},
            "dynamics": {"diffusion": 1.0}, "loss": {"tau": 0.03, "energy_weight": null},
            "train": {"epochs": 2.0, "noise_warmup": 0.1}}"#;
        let read: Settings = serde_json::from_str(stored).unwrap();
        assert_eq!((read.model.width, read.model.gap_code, read.model.sample_latent), (384, false, false));
        let jepa: Settings = serde_json::from_str(r#"{"model": {"kind": "brainjepa"}}"#).unwrap();
        assert_eq!(jepa.method.scaling, ScalingName::Pooled);
        let asked = resolve("", &["model.kind=brainjepa"]).unwrap().settings;
        assert_eq!(asked.method.scaling, ScalingName::Auto);
        assert_eq!((read.model.tau(), read.mask.ratio, read.train.epochs), (0.03, 0.5, 2.0));
        assert!(serde_json::from_str::<Settings>(r#"{"model": {"widht": 3}}"#).is_err());
        let token: Settings = serde_json::from_str(r#"{"model": {"kind": "brainjepa"}}"#).unwrap();
        assert_eq!(token.train.warmup, 40.0 / 300.0);
    }
}
