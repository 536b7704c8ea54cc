//! Micro-batches side by side. Kernels that share one layer between threads lose a third of them to waiting for each other;
//! threads with a micro-batch each do not. How a batch is cut is in the configuration, so the number of lanes changes nothing.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Pools of one thread, made when first needed and kept: kernels inside see one thread and do not share.
static LANES: Mutex<Vec<Arc<ThreadPool>>> = Mutex::new(Vec::new());

/// The first `count` lanes; fewer where the system gives no more threads.
fn lanes(count: usize) -> Vec<Arc<ThreadPool>> {
    let Ok(mut made) = LANES.lock() else { return Vec::new() };
    while made.len() < count {
        match ThreadPoolBuilder::new().num_threads(1).build() {
            Ok(pool) => made.push(Arc::new(pool)),
            Err(_) => break,
        }
    }
    made.iter().take(count).cloned().collect()
}

/// `work` of every item, folded into `start` in the order of the items. As many at a time as the current pool has threads;
/// a lane takes the next item when it is free, so none waits for a slower one. A single item, or a single thread, stays
/// where it is.
pub(crate) fn fold_side_by_side<T: Sync, R: Send, S: Send>(
    items: &[T],
    start: S,
    work: impl Fn(&T) -> R + Sync,
    fold: impl Fn(S, R) -> S + Sync,
) -> S {
    let threads = rayon::current_num_threads().min(items.len());
    let lanes = if threads > 1 { lanes(threads) } else { Vec::new() };
    if lanes.len() < 2 {
        return items.iter().fold(start, |sum, item| fold(sum, work(item)));
    }
    let next = AtomicUsize::new(0);
    let folding = Mutex::new(Folding { waiting: BTreeMap::new(), folded: 0, sum: Some(start) });
    std::thread::scope(|scope| {
        let (next, folding, work, fold) = (&next, &folding, &work, &fold);
        let lane_of = |lane: &Arc<ThreadPool>| {
            let lane = lane.clone();
            scope.spawn(move || {
                lane.install(|| {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(item) = items.get(index) else { return };
                        // Before the lock is asked for: as an argument of `insert` it would run inside, one lane at a time.
                        let result = work(item);
                        folding.lock().expect(NO_PANIC).waiting.insert(index, result);
                        fold_what_is_due(folding, fold);
                    }
                });
            })
        };
        let running: Vec<_> = lanes.iter().map(lane_of).collect();
        for thread in running {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    folding.into_inner().expect(NO_PANIC).sum.expect("every lane puts the sum back")
}

const NO_PANIC: &str = "nothing panics while it holds the lock";

/// Results that came before their turn, and the sum of those whose turn it was; absent while a lane adds to it.
struct Folding<R, S> {
    waiting: BTreeMap<usize, R>,
    folded: usize,
    sum: Option<S>,
}

/// Folds results whose turn it is. The lock is open meanwhile: a lane that finishes leaves its result to whoever folds.
fn fold_what_is_due<R, S>(folding: &Mutex<Folding<R, S>>, fold: &impl Fn(S, R) -> S) {
    loop {
        let (sum, result) = {
            let mut state = folding.lock().expect(NO_PANIC);
            let due = state.folded;
            let Some(sum) = state.sum.take() else { return };
            let Some(result) = state.waiting.remove(&due) else {
                state.sum = Some(sum);
                return;
            };
            (sum, result)
        };
        let sum = fold(sum, result);
        let mut state = folding.lock().expect(NO_PANIC);
        state.sum = Some(sum);
        state.folded += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_folded_in_order_and_each_lane_has_one_thread() {
        let pool = ThreadPoolBuilder::new().num_threads(3).build().expect("three threads");
        let items: Vec<usize> = (0..10).collect();
        let in_a_list = |items: &[usize]| {
            let work = |i: &usize| {
                // The first of a group is the slowest, so that results come out of turn.
                std::thread::sleep(std::time::Duration::from_millis(if i.is_multiple_of(3) { 20 } else { 1 }));
                (*i, rayon::current_num_threads())
            };
            let fold = |mut list: Vec<_>, found| {
                list.push(found);
                list
            };
            pool.install(|| fold_side_by_side(items, Vec::new(), work, fold))
        };
        assert_eq!(in_a_list(&items), items.iter().map(|i| (*i, 1)).collect::<Vec<_>>());
        assert_eq!(in_a_list(&items[..1]), [(0, 3)]);
    }

    /// Lanes once held the lock on all results while they worked, so that one worked at a time.
    #[test]
    fn lanes_work_at_the_same_time() {
        let pool = ThreadPoolBuilder::new().num_threads(2).build().expect("two threads");
        let started = AtomicUsize::new(0);
        let met = |_: &usize| {
            started.fetch_add(1, Ordering::SeqCst);
            let patience = std::time::Instant::now() + std::time::Duration::from_mins(1);
            while started.load(Ordering::SeqCst) < 2 && std::time::Instant::now() < patience {
                std::thread::yield_now();
            }
            started.load(Ordering::SeqCst) == 2
        };
        assert!(pool.install(|| fold_side_by_side(&[0, 1], true, met, |all, one| all && one)));
    }
}
