//! The rows of a comparison by name.

use bdo_baselines::foundation::FoundationMethod;
use bdo_baselines::method::ConnectivityMethod;
use bdo_eval::reference::NoBrainKind;
use bdo_model::pooling::Pooling;
use bdo_train::settings::{Preset, Settings};

use crate::args::{Choice, Choices};

/// One method of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Row {
    /// Connectivity under a closed-form probe.
    Connectivity { kind: Connectivity, combat: bool },
    /// What can be predicted without the series.
    NoBrain(NoBrainKind),
    /// A pre-trained BDO model, or the same before its first step.
    Bdo(BdoRow),
    /// A network over connectomes.
    Network(ConnectivityMethod),
    /// A model of masked tokens, probed or fine-tuned.
    Tokens { method: FoundationMethod, tuned: bool },
}

/// How the covariance of regions becomes features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connectivity {
    /// Fisher-transformed correlations.
    Fisher,
    /// Tangent vectors at the mean of training people.
    Tangent,
    /// Matrix square roots.
    Power,
}

/// How a BDO model is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BdoRow {
    /// The protocol's linear probe of the mean control.
    Probe { untrained: bool },
    /// Pooled control under a closed-form probe.
    ClosedForm { pooling: Pooling, combat: bool, untrained: bool },
    /// Trained end to end.
    Finetune,
}

/// A row of closed form on the pooled control.
pub(crate) const fn pooled(pooling: Pooling) -> Row {
    Row::Bdo(BdoRow::ClosedForm { pooling, combat: false, untrained: false })
}

const fn bdo(pooling: Pooling, combat: bool, untrained: bool) -> Row {
    Row::Bdo(BdoRow::ClosedForm { pooling, combat, untrained })
}

const fn fc(kind: Connectivity) -> Row {
    Row::Connectivity { kind, combat: false }
}

const fn tokens(method: FoundationMethod, tuned: bool) -> Row {
    Row::Tokens { method, tuned }
}

impl Row {
    /// In every table, asked for or not: without them the others cannot be judged.
    pub(crate) const ALWAYS: [Self; 5] = [
        fc(Connectivity::Fisher),
        Self::NoBrain(NoBrainKind::Motion),
        Self::NoBrain(NoBrainKind::Site),
        Self::NoBrain(NoBrainKind::AgeSex),
        Self::NoBrain(NoBrainKind::Majority),
    ];

    /// How a BDO model is used for it, where it is.
    pub(crate) fn bdo(self) -> Option<BdoRow> {
        if let Self::Bdo(of) = self { Some(of) } else { None }
    }

    pub(crate) fn needs_model(self) -> bool {
        self.bdo().is_some()
    }

    /// Whether it trains for long: then groups of sites are not asked of it.
    pub(crate) fn trains_for_long(self) -> bool {
        self == Self::Bdo(BdoRow::Finetune) || self.is_baseline()
    }

    pub(crate) fn is_baseline(self) -> bool {
        matches!(self, Self::Network(_) | Self::Tokens { .. })
    }

    pub(crate) fn is_finetuned(self) -> bool {
        matches!(self, Self::Bdo(BdoRow::Finetune) | Self::Tokens { tuned: true, .. })
    }

    /// Whether its features are fitted on the training people of each split.
    pub(crate) fn is_fitted_by_split(self) -> bool {
        matches!(self, Self::Connectivity { kind: Connectivity::Tangent, .. })
    }

    /// Whether it is a table of features under a linear model, so that its kernel can be added to others.
    pub(crate) fn has_kernel(self) -> bool {
        matches!(self, Self::Connectivity { combat: false, .. } | Self::Bdo(BdoRow::ClosedForm { combat: false, .. }))
    }

    /// Whether the measured series are in its features beside what a model makes of them.
    pub(crate) fn holds_measured_series(self) -> bool {
        matches!(self, Self::Bdo(BdoRow::ClosedForm { pooling: Pooling::Coupling, .. }))
    }

    /// The same row of the model before its first step.
    pub(crate) fn untrained(self) -> Option<Self> {
        match self {
            Self::Bdo(BdoRow::Probe { untrained: false }) => Some(Self::Bdo(BdoRow::Probe { untrained: true })),
            Self::Bdo(BdoRow::ClosedForm { pooling, combat, untrained: false }) => Some(bdo(pooling, combat, true)),
            _ => None,
        }
    }

