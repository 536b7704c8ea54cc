//! One visit of a scan: hidden frames predicted from visible ones, with the spread of the latent process.

use bdo_data::random::stream;
use bdo_data::scan::Scan;
use bdo_model::intake::{Intake, MaskSettings, Timing};
use bdo_model::posterior::engine::Engine;
use bdo_model::posterior::rows::Rows;
use bdo_model::posterior::spread::{Uncertainty, decoded_variance};
use bdo_report::reconstruction::ReconstructedScan;

/// Draws of the state from which deviations are estimated: their own relative error is 1 / sqrt(2 * 128), 6 %.
const DRAWS: usize = 128;

/// Centred on visible frames and scaled as in evaluation; `None` if no region carries a signal the model knows.
pub(super) fn reconstructed(
    engine: &Engine<'_>,
    intake: &Intake,
    scan: &Scan,
    mask: &MaskSettings,
    (seed, number): (u64, usize),
    with_deviation: bool,
) -> anyhow::Result<Option<ReconstructedScan>> {
    let mut rng = stream("report visit", &[seed, number as u64]);
    let Some(visit) = intake.draw(scan, Timing::AsScanned, mask, &mut rng) else {
        return Ok(None);
    };
    let (mut predicted, mut deviation) = (Vec::new(), with_deviation.then(Vec::new));
    engine.infer(&Rows::of_masked(&visit), |piece| -> anyhow::Result<()> {
        if let Some(deviation) = &mut deviation {
            let how = Uncertainty::Sampled { draws: DRAWS };
            let variance = decoded_variance(engine, &piece, how, &[seed, number as u64]);
            deviation.extend(variance.iter().map(|v| v.sqrt()));
        }
        predicted.extend(piece.decoded);
        Ok(())
    })?;
    let start = visit.times_seconds.first().copied().unwrap_or(0.0);
    Ok(Some(ReconstructedScan {
        name: scan.id.to_string(),
        frames: visit.times_seconds.iter().map(|t| t - start).zip(visit.context).collect(),
        region_valid: visit.region_valid,
        original: visit.values,
        predicted,
        deviation,
    }))
}
