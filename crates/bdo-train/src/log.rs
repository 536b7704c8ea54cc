//! Where steps and validations of a run are written down: the journal and TensorBoard events.

use crate::folder::RunFolder;
use crate::tensorboard::EventFile;
use crate::timer::wall_seconds;
use bdo_data::durable::FileError;
use bdo_data::record::{DeviceEntry, Entry, Journal, JournalText, PlanEntry, StepEntry, ValidationEntry};

pub(crate) struct Log {
    journal: Journal,
    events: EventFile,
}

impl Log {
    /// What was decided on the length of a run so far, and how many steps were taken under it.
    pub(crate) fn decisions(folder: &RunFolder) -> Result<(Vec<PlanEntry>, u64), FileError> {
        let journal = JournalText::read(&folder.join("journal.jsonl"))?;
        let taken = journal.steps_taken();
        Ok((journal.plans, taken))
    }

    /// Opens the logs to go on at a step.
    pub(crate) fn open(folder: &RunFolder, step: u64) -> Result<Self, FileError> {
        let journal = Journal::open(&folder.join("journal.jsonl"), step)?;
        Ok(Self { journal, events: EventFile::create(&folder.join("tensorboard"), wall_seconds())? })
    }

    /// Writes down the device of the steps to come if it is another than that of the last, which is returned.
    pub(crate) fn device(
        &mut self,
        folder: &RunFolder,
        step: u64,
        device: String,
    ) -> Result<Option<String>, FileError> {
        let journal = JournalText::read(&folder.join("journal.jsonl"))?;
        if journal.device() == device {
            return Ok(None);
        }
        let before = journal.device().to_owned();
        self.journal.add(&Entry::Device(DeviceEntry { step, device }))?;
        Ok(Some(before))
    }

    pub(crate) fn step(&mut self, entry: &StepEntry) -> Result<(), FileError> {
        self.journal.add(&Entry::Step(entry.clone()))?;
        let mut values = vec![
            ("loss/total".to_owned(), entry.loss.total),
            ("learning_rate".to_owned(), entry.learning_rate),
            ("gradient_norm".to_owned(), entry.gradient_norm),
            ("scans_per_second".to_owned(), entry.scans_per_second),
        ];
        values.extend(entry.loss.terms.0.iter().map(|(name, value)| (format!("loss/{name}"), *value)));
        values.extend(entry.measures.0.iter().map(|(name, value)| (name.clone(), *value)));
        self.events.scalars(wall_seconds(), entry.step, &values)
    }

    pub(crate) fn plan(&mut self, entry: PlanEntry) -> Result<(), FileError> {
        self.journal.add(&Entry::Plan(entry))
    }

    pub(crate) fn validation(&mut self, entry: &ValidationEntry) -> Result<(), FileError> {
        self.journal.add(&Entry::Validation(entry.clone()))?;
        let mut values = vec![("validation/loss".to_owned(), entry.loss.total)];
        values.extend(entry.measures.0.iter().map(|(name, value)| (format!("validation/{name}"), *value)));
        self.events.scalars(wall_seconds(), entry.step, &values)
    }
}
