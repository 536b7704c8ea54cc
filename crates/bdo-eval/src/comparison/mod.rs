//! Methods x targets x repetitions under one set of splits: results that are kept, then one honest table.

mod protocol;
mod render;
mod result;
mod summary;

pub use protocol::{Cut, Protocol};
pub use render::{to_csv, to_latex, to_markdown};
pub use result::{Lease, ResultStore, TaskResult, run_task};
pub use summary::{Against, Cell, Footnote, Row, Summary, SummarySettings, primary_metric, summarise};
