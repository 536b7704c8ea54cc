//! Fine-tuning on simulated people: better than the frozen probe, which is above chance, in the order of effect sizes, and at
//! chance without effects.

use std::path::Path;
use std::sync::Arc;

use bdo_data::cohort::{Cohort, IndexEntry};
use bdo_data::division::{Division, Scheme};
use bdo_data::synth::{Effects, SynthSpec};
use bdo_data::target::Target;
use bdo_eval::comparison::{primary_metric, run_task};
use bdo_eval::features::FeatureTable;
use bdo_eval::finetune::{HeadStart, TunePoint, TuneSettings};
use bdo_eval::fitted::HeadKind;
use bdo_eval::method::{FitOn, Method, Task};
use bdo_eval::model_method::FineTuning;
use bdo_eval::reference::ClosedForm;
use bdo_model::config::{FingerprintOf, ModelConfig};
use bdo_model::fingerprint::{Acquisition, FittedFingerprint, together};
use bdo_model::frozen::FrozenModel;
use bdo_model::init::initial_parameters;
use bdo_model::pooling::Pooling;
use bdo_model::weights::TrainingPeople;
use burn::tensor::Device;

use crate::cohorts::{simulate, spec};
use crate::fixture::{Silent, small_config, written_for};

/// An encoder nobody trained: fine-tuning has all there is to learn. With a fingerprint, that of other people.
fn encoder(path: &Path, cohort: &Cohort, others: Option<&Cohort>) -> FrozenModel {
    let regions = cohort.regions().len();
    let fingerprint = others.is_some();
    let config = ModelConfig {
        regions,
        unit_regions: true,
        time_scale: 0.3,
        fingerprint,
        fingerprint_of: FingerprintOf::Ridge,
        ..small_config()
    };
    let names = cohort.regions().iter().map(|region| region.name.clone()).collect();
    let mut parameters = initial_parameters(&config, 5);
    if let Some(others) = others {
        let of = |i: usize| together(FingerprintOf::Ridge, &others.scan(i).unwrap().series, regions);
        let acquired = |entry: &IndexEntry| [entry.frames as f64, entry.tr_seconds, entry.span_seconds];
        let acquired: Vec<Acquisition> = others.index().iter().map(acquired).collect();
        let fitted = FittedFingerprint::fit((0..others.len()).map(of).collect(), vec![], &acquired, config.width);
        parameters.0.extend(fitted.unwrap().parameters().0);
    }
    written_for(path, names, (config, parameters), (0.0, 1.0), TrainingPeople::default(), None)
}

/// Mean scores of a label over three seeds: of the frozen probe, and fine-tuned.
fn scores(effects: Effects, label: &str, with_fingerprint: bool) -> [f64; 2] {
    let dir = tempfile::tempdir().unwrap();
    let of = |spec: SynthSpec, name: &str| simulate(spec, &dir.path().join(name), |_, scan| scan);
    let cohort = of(spec(200, effects), "c");
    let others = with_fingerprint.then(|| of(SynthSpec { seed: 9, ..spec(60, effects) }, "others"));
    let frozen = encoder(&dir.path().join("m"), &cohort, others.as_ref());
    let settings = TuneSettings {
        target: String::new(),
        head: HeadKind::Linear,
        seeds: vec![0],
        epochs: 6,
        max_minutes: 0.0,
        points: TunePoint::at_rates(&TunePoint::subset(1), &[1e-3]),
        frames: 0,
        head_start: HeadStart::Probe,
    };
    let table = |pooling| Arc::new(FeatureTable::embed(&frozen, &cohort, pooling, &Silent).unwrap());
    let (model, work) = (dir.path().join("m"), dir.path().join("work"));
    let read = table(settings.pooling(frozen.model.config()));
    let tuned = FineTuning::new("bdo-finetune", &model, read, (&work, &Device::flex()), settings).unwrap();
    let probe = ClosedForm::new("bdo-mean", table(Pooling::Mean), "").of_pretrained();
    let target = Target::of(cohort.participants(), label).unwrap();
    let metric = primary_metric(target.classes().unwrap_or(0));
    let division = Division::of(&cohort).unwrap().with_sites(None);
    let methods: [&dyn Method; 2] = [&probe, &tuned];
    methods.map(|method| {
        let score = |seed: u64| {
            let split = division.split(Some(label), Scheme::Random, seed).unwrap();
            let task = Task { cohort: &cohort, split: &split, target: &target, seed, fit_on: FitOn::Train };
            run_task(method, &task, "", &[]).unwrap().metrics.get(metric).unwrap_or(0.0)
        };
        (0..3).map(score).sum::<f64>() / 3.0
    })
}

#[test]
fn effects_are_found_by_the_probe_and_by_fine_tuning_and_not_where_there_are_none() {
    let [strong, weak] =
        [3.0, 1.0].map(|sex_coupling| scores(Effects { sex_coupling, ..Effects::default() }, "sex", false));
    let none = scores(Effects::none(), "sex", false);
    println!("probe and fine-tuned: {strong:.3?} with strong effects, {weak:.3?} with weak ones, {none:.3?} without");
    // Three seeds test about 100 of the 200 people: at chance an area has a standard deviation of 0.058. Two and a half of them.
    let limit = 0.145;
    assert!(strong[0] > 0.5 + limit, "the probe does not find the effect: {strong:?}");
    assert!(strong[1] > strong[0], "fine-tuning is not better than the probe: {strong:?}");
    assert!(strong[0] > weak[0] && strong[1] > weak[1], "not in order: {strong:?} {weak:?}");
    for area in none {
        assert!((area - 0.5).abs() < limit, "no effect, yet {none:?}");
    }
}

/// The mean control of a model with a fingerprint holds how regions go together, and not how fast they move. (Rates change both.)
#[test]
fn fine_tuning_finds_beside_a_fingerprint_what_lies_in_time() {
    let found = |age_rate: f64| scores(Effects { age_rate, ..Effects::none() }, "age", true);
    let [strong, weak, none] = [3.0, 1.0, 0.0].map(found);
    println!("probe and fine-tuned: {strong:.3?} with strong effects, {weak:.3?} with weak ones, {none:.3?} without");
    // Correlations of about 100 of the 200 people have a standard deviation of 0.1 at chance.
    let limit = 0.25;
    assert!(strong[0] > limit, "the probe does not find the effect: {strong:?}");
    assert!(strong[1] > strong[0], "fine-tuning does not find more than the probe: {strong:?}");
    assert!(strong[0] > weak[0] && strong[1] > weak[1], "not in order: {strong:?} {weak:?}");
    for rho in none {
        assert!(rho.abs() < limit, "no effect, yet {none:?}");
    }
}
