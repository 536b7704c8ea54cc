//! One visit of a scan: hidden frames predicted from visible ones, with the spread of the latent process.

use bdo_data::random::stream;
use bdo_data::scan::Scan;
use bdo_downstream::frozen::FrozenModel;
use bdo_model::dynamics::Frames;
use bdo_report::reconstruction::ReconstructedScan;
use bdo_train::mask::{MaskSettings, Visit};
use bdo_train::noise::fill_normal;
use burn::tensor::{Device, Tensor, TensorData};

/// Draws of the state from which deviations are estimated: their own relative error is 1 / sqrt(2 * 128), 6 %.
const DRAWS: u64 = 128;

/// Centred on visible frames and scaled as in evaluation; `None` if no region carries a signal the model knows.
pub(super) fn reconstructed(
    frozen: &FrozenModel,
    columns: &[usize],
    scan: &Scan,
    mask: &MaskSettings,
    (seed, number): (u64, usize),
    with_deviation: bool,
) -> anyhow::Result<Option<ReconstructedScan>> {
    let mut rng = stream("report visit", &[seed, number as u64]);
    let first = scan.frame_times_seconds[0];
    let times: Vec<f64> = scan.frame_times_seconds.iter().map(|t| t - first).collect();
    let visit = Visit::draw(mask, &times, &mut rng);
    let (frames, regions) = (visit.frames.len(), columns.len());
    let width = scan.series.len() / scan.frames();
    let (usable, contract) = (scan.valid_regions(), &frozen.contract);
    let region_valid: Vec<bool> =
        columns.iter().zip(&contract.iqrs).map(|(column, iqr)| usable[*column] && *iqr > 0.0).collect();
    if !region_valid.contains(&true) {
        return Ok(None);
    }
    let visible: Vec<usize> = (0..frames).filter(|row| visit.context[*row]).collect();
    let mut original = vec![0.0f32; frames * regions];
    for (r, column) in columns.iter().enumerate().filter(|(r, _)| region_valid[*r]) {
        let value = |row: usize| f64::from(scan.series[visit.frames[row] * width + column]);
        let mean = visible.iter().map(|row| value(*row)).sum::<f64>() / visible.len() as f64;
        for row in 0..frames {
            original[row * regions + r] = ((value(row) - mean - contract.medians[r]) / contract.iqrs[r]) as f32;
        }
    }
    let device = Device::flex();
    let series = Tensor::<3>::from_data(TensorData::new(original.clone(), [1, frames, regions]), &device);
    let drawn = Frames {
        batch: 1,
        frames,
        times_seconds: visit.frames.iter().map(|frame| times[*frame] - visit.origin_seconds).collect(),
        context: visit.context.clone(),
        valid: vec![true; frames],
    };
    let found = frozen.model.reconstruct(&series, &drawn, &region_valid)?;
    let predicted = found.series.into_data().try_to_vec::<f32>().expect("predictions are f32");
    let deviation = with_deviation.then(|| {
        let model = &frozen.model;
        let basis = model.dynamics.basis();
        let noise_of_state = model.config().loss.sigma_p.powi(2);
        let spread = (found.moments.variance.clone() + noise_of_state).sqrt();
        let [_, _, latent] = spread.dims();
        let (mut sum, mut square) = (vec![0.0f64; predicted.len()], vec![0.0f64; predicted.len()]);
        for draw in 0..DRAWS {
            let mut noise = vec![0.0f32; frames * latent];
            fill_normal(&mut stream("report draw", &[seed, number as u64, draw]), &mut noise);
            let noise = Tensor::<3>::from_data(TensorData::new(noise, [1, frames, latent]), &device);
            let state = model.dynamics.rotate(basis.clone(), found.moments.mean.clone() + spread.clone() * noise);
            let values = model.decoder.forward(state, None).into_data().try_to_vec::<f32>().expect("values are f32");
            for ((s, q), v) in sum.iter_mut().zip(&mut square).zip(values) {
                *s += f64::from(v);
                *q += f64::from(v).powi(2);
            }
        }
        let n = DRAWS as f64;
        sum.iter().zip(&square).map(|(s, q)| ((q - s * s / n) / (n - 1.0)).max(0.0).sqrt() as f32).collect()
    });
    let start = drawn.times_seconds.first().copied().unwrap_or(0.0);
    Ok(Some(ReconstructedScan {
        name: scan.id.to_string(),
        times_seconds: drawn.times_seconds.iter().map(|t| t - start).collect(),
        context: visit.context,
        region_valid,
        original,
        predicted,
        deviation,
    }))
}
