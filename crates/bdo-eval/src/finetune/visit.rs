//! What a training step sees of a scan: the whole of it, or a random subset of its frames with their true times.

use bdo_data::random::{shuffle, stream};
use bdo_data::scaler::ScaledScan;

/// Draws at most `frames` distinct frames, in order of time; 0 keeps all. A function of seed, epoch and scan alone.
pub(super) fn visit(scan: ScaledScan, frames: usize, position: [u64; 3]) -> ScaledScan {
    let count = scan.times_seconds.len();
    if frames == 0 || count <= frames {
        return scan;
    }
    let mut chosen: Vec<usize> = (0..count).collect();
    shuffle(&mut chosen, &mut stream("fine-tuning visit", &position));
    chosen.truncate(frames);
    chosen.sort_unstable();
    let regions = scan.region_valid.len();
    ScaledScan {
        times_seconds: chosen.iter().map(|&t| scan.times_seconds[t]).collect(),
        values: chosen.iter().flat_map(|&t| scan.values[t * regions..(t + 1) * regions].iter().copied()).collect(),
        region_valid: scan.region_valid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_keeps_times_and_rows_together() {
        let scan = ScaledScan {
            times_seconds: (0..10).map(f64::from).collect(),
            values: (0u8..10).flat_map(|t| [f32::from(t), -f32::from(t)]).collect(),
            region_valid: vec![true, true],
        };
        let seen = visit(scan.clone(), 4, [1, 2, 3]);
        assert_eq!(seen.times_seconds.len(), 4);
        assert!(seen.times_seconds.is_sorted());
        for (t, row) in seen.times_seconds.iter().zip(seen.values.chunks(2)) {
            assert_eq!((f64::from(row[0]), f64::from(row[1])), (*t, -t));
        }
        assert_eq!(visit(scan.clone(), 4, [1, 2, 3]), seen);
        assert_ne!(visit(scan.clone(), 4, [1, 3, 3]), seen);
        assert_eq!(visit(scan.clone(), 0, [0; 3]), scan);
        assert_eq!(visit(scan.clone(), 10, [0; 3]), scan);
    }
}
