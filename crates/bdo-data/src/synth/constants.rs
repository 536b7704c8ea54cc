//! Every constant of the generative model in one place, so that the truth written beside a cohort is what ran.

use serde::Serialize;

/// A struct with its usual values: every field is declared, explained and set in one place.
macro_rules! with_values {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty = $value:expr,)* }) => {
        $(#[$about])*
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $name {
            pub const USUAL: Self = Self { $($field: $value,)* };
        }

        impl Default for $name {
            fn default() -> Self {
                Self::USUAL
            }
        }
    };
}
pub(super) use with_values;

with_values! {
    /// The constants of the model; `docs/simulate.md` says which equation each belongs to. Those of networks are in the order
    /// `Vis`, `SomMot`, `DorsAttn`, `SalVentAttn`, `Limbic`, `Cont`, `Default`, `Subcortical`.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize)]
    Constants {
        /// The longest step of the latent state; the actual step divides the repetition time.
        longest_step_seconds: f64 = 0.2,
        /// Rate at which each network's regions relax, in network order: sensory fast, association slow.
        network_rate_per_second: [f64; 8] = [2.20, 2.10, 1.80, 1.80, 1.40, 1.50, 1.40, 1.70],
        /// Spread of the logarithm of region rates within a network.
        region_rate_log_sd: f64 = 0.15,
        /// Reference rate of input and innovations.
        reference_rate_per_second: f64 = 1.4,
        /// Rate of the network drives, in network order.
        drive_rate_per_second: [f64; 8] = [1.10, 1.10, 0.95, 0.95, 0.80, 0.90, 0.80, 0.95],
        global_rate_per_second: f64 = 0.90,
        /// How strongly a network's drive enters its regions, at a coupling score of zero.
        drive_gain: f64 = 0.48,
        /// How strongly the global drive enters all regions.
        global_gain: f64 = 0.34,
        /// Change of the logarithm of the drive gain per unit of coupling score.
        drive_gain_log_sd: f64 = 0.30,
        /// Largest local coupling; below one, so every brain is stable.
        local_coupling_limit: f64 = 0.85,
        /// Logit of local coupling relative to its limit, at a coupling score of zero.
        local_coupling_logit: f64 = 1.0,
        /// Change of that logit per unit of coupling score.
        local_coupling_logit_sd: f64 = 0.3,
        /// Distance over which local coupling falls to 1/e.
        coupling_range_mm: f64 = 12.0,
        /// The same around the mirrored place in the other hemisphere.
        mirror_range_mm: f64 = 8.0,
        /// Spread of the logarithm of a person's rates.
        person_rate_log_sd: f64 = 0.25,
        /// Spread of a person's coupling between two networks, in units of the drive rate.
        person_between_sd: f64 = 0.08,
        /// Largest absolute row sum of the coupling between networks; below one, so every brain is stable.
        between_limit: f64 = 0.90,
        /// Spread of region loadings on drives: between regions, and a person's own on top.
        loading_sd: [f64; 2] = [0.35, 0.15],
        /// Correlation of siblings in every random parameter and in the trait.
        sibling_correlation: f64 = 0.5,
        /// Time scale of the double-gamma response relative to the canonical one (peak at 5 s).
        hrf_scale: f64 = 0.70,
        /// Spread of the logarithm of that scale between people.
        hrf_log_sd: f64 = 0.05,
        /// Share of the undershoot.
        hrf_undershoot: f64 = 1.0 / 6.0,
        /// Where the response is cut off, in scaled seconds.
        hrf_length: f64 = 26.0,
        /// Percent signal change per unit of filtered state.
        percent_per_unit: f64 = 0.75,
        /// Standard deviation of white noise at a site of noise 1.
        noise_percent: f64 = 0.58,
        /// Size of slow drift.
        drift_percent: f64 = 0.12,
        /// Time constant of the random part of the drift.
        drift_seconds: f64 = 120.0,
        /// Signal lost per millimetre of displacement, at a sensitivity of one.
        motion_percent_per_mm: f64 = 1.2,
        /// Share of a motion artefact that remains at the next volume.
        motion_carry: f64 = 0.3,
        /// Typical displacement between volumes of a still person.
        still_fd_mm: f64 = 0.10,
        /// Spread of its logarithm between people.
        still_fd_log_sd: f64 = 0.35,
        /// Typical rate of sudden movements.
        spikes_per_minute: f64 = 0.5,
        /// Spread of its logarithm between people.
        spikes_log_sd: f64 = 0.7,
        /// A sudden movement is at least this large ...
        spike_least_mm: f64 = 0.5,
        /// ... plus an exponential of this mean,
        spike_mean_mm: f64 = 0.6,
        /// but not larger than this.
        spike_most_mm: f64 = 5.0,
        /// Youngest and oldest age.
        age_years: [f64; 2] = [18.0, 85.0],
        /// Share of people with the diagnosis.
        patient_fraction: f64 = 0.4,
        /// Mean and standard deviation of the trait.
        trait_score: [f64; 2] = [100.0, 15.0],
        /// Chance that three neighbouring subjects are siblings, and that only the first two are.
        sibling_fractions: [f64; 2] = [0.10, 0.30],
    }
}

pub const CONSTANTS: Constants = Constants::USUAL;

/// Coupling between network drives, one row per pair: (a, b, strength, how much more a acts on b than b on a).
///
/// Indices follow `Network::ALL`. Negative pairs make the default network anticorrelated with attention.
pub(super) const BETWEEN: [(usize, usize, f64, f64); 11] = [
    (0, 2, 0.18, 0.3),
    (1, 3, 0.18, 0.0),
    (6, 4, 0.18, 0.2),
    (5, 6, 0.14, 0.3),
    (5, 2, 0.14, 0.3),
    (3, 5, 0.12, 0.3),
    (7, 1, 0.12, 0.4),
    (7, 4, 0.12, 0.2),
    (6, 2, -0.20, 0.0),
    (3, 6, -0.14, 0.3),
    (6, 1, -0.08, 0.0),
];

with_values! {
    /// How each label acts on the coupling score of each network, relative to its effect size, in network order.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize)]
    LabelWeights {
        /// Per standard deviation of age.
        age: [f64; 8] = [-0.5, -0.8, -1.0, -1.0, -0.5, -1.0, -1.0, -0.5],
        /// Women minus men.
        sex: [f64; 8] = [-0.5, -1.0, 0.0, 0.0, 0.5, 0.0, 1.0, 0.0],
        /// Patients minus controls.
        diagnosis: [f64; 8] = [0.0, 0.0, 0.0, -1.0, 0.0, 0.0, -1.0, 1.0],
        /// Per standard deviation of the trait.
        trait_score: [f64; 8] = [0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0],
    }
}

pub const LABEL_WEIGHTS: LabelWeights = LabelWeights::USUAL;
