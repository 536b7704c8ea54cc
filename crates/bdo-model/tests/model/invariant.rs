//! Properties that hold for every input.

use crate::toy;
use bdo_data::scaler::ScaledScan;
use bdo_model::control::{Controls, Encoded, ScanBatch, encode};
use bdo_model::dynamics::{Frames, GridError, UnionGrid, cayley_basis};
use bdo_model::ema::{EmaEncoder, ema_momentum};
use bdo_model::init::Stream;
use bdo_model::intake::{
    Centre, CutScan, HostBatch, MaskSettings, NoiseShape, PaddedBatch, Sample, Visit, VisitKey, Windows,
};
use bdo_model::model::Bdo;
use bdo_model::objective::LossWeights;
use bdo_model::ops::Kernels;
use bdo_model::pooling::Pooling;
use burn::tensor::{DType, Device, Tensor, TensorData};
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

/// The movement that fine-tuning trains through is the one of the feature: for scans side by side, of any length, whole or in windows.
#[test]
fn movement_is_the_same_in_training_and_as_a_feature() {
    let config = toy::config();
    let model = Bdo::init(&config, 1, Kernels::default(), &Device::flex()).unwrap();
    let mut stream = Stream::named(7, "scans");
    let scans: Vec<ScaledScan> = [20, 7, 2, 31]
        .map(|frames| ScaledScan {
            times_seconds: (0..frames).map(|row| f64::from(row) * 0.8 + f64::from(row / 5) * 3.0).collect(),
            values: (0..frames as usize * config.regions).map(|_| stream.normal() as f32).collect(),
            region_valid: vec![true; config.regions],
        })
        .into();
    for windows in [Windows::WHOLE_SCANS, Windows { longest_whole: 8, frames: 8, own_clock: true }] {
        let cut: Vec<CutScan> = scans.iter().map(|scan| windows.of_scan(scan.clone())).collect();
        let batch = ScanBatch::on(&cut.iter().collect::<Vec<_>>(), &Device::flex());
        let moved = toy::values(&model.controls_of(&batch).unwrap().movement(batch.times_seconds()));
        for (scan, moved) in scans.iter().zip(moved.chunks_exact(2 * config.width)) {
            let control = encode(&model, windows, &[scan]).unwrap().swap_remove(0);
            let feature = Pooling::MeanMovement.apply(&Encoded { control, scan, readout: None });
            assert_eq!(feature.len(), 3 * config.width);
            let feature: Vec<f64> = feature[config.width..].iter().map(|x| f64::from(*x)).collect();
            assert!(toy::relative_l2(moved, &feature) < 1e-5, "{windows:?}: {moved:?} {feature:?}");
        }
    }
}

#[test]
fn the_slope_of_movement_is_that_of_finite_differences() {
    let device = Device::flex().autodiff();
    let shape = [2, 9, 3];
    let start = toy::values(&toy::normal("control", shape, (&Device::flex(), DType::F32)));
    let times: Vec<Vec<f64>> =
        vec![(0..9).map(|k| f64::from(k) * 1.1).collect(), (0..6).map(|k| f64::from(k) * 2.0).collect()];
    let weights = toy::normal("weights", [1, 2, 6], (&Device::flex(), DType::F32)).reshape([2, 6]);
    let loss = |values: &[f64], place: &Device| {
        let control =
            Tensor::<3>::from_data(TensorData::new(values.to_vec(), shape), (place, DType::F32)).require_grad();
        let moved = Controls { control: control.clone(), counts: vec![9, 6] }.movement(&times);
        (control, (moved * Tensor::from_data(weights.to_data(), place)).sum())
    };
    let (control, output) = loss(&start, &device);
    let found = toy::values(&control.grad(&output.backward()).unwrap());
    let at = |k: usize, by: f64| {
        let mut values = start.clone();
        values[k] += by;
        toy::values(&loss(&values, &device).1)[0]
    };
    let expected: Vec<f64> = (0..start.len()).map(|k| (at(k, 5e-3) - at(k, -5e-3)) / 1e-2).collect();
    // As far as f32 and the step go.
    assert!(toy::relative_l2(&found, &expected) < 2e-3, "{}", toy::relative_l2(&found, &expected));
    assert!(found[(9 + 6) * 3..].iter().all(|slope| *slope == 0.0), "padding has no part in it");
}

