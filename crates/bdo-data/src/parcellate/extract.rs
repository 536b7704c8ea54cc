//! Region series of one image: sums over regions, straight from its stored bytes.

use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};

use super::masker::{LabelsMasker, NonFinite};
use crate::nifti::{Header, ImageSummary, NiftiReader, for_each_value};
use crate::problem::{Problem, ReadError, listed};

#[derive(Debug, Clone, PartialEq)]
pub struct RoiSeries {
    pub frames: usize,
    pub regions: usize,
    /// Row-major `[frames, regions]`; a region with too little coverage is NaN throughout.
    pub series: Vec<f32>,
    /// Share of each region's points that lie inside mask and image and have a finite signal there; absent where the file came
    /// parcellated.
    pub coverage: Option<Vec<f32>>,
    pub tr_seconds: Option<f64>,
    pub tr_has_unit: bool,
    pub blake3: String,
    /// Voxels of regions that were NaN or infinite, over all volumes.
    pub non_finite: u64,
    pub warnings: Vec<String>,
}

impl RoiSeries {
    /// Puts column `order[i]` at place `i`.
    pub fn reorder(&mut self, order: &[usize]) {
        if order.iter().copied().eq(0..self.regions) {
            return;
        }
        let rows = self.series.chunks_exact(self.regions);
        self.series = rows.flat_map(|row| order.iter().map(|i| row[*i])).collect();
        self.coverage = self.coverage.as_ref().map(|c| order.iter().map(|i| c[*i]).collect());
    }
}

const PIECES_IN_FLIGHT: usize = 4;

