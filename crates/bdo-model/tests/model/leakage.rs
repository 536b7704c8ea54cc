//! What is hidden stays hidden.

use crate::toy;
use bdo_data::scaler::ScaledScan;
use bdo_model::config::ModelConfig;
use bdo_model::ema::EmaEncoder;
use bdo_model::fingerprint::{FittedFingerprint, together};
use bdo_model::init::{Stream, initial_parameters};
use bdo_model::intake::{Centre, HostBatch, MaskSettings, NoiseShape, Sample, VisitKey};
use bdo_model::model::{Bdo, TrainPass};
use bdo_model::ops::Kernels;
use bdo_model::smoother::fit_smoother;
use burn::tensor::{DType, Device, Tensor};

const ROLES: [bool; 6] = [false, true, false, true, false, false];

fn configs() -> [ModelConfig; 2] {
    [toy::config(), toy::small_preset()]
}

fn pass(config: &ModelConfig, changed_frame: Option<usize>) -> TrainPass {
    let device = Device::flex().autodiff();
    let model = Bdo::init(config, 1, Kernels::default(), &device).unwrap();
    let teacher = EmaEncoder::new(&Bdo::init(config, 2, Kernels::default(), &device).unwrap().encoder);
    let mut batch = toy::batch(config, &ROLES, (&device, DType::F32));
    if let Some(frame) = changed_frame {
        let shift = Tensor::<3>::full([2, 1, config.regions], 5.0, &device);
        let moved = batch.series.clone().narrow(1, frame, 1) + shift;
        batch.series = batch.series.slice_assign([0..2, frame..frame + 1, 0..config.regions], moved);
    }
    model.train_pass(&teacher, &batch, model.loss_weights()).unwrap()
}

#[test]
fn a_target_frame_never_reaches_the_prediction() {
    for config in configs() {
        let (before, after) = (pass(&config, None), pass(&config, Some(2)));
        assert_eq!(toy::values(&before.latents.control), toy::values(&after.latents.control));
        assert_eq!(toy::values(&before.states[0]), toy::values(&after.states[0]));
        assert_eq!(toy::values(&before.predicted[0]), toy::values(&after.predicted[0]));
        assert_ne!(toy::values(before.target.as_ref().unwrap()), toy::values(after.target.as_ref().unwrap()));
    }
}

/// From scaled values to predictions, the mean control and reconstructions, as the default preset is trained: drawn
/// in each of its ways, centred on what is visible, each region divided by its size.
#[test]
fn a_target_frame_never_reaches_the_prediction_or_the_terms_on_the_mean_control_through_the_batch() {
    let config = toy::small_preset();
    let device = Device::flex().autodiff();
    let scan = random_scan(&config, 0);
    let others: Vec<ScaledScan> = (1..9).map(|i| random_scan(&config, i)).collect();
    let known = others.iter().map(|other| together(config.fingerprint_of, &other.values, config.regions)).collect();
    let mut parameters = initial_parameters(&config, 1);
    parameters.0.extend(FittedFingerprint::fit(known, vec![], &[], config.width).unwrap().parameters().0);
    parameters.0.extend(fit_smoother(&others, config.regions).unwrap().0);
    let model = Bdo::from_parameters(&config, parameters, Kernels::default(), &device).unwrap();
    let teacher = EmaEncoder::new(&model.encoder);
    let mask = MaskSettings {
        frames: 24,
        stretch: 1.0,
        varied: 0.5,
        ratio: 0.6,
        ratio_least: 0.2,
        centre: Centre::Visible,
        ..MaskSettings::default()
    };
    for visit in 0..4 {
        let key = VisitKey { seed: 3, epoch: 1, scan: 5, visit };
        let run = |scan: ScaledScan| {
            let host = HostBatch::draw(&[Sample::alone(scan, key)], &mask, NoiseShape::of(&config), 0);
            let batch = host.into_masked(&device);
            let pass = model.train_pass(&teacher, &batch, model.loss_weights()).unwrap();
            let reconstructed = model.reconstruct(&batch.series, &batch.frames, &batch.region_valid).unwrap().series;
            let told =
                [toy::values(&pass.predicted[0]), toy::values(&pass.mean_control()), toy::values(&reconstructed)];
            (told, batch.frames.context.clone(), toy::values(&batch.series))
        };
        let (before, context, series) = run(scan.clone());
        // Which frames are drawn shows when every frame of the scan is changed, one at a time.
        let (mut hidden, mut shown) = (0, 0);
        for frame in 0..40 {
            let mut changed = scan.clone();
            let values = changed.values[frame * config.regions..(frame + 1) * config.regions].iter_mut();
            values.enumerate().for_each(|(region, x)| *x += [50.0, -20.0, 30.0, 10.0][region]);
            let (after, again, moved) = run(changed);
            assert_eq!(context, again);
            let rows: Vec<usize> = (0..context.len())
                .filter(|row| {
                    moved[row * config.regions..][..config.regions] != series[row * config.regions..][..config.regions]
                })
                .collect();
            let same = [0, 1, 2].map(|i| before[i] == after[i]);
            match rows.as_slice() {
                [] => assert_eq!(same, [true; 3], "frame {frame} is outside the visit"),
                [row] if !context[*row] => {
                    hidden += 1;
                    assert_eq!(same, [true; 3], "hidden frame {frame} reaches the prediction or the mean control");
                }
                rows => {
                    shown += 1;
                    // A visible frame moves the mean and the size, and so every row.
                    assert_eq!(rows.len(), context.len());
                    assert_eq!(same, [false; 3], "visible frame {frame} does not reach the prediction");
                }
            }
        }
        let visible = context.iter().filter(|c| **c).count();
        assert_eq!((hidden, shown), (context.len() - visible, visible));
    }
}

