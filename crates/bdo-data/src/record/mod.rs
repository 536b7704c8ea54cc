//! What a training run leaves for others to read: `run.json` and `journal.jsonl`. Training writes these records; inspection,
//! reports and live views read them.

mod journal;
mod run;

pub use journal::{
    DeviceEntry, Entry, Exchange, Journal, JournalText, Loss, PlanEntry, Skipped, StepEntry, Terms, ValidationEntry,
};
pub use run::{Anchor, Identity, Plan, RecordError, RunRecord, is_run};
