//! Each network learns what there is to learn, and nothing where there is nothing; a training taken up again is the same.

use bdo_baselines::braingnn::{BrainGnn, BrainGnnConfig};
use bdo_baselines::brainjepa::{BrainJepaConfig, GRADIENTS};
use bdo_baselines::brainlm::{BrainLm, BrainLmConfig};
use bdo_baselines::brainnetcnn::{BrainNetCnn, BrainNetCnnConfig};
use bdo_baselines::brainnettf::{BrainNetTf, BrainNetTfConfig};
use bdo_baselines::connectivity::{Connectome, shrunk_fisher};
use bdo_baselines::method::Run;
use bdo_baselines::pretrain::learner::{TokenLearner, of_preset};
use bdo_baselines::pretrain::model::{TokenModel, TrainedJepa};
use bdo_baselines::pretrain::scans::{TokenScan, features};
use bdo_baselines::token::grid::Grid;
use bdo_baselines::token::place::Places;
use bdo_baselines::token::trunk::TrunkShape;
use bdo_baselines::tune::{Feature, HeadShape, LinearHead, probe_recipes};
use bdo_data::record::{Plan, ValidationEntry};
use bdo_data::scaler::ScaledScan;
use bdo_eval::connectivity::pearson;
use bdo_eval::error::EvalError;
use bdo_eval::fit::Loss;
use bdo_eval::score::Score;
use bdo_eval::supervised::learner::{Example, FittedNetwork, Parts, Request, fit_network};
use bdo_eval::supervised::network::{InMemory, Network};
use bdo_eval::supervised::recipe::{Rate, Recipe};
use bdo_model::init::Stream;
use bdo_model::ops::Kernels;
use bdo_train::fit::{RunObserver, Unobserved};
use bdo_train::learner::At;
use bdo_train::optimiser::AdamState;
use bdo_train::ranks::Alone;
use bdo_train::settings::{Preset, TrainSettings};
use burn::tensor::Device;
use std::sync::Arc;

const REGIONS: usize = 10;
const FRAMES: usize = 60;

/// A scan whose first five regions share a signal to the degree `coupling`.
fn example(person: usize, coupling: f64, label: f32, edges: bool) -> Example<Arc<Connectome>> {
    let mut stream = Stream::named(person as u64, "scan");
    let series: Vec<f32> = (0..FRAMES)
        .flat_map(|_| {
            let shared = stream.normal();
            (0..REGIONS)
                .map(|r| (stream.normal() + if r < 5 { coupling * shared } else { 0.0 }) as f32)
                .collect::<Vec<_>>()
        })
        .collect();
    let (nodes, edges) = if edges {
        let (nodes, edges) = shrunk_fisher(&series, FRAMES, &[true; REGIONS]);
        (nodes, Some(edges))
    } else {
        (pearson(&series, REGIONS), None)
    };
    Example { scan: Arc::new(Connectome { regions: REGIONS, nodes, edges }), label, person, said: vec![] }
}

fn people(
    range: std::ops::Range<usize>,
    edges: bool,
    label: impl Fn(usize) -> f32,
    coupling: impl Fn(usize) -> f64,
) -> Vec<Example<Arc<Connectome>>> {
    range.map(|i| example(i, coupling(i), label(i), edges)).collect()
}

fn quick(recipe: Recipe, epochs: usize, rate: f64) -> Recipe {
    Recipe {
        epochs,
        batch_size: 8,
        drop_last: false,
        rate: Rate::Cosine { from: rate, to: rate / 10.0 },
        weight_decay: 0.0,
        mixup: false,
        ..recipe
    }
}

fn run<N: Network>(config: &N::Config, recipe: &Recipe, loss: Loss, parts: &Parts<Arc<N::Input>>) -> FittedNetwork<N> {
    let run = Run { loss, seed: 3, device: &Device::flex(), states: None, ranks: &Alone };
    run.fit::<N>(config, recipe, parts, &Unobserved).unwrap()
}

