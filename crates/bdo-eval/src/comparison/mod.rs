//! Methods x targets x repetitions under one set of splits: results that are kept, then one honest table.

mod result;
mod summary;
mod render;

pub use render::{to_csv, to_latex, to_markdown};
pub use result::{ResultError, ResultStore, TaskResult, run_task};
pub use summary::{Cell, Row, Summary, SummarySettings, primary_metric, summarise};
