//! Batches drawn ahead of time on a thread of their own.

use crate::learner::{Batches, Hand};
use bdo_data::cohort::CohortError;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Scope;

/// Batches that wait at most; two hide the reading behind the step, more only cost memory.
const AHEAD: usize = 2;

/// The batches of a run from a step on. The thread ends when this is dropped.
pub(crate) enum Prefetch<'a, D: Batches> {
    /// Drawn when asked for.
    OnDemand { data: &'a D, seed: u64, hand: Hand, next: u64 },
    /// Drawn by a thread.
    Ahead(Receiver<Result<Option<D::Batch>, CohortError>>),
}

impl<'scope, D: Batches> Prefetch<'scope, D> {
    pub(crate) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        data: &'env D,
        (seed, hand): (u64, Hand),
        from: u64,
    ) -> Self
    where
        'env: 'scope,
    {
        if !D::AHEAD {
            return Self::OnDemand { data, seed, hand, next: from };
        }
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
        Self::Ahead(batches)
    }

    /// The next batch in order.
    pub(crate) fn next_batch(&mut self) -> Result<Option<D::Batch>, CohortError> {
        match self {
            Self::OnDemand { data, seed, hand, next } => {
                *next += 1;
                data.draw(*seed, *next - 1, *hand)
            }
            Self::Ahead(batches) => batches.recv().expect("the thread ends only after an error it has sent"),
        }
    }
}
