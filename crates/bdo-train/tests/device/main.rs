//! Training on a graphics card: the step stays there, checkpoints move. `BDO_TEST_DEVICE` names another device than wgpu.
#![allow(clippy::unwrap_used)]

#[path = "../it/step.rs"]
mod step;

use crate::step::{State, config, fresh_on, host, step};
use bdo_model::config::ModelConfig;
use bdo_model::device::{DeviceChoice, Traffic};
use bdo_model::parameters::{Parameters, parameter_table, trainable_count};
use bdo_train::bdo::{latent_spread, latent_spread_there};
use bdo_train::learner::Learner;
use bdo_train::optimiser::AdamState;
use burn::tensor::{Device, Distribution, Tensor};
use std::sync::Mutex;

/// The count of transfers is that of the process: tests that train on the device take turns.
static TURN: Mutex<()> = Mutex::new(());

fn graphics_device() -> Device {
    let name = std::env::var("BDO_TEST_DEVICE").unwrap_or_else(|_| "wgpu".to_owned());
    name.parse::<DeviceChoice>().unwrap().open().unwrap()
}

/// Steps on five scans in micro-batches of so many, from the beginning or from a state.
fn train(mut state: State, micro: usize, steps: u64) -> (State, Vec<f64>) {
    let mut losses = Vec::new();
    for _ in 0..steps {
        let (next, report) = step(state, host(5, micro));
        assert_eq!(report.skipped, None);
        assert!(report.gradient_norm > 0.0 && report.measures.get("spread_over_time") > 0.0, "{report:?}");
        losses.push(report.loss.total);
        state = next;
    }
    (state, losses)
}

fn apart(a: &[Parameters], b: &[Parameters]) -> f64 {
    let numbers = |sets: &[Parameters]| -> Vec<f32> {
        sets.iter().flat_map(|set| set.0.values().flat_map(|array| array.values.clone())).collect()
    };
    let (a, b) = (numbers(a), numbers(b));
    assert_eq!(a.len(), b.len());
    let square = |x: f32| f64::from(x) * f64::from(x);
    let size: f64 = a.iter().map(|x| square(*x)).sum();
    (a.iter().zip(&b).map(|(x, y)| square(x - y)).sum::<f64>() / size).sqrt()
}

#[test]
fn on_a_device_losses_and_weights_are_those_of_the_cpu_and_a_checkpoint_goes_on_on_either() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let device = graphics_device();
    let (here, expected) = train(fresh_on(&config(), &Device::flex()), 5, 10);
    let (there, found) = train(fresh_on(&config(), &device), 5, 10);
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-4 * expected, "{found}, on the CPU {expected}");
    }
    // Adam divides by roots of gradients that are nearly zero: rounding grows into a share of a step there.
    let error = apart(&here.learner.parameters(), &there.learner.parameters());
    assert!(error < 1e-3, "weights are {error} apart");
    // The state of the card, written down, goes on on the CPU; and the reverse.
    let moved = |from: &State, to: &Device| {
        let adam = AdamState::of(from.adam.steps, from.adam.stored());
        let learner = fresh_on(&config(), to).learner.restored(Some(from.learner.parameters())).unwrap();
        State { learner, adam }
    };
    let continued =
        [train(moved(&there, &Device::flex()), 5, 3).1, train(moved(&here, &device), 5, 3).1, train(there, 5, 3).1];
    let (_, expected) = train(here, 5, 3);
    for found in continued.iter().flat_map(|losses| losses.iter().zip(&expected)) {
        assert!((found.0 - found.1).abs() < 1e-3 * found.1, "{found:?}");
    }
}

#[test]
fn no_parameter_leaves_or_enters_the_device_in_a_step() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let device = graphics_device();
    let numbers = |config: &ModelConfig| 4 * trainable_count(&parameter_table(config)) as u64;
    let count = |config: &ModelConfig, micro: usize| {
        // The first step takes the moments to the device.
        let (state, _) = train(fresh_on(config, &device), micro, 2);
        let before = Traffic::so_far();
        let _ = train(state, micro, 1);
        Traffic::so_far().since(before)
    };
    let small = config();
    let large = ModelConfig { blocks: 24, ..config() };
    assert!(numbers(&large) > 3 * numbers(&small));
    let (found, with_more_weights) = (count(&small, 5), count(&large, 5));
    println!("{found:?}, of {} bytes of parameters {with_more_weights:?}", numbers(&large));
    // Loss, terms, spreads and norm.
    assert_eq!((found.downloads, found.downloaded_bytes), (1, 4 * 7));
    // What comes in is the batch: the same bytes however many weights there are.
    assert_eq!(found, with_more_weights);
    assert!(found.uploaded_bytes < numbers(&large) / 2, "{found:?}");
    // Micro-batches are read together.
    assert_eq!(count(&small, 2).downloads, 1);
}

#[test]
fn spreads_are_the_same_on_the_device_of_the_latents() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let encoded = Tensor::<3>::random([4, 9, 16], Distribution::Normal(0.3, 1.0), &Device::flex());
    let counts = [9, 4, 7, 1];
    let expected = latent_spread(&encoded, &counts);
    for device in [Device::flex(), graphics_device()] {
        let there = latent_spread_there(&encoded.clone().to_device(&device), &counts);
        let [over_time, over_scans] = there.map(|number| f64::from(number.into_scalar::<f32>()));
        assert!((over_time - expected.over_time).abs() < 1e-5 * expected.over_time, "{over_time} {expected:?}");
        assert!((over_scans - expected.over_scans).abs() < 1e-5 * expected.over_scans, "{over_scans} {expected:?}");
    }
}
