//! The rows of a comparison by name.

use bdo_baselines::foundation::FoundationMethod;
use bdo_baselines::method::ConnectivityMethod;
use bdo_eval::reference::NoBrainKind;
use bdo_model::pooling::Pooling;
use bdo_train::settings::{Preset, Settings};
use serde::{Serialize, Serializer};

use crate::args::{Choice, Choices, as_typed};

/// One method of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Row {
    /// Connectivity under a closed-form probe.
    Connectivity { combat: bool },
    /// What can be predicted without the series.
    NoBrain(NoBrainKind),
    /// A pre-trained BDO model.
    Bdo(BdoRow),
    /// A network over connectomes.
    Network(ConnectivityMethod),
    /// A model of masked tokens, probed or fine-tuned.
    Tokens { method: FoundationMethod, tuned: bool },
}

/// How a pre-trained BDO model is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BdoRow {
    /// The protocol's linear probe of the mean control.
    Probe,
    /// Pooled control under a closed-form probe.
    ClosedForm { pooling: Pooling, combat: bool },
    /// Trained end to end.
    Finetune,
}

/// A row of closed form on the pooled control.
pub(crate) const fn pooled(pooling: Pooling) -> Row {
    Row::Bdo(BdoRow::ClosedForm { pooling, combat: false })
}

const fn tokens(method: FoundationMethod, tuned: bool) -> Row {
    Row::Tokens { method, tuned }
}

impl Row {
    /// In every table, asked for or not: without them the others cannot be judged.
    pub(crate) const ALWAYS: [Self; 5] = [
        Self::Connectivity { combat: false },
        Self::NoBrain(NoBrainKind::Motion),
        Self::NoBrain(NoBrainKind::Site),
        Self::NoBrain(NoBrainKind::AgeSex),
        Self::NoBrain(NoBrainKind::Majority),
    ];

    pub(crate) fn needs_model(self) -> bool {
        matches!(self, Self::Bdo(_))
    }

    pub(crate) fn is_baseline(self) -> bool {
        matches!(self, Self::Network(_) | Self::Tokens { .. })
    }

    pub(crate) fn is_finetuned(self) -> bool {
        matches!(self, Self::Bdo(BdoRow::Finetune) | Self::Tokens { tuned: true, .. })
    }

    /// Epochs its authors train it for: with labels for the networks over connectomes, before them for token models.
    pub(crate) fn own_epochs(self) -> Option<f64> {
        match self {
            Self::Network(method) => Some(method.recipe().epochs as f64),
            Self::Tokens { method, .. } => Some(Settings::preset(Preset::of_kind(method.kind())).train.epochs),
            _ => None,
        }
    }
}

impl BdoRow {
    /// How the control becomes features; fine-tuning pools inside.
    pub(crate) fn pooling(self) -> Option<Pooling> {
        match self {
            Self::Probe => Some(Pooling::Mean),
            Self::ClosedForm { pooling, .. } => Some(pooling),
            Self::Finetune => None,
        }
    }
}

impl Choice for Row {
    const CHOICES: Choices<Self> = &[
        (Self::ALWAYS[0], "fc", "Connectivity (in every table)"),
        (Self::ALWAYS[1], "motion", "Head motion (in every table)"),
        (Self::ALWAYS[2], "site", "Site (in every table)"),
        (Self::ALWAYS[3], "age-sex", "Age and sex (in every table)"),
        (Self::ALWAYS[4], "majority", "The most frequent class, or the mean (in every table)"),
        (Self::Connectivity { combat: true }, "fc-combat", "Connectivity harmonised over sites"),
        (Self::Bdo(BdoRow::Probe), "bdo-probe", "The protocol's linear probe of BDO's mean control"),
        (pooled(Pooling::Mean), "bdo-mean", "Mean control, closed form"),
        (pooled(Pooling::MeanStd), "bdo-mean-std", "Mean and standard deviation of the control"),
        (pooled(Pooling::Covariance), "bdo-covariance", "Covariance of the control"),
        (pooled(Pooling::Correlation), "bdo-correlation", "Correlation of the control"),
        (pooled(Pooling::LogCovariance), "bdo-log-covariance", "Logarithm of the covariance of the control"),
        (pooled(Pooling::Regions), "bdo-regions", "Correlation of regions read out of the control"),
        (pooled(Pooling::Coupling), "bdo-coupling", "Correlation of regions with those read out of the control"),
        (
            Self::Bdo(BdoRow::ClosedForm { pooling: Pooling::Correlation, combat: true }),
            "bdo-correlation-combat",
            "bdo-correlation harmonised over sites",
        ),
        (
            Self::Bdo(BdoRow::ClosedForm { pooling: Pooling::Coupling, combat: true }),
            "bdo-coupling-combat",
            "bdo-coupling harmonised over sites",
        ),
        (Self::Bdo(BdoRow::Finetune), "bdo-finetune", "BDO trained end to end"),
        (Self::Network(ConnectivityMethod::BrainNetCnn), "brainnetcnn", "BrainNetCNN"),
        (Self::Network(ConnectivityMethod::BrainGnn), "braingnn", "BrainGNN"),
        (Self::Network(ConnectivityMethod::BrainNetTf), "brainnettf", "BrainNetTF"),
        (tokens(FoundationMethod::BrainLm, false), "brainlm", "BrainLM, probed"),
        (tokens(FoundationMethod::BrainLm, true), "brainlm-finetune", "BrainLM trained end to end"),
        (tokens(FoundationMethod::BrainJepa, false), "brainjepa", "Brain-JEPA, probed"),
        (tokens(FoundationMethod::BrainJepa, true), "brainjepa-finetune", "Brain-JEPA trained end to end"),
    ];
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        as_typed(self, serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_name_of_its_own() {
        for (i, (row, name, _)) in Row::CHOICES.iter().enumerate() {
            assert_eq!(row.typed(), *name, "{name} is the name of an earlier row");
            assert!(!Row::CHOICES[..i].iter().any(|(_, other, _)| other == name), "{name} stands twice");
        }
        assert!(pooled(Pooling::Mean).needs_model() && !Row::ALWAYS.iter().any(|row| row.needs_model()));
    }
}
