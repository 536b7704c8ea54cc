//! Batches made ahead of time on a thread of their own.

use crate::source::ScanSource;
use bdo_data::cohort::CohortError;
use bdo_model::intake::MaskSettings;
use bdo_model::intake::{HostBatch, NoiseShape};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

/// Batches that wait at most; two hide the reading behind the step, more only cost memory.
const AHEAD: usize = 2;

/// What decides the batches of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchPlan {
    /// Seed of the run, changed by each rollback so that the data come in another order.
    pub seed: u64,
    /// Scans a step.
    pub batch_size: usize,
    /// Steps of one pass.
    pub steps_per_epoch: u64,
    /// Frames and targets.
    pub mask: MaskSettings,
    /// Noise.
    pub noise: NoiseShape,
}

impl BatchPlan {
    /// The batch of a step, whatever came before it.
    pub fn batch(&self, source: &ScanSource, step: u64) -> Result<Option<HostBatch>, CohortError> {
        let (epoch, place) = (step / self.steps_per_epoch, step % self.steps_per_epoch);
        let order = source.order(self.seed, epoch);
        let scans = &order[source.batch_range(place, self.batch_size)];
        source.batch(scans, self.seed, epoch, &self.mask.of_step(self.seed, step), self.noise)
    }
}

/// The thread that makes batches, from a step on.
#[derive(Debug)]
pub struct Prefetch {
    batches: Option<Receiver<Result<Option<HostBatch>, CohortError>>>,
    thread: Option<JoinHandle<()>>,
}

impl Prefetch {
    /// Starts at a step and goes on until dropped.
    pub fn start(source: &ScanSource, plan: BatchPlan, from: u64) -> Self {
        let (sender, batches) = sync_channel(AHEAD);
        let source = source.clone();
        let thread = std::thread::spawn(move || {
            for step in from.. {
                let batch = plan.batch(&source, step);
                let failed = batch.is_err();
                // Nobody listens any more, or there is nothing more to hear.
                if sender.send(batch).is_err() || failed {
                    return;
                }
            }
        });
        Self { batches: Some(batches), thread: Some(thread) }
    }

    /// The next batch in order.
    pub fn next_batch(&mut self) -> Result<Option<HostBatch>, CohortError> {
        let batches = self.batches.as_ref().expect("the receiver lives until drop");
        batches.recv().expect("the thread ends only after an error it has sent")
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been seen as the end of its batches.
            let _ = thread.join();
        }
    }
}
