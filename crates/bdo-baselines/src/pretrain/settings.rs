//! The configuration of a token model: the keys of every other run, with the values of the method's public code.

use super::recipe::TokenRecipe;
use crate::brainjepa::BrainJepaConfig;
use crate::brainlm::BrainLmConfig;
use crate::token::grid::Grid;
use bdo_train::settings::{Kind, Settings, SettingsError, Size};

/// Scans a step where nothing is said: what fits a workstation.
const BATCH: usize = 16;
/// Keys that only token models have.
const ONLY_TOKENS: [&str; 6] = [
    "model.attention_dropout",
    "train.warmup",
    "train.weight_decay_start",
    "train.weight_decay_end",
    "train.ema_start",
    "train.ema_end",
];
/// Keys that BDO and token models share.
const SHARED: [&str; 16] = [
    "model.size",
    "model.kind",
    "train.epochs",
    "train.batch_size",
    "train.micro_batch_size",
    "train.max_minutes",
    "train.learning_rate_start",
    "train.learning_rate",
    "train.learning_rate_end",
    "train.data_fraction",
    "train.held_out_percent",
    "train.split_seed",
    "train.checkpoint_steps",
    "train.checkpoint_minutes",
    "train.keep_checkpoints",
    "train.precision",
];

/// A configuration, and which of its given keys this kind of model has no use for.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// Every key.
    pub settings: Settings,
    /// Those that were given in vain.
    pub unused: Vec<String>,
}

/// What kind of model a text and `KEY=VALUE` pairs ask for.
pub fn kind_of(text: &str, sets: &[String]) -> Result<Kind, SettingsError> {
    let given = Settings::given(text, sets)?;
    let mut kind = toml::Table::new();
    if let Some(value) = given.get("model").and_then(|model| model.get("kind")) {
        kind.insert("kind".to_owned(), value.clone());
    }
    let table = toml::Table::from_iter([("model".to_owned(), toml::Value::Table(kind))]);
    Ok(Settings::of_table(table)?.model.kind)
}

/// Resolves a configuration of any kind; what is not given is as in the public code of that kind.
pub fn resolve(text: &str, sets: &[String]) -> Result<Resolved, SettingsError> {
    let kind = kind_of(text, sets)?;
    let mut table = Settings::given(text, sets)?;
    let unused = unused(&table, kind);
    if kind != Kind::Bdo {
        let train = table.entry("train").or_insert_with(|| toml::Value::Table(toml::Table::new()));
        let batch = train.get("batch_size").and_then(toml::Value::as_integer);
        let batch = batch.map_or(BATCH, |batch| usize::try_from(batch).unwrap_or(0));
        let own = TokenRecipe::of_kind(kind, batch);
        let defaults = [
            ("epochs", toml::Value::Float(own.epochs as f64)),
            ("batch_size", toml::Value::Integer(batch as i64)),
            ("learning_rate_start", toml::Value::Float(own.rate[0])),
            ("learning_rate", toml::Value::Float(own.rate[1])),
            ("learning_rate_end", toml::Value::Float(own.rate[2])),
        ];
        if let Some(train) = train.as_table_mut() {
            for (key, value) in defaults {
                train.entry(key).or_insert(value);
            }
        }
    }
    Ok(Resolved { settings: Settings::of_table(table)?, unused })
}

/// Keys that were given and mean nothing to a kind of model.
fn unused(given: &toml::Table, kind: Kind) -> Vec<String> {
    let used = |key: &str| match kind {
        Kind::Bdo => !ONLY_TOKENS.contains(&key),
        Kind::BrainLm => {
            let masks = ["model.dropout", "model.attention_dropout", "mask.ratio"].contains(&key);
            SHARED.contains(&key) || masks || (ONLY_TOKENS.contains(&key) && !key.starts_with("train.ema"))
        }
        Kind::BrainJepa => SHARED.contains(&key) || (ONLY_TOKENS.contains(&key) && key != "model.attention_dropout"),
    };
    let mut found = Vec::new();
    for (section, keys) in given {
        for name in keys.as_table().into_iter().flatten().map(|(name, _)| name) {
            let key = format!("{section}.{name}");
            if !used(&key) {
                found.push(key);
            }
        }
    }
    found
}

/// Width of the encoder of a size.
pub fn width(size: Size) -> usize {
    match size {
        Size::Tiny => 192,
        Size::Small => 384,
        Size::Base => 768,
    }
}

/// BrainLM as configured.
pub fn brain_lm(settings: &Settings, grid: Grid, centres: bool) -> BrainLmConfig {
    let own = BrainLmConfig::of_width(grid, width(settings.model.size), centres);
    BrainLmConfig {
        dropout: settings.model.dropout.unwrap_or(own.dropout),
        attention_dropout: settings.model.attention_dropout.unwrap_or(own.attention_dropout),
        mask_ratio: settings.mask.ratio,
        ..own
    }
}

/// Brain-JEPA as configured.
pub fn brain_jepa(settings: &Settings, grid: Grid) -> BrainJepaConfig {
    BrainJepaConfig::of_width(grid, width(settings.model.size))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn sets(list: &[&str]) -> Vec<String> {
        list.iter().map(|s| (*s).to_owned()).collect()
    }

    #[test]
    fn what_is_not_said_is_as_in_the_public_code() {
        let lm = resolve("", &sets(&["model.kind=brainlm", "train.batch_size=128"])).unwrap().settings;
        assert_eq!(TokenRecipe::of_settings(&lm), TokenRecipe::brain_lm(128));
        let jepa = resolve("", &sets(&["model.kind=brainjepa"])).unwrap().settings;
        assert_eq!(TokenRecipe::of_settings(&jepa), TokenRecipe::brain_jepa(BATCH));
        let changed = resolve("[train]\nema_end = 0.5", &sets(&["model.kind=brainjepa", "train.epochs=2"])).unwrap();
        let changed = TokenRecipe::of_settings(&changed.settings);
        assert_eq!((changed.epochs, changed.momentum), (2, [0.996, 0.5]));
    }

    #[test]
    fn keys_of_another_kind_are_named_and_unknown_ones_refused() {
        let lm = resolve("[loss]\ntau = 0.0\n", &sets(&["model.kind=brainlm", "train.ema_start=0.9"])).unwrap();
        assert_eq!(lm.unused, ["loss.tau", "train.ema_start"]);
        let bdo = resolve("", &sets(&["train.warmup=0.1", "loss.tau=0"])).unwrap();
        assert_eq!(bdo.unused, ["train.warmup"]);
        assert!(resolve("", &sets(&["model.kind=brainlm", "model.depth=3"])).is_err());
        assert!(resolve("", &sets(&["model.kind=cnn"])).unwrap_err().to_string().contains("cnn"));
    }

    #[test]
    fn oddities_reach_the_model() {
        let asked = resolve("", &sets(&["model.kind=brainlm", "model.attention_dropout=0.1", "mask.ratio=0.5"]));
        let config = brain_lm(&asked.unwrap().settings, Grid { regions: 10, windows: 4 }, true);
        assert_eq!((config.attention_dropout, config.mask_ratio, config.dropout), (0.1, 0.5, 0.1));
    }
}
