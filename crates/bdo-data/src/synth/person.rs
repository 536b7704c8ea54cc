//! People: labels, relatives, and the parameters of their brains.

use serde::Serialize;

use super::constants::{CONSTANTS, LABEL_WEIGHTS};
use super::elementary::exp;
use super::population::Population;
use super::spec::SynthSpec;
use super::stream::{Purpose, Stream};
use crate::atlas::Network;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PersonTruth {
    /// Age to a tenth of a year, also where the label is missing.
    pub age_years: f64,
    /// `F` or `M`.
    pub sex: &'static str,
    /// `control` or `patient`.
    pub diagnosis: &'static str,
    /// A score of mean 100 and standard deviation 15, to a tenth.
    pub trait_score: f64,
    pub site: usize,
    /// The first subject index of the family.
    pub family: usize,
    /// Factor on every rate of the latent state.
    pub rate_scale: f64,
    /// Standardised coupling of each network, the quantity labels act on.
    pub coupling_score: [f64; 8],
    /// How strongly each network's drive enters its regions.
    pub drive_gain: [f64; 8],
    /// Local coupling of each network, below one.
    pub local_coupling: [f64; 8],
    /// Coupling between network drives, (to, from), in units of the drive rate.
    pub between: [[f64; 8]; 8],
    /// The person's own factor on each region's drive loading.
    pub loading: Vec<f64>,
    /// Time scale of the haemodynamic response.
    pub hrf_scale: f64,
    /// Displacement between volumes while still.
    pub still_fd_mm: f64,
    /// Rate of sudden movements.
    pub spikes_per_minute: f64,
}

impl PersonTruth {
    /// Everything about subject `index`, from the person's own stream and the family's.
    pub(super) fn new(spec: &SynthSpec, index: usize) -> Self {
        let family = family_of(spec.seed, index);
        let mut shared = Stream::new(spec.seed, Purpose::Family, family, 1);
        let mut own = Stream::new(spec.seed, Purpose::Person, index, 0);
        let site = (shared.uniform() * spec.sites as f64) as usize;
        let age_years = age(&mut shared, &mut own, family == index);
        let female = own.uniform() < 0.5;
        let patient = own.uniform() < CONSTANTS.patient_fraction;
        // Relatives resemble each other in the trait and in every parameter of the brain.
        let mut inherited = || {
            let rho = CONSTANTS.sibling_correlation;
            rho.sqrt() * shared.normal() + (1.0 - rho).sqrt() * own.normal()
        };
        let trait_z = inherited();
        let age_z = standardised_age(age_years);
        let sex_half = if female { 0.5 } else { -0.5 };
        let diagnosis_half = if patient { 0.5 } else { -0.5 };
        let effects = &spec.effects;
        let coupling_score = std::array::from_fn(|k| {
            inherited()
                + effects.age_coupling * LABEL_WEIGHTS.age[k] * age_z
                + effects.sex_coupling * LABEL_WEIGHTS.sex[k] * sex_half
                + effects.diagnosis_coupling * LABEL_WEIGHTS.diagnosis[k] * diagnosis_half
                + effects.trait_coupling * LABEL_WEIGHTS.trait_score[k] * trait_z
        });
        let rate_scale = exp(CONSTANTS.person_rate_log_sd * (inherited() - effects.age_rate * age_z));
        let between = between(&mut inherited, effects.diagnosis_between * diagnosis_half);
        let hrf_scale = CONSTANTS.hrf_scale * exp(CONSTANTS.hrf_log_sd * inherited());
        let motion = effects.age_motion * age_z;
        let still_fd_mm = CONSTANTS.still_fd_mm * exp(CONSTANTS.still_fd_log_sd * (inherited() + motion));
        let spikes_per_minute = CONSTANTS.spikes_per_minute * exp(CONSTANTS.spikes_log_sd * (inherited() + motion));
        let [mean, deviation] = CONSTANTS.trait_score;
        PersonTruth {
            age_years,
            sex: if female { "F" } else { "M" },
            diagnosis: if patient { "patient" } else { "control" },
            trait_score: tenth(mean + deviation * trait_z),
            site,
            family,
            rate_scale,
            coupling_score,
            drive_gain: coupling_score.map(|c| CONSTANTS.drive_gain * exp(CONSTANTS.drive_gain_log_sd * c)),
            local_coupling: coupling_score.map(local_coupling),
            between,
            loading: (0..spec.regions).map(|_| 1.0 + CONSTANTS.loading_sd[1] * own.normal()).collect(),
            hrf_scale,
            still_fd_mm,
            spikes_per_minute,
        }
    }