impl LabelsMasker {
    /// Reads an image to its end, one thread decompressing and one summing, and returns the mean of every region.
    pub fn extract(&self, image: NiftiReader) -> Result<RoiSeries, ReadError> {
        if !self.fits(&image) {
            let problem = Problem::new("grid", format!("{:?}", self.grid), format!("{:?}", image.grid));
            return Err(ReadError::content(image.path(), problem));
        }
        let header = image.header.clone();
        let mut warnings = [&image.warnings[..], &self.warnings].concat();
        let mut summing = Summing::new(self, &header);
        let (filled_sender, filled) = sync_channel::<Vec<u8>>(PIECES_IN_FLIGHT);
        let (emptied, emptied_receiver) = channel::<Vec<u8>>();
        let summary = std::thread::scope(|scope| {
            let reading = scope.spawn(move || read_pieces(image, &filled_sender, &emptied_receiver));
            for piece in filled {
                summing.add(&piece);
                // The reader may have ended already; then nobody needs the buffer any more.
                let _ = emptied.send(piece);
            }
            reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        let coverage = summing.coverage();
        let Summing { mut series, non_finite, .. } = summing;
        let (frames, regions) = (header.volumes(), self.regions());
        for region in (0..regions).filter(|r| !self.keeps(*r, coverage[*r])) {
            series.iter_mut().skip(region).step_by(regions).for_each(|x| *x = f32::NAN);
        }
        warnings.extend(self.odd_voxels(&non_finite, &coverage, frames));
        if summary.trailing_bytes > 0 {
            warnings.push(format!("{} bytes follow the image data", summary.trailing_bytes));
        }
        Ok(RoiSeries {
            frames,
            regions,
            series,
            coverage: Some(coverage),
            tr_seconds: header.tr_seconds(),
            tr_has_unit: header.has_unit_of_time(),
            blake3: summary.blake3,
            non_finite: non_finite.iter().sum(),
            warnings,
        })
    }

    /// Regions that are partly NaN, or without a signal in part of their voxels: covered on paper only.
    fn odd_voxels(&self, non_finite: &[u64], coverage: &[f32], frames: usize) -> Vec<String> {
        let mut warnings = vec![];
        let regions = || (0..self.regions()).filter(|i| self.keeps(*i, self.coverage[*i]));
        let bad: Vec<usize> = regions().filter(|i| non_finite[*i] > 0).collect();
        if !bad.is_empty() {
            let treated = match self.options.non_finite {
                NonFinite::AsZero => "count as zero",
                NonFinite::LeftOut => "are left out",
            };
            let share = |i: &usize| 100.0 * non_finite[*i] as f64 / (f64::from(self.voxels[*i]) * frames.max(1) as f64);
            let shown = listed(bad.iter().map(|i| format!("{} ({:.1} %)", self.names[*i], share(i))));
            warnings.push(format!("voxels that are NaN or infinite {treated} in {} regions: {shown}", bad.len()));
        }
        let empty: Vec<usize> = regions().filter(|i| coverage[*i] < 0.9 * self.coverage[*i]).collect();
        if !empty.is_empty() {
            let share = |i: &usize| format!("{} ({:.0} % left)", self.names[*i], 100.0 * coverage[*i]);
            let shown = listed(empty.iter().map(share));
            warnings.push(format!("{} regions have voxels that are NaN or always zero: {shown}", empty.len()));
        }
        warnings
    }
}

/// Reads all volumes piece by piece; stops early when nobody listens.
fn read_pieces(
    mut image: NiftiReader,
    filled: &SyncSender<Vec<u8>>,
    emptied: &Receiver<Vec<u8>>,
) -> Result<ImageSummary, ReadError> {
    let (voxels, width) = (image.header.voxels(), image.header.datatype.bytes());
    for _ in 0..image.header.volumes() {
        let mut left = voxels;
        while left > 0 {
            let piece_voxels = left.min(PIECE_VOXELS);
            let mut piece = emptied.try_recv().unwrap_or_default();
            piece.resize(piece_voxels * width, 0);
            image.next_bytes(&mut piece)?;
            left -= piece_voxels;
            if filled.send(piece).is_err() {
                return image.end();
            }
        }
    }
    image.end()
}

struct Summing<'a> {
    masker: &'a LabelsMasker,
    header: &'a Header,
    piece: usize,
    volumes: usize,
    /// Sums of stored numbers, and voxels that were not finite, in this volume: one of each per region.
    stored: Vec<f64>,
    bad: Vec<u32>,
    series: Vec<f32>,
    non_finite: Vec<u64>,
    /// Most voxels of each region that were not finite in one volume.
    worst: Vec<u32>,
    /// Per piece, the voxels and regions that were zero in every volume looked at.
    dead: Vec<Vec<(u32, u32)>>,
}

impl<'a> Summing<'a> {
    fn new(masker: &'a LabelsMasker, header: &'a Header) -> Self {
        let regions = masker.regions();
        Self {
            masker,
            header,
            piece: 0,
            volumes: 0,
            stored: vec![0.0; regions],
            bad: vec![0; regions],
            // Not reserved for the claimed number of volumes: that many must arrive first.
            series: vec![],
            non_finite: vec![0; regions],
            worst: vec![0; regions],
            dead: vec![],
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        let masker = self.masker;
        let runs = &masker.pieces[self.piece];
        self.sum(bytes, runs);
        if self.volumes == 0 {
            self.dead.push(zero_voxels(self.header, bytes, runs));
        } else if self.volumes.is_power_of_two() {
            // A voxel that is zero in the first volume and in all of these has no signal; looking at every volume costs time.
            self.dead[self.piece].retain(|(voxel, _)| is_zero(self.header, bytes, *voxel));
        }
        self.piece += 1;
        if self.piece == self.masker.pieces.len() {
            self.end_volume();
        }
    }

    fn sum(&mut self, bytes: &[u8], runs: &[Run]) {
        let Header { datatype, byte_order, .. } = *self.header;
        for run in runs {
            let (bytes, region) = (run.bytes(self.header, bytes), run.region as usize);
            for_each_value!(datatype, byte_order, bytes, |values| {
                let (mut sum, mut bad) = (0.0, 0);
                if datatype.is_float() {
                    for x in values {
                        let good = x.is_finite();
                        sum += if good { x } else { 0.0 };
                        bad += u32::from(!good);
                    }
                } else {
                    sum = values.sum::<f64>();
                }
                self.stored[region] += sum;
                self.bad[region] += bad;
            });
        }
    }

    fn end_volume(&mut self) {
        let (slope, intercept) = self.header.scaling.map_or((1.0, 0.0), |s| (s.slope, s.intercept));
        for region in 0..self.masker.regions() {
            let voxels = self.masker.voxels[region];
            let bad = self.bad[region];
            self.non_finite[region] += u64::from(bad);
            self.worst[region] = self.worst[region].max(bad);
            let finite = f64::from(voxels - bad);
            let divisor = match self.masker.options.non_finite {
                NonFinite::AsZero => f64::from(voxels),
                NonFinite::LeftOut => finite,
            };
            // Scaling commutes with the mean; zero voxels give 0 / 0, which is the NaN of a missing region.
            let mean = (self.stored[region] * slope + finite * intercept) / divisor;
            self.series.push(mean as f32);
        }
        self.stored.fill(0.0);
        self.bad.fill(0);
        self.piece = 0;
        self.volumes += 1;
    }

    /// Share of every region that has a finite signal in all volumes.
    fn coverage(&self) -> Vec<f32> {
        let mut lost = self.worst.clone();
        for (_, region) in self.dead.iter().flatten() {
            lost[*region as usize] += 1;
        }
        let masker = self.masker;
        let share = |r: usize| {
            let voxels = masker.voxels[r];
            masker.coverage[r] * (voxels.saturating_sub(lost[r]) as f32 / voxels.max(1) as f32)
        };
        (0..masker.regions()).map(share).collect()
    }
}

/// Voxels of one region that lie one after the other in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// First voxel, counted from the start of the piece.
    pub(super) start: u32,
    pub(super) length: u32,
    pub(super) region: u32,
}

impl Run {
    /// Its bytes among those of the piece.
    fn bytes<'a>(&self, header: &Header, piece: &'a [u8]) -> &'a [u8] {
        let (start, width) = (self.start as usize, header.datatype.bytes());
        &piece[start * width..(start + self.length as usize) * width]
    }
}

