//! What synthetic cohort is wanted.

use serde::{Deserialize, Serialize};

use super::constants::with_values;
use crate::problem::{Problem, ensure};

with_values! {
    /// The settings of a synthetic cohort. Two equal specs give the same bytes, on any machine.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    SynthSpec {
        subjects: usize = 100,
        /// Regions; 450 is Schaefer-400 + Tian S3, fewer a balanced subset, more adds numbered regions.
        regions: usize = 450,
        /// Volumes per scan, before censoring.
        frames: usize = 490,
        /// Scanners, each with its own repetition time, gain and noise.
        sites: usize = 3,
        /// The repetition time of the first site, the others vary around it; absent: typical repetition times.
        tr_seconds: Option<f64> = None,
        /// Scans per person: the same brain, new states and new noise.
        sessions: usize = 1,
        /// Seed of people, scanners and noise.
        seed: u64 = 0,
        /// Seed of what all brains have in common; cohorts that share it are samples of one population.
        population_seed: u64 = 0,
        /// How strongly labels act on the dynamics.
        effects: Effects = Effects::USUAL,
        /// Share of each label that was not recorded.
        missing_label_fraction: f64 = 0.03,
        /// Volumes with more framewise displacement than this are left out; true times stay.
        censor_fd_mm: Option<f64> = None,
    }
}

impl SynthSpec {
    /// Refuses settings that describe no cohort.
    pub fn validate(&self) -> Result<(), Problem> {
        let counts = [
            ("subjects", 1, self.subjects),
            ("regions", 2, self.regions),
            ("frames", 2, self.frames),
            ("sites", 1, self.sites),
            ("sessions", 1, self.sessions),
        ];
        for (name, least, found) in counts {
            ensure(found >= least, name, format_args!("at least {least}"), found)?;
        }
        within("tr_seconds", 0.05, 20.0, self.tr_seconds.unwrap_or(1.0))?;
        within("missing_label_fraction", 0.0, 1.0, self.missing_label_fraction)?;
        within("censor_fd_mm", 0.05, 50.0, self.censor_fd_mm.unwrap_or(0.5))?;
        let effects = serde_json::to_value(self.effects).expect("effects are plain numbers");
        for (name, size) in effects.as_object().into_iter().flatten() {
            // Beyond five standard deviations every brain would sit at the edge of stability.
            within(format_args!("effects.{name}"), -5.0, 5.0, size.as_f64().unwrap_or(f64::NAN))?;
        }
        let found = format_args!("{} x {}", self.subjects, self.sessions);
        ensure(self.subjects.checked_mul(self.sessions).is_some(), "subjects x sessions", "to fit an index", found)
    }
}

with_values! {
    /// Effect sizes, in standard deviations of the parameter between people of equal labels.
    ///
    /// Age and trait: per standard deviation of the label. Sex and diagnosis: the difference of the two groups.
    /// Zero means that the label is independent of everything in the scan.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    Effects {
        /// How much slower all rates are with age.
        age_rate: f64 = 0.8,
        /// How much weaker coupling within networks is with age.
        age_coupling: f64 = 0.5,
        /// How much more the head moves with age.
        age_motion: f64 = 0.2,
        /// Coupling: women above men in the default and limbic networks, below in somatomotor and visual.
        sex_coupling: f64 = 0.9,
        /// Coupling: patients below controls in salience and default, above in the subcortex.
        diagnosis_coupling: f64 = 0.7,
        /// Coupling between the salience and default networks: patients above controls.
        diagnosis_between: f64 = 0.7,
        /// Coupling in the control and dorsal attention networks rises with the trait.
        trait_coupling: f64 = 0.3,
    }
}

impl Effects {
    /// No label acts on anything: what a fair test of chance level needs.
    pub fn none() -> Self {
        Effects {
            age_rate: 0.0,
            age_coupling: 0.0,
            age_motion: 0.0,
            sex_coupling: 0.0,
            diagnosis_coupling: 0.0,
            diagnosis_between: 0.0,
            trait_coupling: 0.0,
        }
    }
}

fn within(name: impl ToString, low: f64, high: f64, found: f64) -> Result<(), Problem> {
    // Written so that a NaN is out of range.
    ensure((low..=high).contains(&found), name, format_args!("a number from {low} to {high}"), found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid_and_survives_json() {
        let spec = SynthSpec::default();
        assert_eq!(spec.validate(), Ok(()));
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<SynthSpec>(&text).unwrap(), spec);
        assert!(serde_json::from_str::<SynthSpec>(r#"{"subject": 3}"#).is_err(), "unknown keys are errors");
    }

    #[test]
    fn impossible_settings_are_named() {
        type Change = fn(&mut SynthSpec);
        let refused = |change: Change| {
            let mut spec = SynthSpec::default();
            change(&mut spec);
            spec.validate().unwrap_err()
        };
        assert_eq!(refused(|s| s.frames = 1).to_string(), "frames: expected at least 2, found 1");
        let changes: [(&str, Change); 8] = [
            ("regions", |s| s.regions = 1),
            ("subjects", |s| s.subjects = 0),
            ("sites", |s| s.sites = 0),
            ("sessions", |s| s.sessions = 0),
            ("missing_label_fraction", |s| s.missing_label_fraction = 1.5),
            ("censor_fd_mm", |s| s.censor_fd_mm = Some(0.0)),
            ("effects.age_rate", |s| s.effects.age_rate = f64::NAN),
            ("subjects x sessions", |s| s.sessions = usize::MAX),
        ];
        for (name, change) in changes {
            assert_eq!(refused(change).what, name);
        }
        for tr in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let spec = SynthSpec { tr_seconds: Some(tr), ..SynthSpec::default() };
            assert_eq!(spec.validate().unwrap_err().what, "tr_seconds", "{tr}");
        }
    }
}
