//! The configuration of a token model, as its keys say.

use crate::brainjepa::BrainJepaConfig;
use crate::brainlm::BrainLmConfig;
use crate::token::grid::Grid;
use bdo_train::settings::Settings;

/// BrainLM as configured.
pub fn brain_lm(settings: &Settings, grid: Grid, centres: bool) -> BrainLmConfig {
    BrainLmConfig {
        dropout: settings.model.dropout,
        attention_dropout: settings.method.attention_dropout,
        mask_ratio: settings.mask.ratio,
        ..BrainLmConfig::of_width(grid, settings.method.size.width(), centres)
    }
}

/// Brain-JEPA as configured.
pub fn brain_jepa(settings: &Settings, grid: Grid) -> BrainJepaConfig {
    BrainJepaConfig::of_width(grid, settings.method.size.width())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn oddities_reach_the_model() {
        let sets = ["model.kind=brainlm", "model.attention_dropout=0.1", "mask.ratio=0.5"].map(String::from);
        let asked = Settings::resolve(None, "", &sets).unwrap().settings;
        let config = brain_lm(&asked, Grid { regions: 10, windows: 4 }, true);
        assert_eq!((config.attention_dropout, config.mask_ratio, config.dropout), (0.1, 0.5, 0.1));
    }
}