    /// Age, sex, diagnosis and trait as a study would have them, some missing; then site and family.
    pub(super) fn observed(&self, spec: &SynthSpec, index: usize, site: &str) -> Vec<Option<String>> {
        let mut stream = Stream::new(spec.seed, Purpose::Missing, index, 0);
        let mut recorded = |label: String| (stream.uniform() >= spec.missing_label_fraction).then_some(label);
        vec![
            recorded(format!("{:.4}", self.age_years)),
            recorded(self.sex.to_owned()),
            recorded(self.diagnosis.to_owned()),
            recorded(format!("{:.4}", self.trait_score)),
            Some(site.to_owned()),
            Some(format!("fam-{:04}", self.family + 1)),
        ]
    }
}

/// `sub-0001`, padded to the width of the last one.
pub(super) fn subject_name(spec: &SynthSpec, index: usize) -> String {
    let width = spec.subjects.to_string().len().max(4);
    format!("sub-{:0width$}", index + 1)
}

/// Siblings are neighbours: three subjects in a row are one family, or the first two are, or nobody is.
///
/// Decided per block of three, so that who is related does not depend on how many subjects there are.
fn family_of(seed: u64, index: usize) -> usize {
    let first = index - index % 3;
    let [three, two] = CONSTANTS.sibling_fractions;
    let draw = Stream::new(seed, Purpose::Family, first, 0).uniform();
    let size = if draw < three {
        3
    } else if draw < three + two {
        2
    } else {
        1
    };
    if index - first < size { first } else { index }
}

/// Uniform for the first of a family, within a few years of it for siblings.
fn age(shared: &mut Stream, own: &mut Stream, eldest: bool) -> f64 {
    let [low, high] = CONSTANTS.age_years;
    let first = low + (high - low) * shared.uniform();
    let years = if eldest { first } else { first + 4.0 * own.normal() };
    // Reflected rather than clamped, so that nobody piles up at the ends.
    let years = if years < low { 2.0 * low - years } else { years };
    let years = if years > high { 2.0 * high - years } else { years };
    tenth(years.clamp(low, high))
}

/// Age in standard deviations of the uniform distribution it is drawn from.
fn standardised_age(years: f64) -> f64 {
    let [low, high] = CONSTANTS.age_years;
    (years - 0.5 * (low + high)) / ((high - low) / 12_f64.sqrt())
}

/// A logistic of the score: never reaches its limit, so every brain is stable.
fn local_coupling(score: f64) -> f64 {
    let logit = CONSTANTS.local_coupling_logit + CONSTANTS.local_coupling_logit_sd * score;
    CONSTANTS.local_coupling_limit / (1.0 + exp(-logit))
}

/// The population's coupling, a person's deviation on every ordered pair, and the effect of a diagnosis.
fn between(inherited: &mut impl FnMut() -> f64, salience_default: f64) -> [[f64; 8]; 8] {
    let mut matrix = Population::between();
    for (to, row) in matrix.iter_mut().enumerate() {
        for (from, value) in row.iter_mut().enumerate() {
            if to != from {
                *value += CONSTANTS.person_between_sd * inherited();
            }
        }
    }
    let (salience, default) = (Network::SalVentAttn.index(), Network::Default.index());
    matrix[salience][default] += CONSTANTS.person_between_sd * salience_default;
    matrix[default][salience] += CONSTANTS.person_between_sd * salience_default;
    // Row sums below one keep every eigenvalue of -1 + M in the left half plane (Gershgorin).
    for row in &mut matrix {
        let sum: f64 = row.iter().map(|x| x.abs()).sum();
        if sum > CONSTANTS.between_limit {
            for x in row.iter_mut() {
                *x *= CONSTANTS.between_limit / sum;
            }
        }
    }
    matrix
}

fn tenth(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}