    /// Whether it is chosen by the scores of validation people, which two classes need both of.
    pub(crate) fn is_chosen_by_validation(self) -> bool {
        matches!(self, Self::Bdo(BdoRow::Probe { .. } | BdoRow::Finetune))
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
            Self::Probe { .. } => Some(Pooling::Mean),
            Self::ClosedForm { pooling, .. } => Some(pooling),
            Self::Finetune => None,
        }
    }

    pub(crate) fn is_untrained(self) -> bool {
        matches!(self, Self::Probe { untrained: true } | Self::ClosedForm { untrained: true, .. })
    }
}

impl Choice for Row {
    const CHOICES: Choices<Self> = &[
        (Self::ALWAYS[0], "fc", "Connectivity (in every table)"),
        (Self::ALWAYS[1], "motion", "Head motion (in every table)"),
        (Self::ALWAYS[2], "site", "Site (in every table)"),
        (Self::ALWAYS[3], "age-sex", "Age and sex (in every table)"),
        (Self::ALWAYS[4], "majority", "The most frequent class, or the mean (in every table)"),
        (
            Self::Connectivity { kind: Connectivity::Fisher, combat: true },
            "fc-combat",
            "Connectivity harmonised over sites",
        ),
        (fc(Connectivity::Tangent), "fc-tangent", "Shrunk covariances, tangent space at the mean of training people"),
        (fc(Connectivity::Power), "fc-power", "Matrix square roots of shrunk correlations"),
        (
            Self::Bdo(BdoRow::Probe { untrained: false }),
            "bdo-probe",
            "The protocol's linear probe of BDO's mean control",
        ),
        (pooled(Pooling::Mean), "bdo-mean", "Mean control, closed form"),
        (pooled(Pooling::MeanStd), "bdo-mean-std", "Mean and standard deviation of the control"),
        (pooled(Pooling::MeanMovement), "bdo-mean-movement", "Mean control, and how far and how fast it moves"),
        (pooled(Pooling::Covariance), "bdo-covariance", "Covariance of the control"),
        (pooled(Pooling::Correlation), "bdo-correlation", "Correlation of the control"),
        (pooled(Pooling::LogCovariance), "bdo-log-covariance", "Logarithm of the covariance of the control"),
        (pooled(Pooling::Regions), "bdo-regions", "Correlation of regions read out of the control"),
        (
            pooled(Pooling::Coupling),
            "bdo-coupling",
            "Correlation of regions with those read out of the control; holds the measured series",
        ),
        (bdo(Pooling::Correlation, true, false), "bdo-correlation-combat", "bdo-correlation harmonised over sites"),
        (bdo(Pooling::Coupling, true, false), "bdo-coupling-combat", "bdo-coupling harmonised over sites"),
        (
            Self::Bdo(BdoRow::Probe { untrained: true }),
            "bdo-untrained-probe",
            "bdo-probe before training (beside every row of a trained model there is the same untrained)",
        ),
        (bdo(Pooling::Mean, false, true), "bdo-untrained-mean", "bdo-mean before training"),
        (bdo(Pooling::MeanStd, false, true), "bdo-untrained-mean-std", "bdo-mean-std before training"),
        (bdo(Pooling::MeanMovement, false, true), "bdo-untrained-mean-movement", "bdo-mean-movement before training"),
        (bdo(Pooling::Covariance, false, true), "bdo-untrained-covariance", "bdo-covariance before training"),
        (bdo(Pooling::Correlation, false, true), "bdo-untrained-correlation", "bdo-correlation before training"),
        (
            bdo(Pooling::LogCovariance, false, true),
            "bdo-untrained-log-covariance",
            "bdo-log-covariance before training",
        ),
        (bdo(Pooling::Regions, false, true), "bdo-untrained-regions", "bdo-regions before training"),
        (bdo(Pooling::Coupling, false, true), "bdo-untrained-coupling", "bdo-coupling before training"),
        (
            bdo(Pooling::Correlation, true, true),
            "bdo-untrained-correlation-combat",
            "bdo-correlation-combat before training",
        ),
        (bdo(Pooling::Coupling, true, true), "bdo-untrained-coupling-combat", "bdo-coupling-combat before training"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_name_of_its_own() {
        for (i, (row, name, _)) in Row::CHOICES.iter().enumerate() {
            assert_eq!(row.typed(), *name, "{name} is the name of an earlier row");
            assert!(!Row::CHOICES[..i].iter().any(|(_, other, _)| other == name), "{name} stands twice");
        }
        let untrained = |(row, name, _): &(Row, &str, &str)| {
            row.untrained().is_none_or(|twin| twin.typed() == name.replacen("bdo-", "bdo-untrained-", 1))
        };
        assert!(Row::CHOICES.iter().all(untrained));
        assert!(pooled(Pooling::Mean).needs_model() && !Row::ALWAYS.iter().any(|row| row.needs_model()));
    }
}
