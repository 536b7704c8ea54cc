//! The two token models: sizes, masks, places, gradients.

use crate::reference::{Golden, gradients, numbers, relative};
use bdo_baselines::brainjepa::{BlockSizes, BrainJepa, BrainJepaConfig, GRADIENTS, JepaMasks, JepaTeacher};
use bdo_baselines::brainlm::{BrainLm, BrainLmConfig, UniformMask};
use bdo_baselines::token::diffusion_map::DiffusionMap;
use bdo_baselines::token::grid::Grid;
use bdo_baselines::token::place::Places;
use bdo_baselines::token::trunk::TrunkShape;
use bdo_baselines::token::{TokenEncoder, TokenNet};
use bdo_data::random::stream;
use bdo_model::init::{Stream, draw_parameters};
use bdo_model::ops::Kernels;
use bdo_model::parameters::{ParameterSpec, Parameters, trainable_count};
use burn::tensor::{Device, Tensor, TensorData};
use proptest::prelude::*;
use std::collections::BTreeSet;

const UKB: Grid = Grid { regions: 450, windows: 10 };

fn counts(table: Vec<ParameterSpec>) -> (usize, usize) {
    let (encoder, rest): (Vec<_>, Vec<_>) = table.into_iter().partition(|row| row.name.starts_with("encoder."));
    (trainable_count(&encoder), trainable_count(&rest))
}

#[test]
fn sizes_are_those_of_the_specification() {
    assert_eq!(counts(BrainLm::table(&BrainLmConfig::of_width(UKB, 768, true))), (85_072_896, 25_751_824));
    assert_eq!(counts(BrainJepa::table(&BrainJepaConfig::of_width(UKB, 768))), (85_080_960, 11_244_864));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn uniform_masks_part_the_tokens(seed in 0u64..10_000, tokens in 2usize..600) {
        let mask = UniformMask::draw(tokens, 0.75, &mut stream("test", &[seed]));
        let all: BTreeSet<usize> = mask.visible.iter().chain(&mask.masked).copied().collect();
        prop_assert_eq!(all.len(), tokens);
        prop_assert_eq!(mask.visible.len() + mask.masked.len(), tokens);
        prop_assert_eq!(mask.visible.len(), (tokens / 4).max(1));
    }

    #[test]
    fn block_sizes_stay_in_their_ranges(seed in 0u64..10_000) {
        let sizes = BlockSizes::draw(UKB, &mut stream("test", &[seed]));
        prop_assert!((378..450).contains(&sizes.observed_regions));
        prop_assert!((8..=9).contains(&sizes.observed_windows));
        prop_assert!((202..=270).contains(&sizes.crossed_regions));
        prop_assert!((2..=5).contains(&sizes.crossed_windows));
    }

    #[test]
    fn context_and_targets_never_meet(seed in 0u64..10_000, regions in 10usize..60, windows in 4usize..11) {
        let grid = Grid { regions, windows };
        let masks = JepaMasks::draw(grid, 3, &mut stream("test", &[seed]));
        for (context, target) in masks.context.iter().zip(&masks.target) {
            prop_assert_eq!(context.len(), masks.context[0].len());
            prop_assert_eq!(target.len(), masks.target[0].len());
            prop_assert!(!context.is_empty() && !target.is_empty());
            let seen: BTreeSet<usize> = context.iter().copied().collect();
            prop_assert_eq!(seen.len(), context.len());
            prop_assert!(context.iter().chain(target).all(|t| *t < grid.tokens()));
            prop_assert!(target.iter().all(|t| !seen.contains(t)));
        }
    }
}

#[test]
fn uniform_masks_hide_every_token_equally_often() {
    let (tokens, draws) = (40, 4000);
    let mut hidden = vec![0u32; tokens];
    for seed in 0..draws {
        for t in UniformMask::draw(tokens, 0.75, &mut stream("equally", &[seed])).masked {
            hidden[t] += 1;
        }
    }
    // Binomial(4000, 0.75): mean 3000, standard deviation 27; six of them is never.
    assert!(hidden.iter().all(|h| (2835..3165).contains(h)), "{hidden:?}");
}

#[test]
fn the_context_of_brain_jepa_is_as_large_as_its_ranges_say() {
    let draws = 3000u64;
    let mean = |pick: &dyn Fn(&JepaMasks) -> usize| {
        (0..draws).map(|seed| pick(&JepaMasks::draw(UKB, 1, &mut stream("size", &[seed]))) as f64).sum::<f64>()
            / draws as f64
    };
    // 235.75 crossed regions times 3.5 windows, and at either end 100.25 regions times 1.5 windows: 1126. The standard deviation
    // of one draw is 320, of the mean 5.8; five of them.
    let target = mean(&|m| m.target[0].len());
    assert!((target - 1126.0).abs() < 30.0, "{target}");
    // By a simulation of the same rules in numpy, 200,000 draws: 1243 with a standard deviation of 295, 5.4 of the mean.
    let context = mean(&|m| m.context[0].len());
    assert!((context - 1243.0).abs() < 30.0, "{context}");
}

