//! What is hidden stays hidden.

use crate::toy;
use bdo_model::ema::EmaEncoder;
use bdo_model::model::{Bdo, TrainPass};
use bdo_model::ops::Kernels;
use burn::tensor::{DType, Device, Tensor};

const ROLES: [bool; 6] = [false, true, false, true, false, false];

fn pass(changed_frame: Option<usize>) -> TrainPass {
    let device = Device::flex().autodiff();
    let config = toy::config();
    let model = Bdo::init(&config, 1, Kernels::default(), &device).unwrap();
    let teacher = EmaEncoder::new(&Bdo::init(&config, 2, Kernels::default(), &device).unwrap().encoder);
    let mut batch = toy::batch(&config, &ROLES, (&device, DType::F32));
    if let Some(frame) = changed_frame {
        let shift = Tensor::<3>::full([2, 1, config.regions], 5.0, &device);
        let moved = batch.series.clone().narrow(1, frame, 1) + shift;
        batch.series = batch.series.slice_assign([0..2, frame..frame + 1, 0..config.regions], moved);
    }
    model.train_pass(&teacher, &batch, model.loss_weights()).unwrap()
}

#[test]
fn a_target_frame_never_reaches_the_prediction() {
    let (before, after) = (pass(None), pass(Some(2)));
    assert_eq!(toy::values(&before.latents.control), toy::values(&after.latents.control));
    assert_eq!(toy::values(&before.states[0]), toy::values(&after.states[0]));
    assert_eq!(toy::values(&before.predicted[0]), toy::values(&after.predicted[0]));
    assert_ne!(toy::values(before.target.as_ref().unwrap()), toy::values(after.target.as_ref().unwrap()));
}

#[test]
fn a_context_frame_never_reaches_the_latent_target() {
    let (before, after) = (pass(None), pass(Some(3)));
    assert_eq!(toy::values(before.target.as_ref().unwrap()), toy::values(after.target.as_ref().unwrap()));
    assert_ne!(toy::values(&before.states[0]), toy::values(&after.states[0]));
}

#[test]
fn padding_and_neighbours_in_the_batch_change_nothing() {
    let device = Device::flex();
    let config = toy::config();
    let model = Bdo::init(&config, 1, Kernels::default(), &device).unwrap();
    let batch = toy::batch(&config, &ROLES, (&device, DType::F32));
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
    let device = Device::flex().autodiff();
    let config = toy::config();
    let model = Bdo::init(&config, 1, Kernels::default(), &device).unwrap();
    let teacher = EmaEncoder::new(&model.encoder);
    let run = |junk: f64| {
        let mut batch = toy::batch(&config, &ROLES, (&device, DType::F32));
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
