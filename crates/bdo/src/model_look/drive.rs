//! Control energy along scans, and the effect of control and decay on each region.

use bdo_data::cohort::Cohort;
use bdo_model::dynamics::Frames;
use bdo_model::frozen::FrozenModel;
use bdo_model::intake::Intake;
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

/// The decoder and the basis on the host, row-major.
struct Slope {
    /// W1 V [d, d] and b1 [d].
    first: Vec<f64>,
    /// W1 [d, d], for the gates.
    weight1: Vec<f64>,
    bias1: Vec<f64>,
    /// W2 [N, d].
    second: Vec<f64>,
    width: usize,
    regions: usize,
}

impl Slope {
    fn of(frozen: &FrozenModel) -> Self {
        let model = &frozen.model;
        let host = |t: Tensor<2>| -> Vec<f64> {
            t.into_data().try_to_vec::<f32>().expect("weights are f32").into_iter().map(f64::from).collect()
        };
        let (width, regions) = (model.config().width, model.config().regions);
        let weight1 = host(model.decoder.linear1.weight.val());
        let bias1 = model.decoder.linear1.bias.as_ref().map_or_else(
            || vec![0.0; width],
            |b| b.val().into_data().try_to_vec::<f32>().expect("biases are f32").into_iter().map(f64::from).collect(),
        );
        let basis = host(model.dynamics.basis());
        let mut first = vec![0.0; width * width];
        for i in 0..width {
            for k in 0..width {
                let w = weight1[i * width + k];
                for j in 0..width {
                    first[i * width + j] += w * basis[k * width + j];
                }
            }
        }
        Self { first, weight1, bias1, second: host(model.decoder.linear2.weight.val()), width, regions }
    }

    /// Which units of the decoder are open at a state.
    fn gates(&self, state: &[f32]) -> Vec<bool> {
        let row = |i: usize| &self.weight1[i * self.width..(i + 1) * self.width];
        (0..self.width)
            .map(|i| row(i).iter().zip(state).map(|(w, s)| w * f64::from(*s)).sum::<f64>() + self.bias1[i] > 0.0)
            .collect()
    }

    /// J x with the units that are open: eigenbasis coordinates to regions.
    fn apply(&self, gates: &[bool], x: &[f32]) -> Vec<f64> {
        let row = |i: usize| &self.first[i * self.width..(i + 1) * self.width];
        let hidden: Vec<f64> = (0..self.width)
            .map(|i| if gates[i] { row(i).iter().zip(x).map(|(w, x)| w * f64::from(*x)).sum() } else { 0.0 })
            .collect();
        self.second.chunks_exact(self.width).map(|row| row.iter().zip(&hidden).map(|(w, h)| w * h).sum()).collect()
    }

    /// Adds, per region, sums over modes of `(mean J_rk)^2 v_k tau_k` and of `(mean J_rk)^2 v_k`.
    fn weigh(&self, open: &[f64], variance: &[f64], constants: &[f64], sums: &mut [(f64, f64)]) {
        for (r, sum) in sums.iter_mut().enumerate() {
            let mut slope = vec![0.0; self.width];
            let rows = self.first.chunks_exact(self.width);
            for ((w, share), row) in self.second[r * self.width..].iter().zip(open).zip(rows) {
                slope.iter_mut().zip(row).for_each(|(s, f)| *s += w * share * f);
            }
            for ((s, v), tau) in slope.iter().zip(variance).zip(constants) {
                let weight = s.powi(2) * v;
                sum.0 += weight * tau;
                sum.1 += weight;
            }
        }
    }
}

impl Drive {
    /// Encodes scans whole (or as much of them as the model was trained to see at once), nothing hidden.
    pub(super) fn of(frozen: &FrozenModel, cohort: &Cohort, scans: &[usize]) -> anyhow::Result<Self> {
        let slope = Slope::of(frozen);
        let intake = Intake::new(&frozen.contract, cohort)?;
        let time_scale = frozen.model.config().time_scale;
        let (mut energy, mut squares, mut frames_seen) = (vec![], vec![0.0; slope.regions], 0usize);
        let mut sums = vec![(0.0, 0.0); slope.regions];
        for i in scans {
            let scan = cohort.scan(*i)?;
            let Some(scaled) = intake.scale(&scan) else { continue };
            let count = scaled.times_seconds.len().min(frozen.windows.frames);
            let times = scaled.times_seconds[..count].to_vec();
            let values = scaled.values[..count * slope.regions].to_vec();
            let series =
                Tensor::<3>::from_data(TensorData::new(values, [1, count, slope.regions]), &frozen.model.device());
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
            let (state, mean) = (host(found.state), host(found.moments.mean));
            let d = slope.width;
            let at = |table: &[f32], t: usize| table[t * d..(t + 1) * d].to_vec();
            let mut open = vec![0.0; d];
            let mut curve = vec![];
            for (t, time) in times.iter().enumerate() {
                let alpha = at(&control, t);
                curve.push((*time, alpha.iter().map(|a| f64::from(*a).powi(2)).sum::<f64>()));
                let gates = slope.gates(&at(&state, t));
                gates.iter().zip(&mut open).for_each(|(g, o)| *o += f64::from(u8::from(*g)) / count as f64);
                // The model's clock runs in scaled time.
                let effect = slope.apply(&gates, &alpha);
                effect.iter().zip(&mut squares).for_each(|(e, s)| *s += (e * time_scale).powi(2));
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
            slope.weigh(&open, &variance, &constants, &mut sums);
            energy.push((scan.id.to_string(), curve));
        }
        Ok(Self {
            energy,
            region_rms: squares.iter().map(|s| (s / frames_seen.max(1) as f64).sqrt()).collect(),
            region_time_constant_seconds: sums.iter().map(|(top, all)| top / all).collect(),
        })
    }
}
