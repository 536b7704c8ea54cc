//! A batch in micro-batches. What all of them must agree on follows from the keys of the visits and the lengths of the scans, so that
//! each process reads and builds its own micro-batches only.

use super::host_batch::dropout_key;
use super::{HostBatch, MaskSettings, NoiseShape, PlannedVisit, Sample, Visit};
use bdo_data::random::stream;
use std::ops::Range;

/// The micro-batches of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct MicroBatches {
    /// Samples of all of them.
    pub scans: usize,
    /// In their order; none where it is built elsewhere.
    pub pieces: Vec<Option<HostBatch>>,
}

impl MicroBatches {
    /// Cuts visits into micro-batches of at most `most` samples of one group and draws those whose samples are given for
    /// their number and range. All are padded to the longest visit of the batch.
    pub fn draw<E>(
        visits: &[PlannedVisit],
        most: usize,
        (mask, noise): (&MaskSettings, NoiseShape),
        samples: impl Fn(usize, Range<usize>) -> Option<Result<Vec<Sample>, E>>,
    ) -> Result<Self, E> {
        let length = |v: &PlannedVisit| {
            Visit::draw_frames(mask, v.frames, v.part, &mut stream("visit", &v.key.position(None))).len()
        };
        let longest = visits.iter().map(length).max().unwrap_or(0);
        let key = visits.first().map_or([0; 32], |first| dropout_key(first.key));
        let ranges = cut(visits, most);
        let several = ranges.len() > 1;
        let piece = |(number, range): (usize, Range<usize>)| {
            let from = range.start as u64;
            let Some(samples) = samples(number, range) else { return Ok(None) };
            let mut piece = HostBatch::draw(&samples?, mask, noise, longest);
            piece.dropout_key = if several { *blake3::keyed_hash(&key, &from.to_le_bytes()).as_bytes() } else { key };
            Ok(Some(piece))
        };
        let pieces = ranges.into_iter().enumerate().map(piece).collect::<Result<_, E>>()?;
        Ok(Self { scans: visits.len(), pieces })
    }

    /// All micro-batches of samples that are there.
    pub fn of_samples(samples: &[Sample], most: usize, mask: &MaskSettings, noise: NoiseShape) -> Self {
        let visits: Vec<PlannedVisit> = samples.iter().map(|sample| sample.visit).collect();
        let given = |_: usize, range: Range<usize>| Some(Ok::<_, std::convert::Infallible>(samples[range].to_vec()));
        let Ok(batch) = Self::draw(&visits, most, (mask, noise), given);
        batch
    }
}

/// Stretches of at most `most` visits of one group.
fn cut(visits: &[PlannedVisit], most: usize) -> Vec<Range<usize>> {
    let groups = visits.chunk_by(|a, b| a.kin.group == b.kin.group);
    let lengths = groups.flat_map(|group| group.chunks(most.max(1)).map(<[PlannedVisit]>::len));
    let to_range = |end: &mut usize, length: usize| {
        *end += length;
        Some(*end - length..*end)
    };
    lengths.scan(0, to_range).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Centre, Kin, Part, VisitKey};
    use super::*;
    use crate::noise::fill_normal;
    use bdo_data::scaler::ScaledScan;

    fn noisy_scan(number: u64, frames: usize, regions: usize) -> ScaledScan {
        let mut values = vec![0.0; frames * regions];
        fill_normal(&mut stream("host batch test", &[number]), &mut values);
        ScaledScan {
            times_seconds: (0..frames).map(|i| 2.0 * i as f64).collect(),
            values,
            region_valid: vec![true; regions],
        }
    }

    const NOISE: NoiseShape =
        NoiseShape { width: 4, draws: 1, sample_latent: true, unit_input: false, unit_regions: false };

    /// Groups of two, three and one scan, each visited twice, of lengths that need padding.
    fn samples() -> Vec<Sample> {
        let groups = [0, 0, 1, 1, 1, 0];
        (0..6)
            .flat_map(|scan| [Part::FirstHalf, Part::SecondHalf].map(|part| (scan, part)))
            .enumerate()
            .map(|(visit, (scan, part))| {
                let key = VisitKey { seed: 1, epoch: 2, scan: scan as u64, visit: visit as u64 % 2 };
                let mut sample = Sample::alone(noisy_scan(scan as u64, 24 + 3 * scan, 4), key);
                sample.visit.kin = Kin { scan, person: scan / 2, group: groups[scan] };
                sample.visit.part = part;
                sample
            })
            .collect()
    }

    fn mask() -> MaskSettings {
        MaskSettings { ratio: 0.5, varied: 0.5, centre: Centre::Visible, ..MaskSettings::default() }
    }

    #[test]
    fn micro_batches_end_with_groups_and_keep_whose_is_what() {
        let samples = samples();
        let mut whole = HostBatch::draw(&samples, &mask(), NOISE, 0);
        for (most, sizes) in [(4, vec![4, 4, 2, 2]), (2, vec![2; 6]), (64, vec![4, 6, 2])] {
            let batch = MicroBatches::of_samples(&samples, most, &mask(), NOISE);
            let mut pieces: Vec<HostBatch> = batch.pieces.into_iter().flatten().collect();
            assert_eq!(batch.scans, 12);
            assert_eq!(pieces.iter().map(HostBatch::scans).collect::<Vec<_>>(), sizes);
            assert!(pieces.iter().all(|piece| piece.kin.iter().all(|kin| kin.group == piece.kin[0].group)));
            let kin: Vec<Kin> = pieces.iter().flat_map(|piece| piece.kin.clone()).collect();
            assert_eq!(kin, samples.iter().map(|sample| sample.visit.kin).collect::<Vec<_>>());
            // Padded alike, so the pieces side by side are the batch.
            let series: Vec<f32> = pieces.iter_mut().flat_map(|piece| piece.series_mut().to_vec()).collect();
            assert_eq!(series, whole.series_mut());
        }
    }

    #[test]
    fn a_micro_batch_is_the_same_whether_others_are_built_or_not() {
        let samples = samples();
        let all = MicroBatches::of_samples(&samples, 4, &mask(), NOISE);
        let visits: Vec<PlannedVisit> = samples.iter().map(|sample| sample.visit).collect();
        for own in 0..all.pieces.len() {
            let given = |number: usize, range: Range<usize>| {
                (number == own).then(|| Ok::<_, std::convert::Infallible>(samples[range].to_vec()))
            };
            let Ok(found) = MicroBatches::draw(&visits, 4, (&mask(), NOISE), given);
            assert_eq!((found.scans, found.pieces.len()), (all.scans, all.pieces.len()));
            for (number, piece) in found.pieces.iter().enumerate() {
                assert_eq!(piece.is_some(), number == own);
            }
            assert!(found.pieces[own] == all.pieces[own]);
        }
    }
}