fn patches(grid: Grid, samples: usize, device: &Device) -> Tensor<3> {
    let mut stream = Stream::named(9, "patches");
    let values: Vec<f32> = (0..samples * grid.tokens() * 16).map(|_| stream.normal() as f32).collect();
    Tensor::from_data(TensorData::new(values, [samples, grid.tokens(), 16]), device)
}

fn places(regions: usize, width: usize) -> Places {
    let mut stream = Stream::named(4, "places");
    Places { width, values: (0..regions * width).map(|_| stream.normal() as f32).collect() }
}

const SMALL: TrunkShape = TrunkShape { width: 16, blocks: 2, heads: 2 };

fn small_lm_config(centres: bool) -> BrainLmConfig {
    BrainLmConfig {
        grid: Grid { regions: 5, windows: 4 },
        encoder: SMALL,
        decoder: TrunkShape { width: 8, blocks: 1, heads: 2 },
        centres,
        dropout: 0.0,
        attention_dropout: 0.0,
        mask_ratio: 0.75,
        places: centres.then(|| places(5, 3)),
    }
}

fn small_lm(centres: bool, kernels: Kernels, device: &Device) -> (BrainLmConfig, BrainLm) {
    let config = small_lm_config(centres);
    let values = draw_parameters(&BrainLm::table(&config), 1);
    let model = BrainLm::of_parameters(&config, values, kernels, device).unwrap();
    (config, model)
}

#[test]
fn every_parameter_of_brainlm_has_a_gradient_and_kernels_agree() {
    let device = Device::flex().autodiff();
    for centres in [true, false] {
        let run = |kernels| {
            let (config, model) = small_lm(centres, kernels, &device);
            let masks: Vec<UniformMask> =
                (0..3).map(|b| UniformMask::draw(config.grid.tokens(), 0.75, &mut stream("m", &[b]))).collect();
            let loss = model.loss(patches(config.grid, 3, &device), &masks, None);
            let found = gradients(&model, &loss);
            let expected: BTreeSet<String> = BrainLm::table(&config).into_iter().map(|r| r.name).collect();
            assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), expected);
            assert!(found.values().all(|g| g.iter().any(|x| *x != 0.0)));
            numbers(&loss)[0]
        };
        let (fused, composed) = (run(Kernels::default()), run(Kernels::Composed));
        assert!((fused - composed).abs() < 1e-5 * composed, "{fused} {composed}");
    }
}

#[test]
fn brainlm_does_not_see_what_is_hidden() {
    let device = Device::flex();
    let (config, model) = small_lm(true, Kernels::default(), &device);
    let mask = UniformMask::draw(config.grid.tokens(), 0.75, &mut stream("m", &[0]));
    let x = patches(config.grid, 1, &device);
    let loss = |x: Tensor<3>| numbers(&model.loss(x, std::slice::from_ref(&mask), None))[0];
    // The error is quadratic in what is hidden, with the predictions fixed: three shifts lie on a parabola of curvature one.
    let shift: Vec<f32> =
        (0..config.grid.tokens()).flat_map(|t| vec![if mask.masked.contains(&t) { 1.0 } else { 0.0 }; 16]).collect();
    let shift = Tensor::<3>::from_data(TensorData::new(shift, [1, config.grid.tokens(), 16]), &device);
    let at = |s: f64| f64::from(loss(x.clone() + shift.clone() * s));
    assert!((at(1.0) + at(-1.0) - 2.0 * at(0.0) - 2.0).abs() < 1e-4);
}

#[test]
fn every_parameter_of_brain_jepa_has_a_gradient_and_the_teacher_follows() {
    let device = Device::flex().autodiff();
    let grid = Grid { regions: 12, windows: 5 };
    let predictor = TrunkShape { width: 8, blocks: 1, heads: 2 };
    let config = BrainJepaConfig { grid, encoder: SMALL, predictor, places: Some(places(12, GRADIENTS)) };
    let run = |kernels| {
        let values = draw_parameters(&BrainJepa::table(&config), 1);
        let model = BrainJepa::of_parameters(&config, values, kernels, &device).unwrap();
        let mut teacher = JepaTeacher::new(&model.encoder);
        let masks = JepaMasks::draw(grid, 2, &mut stream("m", &[3]));
        let x = patches(grid, 2, &device);
        let loss = model.loss(&teacher, x.clone(), &masks);
        let found = gradients(&model, &loss);
        let expected: BTreeSet<String> = BrainJepa::table(&config).into_iter().map(|r| r.name).collect();
        assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), expected);
        let before = numbers(&teacher.feature(x.clone().inner()));
        teacher.update(&model.encoder, 1.0);
        assert_eq!(numbers(&teacher.feature(x.clone().inner())), before);
        numbers(&loss)[0]
    };
    let (fused, composed) = (run(Kernels::default()), run(Kernels::Composed));
    assert!((fused - composed).abs() < 1e-5 * composed, "{fused} {composed}");
}

