//! Presets: the configurations in `configs/`, embedded in the program.

use super::keys::Kind;
use serde::Serialize;
use std::fmt;

/// A configuration known by name; its size is chosen with `model.size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// BDO with settings chosen on validation people.
    Default,
    /// BDO with the values of its paper.
    Paper,
    /// BrainLM as trained by its public code.
    BrainLm,
    /// Brain-JEPA as trained by its public code.
    BrainJepa,
}

impl Preset {
    pub const ALL: [Self; 4] = [Self::Default, Self::Paper, Self::BrainLm, Self::BrainJepa];

    /// The preset of a method, where none is named.
    pub fn of_kind(kind: Kind) -> Self {
        match kind {
            Kind::Bdo => Self::Default,
            Kind::BrainLm => Self::BrainLm,
            Kind::BrainJepa => Self::BrainJepa,
        }
    }

    /// Its name as typed, the method it trains, and the keys it changes from their defaults, as TOML with a reason above each.
    fn facts(self) -> (&'static str, Kind, &'static str) {
        match self {
            Self::Default => ("default", Kind::Bdo, include_str!("../../../../configs/default.toml")),
            Self::Paper => ("paper", Kind::Bdo, include_str!("../../../../configs/paper.toml")),
            Self::BrainLm => ("brainlm", Kind::BrainLm, include_str!("../../../../configs/brainlm.toml")),
            Self::BrainJepa => ("brainjepa", Kind::BrainJepa, include_str!("../../../../configs/brainjepa.toml")),
        }
    }

    pub fn name(self) -> &'static str {
        self.facts().0
    }

    pub fn kind(self) -> Kind {
        self.facts().1
    }

    pub fn text(self) -> &'static str {
        self.facts().2
    }

    /// Of every key it changes, the path and the comment above it.
    pub fn reasons(self) -> Vec<(String, String)> {
        let (mut table, mut comment, mut found) = (String::new(), String::new(), Vec::new());
        for line in self.text().lines() {
            if let Some(text) = line.strip_prefix('#') {
                comment += text;
            } else if let Some(name) = line.strip_prefix('[') {
                name.trim_end_matches(']').clone_into(&mut table);
                comment.clear();
            } else if let Some((name, _)) = line.split_once('=') {
                found.push((format!("{table}.{}", name.trim()), std::mem::take(&mut comment).trim().to_owned()));
            }
        }
        found
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