#[test]
fn the_basis_stays_orthogonal_over_a_thousand_steps() {
    let device = Device::flex().autodiff();
    let d = 24;
    let mut stream = Stream::named(3, "basis");
    let mut matrix = |scale: f64| {
        let values: Vec<f64> = (0..d * d).map(|_| scale * stream.normal()).collect();
        Tensor::<2>::from_data(TensorData::new(values, [d, d]), &device)
    };
    // Any orthogonal start will do; the basis of a random free matrix is one.
    let v0 = cayley_basis(matrix(1.0), Tensor::eye(d, &device)).detach();
    let goal = matrix(1.0);
    let mut free = Tensor::<2>::zeros([d, d], &device).require_grad();
    for _ in 0..1000 {
        let v = cayley_basis(free.clone(), v0.clone());
        let gradient = free.grad(&(v - goal.clone()).square().sum().backward()).unwrap();
        free = (free.inner() - gradient * 0.02).autodiff().require_grad();
    }
    assert!(toy::values(&free).iter().map(|x| x * x).sum::<f64>() > 1.0, "the steps did not move the basis");
    let v = cayley_basis(free, v0).inner();
    let gram = v.clone().transpose().matmul(v) - Tensor::eye(d, &Device::flex());
    let worst = toy::values(&gram).iter().fold(0f64, |worst, x| worst.max(x.abs()));
    assert!(worst < 1e-5, "V^T V is off the identity by {worst}");
}

/// Scans are encoded in groups side by side; that is the same, byte for byte, as one pass over all of them.
#[test]
fn a_control_does_not_know_its_neighbours() {
    for config in [toy::config(), toy::small_preset()] {
        let model = Bdo::init(&config, 1, Kernels::default(), &Device::flex()).unwrap();
        let mut stream = Stream::named(7, "scans");
        let scans: Vec<ScaledScan> = (0..11)
            .map(|sample| ScaledScan {
                times_seconds: (0..3 + sample % 7).map(|row| row as f64 * 1.5 + sample as f64).collect(),
                values: (0..(3 + sample % 7) * config.regions).map(|_| stream.normal() as f32).collect(),
                region_valid: (0..config.regions).map(|r| (sample * config.regions + r) % 7 != 3).collect(),
            })
            .collect();
        let all: Vec<&ScaledScan> = scans.iter().collect();
        let together = encode(&model, Windows::WHOLE_SCANS, &all).unwrap();
        let (series, frames, region_valid) = PaddedBatch::of_scans(&all).on(&Device::flex());
        let once = model.controls(&series, &frames, &region_valid).unwrap().control;
        for (b, (scan, together)) in scans.iter().zip(&together).enumerate() {
            let (rows, width) = (scan.times_seconds.len(), config.width);
            let once = once.clone().slice([b..b + 1, 0..rows, 0..width]).into_data().try_to_vec::<f32>().unwrap();
            assert_eq!(once, together.values);
            let alone = &encode(&model, Windows::WHOLE_SCANS, &[scan]).unwrap()[0];
            let wide = |values: &[f32]| values.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
            // Padding changes the order of sums in attention.
            assert!(toy::relative_l2(&wide(&together.values), &wide(&alone.values)) < 1e-6, "sample {b}");
        }
    }
}

#[test]
fn moving_a_target_leaves_the_state_elsewhere_alone() {
    let device = Device::flex();
    let config = toy::config();
    let model = Bdo::init(&config, 1, Kernels::default(), &device).unwrap();
    let batch = toy::batch(&config, &[true, false, false, true, false, false], (&device, DType::F32));
    let state = |frames: &Frames| {
        let seen = model.reconstruct(&batch.series, frames, &batch.region_valid).unwrap();
        (toy::values(&seen.moments.mean), toy::values(&seen.moments.variance))
    };
    let before = state(&batch.frames);
    let mut moved = batch.frames.clone();
    moved.times_seconds[1] += 0.3 * (moved.times_seconds[2] - moved.times_seconds[1]);
    let after = state(&moved);
    for (before, after) in [(&before.0, &after.0), (&before.1, &after.1)] {
        for (k, (x, y)) in before.iter().zip(after).enumerate() {
            if k / config.width == 1 {
                continue;
            }
            // Splitting a step elsewhere is exact; what remains is rounding.
            assert!((x - y).abs() < 2e-6, "row {}: {x} {y}", k / config.width);
        }
    }
    assert_ne!(before.0[config.width..2 * config.width], after.0[config.width..2 * config.width]);
}

