//! `journal.jsonl`: one line of JSON per training step and one per validation.

use super::run::Plan;
use crate::durable::{self, FileError, InFile};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Numbers by name, such as the terms of a loss or the scores of a validation. JSON has no NaN: it is written as null and
/// read back as NaN.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Terms(pub BTreeMap<String, f64>);

/// A loss: what is minimised, and its terms with their weights.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loss {
    pub total: f64,
    /// Empty for a loss that is one number.
    pub terms: Terms,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Skipped {
    LossNotFinite,
    GradientNotFinite,
    LossSpike,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepEntry {
    /// Counted from 0.
    pub step: u64,
    /// Pass over the training scans, counted from 0.
    #[serde(default)]
    pub epoch: u64,
    /// Mean over the scans of the batch.
    #[serde(default = "Loss::unknown")]
    pub loss: Loss,
    #[serde(default = "missing", deserialize_with = "number")]
    pub learning_rate: f64,
    /// Before clipping.
    #[serde(default = "missing", deserialize_with = "number")]
    pub gradient_norm: f64,
    /// Whatever else the model measures in a step (BDO: `tau`, `explained_variance`, `spread_over_time`,
    /// `spread_over_scans`).
    #[serde(flatten)]
    pub measures: Terms,
    /// Waiting for data included.
    #[serde(default = "missing", deserialize_with = "number")]
    pub scans_per_second: f64,
    /// Share of the step spent waiting for data.
    #[serde(default = "missing", deserialize_with = "number")]
    pub waiting_share: f64,
    #[serde(default = "missing", deserialize_with = "number")]
    pub memory_mib: f64,
    /// None for a step that was taken.
    pub skipped: Option<Skipped>,
    /// None for a run in one process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,
}

/// Communication of the first rank in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    pub ranks: usize,
    /// Sent to others.
    pub bytes: u64,
    /// In exchanges, waiting for slower ranks included.
    pub seconds: f64,
    /// From the rank's last pass to the sum of all: exchanges that passes did not hide, and adding up.
    #[serde(default)]
    pub waited: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ValidationEntry {
    /// Steps taken before it.
    pub step: u64,
    /// With the weights of the end of training.
    #[serde(default = "Loss::unknown")]
    pub loss: Loss,
    /// Scores (BDO: `mse`, `mean_square`, `explained_variance`, `spread_over_time`, `spread_over_scans`).
    #[serde(flatten)]
    pub measures: Terms,
    #[serde(default)]
    pub scans: usize,
}

/// The length of a run limited in time, as decided at a step. A resumed run takes the same decisions at the same steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanEntry {
    /// Steps taken before it.
    pub step: u64,
    /// Seconds of training by then.
    pub seconds: f64,
    pub plan: Plan,
}

/// The device that the steps from here on were taken on, where it is not the one before; a run begins on the CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceEntry {
    /// Steps taken before it.
    pub step: u64,
    /// `cpu`, or a runtime and what the device calls itself.
    pub device: String,
}

/// Lines of earlier versions are read too: `plain_step`, a loss that is one number, a nested `spread`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Entry {
    #[serde(alias = "plain_step")]
    Step(StepEntry),
    Validation(ValidationEntry),
    Plan(PlanEntry),
    /// Another device.
    Device(DeviceEntry),
}

impl Terms {
    pub fn of<const N: usize>(values: [(&str, f64); N]) -> Self {
        Self(values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// A number by its name; NaN where there is none.
    pub fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(f64::NAN)
    }

    pub fn add(&mut self, other: &Self) {
        for (name, value) in &other.0 {
            *self.0.entry(name.clone()).or_default() += value;
        }
    }

    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        self.0.values_mut().for_each(|value| *value *= factor);
        self
    }
}

impl Loss {
    pub fn plain(total: f64) -> Self {
        Self { total, terms: Terms::default() }
    }

    fn unknown() -> Self {
        Self::plain(f64::NAN)
    }

