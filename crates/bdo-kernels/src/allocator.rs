//! Keeping large buffers inside the process.

/// Tells glibc to keep freed buffers instead of handing them back to the system.
///
/// By default every buffer above a few hundred KiB is mapped afresh, and its pages are cleared by the kernel on first
/// touch; a training step allocates the same sizes again and again, and loses 10 to 20 % of its time to that. Call once
/// at the start of a program. Returns whether the settings took; on other C libraries there is nothing to do.
pub fn tune_allocator() -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // A threshold above 32 MiB is refused by glibc, so mapping is switched off altogether. One arena: buffers freed by
        // one thread are reused by the others.
        // SAFETY: mallopt takes two integers and only changes allocator settings.
        unsafe {
            let never_map = libc::mallopt(libc::M_MMAP_MAX, 0) == 1;
            let never_trim = libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX) == 1;
            let one_arena = libc::mallopt(libc::M_ARENA_MAX, 1) == 1;
            never_map && never_trim && one_arena
        }
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    false
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn the_settings_take() {
        assert!(super::tune_allocator());
    }
}
