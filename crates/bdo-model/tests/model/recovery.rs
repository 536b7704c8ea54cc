//! Synthetic recovery: data from a known linear stochastic process, read out through a random matrix with noise. After
//! a few hundred small steps the model must predict masked frames of unseen scans better than interpolation and hold.

use crate::toy;
use bdo_model::batch::MaskedBatch;
use bdo_model::config::ModelConfig;
use bdo_model::dynamics::{Frames, HeldStep, euler_maruyama};
use bdo_model::ema::{EmaEncoder, ema_momentum};
use bdo_model::init::Stream;
use bdo_model::model::Bdo;
use bdo_model::ops::Kernels;
use burn::module::{Module, ModuleMapper, Param, ParamId};
use burn::tensor::{DType, Device, Gradients, Tensor, TensorData};
use std::collections::HashMap;

const REGIONS: usize = 10;
const FRAMES: usize = 24;
const LATENT: usize = 3;
const NOISE: f64 = 0.4;

struct Scans {
    batch: usize,
    values: Vec<f64>,
    frames: Frames,
}

/// Scans of the known process; roles are redrawn, half of the frames visible.
fn draw_scans(batch: usize, stream: &mut Stream) -> Scans {
    let mut readout_stream = Stream::named(21, "readout");
    let readout: Vec<f64> = (0..REGIONS * LATENT).map(|_| readout_stream.normal()).collect();
    let (mut values, mut times_seconds, mut context) = (vec![], vec![], vec![]);
    for _ in 0..batch {
        let mut now = 0.0;
        let times: Vec<f64> = (0..FRAMES)
            .map(|_| {
                now += 0.5 + stream.uniform();
                now
            })
            .collect();
        // Decay times of 5 to 15 seconds, unit stationary variance.
        let paths: Vec<Vec<f64>> = [5.0, 9.0, 15.0]
            .iter()
            .map(|decay_seconds: &f64| {
                let rate = 1.0 / decay_seconds;
                let step = |j: usize| HeldStep {
                    rate,
                    control: 0.0,
                    delta: times[j] - if j == 0 { 0.0 } else { times[j - 1] },
                };
                let steps: Vec<_> = (0..FRAMES).map(step).collect();
                euler_maruyama(&steps, stream.normal(), (2.0 * rate).sqrt(), 20, || stream.normal())
            })
            .collect();
        for j in 0..FRAMES {
            for region in 0..REGIONS {
                let signal: f64 =
                    paths.iter().zip(&readout[region * LATENT..]).map(|(path, weight)| weight * path[j]).sum();
                values.push(signal / (LATENT as f64).sqrt() + NOISE * stream.normal());
            }
        }
        times_seconds.extend(times);
        // Ends are visible, so that interpolation never has to guess beyond them.
        context.extend((0..FRAMES).map(|j| j == 0 || j == FRAMES - 1 || stream.uniform() < 0.4));
    }
    Scans {
        batch,
        values,
        frames: Frames { batch, frames: FRAMES, times_seconds, context, valid: vec![true; batch * FRAMES] },
    }
}

impl Scans {
    fn series(&self, device: &Device) -> Tensor<3> {
        Tensor::from_data(TensorData::new(self.values.clone(), [self.batch, FRAMES, REGIONS]), (device, DType::F32))
    }

    /// Mean squared error at masked frames of a predictor of (row, region).
    fn masked_error(&self, predict: impl Fn(usize, usize) -> f64) -> f64 {
        let rows: Vec<usize> = (0..self.batch * FRAMES).filter(|&row| !self.frames.context[row]).collect();
        let error = |&row: &usize| {
            (0..REGIONS).map(|n| (self.values[row * REGIONS + n] - predict(row, n)).powi(2)).sum::<f64>()
        };
        rows.iter().map(error).sum::<f64>() / (rows.len() * REGIONS) as f64
    }

    fn visible_before(&self, row: usize) -> usize {
        (0..row).rev().find(|&row| self.frames.context[row]).unwrap()
    }

    fn visible_after(&self, row: usize) -> usize {
        (row..self.batch * FRAMES).find(|&row| self.frames.context[row]).unwrap()
    }
}

