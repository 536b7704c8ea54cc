//! The journal of a run as figures need it. Lines that were cut off or are foreign are passed over and counted.

use serde_json::Value;

/// One training step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Step {
    /// Number of the step, from 0.
    pub step: u64,
    /// Loss terms, weights included; not a number where the journal has none.
    pub total: f64,
    /// Distance to the data.
    pub reconstruction: f64,
    /// Distance to the latent target.
    pub latent: f64,
    /// Cost of control.
    pub energy: f64,
    /// Learning rate.
    pub learning_rate: f64,
    /// Gradient norm before clipping.
    pub gradient_norm: f64,
    /// Share of the variance that is explained, with noise.
    pub explained_variance: f64,
    /// Speed.
    pub scans_per_second: f64,
    /// Memory in use.
    pub memory_mib: f64,
    /// Whether the step was not taken.
    pub skipped: bool,
}

/// One validation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Validation {
    /// Steps taken before it.
    pub step: u64,
    /// Mean squared error at hidden frames.
    pub mse: f64,
    /// What predicting the mean costs.
    pub mean_square: f64,
    /// 1 - mse / mean square.
    pub explained_variance: f64,
    /// Scans looked at.
    pub scans: u64,
}

/// All that could be read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Journal {
    /// Training steps in the order of the file.
    pub steps: Vec<Step>,
    /// Validations.
    pub validations: Vec<Validation>,
    /// Lines in the file, an unfinished one at the end not counted.
    pub lines: u64,
    /// Lines that are not an entry.
    pub unreadable: u64,
    /// Whether the last line was still being written.
    pub unfinished: bool,
}

impl Journal {
    /// Reads the text of a journal.
    pub fn parse(text: &str) -> Self {
        let mut journal = Self::default();
        for line in text.split_inclusive('\n') {
            if !line.ends_with('\n') {
                journal.unfinished = true;
                continue;
            }
            journal.lines += 1;
            if line.trim().is_empty() {
                continue;
            }
            let entry = serde_json::from_str::<Value>(line).ok();
            match entry.as_ref().and_then(|e| Some((e["kind"].as_str()?, e["step"].as_u64()?, e))) {
                Some(("step", step, entry)) => journal.steps.push(read_step(step, entry)),
                Some(("validation", step, entry)) => journal.validations.push(read_validation(step, entry)),
                _ => journal.unreadable += 1,
            }
        }
        journal
    }

    /// Steps taken so far.
    pub fn steps_taken(&self) -> u64 {
        self.steps.last().map_or(0, |s| s.step + 1)
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn read_step(step: u64, entry: &Value) -> Step {
    let loss = &entry["loss"];
    Step {
        step,
        total: number(&loss["total"]),
        reconstruction: number(&loss["reconstruction"]),
        latent: number(&loss["latent"]),
        energy: number(&loss["energy"]),
        learning_rate: number(&entry["learning_rate"]),
        gradient_norm: number(&entry["gradient_norm"]),
        explained_variance: number(&entry["explained_variance"]),
        scans_per_second: number(&entry["scans_per_second"]),
        memory_mib: number(&entry["memory_mib"]),
        skipped: !entry["skipped"].is_null(),
    }
}

fn read_validation(step: u64, entry: &Value) -> Validation {
    Validation {
        step,
        mse: number(&entry["mse"]),
        mean_square: number(&entry["mean_square"]),
        explained_variance: number(&entry["explained_variance"]),
        scans: entry["scans"].as_u64().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_lines_are_counted_and_the_rest_is_read() {
        let text = "{\"kind\":\"step\",\"step\":0,\"loss\":{\"total\":1.5}}\nnot json\n\n{\"kind\":\"other\",\"step\":1}\n{\"kind\":\"step\",\"step\":1,\"loss\":{\"total\":null}}\n{\"kind\":\"validation\",\"step\":2,\"mse\":0.4,\"mean_square\":0.5,\"scans\":3}\n{\"kind\":\"st";
        let journal = Journal::parse(text);
        assert_eq!((journal.steps.len(), journal.validations.len()), (2, 1));
        assert_eq!((journal.lines, journal.unreadable, journal.unfinished), (6, 2, true));
        assert!(journal.steps[1].total.is_nan() && journal.steps[0].total == 1.5);
        assert_eq!(journal.steps_taken(), 2);
    }
}