#[test]
fn the_diffusion_map_is_that_of_a_dense_eigensolver() {
    let golden = Golden::read("diffusion_map");
    let connectivity: Vec<f64> = golden.values("connectivity").iter().map(|x| f64::from(*x)).collect();
    let n = golden.0["connectivity"].shape[0];
    let components = golden.0["gradients"].shape[1];
    let map = DiffusionMap::of_connectivity(&connectivity, n, components);
    let narrow = |x: &[f64]| x.iter().map(|x| *x as f32).collect::<Vec<f32>>();
    // Eigenvalues converge to rounding, vectors to the root of it divided by the gaps between eigenvalues.
    assert!(relative(&narrow(&map.eigenvalues), golden.values("eigenvalues")) < 1e-6);
    assert!(relative(&narrow(&map.values), golden.values("gradients")) < 1e-4);
}

/// Tokens of every sample, kept as numbers in the golden.
fn chosen(golden: &Golden, name: &str) -> Vec<Vec<usize>> {
    let array = &golden.0[name];
    array.values.chunks_exact(array.shape[1]).map(|row| row.iter().map(|t| *t as usize).collect()).collect()
}

fn close(what: &str, found: &[f32], expected: &[f32], tolerance: f64) {
    let difference = relative(found, expected);
    assert!(difference < tolerance, "{what}: {difference:e}");
}

#[test]
fn brainlm_is_its_pytorch_twin() {
    let golden = Golden::read("brainlm");
    let places = Places { width: 3, values: golden.values("input.places").to_vec() };
    let config = BrainLmConfig { places: Some(places), ..small_lm_config(true) };
    let device = Device::flex().autodiff();
    for kernels in [Kernels::default(), Kernels::Composed] {
        let values = golden.under("param.");
        let model = BrainLm::of_parameters(&config, values, kernels, &device).unwrap();
        let (visible, masked) = (chosen(&golden, "input.visible"), chosen(&golden, "input.masked"));
        let masks: Vec<UniformMask> =
            visible.into_iter().zip(masked).map(|(visible, masked)| UniformMask { visible, masked }).collect();
        let patches = golden.tensor("input.patches", &device);
        let loss = model.loss(patches.clone(), &masks, None);
        close("loss", &numbers(&loss), golden.values("out.loss"), 1e-5);
        close("feature", &numbers(&model.feature(patches)), golden.values("out.feature"), 1e-5);
        for (name, gradient) in gradients(&model, &loss) {
            close(&name, &gradient, golden.values(&format!("grad.{name}")), 1e-4);
        }
    }
}

#[test]
fn brain_jepa_is_its_pytorch_twin() {
    let golden = Golden::read("brainjepa");
    let grid = Grid { regions: 6, windows: 4 };
    let predictor = TrunkShape { width: 8, blocks: 1, heads: 2 };
    let places = Some(Places { width: GRADIENTS, values: golden.values("input.places").to_vec() });
    let config = BrainJepaConfig { grid, encoder: SMALL, predictor, places };
    let device = Device::flex().autodiff();
    for kernels in [Kernels::default(), Kernels::Composed] {
        let build = |values: Parameters| BrainJepa::of_parameters(&config, values, kernels, &device).unwrap();
        let model = build(golden.under("param."));
        let mut slow = golden.under("param.");
        slow.0.extend(golden.under("teacher.").0);
        let teacher = JepaTeacher::new(&build(slow).encoder);
        let masks = JepaMasks { context: chosen(&golden, "input.context"), target: chosen(&golden, "input.target") };
        let patches = golden.tensor("input.patches", &device);
        let loss = model.loss(&teacher, patches.clone(), &masks);
        close("loss", &numbers(&loss), golden.values("out.loss"), 1e-5);
        let feature = numbers(&teacher.feature(patches.inner()));
        close("feature", &feature, golden.values("out.feature"), 1e-5);
        for (name, gradient) in gradients(&model, &loss) {
            close(&name, &gradient, golden.values(&format!("grad.{name}")), 1e-4);
        }
    }
}
