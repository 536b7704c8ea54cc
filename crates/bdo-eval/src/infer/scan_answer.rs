//! Mean and standard deviation of every region at rows of one scan, in the units of the scan.

use crate::infer::calibration::{Calibration, Ignorance};
use crate::infer::output::Block;
use bdo_data::scan::SeriesView;
use bdo_model::batch::BatchError;
use bdo_model::intake::{Intake, Units};
use bdo_model::posterior::engine::{Engine, Piece};
use bdo_model::posterior::rows::{RowKind, Rows, missing_times};
use bdo_model::posterior::spread::{Uncertainty, decoded_variance};

/// The rows that are asked for of one scan.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanPlan {
    /// Frames the model may not look at.
    pub hidden: Vec<bool>,
    /// Regions of the model it may not look at.
    pub unseen: Vec<bool>,
    /// Times beside the frames, since the first one.
    pub further: Vec<(f64, RowKind)>,
}

impl ScanPlan {
    /// All of a scan as it is.
    pub fn whole<'a>(scan: impl Into<SeriesView<'a>>, regions: usize) -> Self {
        let scan = scan.into();
        Self { hidden: vec![false; scan.frames()], unseen: vec![false; regions], further: Vec::new() }
    }

    /// And the times at which it lacks frames.
    pub fn filled<'a>(scan: impl Into<SeriesView<'a>>, regions: usize) -> Self {
        let scan = scan.into();
        let missing = missing_times(scan.frame_times_seconds, scan.tr_seconds);
        let further = missing.into_iter().map(|t| (t, RowKind::Missing)).collect();
        Self { further, ..Self::whole(scan, regions) }
    }

    /// And so many frames after its last one.
    pub fn ahead<'a>(scan: impl Into<SeriesView<'a>>, regions: usize, horizon: u64) -> Self {
        let scan = scan.into();
        let last = scan.frame_times_seconds[scan.frames() - 1] - scan.frame_times_seconds[0];
        let further = (1..=horizon).map(|i| (last + i as f64 * scan.tr_seconds, RowKind::Asked)).collect();
        Self { further, ..Self::whole(scan, regions) }
    }
}

/// A model that is asked about scans.
#[derive(Debug)]
pub struct Answerer<'a> {
    pub engine: Engine<'a>,
    /// Bands, where there are any.
    pub calibration: Option<&'a Calibration>,
    /// How the variance of the latent state passes the decoder.
    pub uncertainty: Uncertainty,
    /// What was measured stays as it is, without a spread.
    pub keep_observed: bool,
}

impl Answerer<'_> {
    /// Hands on the answer piece by piece, rows in order, with how many rows of a piece the model did not see. False where
    /// there is nothing to look at: no usable region, or no visible frame.
    pub fn answer<'s, E: From<BatchError>>(
        &self,
        scan: impl Into<SeriesView<'s>>,
        intake: &Intake,
        plan: &ScanPlan,
        seed: [u64; 2],
        mut take: impl FnMut(Block, usize) -> Result<(), E>,
    ) -> Result<bool, E> {
        let ready = Rows::of_scan(scan, intake, &plan.hidden, &plan.unseen, &plan.further);
        let Some((rows, units)) = ready else { return Ok(false) };
        let known = self.calibration.zip(self.engine.frozen().notes.as_ref());
        let ignorance = known
            .map(|(calibration, notes)| Ignorance::of(&rows, &calibration.region_variance, &notes.autocorrelation));
        self.engine.infer(&rows, |piece| {
            let unseen = piece.rows.clone().filter(|&row| !rows.is_visible(row)).count();
            take(self.block(&rows, &units, &piece, ignorance.as_ref(), seed), unseen)
        })?;
        Ok(true)
    }

    /// Values and spreads of a piece in the units of the scan.
    fn block(&self, rows: &Rows, units: &Units, piece: &Piece, ignorance: Option<&Ignorance>, seed: [u64; 2]) -> Block {
        let regions = rows.regions();
        let variance = decoded_variance(&self.engine, piece, self.uncertainty, &seed);
        let (mut mean, mut sd) = (Vec::with_capacity(variance.len()), Vec::with_capacity(variance.len()));
        for (place, row) in piece.rows.clone().enumerate() {
            for region in 0..regions {
                let at = place * regions + region;
                let observed = self.keep_observed && rows.is_visible(row) && rows.region_valid[region];
                let (value, spread) = if observed {
                    (rows.values[row * regions + region], 0.0)
                } else {
                    let total = match (ignorance, self.calibration) {
                        (Some(ignorance), Some(calibration)) => {
                            // A region that was never seen is as uncertain as it is variable.
                            let unknown = if rows.region_valid[region] { ignorance.unknown[row] } else { 1.0 };
                            calibration.variance(f64::from(variance[at]), ignorance.region_variance[region], unknown)
                        }
                        _ => f64::from(variance[at]),
                    };
                    (piece.decoded[at], total.sqrt() as f32)
                };
                let known = self.engine.frozen().contract.iqrs[region] > 0.0;
                mean.push(if known { units.value(region, value) } else { f32::NAN });
                sd.push(if known { units.spread(region, spread) } else { f32::NAN });
            }
        }
        Block {
            times_seconds: rows.times_seconds[piece.rows.clone()].to_vec(),
            kinds: rows.kinds[piece.rows.clone()].iter().map(|kind| kind.name()).collect(),
            lists: vec![mean, sd],
        }
    }
}
