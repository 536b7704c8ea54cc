//! Every constant of the generative model in one place, so that the truth written beside a cohort is what ran.

use serde::Serialize;

/// The constants of the model; `docs/simulate.md` says which equation each belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Constants {
    /// The longest step of the latent state; the actual step divides the repetition time.
    pub longest_step_seconds: f64,
    /// Rate at which each network's regions relax, in network order: sensory fast, association slow.
    pub network_rate_per_second: [f64; 8],
    /// Spread of the logarithm of region rates within a network.
    pub region_rate_log_sd: f64,
    /// Reference rate of input and innovations.
    pub reference_rate_per_second: f64,
    /// Rate of the network drives, in network order.
    pub drive_rate_per_second: [f64; 8],
    pub global_rate_per_second: f64,
    /// How strongly a network's drive enters its regions, at a coupling score of zero.
    pub drive_gain: f64,
    /// How strongly the global drive enters all regions.
    pub global_gain: f64,
    /// Change of the logarithm of the drive gain per unit of coupling score.
    pub drive_gain_log_sd: f64,
    /// Largest local coupling; below one, so every brain is stable.
    pub local_coupling_limit: f64,
    /// Logit of local coupling relative to its limit, at a coupling score of zero.
    pub local_coupling_logit: f64,
    /// Change of that logit per unit of coupling score.
    pub local_coupling_logit_sd: f64,
    /// Distance over which local coupling falls to 1/e.
    pub coupling_range_mm: f64,
    /// The same around the mirrored place in the other hemisphere.
    pub mirror_range_mm: f64,
    /// Spread of the logarithm of a person's rates.
    pub person_rate_log_sd: f64,
    /// Spread of a person's coupling between two networks, in units of the drive rate.
    pub person_between_sd: f64,
    /// Largest absolute row sum of the coupling between networks; below one, so every brain is stable.
    pub between_limit: f64,
    /// Spread of region loadings on drives: between regions, and a person's own on top.
    pub loading_sd: [f64; 2],
    /// Correlation of siblings in every random parameter and in the trait.
    pub sibling_correlation: f64,
    /// Time scale of the double-gamma response relative to the canonical one (peak at 5 s).
    pub hrf_scale: f64,
    /// Spread of the logarithm of that scale between people.
    pub hrf_log_sd: f64,
    /// Share of the undershoot.
    pub hrf_undershoot: f64,
    /// Where the response is cut off, in scaled seconds.
    pub hrf_length: f64,
    /// Percent signal change per unit of filtered state.
    pub percent_per_unit: f64,
    /// Standard deviation of white noise at a site of noise 1.
    pub noise_percent: f64,
    /// Size of slow drift.
    pub drift_percent: f64,
    /// Time constant of the random part of the drift.
    pub drift_seconds: f64,
    /// Signal lost per millimetre of displacement, at a sensitivity of one.
    pub motion_percent_per_mm: f64,
    /// Share of a motion artefact that remains at the next volume.
    pub motion_carry: f64,
    /// Typical displacement between volumes of a still person.
    pub still_fd_mm: f64,
    /// Spread of its logarithm between people.
    pub still_fd_log_sd: f64,
    /// Typical rate of sudden movements.
    pub spikes_per_minute: f64,
    /// Spread of its logarithm between people.
    pub spikes_log_sd: f64,
    /// A sudden movement is at least this large ...
    pub spike_least_mm: f64,
    /// ... plus an exponential of this mean,
    pub spike_mean_mm: f64,
    /// but not larger than this.
    pub spike_most_mm: f64,
    /// Youngest and oldest age.
    pub age_years: [f64; 2],
    /// Share of people with the diagnosis.
    pub patient_fraction: f64,
    /// Mean and standard deviation of the trait.
    pub trait_score: [f64; 2],
    /// Chance that three neighbouring subjects are siblings, and that only the first two are.
    pub sibling_fractions: [f64; 2],
}

pub const CONSTANTS: Constants = Constants {
    longest_step_seconds: 0.2,
    //                        Vis  SomMot Dors SalVent Limbic Cont Default Subcortical
    network_rate_per_second: [2.20, 2.10, 1.80, 1.80, 1.40, 1.50, 1.40, 1.70],
    region_rate_log_sd: 0.15,
    reference_rate_per_second: 1.4,
    drive_rate_per_second: [1.10, 1.10, 0.95, 0.95, 0.80, 0.90, 0.80, 0.95],
    global_rate_per_second: 0.90,
    drive_gain: 0.48,
    global_gain: 0.34,
    drive_gain_log_sd: 0.30,
    local_coupling_limit: 0.85,
    local_coupling_logit: 1.0,
    local_coupling_logit_sd: 0.3,
    coupling_range_mm: 12.0,
    mirror_range_mm: 8.0,
    person_rate_log_sd: 0.25,
    person_between_sd: 0.08,
    between_limit: 0.90,
    loading_sd: [0.35, 0.15],
    sibling_correlation: 0.5,
    hrf_scale: 0.70,
    hrf_log_sd: 0.05,
    hrf_undershoot: 1.0 / 6.0,
    hrf_length: 26.0,
    percent_per_unit: 0.75,
    noise_percent: 0.58,
    drift_percent: 0.12,
    drift_seconds: 120.0,
    motion_percent_per_mm: 1.2,
    motion_carry: 0.3,
    still_fd_mm: 0.10,
    still_fd_log_sd: 0.35,
    spikes_per_minute: 0.5,
    spikes_log_sd: 0.7,
    spike_least_mm: 0.5,
    spike_mean_mm: 0.6,
    spike_most_mm: 5.0,
    age_years: [18.0, 85.0],
    patient_fraction: 0.4,
    trait_score: [100.0, 15.0],
    sibling_fractions: [0.10, 0.30],
};

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

/// How each label acts on the coupling score of each network, relative to its effect size, in network order.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LabelWeights {
    /// Per standard deviation of age.
    pub age: [f64; 8],
    /// Women minus men.
    pub sex: [f64; 8],
    /// Patients minus controls.
    pub diagnosis: [f64; 8],
    /// Per standard deviation of the trait.
    pub trait_score: [f64; 8],
}

pub const LABEL_WEIGHTS: LabelWeights = LabelWeights {
    age: [-0.5, -0.8, -1.0, -1.0, -0.5, -1.0, -1.0, -0.5],
    sex: [-0.5, -1.0, 0.0, 0.0, 0.5, 0.0, 1.0, 0.0],
    diagnosis: [0.0, 0.0, 0.0, -1.0, 0.0, 0.0, -1.0, 1.0],
    trait_score: [0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0],
};
