//! Keeping large buffers inside the process, on large pages.

use std::sync::OnceLock;

/// Tells glibc to keep freed buffers instead of handing them back to the system, and asks for large pages under the heap.
///
/// By default every buffer above a few hundred KiB is mapped afresh, and its pages are cleared by the kernel on first
/// touch; a training step allocates the same sizes again and again, and loses 10 to 20 % of its time to that. What it
/// keeps is far more than the address cache of a core covers with pages of 4 KiB. Call once at the start of a program;
/// later calls change nothing. Returns whether the settings took; on other C libraries there is nothing to do.
pub fn tune_allocator() -> bool {
    static TUNED: OnceLock<bool> = OnceLock::new();
    *TUNED.get_or_init(tune)
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn tune() -> bool {
    // A threshold above 32 MiB is refused by glibc, so mapping is switched off altogether. -1 never trims: the largest
    // positive number is 2 GiB, which a large model exceeds. One arena: buffers freed by one thread are reused by others.
    // SAFETY: mallopt takes two integers and only changes allocator settings.
    let kept = unsafe {
        let never_map = libc::mallopt(libc::M_MMAP_MAX, 0) == 1;
        let never_trim = libc::mallopt(libc::M_TRIM_THRESHOLD, -1) == 1;
        let one_arena = libc::mallopt(libc::M_ARENA_MAX, 1) == 1;
        never_map && never_trim && one_arena
    };
    if kept {
        // Large pages make a program faster, never wrong: where there are none it runs as before.
        large_pages();
    }
    kept
}

/// Hands back what was freed: after work whose buffers nothing later has a use for.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn release_freed() {
    // SAFETY: malloc_trim only gives pages of free blocks back to the system.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The same; on other C libraries there is nothing to do.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn release_freed() {}

/// Extends the heap by half of the machine's memory, untouched, and marks it for large pages before giving it back to the
/// heap. Only addresses are taken; memory comes when something is written.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn large_pages() {
    const PAGE: usize = 2 << 20;
    // SAFETY: sysconf only answers; the block is checked, the advice covers whole pages inside it, and freeing it is the
    // only further use of it. Advice changes how memory is backed, not what it holds.
    unsafe {
        let (pages, size) = (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE));
        let Some(bytes) = usize::try_from(pages).ok().zip(usize::try_from(size).ok()).map(|(n, size)| n * size / 2)
        else {
            return;
        };
        let block = libc::malloc(bytes);
        if block.is_null() {
            return;
        }
        let from = (block as usize).next_multiple_of(PAGE);
        let to = (block as usize + bytes) / PAGE * PAGE;
        let start = block.wrapping_byte_add(from - block as usize);
        if to > from {
            libc::madvise(start, to - from, libc::MADV_HUGEPAGE);
        }
        libc::free(block);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn tune() -> bool {
    false
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn freed_buffers_are_handed_back() {
        let resident = || -> usize {
            let text = std::fs::read_to_string("/proc/self/statm").unwrap();
            text.split(' ').nth(1).unwrap().parse().unwrap()
        };
        assert!(super::tune_allocator());
        let before = resident();
        drop(std::hint::black_box(vec![1u8; 256 << 20]));
        super::release_freed();
        // Pages of 4 KiB; other tests of this process allocate meanwhile.
        assert!(resident() < before + (100 << 8), "handed back");
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn the_settings_take() {
        assert!(super::tune_allocator());
        assert!(super::tune_allocator());
    }
}
