//! Batches drawn ahead of time on a thread of their own.

use crate::learner::{Batches, Hand};
use bdo_data::cohort::CohortError;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Scope;

/// Batches that wait at most; two hide the reading behind the step, more only cost memory.
const AHEAD: usize = 2;

/// The batches of a run from a step on. The thread ends when this is dropped.
pub(crate) struct Prefetch<D: Batches>(Receiver<Result<Option<D::Batch>, CohortError>>);

impl<D: Batches> Prefetch<D> {
    pub(crate) fn start<'scope, 'env: 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        data: &'env D,
        (seed, hand): (u64, Hand),
        from: u64,
    ) -> Self
    where
        D::Batch: 'scope,
    {
        let (sender, batches) = sync_channel(AHEAD);
        scope.spawn(move || {
            for step in from.. {
                let batch = data.draw(seed, step, hand);
                let failed = batch.is_err();
                // The run has ended or begun anew, or there is nothing more to draw.
                if sender.send(batch).is_err() || failed {
                    return;
                }
            }
        });
        Self(batches)
    }

    /// The next batch in order.
    pub(crate) fn next_batch(&mut self) -> Result<Option<D::Batch>, CohortError> {
        self.0.recv().expect("the thread ends only after an error it has sent")
    }
}