/// Adam, as short as it can be.
struct Adam {
    step: i32,
    moments: HashMap<ParamId, (Tensor<1>, Tensor<1>)>,
    gradients: Option<Gradients>,
    rate: f64,
}

impl ModuleMapper for Adam {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(gradient) = self.gradients.as_mut().and_then(|found| param.val().grad_remove(found)) else {
            return param;
        };
        let count = gradient.shape().num_elements();
        let gradient: Tensor<1> = gradient.reshape([count]);
        let (m, v) = match self.moments.remove(&param.id) {
            Some((m, v)) => (m * 0.9 + gradient.clone() * 0.1, v * 0.999 + gradient.square() * 0.001),
            None => (gradient.clone() * 0.1, gradient.square() * 0.001),
        };
        let unbiased = (v.clone() / (1.0 - 0.999f64.powi(self.step))).sqrt() + 1e-8;
        let change = m.clone() / (1.0 - 0.9f64.powi(self.step)) / unbiased * self.rate;
        self.moments.insert(param.id, (m, v));
        param.map(|value| {
            let shape = value.dims();
            (value.inner() - change.reshape(shape)).autodiff().require_grad()
        })
    }
}

#[test]
fn a_trained_model_beats_interpolation_and_hold() {
    let mut config =
        ModelConfig { regions: REGIONS, width: 32, blocks: 2, heads: 2, basis_count: 8, ..ModelConfig::default() };
    // Quiet noise and a faster clock than the defaults: a few hundred steps must suffice here.
    config.dynamics.diffusion = 0.05;
    config.time_scale = 0.5;
    let device = Device::flex().autodiff();
    let mut model = Bdo::init(&config, 1, Kernels::default(), &device).unwrap();
    let mut teacher = EmaEncoder::new(&model.encoder);
    let mut stream = Stream::named(22, "scans");
    let mut adam = Adam { step: 0, moments: HashMap::new(), gradients: None, rate: 0.0 };
    let (batch, steps) = (16, 800);
    for step in 0..steps {
        let scans = draw_scans(batch, &mut stream);
        let shape = [batch, FRAMES, config.width];
        let noise = |name: &str| toy::normal(&format!("{name} {step}"), shape, (&device, DType::F32));
        let masked = MaskedBatch {
            kin: Vec::new(),
            series: scans.series(&device),
            frames: scans.frames,
            region_valid: vec![true; batch * REGIONS],
            latent_noise: noise("q"),
            process_noise: vec![noise("p")],
            dropout_key: [0; 32],
        };
        let loss = model.train_pass(&teacher, &masked, model.loss_weights()).unwrap().loss;
        adam.gradients = Some(loss.total.backward());
        adam.step += 1;
        adam.rate = 6e-3 * (1.0 - 0.9 * f64::from(step) / f64::from(steps));
        model = model.map(&mut adam);
        teacher.update(&model.encoder, ema_momentum(step as u64, steps as u64, [0.996, 1.0]));
    }

    let unseen = draw_scans(64, &mut Stream::named(23, "unseen"));
    let seen =
        model.valid().reconstruct(&unseen.series(&Device::flex()), &unseen.frames, &[true; 64 * REGIONS]).unwrap();
    let predicted = toy::values(&seen.series);
    let value = |row: usize, n: usize| unseen.values[row * REGIONS + n];
    let trained = unseen.masked_error(|row, n| predicted[row * REGIONS + n]);
    let hold = unseen.masked_error(|row, n| value(unseen.visible_before(row), n));
    let linear = unseen.masked_error(|row, n| {
        let (a, b) = (unseen.visible_before(row), unseen.visible_after(row));
        let times = &unseen.frames.times_seconds;
        let share = (times[row] - times[a]) / (times[b] - times[a]);
        (1.0 - share) * value(a, n) + share * value(b, n)
    });
    println!(
        "masked error: trained {trained:.4}, interpolation {linear:.4}, hold {hold:.4}, noise {:.4}",
        NOISE * NOISE
    );
    assert!(trained < linear && trained < hold, "trained {trained}, interpolation {linear}, hold {hold}");
}
