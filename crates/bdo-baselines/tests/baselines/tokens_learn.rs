//! The token models find a planted effect in people they were not fitted on, and nothing in shuffled labels: with a probe and
//! fine-tuned.

use bdo_baselines::brainjepa::{BrainJepaConfig, GRADIENTS, JepaTeacher};
use bdo_baselines::brainlm::{BrainLm, BrainLmConfig};
use bdo_baselines::method::Run;
use bdo_baselines::pretrain::learner::{TokenLearner, of_preset};
use bdo_baselines::pretrain::model::{TokenModel, TrainedJepa};
use bdo_baselines::pretrain::scans::{TokenScan, feature_patches, features};
use bdo_baselines::token::grid::Grid;
use bdo_baselines::token::place::Places;
use bdo_baselines::token::trunk::TrunkShape;
use bdo_baselines::tune::{Feature, HeadShape, LinearHead, Patches, TuneStart, Tuned, probe_recipes};
use bdo_data::record::Plan;
use bdo_data::scaler::ScaledScan;
use bdo_eval::finetune::TunePoint;
use bdo_eval::fit::Loss;
use bdo_eval::score::Score;
use bdo_eval::supervised::learner::{Example, Parts};
use bdo_eval::supervised::network::{InMemory, Network};
use bdo_eval::supervised::recipe::{Rate, Recipe};
use bdo_model::init::Stream;
use bdo_model::ops::Kernels;
use bdo_train::fit::Unobserved;
use bdo_train::learner::At;
use bdo_train::optimiser::AdamState;
use bdo_train::ranks::Alone;
use bdo_train::settings::{Preset, TrainSettings};
use burn::tensor::Device;
use std::sync::Arc;

const GRID: Grid = Grid { regions: 8, windows: 4 };
const TRUNK: TrunkShape = TrunkShape { width: 32, blocks: 2, heads: 2 };
/// Trained on, selected with, tested.
const PEOPLE: [usize; 3] = [48, 16, 400];
const STEPS: u64 = 60;

/// Noise over a rhythm that is slow in every second person; where in it the scan begins is left to chance.
fn scan(person: usize) -> TokenScan {
    let mut stream = Stream::named(person as u64, "token scan");
    let rate = if person.is_multiple_of(2) { 0.25 } else { 0.7 };
    let phase: Vec<f64> = (0..GRID.regions).map(|_| 3.0 * stream.normal()).collect();
    let values = (0..GRID.frames())
        .flat_map(|t| phase.iter().map(move |p| (t as f64 * rate + p).sin()).collect::<Vec<_>>())
        .map(|x| (x + 0.5 * stream.normal()) as f32)
        .collect();
    let times_seconds = (0..GRID.frames()).map(|t| t as f64).collect();
    TokenScan { scan: ScaledScan { times_seconds, values, region_valid: vec![true; GRID.regions] }, tr_seconds: 2.0 }
}

fn brain_lm() -> (BrainLmConfig, TrainSettings) {
    let config = BrainLmConfig {
        grid: GRID,
        encoder: TRUNK,
        decoder: TRUNK,
        centres: false,
        dropout: 0.0,
        attention_dropout: 0.0,
        mask_ratio: 0.5,
        places: None,
    };
    let train = TrainSettings {
        learning_rate_start: 0.0,
        learning_rate: 3e-3,
        learning_rate_end: 0.0,
        ..of_preset(Preset::BrainLm, 16)
    };
    (config, train)
}

fn brain_jepa() -> (BrainJepaConfig, TrainSettings) {
    let values = (0..GRID.regions * GRADIENTS).map(|k| ((k * 37 % 101) as f32) / 50.0 - 1.0).collect();
    let places = Some(Places { width: GRADIENTS, values });
    let config = BrainJepaConfig { grid: GRID, encoder: TRUNK, predictor: TRUNK, places };
    (
        config,
        TrainSettings {
            learning_rate_start: 1e-4,
            learning_rate: 3e-3,
            learning_rate_end: 1e-5,
            // Sixty steps are few: at the momentum of three hundred epochs the slow encoder, whose features count, hardly moves.
            ema_start: 0.8,
            ema_end: 1.0,
            ..of_preset(Preset::BrainJepa, 16)
        },
    )
}

/// Trained without labels on everybody who is not tested.
fn pretrained<M: TokenModel>(config: &M::Config, recipe: &TrainSettings, scans: &[TokenScan]) -> M {
    let model = M::fresh(config, 1, Kernels::default(), &Device::flex()).unwrap();
    let seen = &scans[..PEOPLE[0] + PEOPLE[1]];
    let (mut learner, mut adam) = (TokenLearner::of(model, recipe), AdamState::default());
    for step in 0..STEPS {
        let from = (16 * step as usize) % seen.len();
        let at = At { plan: Plan::of_epochs(STEPS as f64, 1), step, seed: 3 };
        learner = learner.step(&seen[from..from + 16], 16, &mut adam, &at).unwrap().0;
    }
    learner.model
}

fn parts<I>(input: impl Fn(usize) -> I, label: fn(usize) -> f32) -> Parts<Arc<I>> {
    let example = |person: usize| Example { scan: Arc::new(input(person)), label: label(person), person, said: vec![] };
    let [train, validation, test] = PEOPLE;
    Parts {
        train: (0..train).map(example).collect(),
        validation: (train..train + validation).map(example).collect(),
        test: (train + validation..train + validation + test).map(example).collect(),
    }
}

