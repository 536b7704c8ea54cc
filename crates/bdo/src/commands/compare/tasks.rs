//! The tasks of a comparison: done, taken from the folder, or left to another process that shares the work.

use std::time::Duration;

use anyhow::bail;
use bdo_data::cohort::Observer;
use bdo_data::division::Split;
use bdo_data::shard::Shard;
use bdo_data::target::Target;
use bdo_eval::comparison::{Lease, ResultStore, Row as SummaryRow, TaskResult, run_task};
use bdo_eval::error::EvalError;
use bdo_eval::method::Task;

use super::workshop::Line;
use crate::cli::Common;
use crate::progress::Progress;

/// Time between two looks at what others have.
const LOOK: Duration = Duration::from_millis(500);

/// What there is so far.
pub(super) struct Done {
    pub(super) store: ResultStore,
    pub(super) cohort_blake3: String,
    pub(super) results: Vec<TaskResult>,
    /// Taken from the folder.
    pub(super) reused: usize,
    /// Cells of the table without a result, with the seed whose reason is given.
    pub(super) without_result: Vec<(u64, SummaryRow)>,
    /// Which of the processes this is, where several share the work.
    pub(super) shard: Option<Shard>,
}

/// A line with a task for it, and what its table must say about pre-training.
pub(super) type Todo<'a> = (&'a Line<'a>, Task<'a>, &'a [String]);
/// What is known of a task: a result, or why there is none.
type Found = Result<TaskResult, String>;

/// Work that may begin now.
pub(super) enum Turn {
    /// Nobody else has it while this lives.
    Ours(Option<Lease>),
    /// Another process has it.
    Theirs,
}

impl Done {
    /// Notes a cell that has no result, once for all repetitions: the reason is that of the smallest seed, whatever came first.
    pub(super) fn leave_out(&mut self, method: &str, target: &Target, split: &Split, reason: String, common: &Common) {
        let row = SummaryRow::without_result(method, target, split.scheme(), reason);
        let same = |(_, r): &&mut (u64, SummaryRow)| {
            r.method == row.method && r.target == row.target && r.scheme == row.scheme
        };
        match self.without_result.iter_mut().find(same) {
            Some(noted) if noted.0 <= split.seed() => {}
            Some(noted) => *noted = (split.seed(), row),
            None => {
                common.note(format!("{method} on {}: {}", target.name, row.flags.join("; ")));
                self.without_result.push((split.seed(), row));
            }
        }
    }

    /// Asks for work by its name. A process that is alone has all of it.
    pub(super) fn turn(&self, work: &str) -> anyhow::Result<Turn> {
        if self.shard.is_none() {
            return Ok(Turn::Ours(None));
        }
        Ok(self.store.lease(work)?.map_or(Turn::Theirs, |lease| Turn::Ours(Some(lease))))
    }

    /// Waits for work by its name.
    pub(super) fn wait_for(&self, work: &str) -> anyhow::Result<Option<Lease>> {
        loop {
            if let Turn::Ours(lease) = self.turn(work)? {
                return Ok(lease);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// A list in the order in which this process goes through it: each begins elsewhere.
    pub(super) fn in_turn<T>(&self, mut list: Vec<T>) -> Vec<T> {
        let from = self.shard.map_or(0, |shard| shard.range(list.len()).start);
        list.rotate_left(from);
        list
    }
}

/// All tasks, those done before taken from the folder, one after another, each with all threads and with time and memory of
/// its own. What another process has is looked at again until there is a result, or the process is gone and the task is ours.
pub(super) fn run_all(tasks: &[Todo<'_>], so_far: &mut Done, common: &Common) -> anyhow::Result<()> {
    let mut open: Vec<usize> = so_far.in_turn((0..tasks.len()).collect());
    let mut found: Vec<Option<Found>> = tasks.iter().map(|_| None).collect();
    let mut work = Work { so_far, progress: Progress::start("compare", tasks.len(), common)?, done: 0, reused: 0 };
    loop {
        for i in &open {
            found[*i] = work.one(&tasks[*i])?;
        }
        open.retain(|i| found[*i].is_none());
        if open.is_empty() {
            break;
        }
        std::thread::sleep(LOOK);
    }
    let Work { reused, progress, .. } = work;
    drop(progress);
    so_far.reused += reused;
    for (found, (line, task, _)) in found.into_iter().flatten().zip(tasks) {
        match found {
            Ok(result) => so_far.results.push(result),
            Err(reason) => so_far.leave_out(line.method.name(), task.target, task.split, reason, common),
        }
    }
    Ok(())
}

/// Tasks that are being done.
struct Work<'a> {
    so_far: &'a Done,
    progress: Progress,
    done: usize,
    reused: usize,
}

impl Work<'_> {
    /// One task; `None` while another process has it.
    fn one(&mut self, (line, task, flags): &Todo<'_>) -> anyhow::Result<Option<Found>> {
        let Done { store, cohort_blake3, results, .. } = self.so_far;
        let method = line.method.as_ref();
        if self.progress.stop_requested() {
            bail!("interrupted after {} results; run the same command again to go on", results.len() + self.done);
        }
        let again = || store.find(method, task, cohort_blake3);
        let (mut earlier, mut lease) = (again(), None);
        if earlier.is_none() {
            let Turn::Ours(ours) = self.so_far.turn(&format!("{} {}", method.name(), task.split.blake3))? else {
                return Ok(None);
            };
            // Another process may have come to its end between the two looks.
            (earlier, lease) = (again(), ours);
        }
        let found = match earlier {
            Some(mut found) => {
                self.reused += 1;
                let new: Vec<String> =
                    flags.iter().filter(|flag| !found.outcome.flags.contains(flag)).cloned().collect();
                found.outcome.flags.extend(new);
                Ok(found)
            }
            None => match run_task(method, task, cohort_blake3, flags) {
                Ok(found) => {
                    let found = TaskResult { frozen_parameters: line.frozen_parameters, ..found };
                    store.keep(&found)?;
                    Ok(found)
                }
                // A method that fails on one label is a dash in the table; the others go on.
                Err(error @ EvalError::Task { .. }) if !self.progress.stop_requested() => Err(error.reason()),
                Err(error) => return Err(error.into()),
            },
        };
        drop(lease);
        self.done += 1;
        self.progress.advance(self.done, 0);
        Ok(Some(found))
    }
}