#[test]
fn no_weight_on_the_latent_target_means_no_dependence_on_the_teacher() {
    let device = Device::flex().autodiff();
    let config = toy::config();
    let model = Bdo::init(&config, 1, Kernels::default(), &device).unwrap();
    let batch = toy::batch(&config, &[false, true, false, true, false], (&device, DType::F32));
    let run = |teacher: u64, tau: f64| {
        let teacher = EmaEncoder::new(&Bdo::init(&config, teacher, Kernels::default(), &device).unwrap().encoder);
        let weights = LossWeights { tau, energy: 0.01, reconstruction: 1.0 };
        let pass = model.train_pass(&teacher, &batch, weights).unwrap();
        (toy::values(&pass.loss.total), toy::gradients(&model, &pass.loss.total))
    };
    assert_eq!(run(2, 0.0), run(3, 0.0));
    assert_ne!(run(2, 0.03).0, run(3, 0.03).0);
}

#[test]
fn the_moving_average_moves_by_its_momentum() {
    let device = Device::flex().autodiff();
    let config = toy::config();
    let (old, new) = (
        Bdo::init(&config, 1, Kernels::default(), &device).unwrap(),
        Bdo::init(&config, 2, Kernels::default(), &device).unwrap(),
    );
    let mut teacher = EmaEncoder::new(&old.encoder);
    let start = teacher.parameters();
    teacher.update(&new.encoder, 1.0);
    assert_eq!(teacher.parameters(), start, "a momentum of 1 freezes it");
    teacher.update(&new.encoder, 0.75);
    let (online, moved) = (new.parameters(), teacher.parameters());
    for (name, array) in &moved.0 {
        for (k, &found) in array.values.iter().enumerate() {
            let expected = 0.75 * start.0[name].values[k] + 0.25 * online.0[name].values[k];
            assert!((found - expected).abs() <= 1e-7 * (1.0 + expected.abs()), "{name}[{k}]: {found} {expected}");
        }
    }
    teacher.update(&new.encoder, 0.0);
    assert_eq!(teacher.parameters().0.values().collect::<Vec<_>>(), {
        let encoder: Vec<_> =
            online.0.iter().filter(|(name, _)| name.starts_with("encoder.")).map(|(_, array)| array).collect();
        encoder
    });
    let range = [0.996, 1.0];
    assert_eq!((ema_momentum(0, 100, range), ema_momentum(99, 100, range)), (0.996, 1.0));
    // The published schedule to the last bit.
    for step in 0..100 {
        assert_eq!(ema_momentum(step, 100, range), 0.996 + 0.004 * (step as f64 / 99.0));
    }
}

#[test]
fn frames_that_make_no_grid_are_named() {
    let config = toy::config();
    let good = Frames {
        batch: 1,
        frames: 3,
        times_seconds: vec![0.0, 1.0, 2.0],
        context: vec![true, false, true],
        valid: vec![true, true, true],
    };
    UnionGrid::new(&good, &config).unwrap();
    let refused = |change: fn(&mut Frames)| {
        let mut frames = good.clone();
        change(&mut frames);
        UnionGrid::new(&frames, &config).unwrap_err()
    };
    assert!(matches!(refused(|f| f.context = vec![false; 3]), GridError::NoContext { sample: 0 }));
    assert!(matches!(refused(|f| f.times_seconds[1] = 0.0), GridError::Time { frame: 1, .. }));
    assert!(matches!(refused(|f| f.times_seconds[0] = -1.0), GridError::Time { frame: 0, .. }));
    assert!(matches!(refused(|f| f.times_seconds[2] = f64::NAN), GridError::Time { frame: 2, .. }));
    assert!(matches!(refused(|f| f.valid[0] = false), GridError::Padding { frame: 1, .. }));
    assert!(matches!(refused(|f| f.context.truncate(2)), GridError::Length { field: "context", .. }));
    assert!(matches!(refused(|f| f.batch = 0), GridError::Empty { .. }));
}

