//! Finite differences in double precision against what the tape says.

use crate::toy;
use bdo_model::config::{LatentTerm, Lead, LossConfig, ModelConfig};
use bdo_model::dynamics::cayley_basis;
use bdo_model::ema::EmaEncoder;
use bdo_model::feature_heads::{FeatureHeads, head_table};
use bdo_model::init::{Stream, draw_parameters};
use bdo_model::intake::Kin;
use bdo_model::model::Bdo;
use bdo_model::ops::{Kernels, phi1};
use bdo_model::parameters::parameter_table;
use burn::tensor::{DType, Device, Tensor, TensorData};
use std::collections::BTreeMap;

/// The central difference of f along a random direction, and the tape's directional derivative.
fn both(shape: [usize; 2], start: &[f64], f: impl Fn(Tensor<2>) -> Tensor<1>) -> (f64, f64) {
    let device = Device::flex().autodiff();
    let mut stream = Stream::named(4, "direction");
    let direction: Vec<f64> = start.iter().map(|_| stream.normal()).collect();
    let at = |step: f64| {
        let moved: Vec<f64> = start.iter().zip(&direction).map(|(x, u)| x + step * u).collect();
        Tensor::<2>::from_data(TensorData::new(moved, shape), (&device, DType::F64)).require_grad()
    };
    let value = |step: f64| toy::values(&f(at(step)))[0];
    let x = at(0.0);
    let gradient = toy::values(&x.grad(&f(x.clone()).backward()).unwrap());
    let tape = gradient.iter().zip(&direction).map(|(g, u)| g * u).sum();
    (derivative_at_zero(value), tape)
}

/// Two central differences extrapolated to step zero, so that only the fourth power of the step remains.
fn derivative_at_zero(f: impl Fn(f64) -> f64) -> f64 {
    let central = |h: f64| (f(h) - f(-h)) / (2.0 * h);
    let h = 1e-5;
    (4.0 * central(h / 2.0) - central(h)) / 3.0
}

/// Rounding of values of order one to ten, divided by the step of 1e-5, leaves 1e-10 at most; the fourth power of the
/// step is far below.
fn agree(what: &str, (difference, tape): (f64, f64)) {
    assert!((difference - tape).abs() < 1e-9 * (1.0 + tape.abs()), "{what}: difference {difference}, tape {tape}");
}

#[test]
fn phi1_on_both_sides_of_its_series() {
    for x in [0.0, 1e-6, 5e-3, 9.9e-3, 1.1e-2, 0.4, 3.0, 40.0] {
        agree(&format!("phi1 at {x}"), both([1, 1], &[x], |x| phi1(x).sum()));
    }
}

#[test]
fn cayley() {
    let device = Device::flex().autodiff();
    let d = 6;
    let mut stream = Stream::named(4, "cayley");
    let mut matrix = || (0..d * d).map(|_| stream.normal()).collect::<Vec<f64>>();
    let (start, weight, v0) = (matrix(), matrix(), matrix());
    let fixed =
        |values: &[f64]| Tensor::<2>::from_data(TensorData::new(values.to_vec(), [d, d]), (&device, DType::F64));
    // Quadratic in V, so that the gradient depends on V too.
    agree(
        "Cayley",
        both([d, d], &start, |w| {
            let v = cayley_basis(w, fixed(&v0));
            (v.clone() * v.clone() * fixed(&weight)).sum() + (v * fixed(&weight).transpose()).sum()
        }),
    );
}

#[test]
fn the_whole_loss_and_each_parameter_on_a_small_toy() {
    for (term, lead) in [(LatentTerm::Sampled, Lead::FirstContext), (LatentTerm::Analytic, Lead::LearnedToken)] {
        let mut config = toy::config();
        config.loss.latent_term = term;
        config.loss.monte_carlo_samples = 2;
        // Large enough weights that no term hides behind another.
        config.loss.tau = Some(0.5);
        config.loss.energy_weight = Some(0.7);
        config.dynamics.lead = lead;
        config.dropout = 0.2;
        check_each_parameter(&config);
    }
}

#[test]
fn the_whole_loss_and_each_parameter_under_the_default_preset() {
    let config = toy::small_preset();
    check_each_parameter(&config);
    // Also where no term hides behind another.
    let loss = LossConfig { tau: Some(0.5), energy_weight: Some(0.7), ..config.loss.clone() };
    check_each_parameter(&ModelConfig { loss, ..config });
}

fn check_each_parameter(config: &ModelConfig) {
    let device = Device::flex().autodiff();
    let place = (&device, DType::F64);
    let model = toy::cast(Bdo::init(config, 9, Kernels::Composed, &device).unwrap(), DType::F64);
    let teacher =
        EmaEncoder::new(&toy::cast(Bdo::init(config, 10, Kernels::Composed, &device).unwrap(), DType::F64).encoder);
    let batch = toy::batch(config, &[false, true, false, true], place);
    let loss = |model: &Bdo| model.train_pass(&teacher, &batch, model.loss_weights()).unwrap().loss.total;
    let tape = toy::gradients(&model, &loss(&model));
    for row in parameter_table(config).iter().filter(|row| row.trainable) {
        let mut stream = Stream::named(11, &row.name);
        let direction: Vec<f64> = (0..row.shape.iter().product()).map(|_| stream.normal()).collect();
        let derivative = tape[&row.name].iter().zip(&direction).map(|(g, u)| g * u).sum();
        let direction = BTreeMap::from([(row.name.clone(), direction)]);
        let at = |step: f64| toy::values(&loss(&toy::nudge(model.clone(), step, &direction)))[0];
        agree(&row.name, (derivative_at_zero(at), derivative));
    }
}

/// The identity term with respect to the mean control.
#[test]
fn the_identity_term() {
    let mut config = toy::config();
    config.loss = LossConfig {
        identity: 1.0,
        // The tape divides by a number in single precision: one that is exact in it.
        identity_temperature: 0.25,
        identity_width: 3,
        ..config.loss
    };
    let device = Device::flex().autodiff();
    let mut drawn = draw_parameters(&head_table(&config), 12);
    let heads = FeatureHeads::split_off(&config, &mut drawn, Kernels::Composed, &device).unwrap();
    let heads = toy::cast(heads, DType::F64);
    // Two scans with a partner each, another scan of the first person, and a pair alone in its group.
    let kin = [(0, 0, 0), (0, 0, 0), (1, 1, 0), (1, 1, 0), (2, 0, 0), (3, 2, 1), (3, 2, 1)];
    let kin = kin.map(|(scan, person, group)| Kin { scan, person, group });
    let shape = [kin.len(), config.width];
    let mut stream = Stream::named(13, "features");
    let start: Vec<f64> = (0..kin.len() * config.width).map(|_| stream.normal()).collect();
    agree("identity", both(shape, &start, |x| heads.identity(&x, &kin).unwrap().loss));
    // A pair without strangers is not asked.
    let feature = Tensor::<2>::from_data(TensorData::new(start, shape), (&device, DType::F64));
    assert!(heads.identity(&feature.narrow(0, 5, 2), &kin[5..]).is_none());
}