/// Voxels of one piece of a volume. A piece of 16-bit voxels fills half of a second-level cache.
const PIECE_VOXELS: usize = 128 << 10;

/// The runs of every piece of a volume, from the column (from 1; 0 is none) of every voxel.
pub(super) fn runs_of(columns: &[u16]) -> Vec<Vec<Run>> {
    let piece = |columns: &[u16]| {
        let mut runs: Vec<Run> = vec![];
        for (i, column) in columns.iter().enumerate() {
            let Some(region) = column.checked_sub(1).map(u32::from) else { continue };
            match runs.last_mut() {
                Some(run) if run.region == region && run.start + run.length == i as u32 => run.length += 1,
                _ => runs.push(Run { start: i as u32, length: 1, region }),
            }
        }
        runs
    };
    columns.chunks(PIECE_VOXELS).map(piece).collect()
}

/// The voxels of one piece that are exactly zero, as all are outside a skull-stripped brain or the field of view: where they
/// are, and their regions.
fn zero_voxels(header: &Header, bytes: &[u8], runs: &[Run]) -> Vec<(u32, u32)> {
    let mut found = vec![];
    for run in runs {
        for_each_value!(header.datatype, header.byte_order, run.bytes(header, bytes), |values| {
            let zeros = values.enumerate().filter(|(_, x)| *x == 0.0);
            found.extend(zeros.map(|(i, _)| (run.start + i as u32, run.region)));
        });
    }
    found
}

/// Whether one voxel of a piece is exactly zero.
fn is_zero(header: &Header, bytes: &[u8], voxel: u32) -> bool {
    let bytes = Run { start: voxel, length: 1, region: 0 }.bytes(header, bytes);
    for_each_value!(header.datatype, header.byte_order, bytes, |values| values.into_iter().all(|x| x == 0.0))
}

#[cfg(test)]
mod runs_tests {
    use super::*;

    #[test]
    fn runs_follow_the_labels_and_stop_at_the_piece() {
        let mut columns = vec![0_u16; PIECE_VOXELS + 3];
        columns[1..4].copy_from_slice(&[2, 2, 1]);
        columns[PIECE_VOXELS - 1..=PIECE_VOXELS].copy_from_slice(&[7, 7]);
        let run = |start, length, region| Run { start, length, region };
        let last = PIECE_VOXELS as u32 - 1;
        assert_eq!(runs_of(&columns), [vec![run(1, 2, 1), run(3, 1, 0), run(last, 1, 6)], vec![run(0, 1, 6)]]);
    }
}