proptest! {
    /// The hold, by its definition: the last context frame strictly before, else the first one.
    #[test]
    fn the_hold_follows_its_definition(
        roles in proptest::collection::vec(any::<bool>(), 1..20).prop_filter("needs context", |roles| roles.contains(&true)),
        padding in 0usize..4,
    ) {
        let frames = roles.len() + padding;
        let mut context = roles.clone();
        context.resize(frames, false);
        let mut valid = vec![true; roles.len()];
        valid.resize(frames, false);
        let times_seconds: Vec<f64> = (0..frames).map(|j| (j * j) as f64 + 0.5).collect();
        let config = toy::config();
        let grid = UnionGrid::new(&Frames { batch: 1, frames, times_seconds, context, valid }, &config).unwrap();
        let listed: Vec<usize> = (0..roles.len()).filter(|&j| roles[j]).collect();
        for j in 0..roles.len() {
            let expected = listed.iter().rposition(|&i| i < j).unwrap_or(0);
            prop_assert_eq!(grid.driver[j], expected);
        }
        prop_assert!(grid.delta[roles.len()..].iter().all(|&delta| delta == 0.0));
        let last = roles.len() - 1;
        let total = config.time_scale * ((last * last) as f64 + 0.5);
        let held: f64 = grid.held.iter().map(|&x| f64::from(x)).sum();
        prop_assert!((held - total).abs() < 1e-6 * (1.0 + total));
        prop_assert_eq!(&grid.context.row, &listed);
        prop_assert_eq!(grid.target.count[0], roles.len() - listed.len());
    }
}

/// Such a region was once divided by 1e-6, and its hidden values by the same: a loss of 1e12.
#[test]
fn a_region_of_which_nothing_is_visible_keeps_its_units() {
    let config = toy::small_preset();
    let device = Device::flex();
    let model = Bdo::init(&config, 1, Kernels::default(), &device).unwrap();
    let (teacher, frames) = (EmaEncoder::new(&model.encoder), 24);
    let mut stream = Stream::named(5, "scan");
    let scan = ScaledScan {
        times_seconds: (0..frames).map(|i| f64::from(i) * 0.8).collect(),
        values: (0..24 * config.regions).map(|_| (2.0 + 3.0 * stream.normal()) as f32).collect(),
        region_valid: vec![true; config.regions],
    };
    let key = VisitKey { seed: 3, epoch: 1, scan: 5, visit: 0 };
    let loss = |host: HostBatch| {
        let mean_square = host.target_mean_square();
        let pass = model.train_pass(&teacher, &host.into_masked(&device), model.loss_weights()).unwrap();
        (toy::values(&pass.loss.reconstruction)[0], mean_square)
    };
    // A quarter of the regions is taken out of what is seen.
    let mask = MaskSettings { ratio: 0.5, region_ratio: 0.25, centre: Centre::Visible, ..MaskSettings::default() };
    let (hidden, mean_square) =
        loss(HostBatch::draw(&[Sample::alone(scan.clone(), key)], &mask, NoiseShape::of(&config), 0));
    assert!(mean_square < 4.0 && hidden < 4.0 * mean_square, "{hidden}, mean square {mean_square}");

    // Constant in every visible frame, 5 above that in the others: its values are not divided.
    let context: Vec<bool> = (0..24).map(|frame| frame % 2 == 0).collect();
    let mut constant = scan;
    for (frame, &seen) in context.iter().enumerate() {
        constant.values[frame * config.regions] = if seen { 7.0 } else { 12.0 };
    }
    let visit = Visit { frames: (0..24).collect(), context, origin_seconds: 0.0, centre: Centre::Visible };
    let host = HostBatch::of_visits(&[Sample::alone(constant, key)], &[visit], NoiseShape::of(&config), 0);
    let series = toy::values(&host.clone().into_masked(&device).series);
    let found: Vec<f64> = series.iter().step_by(config.regions).copied().collect();
    assert_eq!(found, [0.0, 5.0].repeat(12));
    let (flat, mean_square) = loss(host);
    assert!(mean_square < 12.0 && flat < 2.0 * mean_square, "{flat}, mean square {mean_square}");
}
