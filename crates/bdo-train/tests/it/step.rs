//! One step: accumulation changes nothing but rounding, and what is not finite never enters the state.

use bdo_data::random::stream;
use bdo_data::record::Plan;
use bdo_data::scaler::ScaledScan;
use bdo_model::config::ModelConfig;
use bdo_model::intake::{MaskSettings, MicroBatches, NoiseShape, Sample, VisitKey};
use bdo_model::noise::fill_normal;
use bdo_model::ops::Kernels;
use bdo_train::bdo::BdoLearner;
use bdo_train::learner::{At, Learner};
use bdo_train::optimiser::AdamState;
use bdo_train::ranks::Alone;
use bdo_train::settings::{Preset, Settings};
use bdo_train::step::{StepLimits, StepReport, take_step};
use burn::tensor::Device;

pub(crate) fn config() -> ModelConfig {
    ModelConfig { regions: 6, width: 16, blocks: 1, heads: 1, basis_count: 4, ..ModelConfig::default() }
}

pub(crate) fn host(scans: u64, micro: usize) -> MicroBatches {
    let sample = |scan: u64| {
        let mut values = vec![0.0; 40 * 6];
        fill_normal(&mut stream("test", &[scan]), &mut values);
        let scan_values = ScaledScan {
            times_seconds: (0..40).map(|i| f64::from(i) * 2.0).collect(),
            values,
            region_valid: vec![true; 6],
        };
        Sample::alone(scan_values, VisitKey { seed: 1, epoch: 2, scan, visit: 0 })
    };
    let samples: Vec<Sample> = (0..scans).map(sample).collect();
    let mask = MaskSettings { frames: 24, ..MaskSettings::default() };
    MicroBatches::of_samples(&samples, micro, &mask, NoiseShape::of(&config()))
}

/// A learner and its optimiser, at a constant learning rate.
pub(crate) struct State {
    pub(crate) learner: BdoLearner,
    pub(crate) adam: AdamState,
}

fn fresh() -> State {
    fresh_on(&config(), &Device::flex())
}

pub(crate) fn fresh_on(config: &ModelConfig, device: &Device) -> State {
    let mut settings = Settings::preset(Preset::Paper);
    let train = &mut settings.train;
    (train.learning_rate_start, train.learning_rate_end) = (train.learning_rate, train.learning_rate);
    let learner =
        BdoLearner::with_kernels(config, &settings, Kernels::default(), 3, &device.clone().autodiff()).unwrap();
    State { learner, adam: AdamState::default() }
}

pub(crate) fn step(mut state: State, batch: MicroBatches) -> (State, StepReport) {
    let at = At { plan: Plan::of_epochs(1000.0, 1), step: 0, seed: 0 };
    let limits = StepLimits { clip_norm: 1.0, loss: f64::INFINITY };
    let pieces = state.learner.pieces(batch, &at);
    let (learner, report) = take_step(state.learner, &mut state.adam, &pieces, &at, &limits, &Alone).unwrap();
    (State { learner, ..state }, report)
}

#[test]
fn accumulation_gives_the_gradient_of_the_whole_batch() {
    let (whole, a) = step(fresh(), host(5, 5));
    let (parts, b) = step(fresh(), host(5, 2));
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
            let (state, _) = step(fresh(), host(7, 2));
            let (state, report) = step(state, host(6, 2));
            (state.learner.parameters(), report.loss)
        })
    };
    let alone = after(1);
    assert!(alone == after(2) && alone == after(3));
}

#[test]
fn fifty_injected_nans_leave_every_number_as_it_was() {
    let (mut state, _) = step(fresh(), host(3, 3));
    let (parameters, adam) = (state.learner.parameters(), state.adam.clone());
    for round in 0..50u64 {
        let mut batch = host(3, 2);
        let piece = round as usize / 2 % batch.pieces.len();
        let values = batch.pieces[piece].as_mut().unwrap().series_mut();
        let at = bdo_data::random::below(&mut stream("nan", &[round]), values.len() as u64) as usize;
        values[at] = [f32::NAN, f32::INFINITY][round as usize % 2];
        let report;
        (state, report) = step(state, batch);
        assert!(report.skipped.is_some(), "round {round}: {report:?}");
    }
    assert!(state.learner.parameters() == parameters && state.adam == adam);
    let (_, report) = step(state, host(3, 3));
    assert_eq!(report.skipped, None);
}

#[test]
fn a_batch_is_a_function_of_its_keys() {
    assert_eq!(host(4, 4), host(4, 4));
    assert_ne!(host(4, 4), host(5, 4));
}