fn predict<N: Network>(fitted: &FittedNetwork<N>, examples: &[Example<Arc<N::Input>>]) -> Vec<Vec<f64>> {
    fitted.predict(&InMemory::<N::Input>::new(), examples).unwrap()
}

/// Asks to stop after so many epochs, and counts those it sees.
struct StopAfter {
    epochs: usize,
    seen: std::cell::Cell<usize>,
}

impl RunObserver for StopAfter {
    fn validated(&self, _: &ValidationEntry) {
        self.seen.set(self.seen.get() + 1);
    }

    fn stop_requested(&self) -> bool {
        self.seen.get() >= self.epochs
    }
}

/// Eight scans with labels that have nothing to do with them: only a network that can be trained learns them by heart.
/// (Coupled regions, or shrinkage would leave nothing of some scans' matrices and make them equal.)
fn overfits<N: Network<Input = Connectome>>(
    config: impl Fn(usize) -> N::Config,
    edges: bool,
    rate: f64,
    epochs: usize,
) {
    let eight = |label: fn(usize) -> f32| people(0..8, edges, label, |_| 1.2);
    for (loss, examples) in [
        (Loss::CrossEntropy, eight(|i| (i * 5 / 3 % 2) as f32)),
        (Loss::Softmax(3), eight(|i| (i * 5 / 3 % 3) as f32)),
        (Loss::SquaredError, eight(|i| [0.3, -1.4, 1.2, -0.2, 0.9, -0.8, 1.1, -1.1][i])),
    ] {
        let parts = Parts { train: examples.clone(), validation: examples.clone(), test: vec![] };
        let fitted = run::<N>(&config(loss.outputs()), &quick(Recipe::brain_gnn(), epochs, rate), loss, &parts);
        let score = Score::of(loss, &examples, &predict(&fitted, &examples));
        match loss {
            Loss::CrossEntropy | Loss::Softmax(_) => assert_eq!(score.accuracy, Some(1.0), "{loss:?} {score:?}"),
            Loss::SquaredError => assert!(score.loss < 0.05, "{score:?}"),
        }
    }
}

#[test]
fn brainnetcnn_overfits_eight_scans() {
    let config = |outputs| BrainNetCnnConfig { outputs, dropout: 0.0, ..BrainNetCnnConfig::new(REGIONS) };
    overfits::<BrainNetCnn>(config, false, 1e-3, 150);
}

#[test]
fn braingnn_overfits_eight_scans() {
    let config = |outputs| BrainGnnConfig { outputs, dropout: 0.0, ..BrainGnnConfig::new(REGIONS) };
    overfits::<BrainGnn>(config, true, 2e-3, 300);
}

#[test]
fn brainnettf_overfits_eight_scans() {
    let config = |outputs| BrainNetTfConfig { outputs, dropout: 0.0, ffn: 32, ..BrainNetTfConfig::new(REGIONS) };
    overfits::<BrainNetTf>(config, false, 1e-3, 150);
}

/// A planted effect is found in people not trained on; shuffled labels are not.
fn generalises<N: Network<Input = Connectome>>(config: &N::Config, edges: bool, rate: f64) {
    let parts = |label: fn(usize) -> f32| {
        let part = |range| people(range, edges, label, |i| if i % 2 == 0 { 0.2 } else { 1.2 });
        Parts { train: part(0..48), validation: part(48..64), test: part(64..464) }
    };
    let test = |parts: &Parts<Arc<Connectome>>| {
        let fitted = run::<N>(config, &quick(Recipe::brain_gnn(), 15, rate), Loss::CrossEntropy, parts);
        Score::of(Loss::CrossEntropy, &parts.test, &predict(&fitted, &parts.test)).accuracy.unwrap()
    };
    // Of 400 people, guessing is right for half with a standard deviation of 2.5 %: three of them each way.
    let planted = test(&parts(|i| (i % 2) as f32));
    assert!(planted > 0.8, "planted effect: {planted}");
    let shuffled = test(&parts(|i| ((i * 2_654_435_761) >> 7 & 1) as f32));
    assert!((shuffled - 0.5).abs() < 0.075, "shuffled labels: {shuffled}");
}

