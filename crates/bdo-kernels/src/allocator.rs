//! Keeping large buffers inside the process.

/// Tells glibc to keep freed buffers instead of handing them back to the system.
///
/// By default every buffer above a few hundred KiB is mapped afresh, and its pages are cleared by the kernel on first
/// touch; a training step allocates the same sizes again and again, and loses 10 to 20 % of its time to that. Call once
/// at the start of a program. Returns whether the settings took; on other C libraries there is nothing to do.
pub fn tune_allocator() -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const KEEP_BYTES: libc::c_int = 1 << 30;
        // SAFETY: mallopt takes two integers and only changes allocator settings.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, KEEP_BYTES) == 1
                && libc::mallopt(libc::M_TRIM_THRESHOLD, KEEP_BYTES) == 1
        }
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    false
}
