//! The single draw of a state has the law of the process.

use crate::toy;
use bdo_model::batch::MaskedBatch;
use bdo_model::ema::EmaEncoder;
use bdo_model::model::Bdo;
use bdo_model::objective::LossWeights;
use bdo_model::ops::Kernels;
use burn::tensor::{DType, Device};

#[test]
fn draws_have_the_mean_and_covariance_of_the_process() {
    let device = Device::flex();
    let mut config = toy::config();
    config.width = 4;
    config.blocks = 1;
    config.sample_latent = false;
    let draws = 500;
    config.loss.monte_carlo_samples = draws;
    let mut parameters = bdo_model::init::initial_parameters(&config, 1);
    // A basis away from its start, so that V and V^T cannot be confused.
    let free = &mut parameters.0.get_mut("dynamics.cayley").unwrap().values;
    free.iter_mut().enumerate().for_each(|(k, x)| *x = 0.1 * (k as f32 - 5.0));
    let model = Bdo::from_parameters(&config, parameters, Kernels::default(), &device).unwrap();
    let teacher = EmaEncoder::new(&model.encoder);
    // Many target frames at one instant would share one law; instead every draw carries one target frame.
    let batch: MaskedBatch = toy::batch(&config, &[true, false], (&device, DType::F32));
    let pass = model.train_pass(&teacher, &batch, LossWeights { tau: 0.0, energy: 0.0, reconstruction: 1.0 }).unwrap();
    let d = config.width;
    let basis = toy::values(&model.dynamics.basis());
    let (mean, variance) = (toy::values(&pass.moments.mean), toy::values(&pass.moments.variance));
    for sample in 0..2 {
        let at = (2 * sample + 1) * d;
        let noise: Vec<Vec<f64>> =
            batch.process_noise.iter().map(|noise| toy::values(noise)[at..at + d].to_vec()).collect();
        let states: Vec<Vec<f64>> =
            pass.states.iter().map(|state| toy::values(state)[sample * d..(sample + 1) * d].to_vec()).collect();
        let average = |f: &dyn Fn(usize) -> f64| (0..draws).map(f).sum::<f64>() / draws as f64;
        for i in 0..d {
            // Given the draws, mean and covariance of the states follow exactly from those of the noise.
            let scale = |k: usize| (variance[at + k] + config.loss.sigma_p * config.loss.sigma_p).sqrt();
            let centre: f64 =
                (0..d).map(|k| basis[i * d + k] * (mean[at + k] + scale(k) * average(&|n| noise[n][k]))).sum();
            assert!((average(&|n| states[n][i]) - centre).abs() < 1e-5);
            for j in 0..d {
                let expected: f64 = (0..d).map(|k| basis[i * d + k] * scale(k).powi(2) * basis[j * d + k]).sum();
                let vm = |row: usize| (0..d).map(|k| basis[row * d + k] * mean[at + k]).sum::<f64>();
                let found = average(&|n| (states[n][i] - vm(i)) * (states[n][j] - vm(j)));
                // The standard error of a covariance of n normal draws is at most sqrt(2 / n) times the variances.
                let bound: f64 = (0..d).map(|k| scale(k).powi(2)).fold(0.0, f64::max);
                assert!(
                    (found - expected).abs() < 4.0 * (2.0 / draws as f64).sqrt() * bound,
                    "{i},{j}: {found} {expected}"
                );
            }
        }
    }
}