#[test]
fn brainnetcnn_finds_a_planted_effect_only() {
    generalises::<BrainNetCnn>(&BrainNetCnnConfig::new(REGIONS), false, 1e-3);
}

#[test]
fn braingnn_finds_a_planted_effect_only() {
    generalises::<BrainGnn>(&BrainGnnConfig::new(REGIONS), true, 1e-2);
}

#[test]
fn brainnettf_finds_a_planted_effect_only() {
    generalises::<BrainNetTf>(&BrainNetTfConfig { ffn: 32, ..BrainNetTfConfig::new(REGIONS) }, false, 1e-3);
}

#[test]
fn a_training_taken_up_again_ends_the_same_and_another_seed_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let config = BrainGnnConfig::new(REGIONS);
    let part = |range| people(range, true, |i| (i % 2) as f32, |i| (i % 2) as f64);
    let parts = Parts { train: part(0..12), validation: part(12..18), test: part(18..24) };
    let recipe = Recipe { epochs: 4, batch_size: 5, ..Recipe::brain_gnn() };
    let states = folder.path().join("states");
    let scans = InMemory::<Connectome>::new();
    let device = Device::flex();
    let request = |seed, states| Request {
        config: &config,
        recipe: &recipe,
        loss: Loss::CrossEntropy,
        scans: &scans,
        parts: &parts,
        seed,
        kernels: Kernels::default(),
        device: &device,
        states,
        ranks: &Alone,
    };
    let predicted =
        |fitted: FittedNetwork<BrainGnn>| (predict(&fitted, &parts.test), fitted.score, fitted.train_losses.clone());
    let whole = predicted(fit_network(&request(1, None), &Unobserved).unwrap());
    let observer = |epochs| StopAfter { epochs, seen: std::cell::Cell::default() };
    let stopped = fit_network::<BrainGnn, _>(&request(1, Some((&states, "a"))), &observer(2));
    // Three steps per epoch, since a rest of one or two scans is a batch too.
    assert!(matches!(stopped, Err(EvalError::InterruptedAt { step: 6 })));
    let watching = observer(100);
    let resumed = fit_network(&request(1, Some((&states, "a"))), &watching);
    assert_eq!(predicted(resumed.unwrap()), whole);
    assert_eq!(watching.seen.get(), 2);
    let other = predicted(fit_network(&request(2, None), &Unobserved).unwrap());
    assert_ne!(other, whole);
    let refused = fit_network::<BrainGnn, _>(&request(1, Some((&states, "b"))), &Unobserved).unwrap_err().to_string();
    assert!(refused.contains("expected the checkpoints of run b, found those of a"), "{refused}");
}

#[test]
fn too_few_people_are_refused() {
    let parts = Parts { train: people(0..1, false, |_| 0.0, |_| 0.0), validation: vec![], test: vec![] };
    let recipe = Recipe::brain_network_transformer();
    let config = BrainNetCnnConfig::new(REGIONS);
    let request = Request {
        config: &config,
        recipe: &recipe,
        loss: Loss::CrossEntropy,
        scans: &InMemory::<Connectome>::new(),
        parts: &parts,
        seed: 0,
        kernels: Kernels::default(),
        device: &Device::flex(),
        states: None,
        ranks: &Alone,
    };
    let error = fit_network::<BrainNetCnn, _>(&request, &Unobserved).unwrap_err().to_string();
    assert_eq!(error, "expected at least two scans to train on and one to select with, found 1 and 0");
}

/// Eight scans of rhythms that differ from scan to scan, in eight regions.
fn rhythms() -> Vec<TokenScan> {
    (0..8)
        .map(|i| {
            let values = (0..64)
                .flat_map(|t| {
                    (0..8).map(move |r| (f64::from(t) * (0.2 + 0.05 * f64::from(i)) + f64::from(r)).sin() as f32)
                })
                .collect();
            let times_seconds = (0..64).map(f64::from).collect();
            TokenScan { scan: ScaledScan { times_seconds, values, region_valid: vec![true; 8] }, tr_seconds: 2.0 }
        })
        .collect()
}

