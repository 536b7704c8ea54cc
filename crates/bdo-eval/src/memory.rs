//! How much memory this process has held, where the system says it.

/// Forgets the peak so far, so that the next reading is about what comes now. Where the system does not allow it, the
/// reading stays that of the whole process: too high, never too low.
pub fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Most memory held since the start, or since the peak was last forgotten.
pub fn peak_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kib| kib / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_peak_is_seen_and_forgotten() {
        // Other tests of this process may take memory just then; once in a hundred tries they do not.
        let forgotten = (0..100).any(|_| {
            let held = vec![1u8; 64 << 20];
            let high = peak_mib().unwrap_or_default();
            assert!(high >= 64.0, "{high}");
            assert_eq!(held[held.len() - 1], 1);
            drop(held);
            forget_peak();
            peak_mib().unwrap_or_default() < high - 32.0
        });
        assert!(forgotten);
    }
}
