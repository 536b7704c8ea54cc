//! What to regress out, named as nilearn names it.

use serde::{Deserialize, Serialize};

use super::Scrub;

/// Which terms of a basic regressor are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expansion {
    Basic,
    Power2,
    Derivatives,
    /// All of these and the square of the difference: 24 motion parameters.
    Full,
}

impl Expansion {
    pub(super) fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Basic => &[""],
            Self::Power2 => &["", "_power2"],
            Self::Derivatives => &["", "_derivative1"],
            Self::Full => &["", "_derivative1", "_power2", "_derivative1_power2"],
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompCorKind {
    /// Anatomical, from the joint mask of white matter and fluid.
    AnatCombined,
    /// Anatomical, from each mask.
    AnatSeparated,
    Temporal,
    TemporalAnatCombined,
    TemporalAnatSeparated,
}

/// How ICA-AROMA enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AromaKind {
    /// fMRIPrep has removed the components already: the image is `desc-smoothAROMAnonaggr_bold`.
    Full,
    /// The noise components are regressed out here.
    Basic,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strategy {
    pub motion: Option<Expansion>,
    /// Mean signals of white matter and fluid.
    pub wm_csf: Option<Expansion>,
    pub global_signal: Option<Expansion>,
    /// Slow cosines, where the table has them.
    pub high_pass: bool,
    pub compcor: Option<CompCorKind>,
    /// At most so many components a mask; `None` takes all.
    pub n_compcor: Option<usize>,
    pub ica_aroma: Option<AromaKind>,
    pub scrub: Option<Scrub>,
    pub demean: bool,
    /// Columns by name, whatever else is asked for; `cosine*` stands for all whose names begin so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
}

impl Strategy {
    /// Nothing but the censoring of unsteady frames.
    pub fn nothing() -> Self {
        Self { demean: true, ..Self::default() }
    }

    /// True when the image must be the one ICA-AROMA has cleaned.
    pub fn needs_aroma_image(&self) -> bool {
        self.ica_aroma == Some(AromaKind::Full)
    }
}

/// A strategy by name (nilearn: `load_confounds_strategy`; `36p` is spelled out there).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// Cosines, 24 motion parameters, white matter and fluid.
    Simple,
    /// Cosines, 24 motion parameters, white matter and fluid with their terms, scrubbing.
    Scrubbing,
    /// Cosines, 24 motion parameters, all anatomical components of the joint mask.
    Compcor,
    /// Cosines, white matter and fluid, on the image ICA-AROMA has cleaned.
    IcaAroma,
    /// 36 parameters: motion, white matter, fluid and the global signal, each with its difference and the squares of both
    /// (Satterthwaite 2013, Ciric 2017). No cosines: slow drift is left to the trend or the band-pass.
    #[serde(rename = "36p")]
    ThirtySix,
}

impl Preset {
    pub const ALL: [Self; 5] = [Self::Simple, Self::Scrubbing, Self::Compcor, Self::IcaAroma, Self::ThirtySix];

    pub fn strategy(self) -> Strategy {
        let with_cosines = Strategy { high_pass: true, ..Strategy::nothing() };
        let motion = Some(Expansion::Full);
        match self {
            Self::Simple => Strategy { motion, wm_csf: Some(Expansion::Basic), ..with_cosines },
            Self::Scrubbing => {
                Strategy { motion, wm_csf: Some(Expansion::Full), scrub: Some(Scrub::default()), ..with_cosines }
            }
            Self::Compcor => Strategy { motion, compcor: Some(CompCorKind::AnatCombined), ..with_cosines },
            Self::IcaAroma => {
                Strategy { wm_csf: Some(Expansion::Basic), ica_aroma: Some(AromaKind::Full), ..with_cosines }
            }
            Self::ThirtySix => {
                let full = Some(Expansion::Full);
                Strategy { motion, wm_csf: full, global_signal: full, ..Strategy::nothing() }
            }
        }
    }
}