fn accuracy<N: Network>(config: &N::Config, recipe: &Recipe, parts: &Parts<Arc<N::Input>>) -> f64 {
    let (loss, device) = (Loss::CrossEntropy, &Device::flex());
    let run = Run { loss, seed: 3, device, states: None, ranks: &Alone };
    let fitted = run.fit::<N>(config, recipe, parts, &Unobserved).unwrap();
    Score::of(loss, &parts.test, &fitted.predict(&InMemory::new(), &parts.test).unwrap()).accuracy.unwrap()
}

fn planted(person: usize) -> f32 {
    (person % 2) as f32
}

fn shuffled(person: usize) -> f32 {
    ((person * 2_654_435_761) >> 7 & 1) as f32
}

/// Of 400 people, guessing is right for half with a standard deviation of 2.5 %: three of them each way.
fn check(what: &str, planted: f64, shuffled: f64) {
    assert!(planted > 0.8, "{what}, planted effect: {planted}");
    assert!((shuffled - 0.5).abs() < 0.075, "{what}, shuffled labels: {shuffled}");
}

/// Columns with mean 0 and variance 1 over the people who are fitted on: features of a network this young hardly differ.
fn standardised(mut rows: Vec<Vec<f32>>) -> Vec<Vec<f32>> {
    let count = PEOPLE[0] as f32;
    for k in 0..rows[0].len() {
        let column: Vec<f32> = rows[..PEOPLE[0]].iter().map(|row| row[k]).collect();
        let mean = column.iter().sum::<f32>() / count;
        let spread = (column.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / count).sqrt().max(1e-12);
        rows.iter_mut().for_each(|row| row[k] = (row[k] - mean) / spread);
    }
    rows
}

fn probed<M: TokenModel>(what: &str, learner: &M, scans: &[TokenScan]) {
    let scans: Vec<&TokenScan> = scans.iter().collect();
    let rows = standardised(features(learner, &scans, 16));
    let recipe = Recipe { epochs: 200, rate: Rate::Cosine { from: 5e-2, to: 5e-3 }, ..probe_recipes()[0].clone() };
    let score = |label| {
        accuracy::<LinearHead>(
            &HeadShape { width: TRUNK.width, outputs: 1 },
            &recipe,
            &parts(|i| Feature(rows[i].clone()), label),
        )
    };
    check(what, score(planted), score(shuffled));
}

fn tuned<N: Network<Input = Patches>>(what: &str, start: &N::Config, patches: &[Vec<f32>]) {
    let recipe = TunePoint::subset(1)[0].recipe(30);
    let score = |label| accuracy::<N>(start, &recipe, &parts(|i| Patches(patches[i].clone()), label));
    check(what, score(planted), score(shuffled));
}

#[test]
fn brainlm_finds_a_planted_effect_only() {
    let scans: Vec<TokenScan> = (0..PEOPLE.iter().sum()).map(scan).collect();
    let (config, recipe) = brain_lm();
    let learner = pretrained::<BrainLm>(&config, &recipe, &scans);
    probed("probe", &learner, &scans);
    let patches: Vec<Vec<f32>> = scans.iter().map(|scan| feature_patches(&config, scan)).collect();
    let values = Arc::new(learner.parameters().remove(0));
    tuned::<Tuned<BrainLm>>("fine-tuned", &TuneStart { config, outputs: 1, values }, &patches);
}

#[test]
fn brain_jepa_finds_a_planted_effect_only() {
    let scans: Vec<TokenScan> = (0..PEOPLE.iter().sum()).map(scan).collect();
    let (config, recipe) = brain_jepa();
    let learner = pretrained::<TrainedJepa>(&config, &recipe, &scans);
    probed("probe", &learner, &scans);
    let patches: Vec<Vec<f32>> = scans.iter().map(|scan| feature_patches(&config, scan)).collect();
    let values = Arc::new(learner.parameters().remove(1));
    tuned::<Tuned<JepaTeacher>>("fine-tuned", &TuneStart { config, outputs: 1, values }, &patches);
}

/// The loss of a batch does not depend on how many scans are held at once, also where the last piece is smaller: pieces count
/// by their scans.
#[test]
fn a_step_in_pieces_is_a_step() {
    let scans: Vec<TokenScan> = (0..8).map(scan).collect();
    let (config, recipe) = brain_lm();
    let constant = |value: f32| TokenScan {
        scan: ScaledScan {
            times_seconds: scans[0].scan.times_seconds.clone(),
            values: vec![value; GRID.frames() * GRID.regions],
            region_valid: vec![true; GRID.regions],
        },
        tr_seconds: 2.0,
    };
    let step = |scans: &[TokenScan], at_once: usize, seed: u64| {
        let model = BrainLm::fresh(&config, 1, Kernels::default(), &Device::flex()).unwrap();
        let at = At { plan: Plan::of_epochs(60.0, 1), step: 30, seed };
        let learner = TokenLearner::of(model, &recipe);
        learner.step(scans, at_once, &mut AdamState::default(), &at).unwrap()
    };
    // The last two scans cost about nine times as much. Pieces of three, three and two that all counted the same would
    // give 22 % more than the whole. Frames are constant, so that the draw of the masks matters
    // little: some 4 % of a step, half a percent of the mean of sixty.
    let batch: Vec<TokenScan> = (0..8).map(|i| constant(if i < 6 { 1.0 } else { 3.0 })).collect();
    let mean = |at_once: usize| (0..60).map(|seed| step(&batch, at_once, seed).1.loss.total).sum::<f64>() / 60.0;
    let (whole, pieces) = (mean(8), mean(3));
    assert!((whole - pieces).abs() < 0.05 * whole, "{whole} {pieces}");
    let again = step(&scans, 3, 7);
    assert_eq!(again.1, step(&scans, 3, 7).1);
    assert_eq!(again.0.model.parameters(), step(&scans, 3, 7).0.model.parameters());
}