const SMALL_GRID: Grid = Grid { regions: 8, windows: 4 };

/// Columns with mean 0 and variance 1.
fn standardised(mut rows: Vec<Vec<f32>>) -> Vec<Vec<f32>> {
    let count = rows.len() as f32;
    for k in 0..rows[0].len() {
        let mean = rows.iter().map(|row| row[k]).sum::<f32>() / count;
        let spread = (rows.iter().map(|row| (row[k] - mean).powi(2)).sum::<f32>() / count).sqrt().max(1e-12);
        rows.iter_mut().for_each(|row| row[k] = (row[k] - mean) / spread);
    }
    rows
}

/// Trains, checks that the loss falls to a share of what it was, then learns random labels from the features by heart.
fn token_model_learns<M: TokenModel>(config: &M::Config, recipe: &TrainSettings, share: f64) {
    let model = M::fresh(config, 1, Kernels::default(), &Device::flex()).unwrap();
    let scans = rhythms();
    let mut losses = Vec::new();
    let (mut learner, mut adam) = (TokenLearner::of(model, recipe), AdamState::default());
    for step in 0..recipe.epochs as u64 {
        // All eight scans are one batch.
        let at = At { plan: Plan::of_epochs(recipe.epochs, 1), step, seed: 5 };
        let (next, report) = learner.step(&scans, scans.len(), &mut adam, &at).unwrap();
        losses.push(report.loss.total);
        learner = next;
    }
    let scans: Vec<&TokenScan> = scans.iter().collect();
    let last = losses[losses.len() - 10..].iter().sum::<f64>() / 10.0;
    assert!(last < share * losses[0], "from {} to {last}", losses[0]);
    let rows = standardised(features(&learner.model, &scans, 3));
    let shape = HeadShape { width: rows[0].len(), outputs: 1 };
    let example = |(i, row): (usize, Vec<f32>)| Example {
        scan: Arc::new(Feature(row)),
        label: (i * 5 / 3 % 2) as f32,
        person: i,
        said: vec![],
    };
    let examples: Vec<Example<Arc<Feature>>> = rows.into_iter().enumerate().map(example).collect();
    let parts = Parts { train: examples.clone(), validation: examples, test: vec![] };
    let fitted = run::<LinearHead>(&shape, &quick(probe_recipes()[0].clone(), 2000, 5e-2), Loss::CrossEntropy, &parts);
    assert_eq!(fitted.score.accuracy, Some(1.0), "{:?}", fitted.score);
}

#[test]
fn brainlm_overfits_eight_scans() {
    let trunk = TrunkShape { width: 32, blocks: 2, heads: 2 };
    let config = BrainLmConfig {
        grid: SMALL_GRID,
        encoder: trunk,
        decoder: trunk,
        centres: false,
        dropout: 0.0,
        attention_dropout: 0.0,
        mask_ratio: 0.5,
        places: None,
    };
    let recipe = TrainSettings {
        epochs: 700.0,
        learning_rate_start: 0.0,
        learning_rate: 2e-3,
        learning_rate_end: 0.0,
        ..of_preset(Preset::BrainLm, 8)
    };
    // The rhythms have mean square one half; predicting the mean costs that.
    token_model_learns::<BrainLm>(&config, &recipe, 0.3);
}

#[test]
fn brain_jepa_overfits_eight_scans() {
    let trunk = TrunkShape { width: 32, blocks: 2, heads: 2 };
    let places =
        Places { width: GRADIENTS, values: (0..8 * GRADIENTS).map(|k| ((k * 37 % 101) as f32) / 50.0 - 1.0).collect() };
    let config = BrainJepaConfig { grid: SMALL_GRID, encoder: trunk, predictor: trunk, places: Some(places) };
    let recipe = TrainSettings {
        epochs: 250.0,
        learning_rate_start: 1e-4,
        learning_rate: 3e-3,
        learning_rate_end: 1e-5,
        ..of_preset(Preset::BrainJepa, 8)
    };
    token_model_learns::<TrainedJepa>(&config, &recipe, 0.5);
}