fn random_scan(config: &ModelConfig, number: u64) -> ScaledScan {
    let mut stream = Stream::named(8 + number, "scan");
    ScaledScan {
        times_seconds: (0..40).map(|i| f64::from(i) * 0.8).collect(),
        values: (0..40 * config.regions).map(|_| (2.0 + 3.0 * stream.normal()) as f32).collect(),
        region_valid: vec![true; config.regions],
    }
}

#[test]
fn a_context_frame_never_reaches_the_latent_target() {
    let config = toy::config();
    let (before, after) = (pass(&config, None), pass(&config, Some(3)));
    assert_eq!(toy::values(before.target.as_ref().unwrap()), toy::values(after.target.as_ref().unwrap()));
    assert_ne!(toy::values(&before.states[0]), toy::values(&after.states[0]));
}

/// With unit regions a visible frame changes what everything is divided by, the targets included, and nothing else.
#[test]
fn under_the_default_preset_a_context_frame_reaches_the_target_through_the_size_alone() {
    let config = ModelConfig { unit_regions: false, ..toy::small_preset() };
    let (before, after) = (pass(&config, None), pass(&config, Some(3)));
    assert_eq!(toy::values(before.target.as_ref().unwrap()), toy::values(after.target.as_ref().unwrap()));
}

#[test]
fn padding_and_neighbours_in_the_batch_change_nothing() {
    configs().iter().for_each(padding_changes_nothing);
}

fn padding_changes_nothing(config: &ModelConfig) {
    let device = Device::flex();
    let model = Bdo::init(config, 1, Kernels::default(), &device).unwrap();
    let batch = toy::batch(config, &ROLES, (&device, DType::F32));
    let alone = |keep: usize| {
        let mut frames = batch.frames.clone();
        frames.batch = 1;
        frames.frames = keep;
        frames.times_seconds.truncate(keep);
        frames.context.truncate(keep);
        frames.valid.truncate(keep);
        let series = batch.series.clone().slice([0..1, 0..keep, 0..config.regions]);
        let regions = vec![true; config.regions];
        toy::values(&model.reconstruct(&series, &frames, &regions).unwrap().series)
    };
    let mut frames = batch.frames.clone();
    // The first sample ends after frame 3; the second keeps all six.
    frames.valid[4] = false;
    frames.valid[5] = false;
    let together = toy::values(&model.reconstruct(&batch.series, &frames, &batch.region_valid).unwrap().series);
    let alone = alone(4);
    let error = toy::relative_l2(&together[..alone.len()], &alone);
    assert!(error < 1e-6, "a padded sample differs from itself alone by {error}");
}

#[test]
fn missing_regions_are_neither_read_nor_scored() {
    configs().iter().for_each(missing_regions_do_not_count);
}

fn missing_regions_do_not_count(config: &ModelConfig) {
    let device = Device::flex().autodiff();
    let model = Bdo::init(config, 1, Kernels::default(), &device).unwrap();
    let teacher = EmaEncoder::new(&model.encoder);
    let run = |junk: f64| {
        let mut batch = toy::batch(config, &ROLES, (&device, DType::F32));
        for sample in 0..2 {
            batch.region_valid[sample * config.regions + 1] = false;
        }
        let column = Tensor::<3>::full([2, ROLES.len(), 1], junk, &device);
        batch.series = batch.series.slice_assign([0..2, 0..ROLES.len(), 1..2], column);
        let pass = model.train_pass(&teacher, &batch, model.loss_weights()).unwrap();
        toy::values(&pass.loss.total)
    };
    assert_eq!(run(0.0), run(123.0));
}
