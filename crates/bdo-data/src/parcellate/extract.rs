//! Region series of one image.

use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};

use super::masker::{LabelsMasker, NonFinite, listed};
use super::runs::{PIECE_VOXELS, Sums};
use crate::nifti::{Grid, Header, ImageSummary, NiftiReader};
use crate::problem::{Problem, ReadError};

/// Region series of one image, with what is known about them.
#[derive(Debug, Clone, PartialEq)]
pub struct RoiSeries {
    /// Number of volumes.
    pub frames: usize,
    /// Number of columns.
    pub regions: usize,
    /// Row-major `[frames, regions]`; a region with too little coverage is NaN throughout.
    pub series: Vec<f32>,
    /// Share of each region's points inside the image; absent where the file came parcellated.
    pub coverage: Option<Vec<f32>>,
    /// Time between volumes as the header states it.
    pub tr_seconds: Option<f64>,
    /// BLAKE3 of the image file.
    pub blake3: String,
    /// Voxels of regions that were NaN or infinite, over all volumes.
    pub non_finite: u64,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Pieces that may wait between the two threads.
const PIECES_IN_FLIGHT: usize = 4;

impl LabelsMasker {
    /// Reads an image to its end, one thread decompressing and one summing, and returns the mean of every region.
    pub fn extract(&self, image: NiftiReader) -> Result<RoiSeries, ReadError> {
        if !self.fits(&image) {
            let found = Grid { shape: image.shape(), affine: image.affine() };
            let problem = Problem::new("grid", format!("{:?}", self.grid), format!("{found:?}"));
            return Err(ReadError::content(image.path(), problem));
        }
        let header = image.header().clone();
        let (frames, tr_seconds) = (image.volumes(), image.tr_seconds());
        let mut warnings = [image.warnings(), self.warnings()].concat();
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
        let Summing { series, non_finite, first_zero, .. } = summing;
        warnings.extend(self.odd_voxels(&non_finite, &first_zero, frames));
        if summary.trailing_bytes > 0 {
            warnings.push(format!("{} bytes follow the image data", summary.trailing_bytes));
        }
        Ok(RoiSeries {
            frames,
            regions: self.regions(),
            series,
            coverage: Some(self.coverage.clone()),
            tr_seconds,
            blake3: summary.blake3,
            non_finite: non_finite.iter().sum(),
            warnings,
        })
    }

    /// Regions that are partly NaN, or zero in half of their voxels: covered on paper only.
    fn odd_voxels(&self, non_finite: &[u64], first_zero: &[u32], frames: usize) -> Vec<String> {
        let mut warnings = vec![];
        let regions = || (0..self.regions()).filter(|i| self.kept[*i]);
        let bad: Vec<usize> = regions().filter(|i| non_finite[*i] > 0).collect();
        if !bad.is_empty() {
            let treated = match self.non_finite {
                NonFinite::AsZero => "count as zero",
                NonFinite::LeftOut => "are left out",
            };
            let share = |i: &usize| 100.0 * non_finite[*i] as f64 / (f64::from(self.voxels[*i]) * frames.max(1) as f64);
            let shown = listed(bad.iter().map(|i| format!("{} ({:.1} %)", self.names[*i], share(i))));
            warnings.push(format!("voxels that are NaN or infinite {treated} in {} regions: {shown}", bad.len()));
        }
        let empty: Vec<usize> = regions().filter(|i| 2 * first_zero[*i] > self.voxels[*i]).collect();
        if !empty.is_empty() {
            let shown = listed(empty.iter().map(|i| self.names[*i].clone()));
            warnings.push(format!(
                "{} regions are zero in more than half of their voxels of the first volume (a brain mask would leave them out): {shown}",
                empty.len()
            ));
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
    let (voxels, width) = (image.header().voxels(), image.header().datatype.bytes());
    for _ in 0..image.volumes() {
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

/// The state of the summing thread.
struct Summing<'a> {
    masker: &'a LabelsMasker,
    header: &'a Header,
    sums: Sums,
    piece: usize,
    volumes: usize,
    series: Vec<f32>,
    non_finite: Vec<u64>,
    first_zero: Vec<u32>,
}

impl<'a> Summing<'a> {
    fn new(masker: &'a LabelsMasker, header: &'a Header) -> Self {
        let regions = masker.regions();
        Self {
            masker,
            header,
            sums: Sums::new(regions),
            piece: 0,
            volumes: 0,
            // Not reserved for the claimed number of volumes: that many must arrive first.
            series: vec![],
            non_finite: vec![0; regions],
            first_zero: vec![0; regions],
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        let runs = &self.masker.pieces[self.piece];
        self.sums.add(self.header, bytes, runs);
        if self.volumes == 0 {
            self.sums.count_zeros(self.header, bytes, runs);
        }
        self.piece += 1;
        if self.piece == self.masker.pieces.len() {
            self.end_volume();
        }
    }

    fn end_volume(&mut self) {
        let (slope, intercept) = self.header.scaling.map_or((1.0, 0.0), |s| (s.slope, s.intercept));
        for region in 0..self.masker.regions() {
            let voxels = self.masker.voxels[region];
            let bad = self.sums.non_finite[region];
            self.non_finite[region] += u64::from(bad);
            let finite = f64::from(voxels - bad);
            let divisor = match self.masker.non_finite {
                NonFinite::AsZero => f64::from(voxels),
                NonFinite::LeftOut => finite,
            };
            // Scaling commutes with the mean; zero voxels give 0 / 0, which is the NaN of a missing region.
            let mean = (self.sums.stored[region] * slope + finite * intercept) / divisor;
            self.series.push(if self.masker.kept[region] { mean as f32 } else { f32::NAN });
        }
        if self.volumes == 0 {
            self.first_zero.copy_from_slice(&self.sums.zero);
        }
        self.sums.clear();
        self.piece = 0;
        self.volumes += 1;
    }
}
