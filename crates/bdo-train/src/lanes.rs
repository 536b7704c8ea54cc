//! Micro-batches side by side. Kernels that share one layer between threads lose a third of them to waiting for each other;
//! threads with a micro-batch each do not. How a batch is cut is in the configuration, so the number of lanes changes nothing.

use rayon::{ThreadPool, ThreadPoolBuilder};
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

/// `work` of every item, results in the order of the items. As many at a time as the current pool has threads; a single
/// item, or a single thread, stays where it is.
pub(crate) fn side_by_side<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = rayon::current_num_threads().min(items.len());
    let lanes = if threads > 1 { lanes(threads) } else { Vec::new() };
    if lanes.len() < 2 {
        return items.iter().map(work).collect();
    }
    let mut results = Vec::with_capacity(items.len());
    for group in items.chunks(lanes.len()) {
        results.extend(std::thread::scope(|scope| {
            let work = &work;
            let running: Vec<_> =
                group.iter().zip(&lanes).map(|(item, lane)| scope.spawn(move || lane.install(|| work(item)))).collect();
            running
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Vec<R>>()
        }));
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_each_lane_has_one_thread() {
        let pool = ThreadPoolBuilder::new().num_threads(3).build().expect("three threads");
        let items: Vec<usize> = (0..10).collect();
        let found = pool.install(|| side_by_side(&items, |i| (*i, rayon::current_num_threads())));
        assert_eq!(found, items.iter().map(|i| (*i, 1)).collect::<Vec<_>>());
        let alone = pool.install(|| side_by_side(&items[..1], |_| rayon::current_num_threads()));
        assert_eq!(alone, [3]);
    }
}