    pub fn add(&mut self, other: &Self) {
        self.total += other.total;
        self.terms.add(&other.terms);
    }

    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self { total: self.total * factor, terms: self.terms.scaled(factor) }
    }

    pub fn term(&self, name: &str) -> f64 {
        self.terms.get(name)
    }
}

impl Serialize for Terms {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(&self.0)
    }
}

impl Serialize for Loss {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let total = ("total", self.total);
        serializer
            .collect_map([total].into_iter().chain(self.terms.0.iter().map(|(name, term)| (name.as_str(), *term))))
    }
}

impl<'de> Deserialize<'de> for Terms {
    /// Whatever is not a number is passed over, but for the nested `spread` of earlier versions.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut found = BTreeMap::new();
        for (name, value) in serde_json::Map::deserialize(deserializer)? {
            match value {
                Value::Number(_) | Value::Null => _ = found.insert(name, value.as_f64().unwrap_or(f64::NAN)),
                Value::Object(_) if name == "spread" => {
                    let parts = Self::deserialize(&value).map_err(Error::custom)?.0;
                    found.extend(parts.into_iter().map(|(part, value)| (format!("spread_{part}"), value)));
                }
                _ => {}
            }
        }
        Ok(Self(found))
    }
}

impl<'de> Deserialize<'de> for Loss {
    /// Also reads a loss that is one number.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let mut terms = Terms::deserialize(&value).unwrap_or_default();
        let total = terms.0.remove("total").or(value.as_f64()).unwrap_or(f64::NAN);
        Ok(Self { total, terms })
    }
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

fn missing() -> f64 {
    f64::NAN
}

/// What could be read of a journal, which may still be growing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JournalText {
    pub steps: Vec<StepEntry>,
    pub validations: Vec<ValidationEntry>,
    /// Decisions on the length of the run that hold, by step.
    pub plans: Vec<PlanEntry>,
    /// Devices, in the order they were used.
    pub devices: Vec<DeviceEntry>,
    /// Complete lines.
    pub lines: u64,
    /// Complete lines that are not an entry.
    pub unreadable: u64,
    /// Whether the last line has no end yet.
    pub unfinished: bool,
}

impl JournalText {
    pub fn parse(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.split_inclusive('\n') {
            if !line.ends_with('\n') {
                found.unfinished = true;
                continue;
            }
            found.lines += 1;
            if line.trim().is_empty() {
                continue;
            }
            match serde_json::from_str(line) {
                Ok(Entry::Step(entry)) => found.steps.push(entry),
                Ok(Entry::Validation(entry)) => found.validations.push(entry),
                Ok(Entry::Plan(entry)) => {
                    // After a return to an earlier step, what was decided later than it no longer holds.
                    found.plans.retain(|earlier| earlier.step < entry.step);
                    found.plans.push(entry);
                }
                Ok(Entry::Device(entry)) => found.devices.push(entry),
                Err(_) => found.unreadable += 1,
            }
        }
        found
    }

    /// Reads a journal; one that is not there is empty.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        if !path.is_file() {
            return Ok(Self::default());
        }
        Ok(Self::parse(&String::from_utf8_lossy(&durable::read(path)?)))
    }

    /// The device of the last steps.
    pub fn device(&self) -> &str {
        self.devices.last().map_or("cpu", |entry| &entry.device)
    }

    /// Steps taken so far.
    pub fn steps_taken(&self) -> u64 {
        self.steps.last().map_or(0, |entry| entry.step + 1)
    }
}

#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Opens the journal to go on at a step: later lines, and a line that was cut off by a kill, are removed.
    pub fn open(path: &Path, step: u64) -> Result<Self, FileError> {
        if path.exists() {
            let text = String::from_utf8_lossy(&durable::read(path)?).into_owned();
            let text: String = text.split_inclusive('\n').filter(|line| comes_before(line, step)).collect();
            durable::write(path, text.as_bytes())?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path).in_file("write", path)?;
        Ok(Self { file, path: path.to_path_buf() })
    }

    pub fn add(&mut self, entry: &Entry) -> Result<(), FileError> {
        let line = serde_json::to_string(entry).expect("an entry holds only words and numbers") + "\n";
        self.file.write_all(line.as_bytes()).in_file("write", &self.path)
    }
}

