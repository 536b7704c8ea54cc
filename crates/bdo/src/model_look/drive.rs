//! Control energy along scans, and the effect of control and decay on each region.

use bdo_data::cohort::Cohort;
use bdo_model::config::ModelConfig;
use bdo_model::dynamics::Frames;
use bdo_model::intake::Intake;
use bdo_model::posterior::engine::Engine;
use bdo_model::posterior::spread::Slopes;
use burn::tensor::{Tensor, TensorData};

/// Energy of the control along scans, and its effect on each region.
pub(super) struct Drive {
    /// A scan and, at each frame, its time in seconds and the squared norm of the control.
    pub(super) energy: Vec<(String, Vec<(f64, f64)>)>,
    /// Per region, root mean square of J alpha, per second.
    pub(super) region_rms: Vec<f64>,
    /// Per region, the mean of 1 / Lambda in seconds, weighted by what each mode does to the region.
    pub(super) region_time_constant_seconds: Vec<f64>,
}

impl Drive {
    /// Encodes scans whole (or as much of them as the model was trained to see at once), nothing hidden.
    pub(super) fn of(engine: &Engine<'_>, cohort: &Cohort, scans: &[usize]) -> anyhow::Result<Self> {
        let (frozen, slopes) = (engine.frozen(), Slopes::of(engine));
        let intake = Intake::new(&frozen.contract, cohort)?;
        let ModelConfig { time_scale, width: d, regions, .. } = *frozen.model.config();
        let (mut energy, mut squares, mut frames_seen) = (vec![], vec![0.0; regions], 0usize);
        let mut sums = vec![(0.0, 0.0); regions];
        for i in scans {
            let scan = cohort.scan(*i)?;
            let Some(scaled) = intake.scale(&scan) else { continue };
            let count = scaled.times_seconds.len().min(frozen.windows.frames);
            let times = scaled.times_seconds[..count].to_vec();
            let values = TensorData::new(scaled.values[..count * regions].to_vec(), [1, count, regions]);
            let series = Tensor::<3>::from_data(values, &frozen.model.device());
            let all = Frames {
                batch: 1,
                frames: count,
                times_seconds: times.clone(),
                context: vec![true; count],
                valid: vec![true; count],
            };
            let found = frozen.model.reconstruct(&series, &all, &scaled.region_valid)?;
            let host = |t: Tensor<3>| t.into_data().try_to_vec::<f32>().expect("latents are f32");
            let (control, rates) = (host(found.latents.control), host(found.latents.rates));
            let mean = host(found.moments.mean);
            // The share of the time that each unit of the decoder is open.
            let mut shares = vec![0.0; d];
            let mut curve = vec![];
            for ((time, alpha), mean) in times.iter().zip(control.chunks_exact(d)).zip(mean.chunks_exact(d)) {
                curve.push((*time, alpha.iter().map(|a| f64::from(*a).powi(2)).sum::<f64>()));
                let open = slopes.open(mean);
                open.iter().zip(&mut shares).for_each(|(open, share)| *share += open / count as f32);
                // The model's clock runs in scaled time.
                let moved = slopes.moved(&open, alpha);
                moved.iter().zip(&mut squares).for_each(|(e, s)| *s += (f64::from(*e) * time_scale).powi(2));
                frames_seen += 1;
            }
            let column =
                |table: &[f32], k: usize| (0..count).map(|t| f64::from(table[t * d + k])).collect::<Vec<f64>>();
            let average = |list: &[f64]| list.iter().sum::<f64>() / list.len().max(1) as f64;
            let constants: Vec<f64> = (0..d).map(|k| 1.0 / (average(&column(&rates, k)) * time_scale)).collect();
            let variance: Vec<f64> = (0..d)
                .map(|k| {
                    let values = column(&mean, k);
                    let middle = average(&values);
                    average(&values.iter().map(|m| (m - middle).powi(2)).collect::<Vec<f64>>())
                })
                .collect();
            for (row, (top, all)) in slopes.slope(&shares).chunks_exact(d).zip(&mut sums) {
                for ((slope, variance), constant) in row.iter().zip(&variance).zip(&constants) {
                    let weight = f64::from(*slope).powi(2) * variance;
                    *top += weight * constant;
                    *all += weight;
                }
            }
            energy.push((scan.id.to_string(), curve));
        }
        Ok(Self {
            energy,
            region_rms: squares.iter().map(|s| (s / frames_seen.max(1) as f64).sqrt()).collect(),
            region_time_constant_seconds: sums.iter().map(|(top, all)| top / all).collect(),
        })
    }
}
