//! One step: accumulation changes nothing but rounding, and what is not finite never enters the state.

use bdo_data::random::stream;
use bdo_data::scaler::ScaledScan;
use bdo_kernels::adam::{Adam, WeightDecay};
use bdo_model::config::ModelConfig;
use bdo_model::intake::MaskSettings;
use bdo_model::intake::{HostBatch, NoiseShape, Sample, VisitKey};
use bdo_model::noise::fill_normal;
use bdo_model::objective::LossWeights;
use bdo_model::ops::Kernels;
use bdo_train::state::TrainState;
use bdo_train::step::{StepSettings, train_step_accumulated};
use burn::tensor::Device;

fn config() -> ModelConfig {
    ModelConfig { regions: 6, width: 16, blocks: 1, heads: 1, basis_count: 4, ..ModelConfig::default() }
}

fn host(scans: u64) -> HostBatch {
    let sample = |scan: u64| {
        let mut values = vec![0.0; 40 * 6];
        fill_normal(&mut stream("test", &[scan]), &mut values);
        let scan_values = ScaledScan {
            times_seconds: (0..40).map(|i| f64::from(i) * 2.0).collect(),
            values,
            region_valid: vec![true; 6],
        };
        Sample { scan: scan_values, key: VisitKey { seed: 1, epoch: 2, scan } }
    };
    let samples: Vec<Sample> = (0..scans).map(sample).collect();
    let mask = MaskSettings { frames: 24, ..MaskSettings::default() };
    HostBatch::draw(&samples, &mask, NoiseShape { width: 16, draws: 1, sample_latent: true, unit_input: false })
}

fn settings() -> StepSettings {
    StepSettings {
        adam: Adam {
            learning_rate: 1e-3,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: WeightDecay::None,
            gradient_scale: 1.0,
        },
        clip_norm: 1.0,
        ema_momentum: 0.996,
        weights: LossWeights { tau: 0.03, energy: 0.01, reconstruction: 1.0 },
        loss_limit: f64::INFINITY,
    }
}

fn step(state: TrainState, batch: HostBatch, micro: usize) -> (TrainState, bdo_train::step::StepReport) {
    let device = Device::flex().autodiff();
    let batches: Vec<_> = batch.micro_batches(micro).into_iter().map(|b| b.into_masked(&device)).collect();
    let TrainState { step, model, mut teacher, mut adam, guard } = state;
    let (model, report) = train_step_accumulated(model, &mut teacher, &mut adam, &batches, &settings()).unwrap();
    (TrainState { step: step + 1, model, teacher, adam, guard }, report)
}

fn fresh() -> TrainState {
    TrainState::fresh(&config(), 3, Kernels::default(), &Device::flex().autodiff()).unwrap()
}

#[test]
fn accumulation_gives_the_gradient_of_the_whole_batch() {
    let (whole, a) = step(fresh(), host(5), 5);
    let (parts, b) = step(fresh(), host(5), 2);
    assert!((a.loss.total - b.loss.total).abs() < 1e-5 * a.loss.total, "{a:?} {b:?}");
    assert!((a.gradient_norm - b.gradient_norm).abs() < 1e-4 * a.gradient_norm, "{a:?} {b:?}");
    for (name, moments) in &whole.adam.moments {
        let other = &parts.adam.moments[name];
        let scale = moments.first.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        for (x, y) in moments.first.iter().zip(&other.first) {
            // f32 sums of a few hundred terms in another order.
            assert!((x - y).abs() <= 1e-4 * scale + 1e-9, "{name}: {x} {y}");
        }
    }
}

#[test]
fn micro_batches_side_by_side_give_the_bytes_of_one_after_the_other() {
    let after = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let (state, _) = step(fresh(), host(7), 2);
            let (state, report) = step(state, host(6), 2);
            (state.model.parameters(), state.teacher.parameters(), report.loss)
        })
    };
    let alone = after(1);
    assert!(alone == after(2) && alone == after(3));
}

#[test]
fn fifty_injected_nans_leave_every_number_as_it_was() {
    let (mut state, _) = step(fresh(), host(3), 3);
    let (parameters, average, adam) = (state.model.parameters(), state.teacher.parameters(), state.adam.clone());
    for round in 0..50u64 {
        let mut batch = host(3);
        let values = batch.series_mut();
        let at = bdo_data::random::below(&mut stream("nan", &[round]), values.len() as u64) as usize;
        values[at] = [f32::NAN, f32::INFINITY][round as usize % 2];
        let report;
        (state, report) = step(state, batch, 2);
        assert!(report.skipped.is_some(), "round {round}: {report:?}");
    }
    assert!(state.model.parameters() == parameters && state.teacher.parameters() == average && state.adam == adam);
    let (_, report) = step(state, host(3), 3);
    assert_eq!(report.skipped, None);
}

#[test]
fn a_batch_is_a_function_of_its_keys() {
    assert_eq!(host(4), host(4));
    assert_ne!(host(4), host(5));
}
