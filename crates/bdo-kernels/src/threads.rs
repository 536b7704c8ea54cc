//! Work sharing on the current rayon pool.
//!
//! No two tasks write the same value, and tasks are cut by shape alone wherever the cut decides an order of additions (in a
//! matrix product it does not): the result is the same, bit for bit, on any pool.

use rayon::prelude::*;
use std::mem::MaybeUninit;

/// Panics unless a slice has the length its shape says: anything else is a bug in the caller.
#[track_caller]
pub(crate) fn expect_len(name: &str, found: usize, expected: usize) {
    assert_eq!(found, expected, "{name}: expected {expected} values, found {found}");
}

/// Values per task of an elementwise kernel.
pub(crate) const ELEMENTS_PER_TASK: usize = 1 << 14;

/// Runs `task(0..count)` on the current pool; a single task stays on the calling thread.
pub(crate) fn for_each_task(count: usize, task: impl Fn(usize) + Sync + Send) {
    if count <= 1 {
        (0..count).for_each(task);
    } else {
        (0..count).into_par_iter().with_max_len(1).for_each(task);
    }
}

/// Runs `task` on the ranges of `per_task` of `count` items, given by their first and the one after their last.
pub(crate) fn for_each_range(count: usize, per_task: usize, task: impl Fn(usize, usize) + Sync + Send) {
    for_each_task(count.div_ceil(per_task), |i| task(i * per_task, ((i + 1) * per_task).min(count)));
}

/// A pointer whose disjoint parts are written by different tasks.
#[derive(Clone, Copy)]
pub(crate) struct Shared(pub(crate) *mut f32);

// SAFETY: every use writes only the part of the buffer that belongs to its task.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// The pointer moved by `offset`; a method, so that closures capture the wrapper and not the bare pointer.
    #[inline]
    pub(crate) fn at(self, offset: usize) -> *mut f32 {
        self.0.wrapping_add(offset)
    }
}

/// A vector of `len` values written by `fill`, without zeroing it first: clearing the buffers of a training step would
/// cost as much as several of its kernels.
///
/// # Safety
/// `fill` must initialise every element.
pub(crate) unsafe fn filled(len: usize, fill: impl FnOnce(&mut [MaybeUninit<f32>])) -> Vec<f32> {
    let mut out = Vec::with_capacity(len);
    fill(&mut out.spare_capacity_mut()[..len]);
    // SAFETY: the capacity is at least `len`, and the caller promises that `fill` wrote all of it.
    unsafe { out.set_len(len) };
    out
}

/// What `fill` writes for chunks of `x`; it writes the whole of each.
pub(crate) fn map_chunks(x: &[f32], chunk: usize, fill: impl Fn(&[f32], &mut [MaybeUninit<f32>]) + Sync) -> Vec<f32> {
    // SAFETY: each task writes the whole of its chunk.
    unsafe { filled(x.len(), |y| y.par_chunks_mut(chunk).zip(x.par_chunks(chunk)).for_each(|(y, x)| fill(x, y))) }
}

/// The start of memory that is about to be written by several tasks.
pub(crate) fn shared(out: &mut [MaybeUninit<f32>]) -> Shared {
    Shared(out.as_mut_ptr().cast())
}

/// Scratch space for a packed operand, aligned to a cache line so that vector loads never straddle two.
pub(crate) struct Scratch {
    buffer: Vec<MaybeUninit<f32>>,
    offset: usize,
}

impl Scratch {
    const LINE: usize = 16;

    /// Room for `len` values, contents undefined.
    pub(crate) fn new(len: usize) -> Self {
        let mut buffer: Vec<MaybeUninit<f32>> = Vec::with_capacity(len + Self::LINE);
        // SAFETY: MaybeUninit needs no initialisation, and the capacity is at least this long.
        unsafe { buffer.set_len(len + Self::LINE) };
        let offset = buffer.as_ptr().cast::<f32>().align_offset(Self::LINE * size_of::<f32>()).min(Self::LINE);
        Self { buffer, offset }
    }

    /// The first value.
    pub(crate) fn start(&mut self) -> Shared {
        Shared(self.buffer[self.offset..].as_mut_ptr().cast())
    }

    /// The first value, for reading what was written.
    pub(crate) fn read(&self) -> *const f32 {
        self.buffer[self.offset..].as_ptr().cast()
    }
}

// SAFETY: plain memory.
unsafe impl Sync for Scratch {}