/// Whether a complete line belongs to the steps before `step`; a validation belongs to the end of them. Decisions on the
/// length stay: they are taken again at their steps.
fn comes_before(line: &str, step: u64) -> bool {
    line.ends_with('\n')
        && match serde_json::from_str(line) {
            Ok(Entry::Step(entry)) => entry.step < step,
            Ok(Entry::Validation(entry)) => entry.step <= step,
            Ok(Entry::Device(entry)) => entry.step < step,
            Ok(Entry::Plan(_)) => true,
            Err(_) => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_lines_are_counted_and_the_rest_is_read() {
        let text = "{\"kind\":\"step\",\"step\":0,\"loss\":{\"total\":1.5}}\nnot json\n\n{\"kind\":\"other\",\"step\":1}\n{\"kind\":\"step\",\"step\":1,\"loss\":{\"total\":null}}\n{\"kind\":\"validation\",\"step\":2,\"mse\":0.4,\"mean_square\":0.5,\"scans\":3}\n{\"kind\":\"st";
        let journal = JournalText::parse(text);
        assert_eq!((journal.steps.len(), journal.validations.len()), (2, 1));
        assert_eq!((journal.lines, journal.unreadable, journal.unfinished), (6, 2, true));
        assert!(journal.steps[1].loss.total.is_nan() && journal.steps[0].loss.total == 1.5);
        assert_eq!(journal.steps_taken(), 2);
    }

    #[test]
    fn lines_of_earlier_versions_are_read() {
        let plain = "{\"kind\":\"plain_step\",\"step\":3,\"epoch\":1,\"loss\":0.5,\"learning_rate\":1e-3,\"gradient_norm\":2.0,\"scans_per_second\":7.0,\"memory_mib\":9.0}\n";
        let ours = "{\"kind\":\"step\",\"step\":4,\"epoch\":1,\"loss\":{\"total\":1.5,\"energy\":0.5},\"tau\":0.1,\"spread\":{\"over_time\":0.2,\"over_scans\":0.3},\"explained_variance\":null,\"skipped\":\"loss_spike\"}\n";
        let found = JournalText::parse(&format!("{plain}{ours}"));
        assert_eq!((found.steps[0].loss.clone(), found.steps[0].skipped), (Loss::plain(0.5), None));
        assert_eq!(found.steps[1].loss.term("energy"), 0.5);
        assert_eq!((found.steps[1].measures.get("tau"), found.steps[1].measures.get("spread_over_scans")), (0.1, 0.3));
        assert!(found.steps[1].measures.get("explained_variance").is_nan());
        assert_eq!(found.steps[1].skipped, Some(Skipped::LossSpike));
    }

    #[test]
    fn what_is_written_reads_back() {
        let step = StepEntry {
            step: 7,
            epoch: 2,
            loss: Loss { total: 1.0, terms: Terms::of([("latent", 0.25)]) },
            measures: Terms::of([("tau", 0.5)]),
            exchange: Some(Exchange { ranks: 2, bytes: 8, seconds: 0.5, waited: 0.25 }),
            ..StepEntry::default()
        };
        let validation = Entry::Validation(ValidationEntry { scans: 3, ..ValidationEntry::default() });
        let device = Entry::Device(DeviceEntry { step: 4, device: "wgpu (llvmpipe)".to_owned() });
        for entry in [Entry::Step(step), validation, device] {
            let line = serde_json::to_string(&entry).unwrap();
            assert_eq!(serde_json::from_str::<Entry>(&line).unwrap(), entry, "{line}");
        }
    }
}
