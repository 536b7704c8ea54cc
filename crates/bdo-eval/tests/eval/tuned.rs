//! Fine-tuning on simulated people: better than the frozen probe, which is above chance, in the order of effect sizes, and at
//! chance without effects.

use std::path::Path;
use std::sync::Arc;

use bdo_data::cohort::Cohort;
use bdo_data::division::{Division, Scheme};
use bdo_data::synth::Effects;
use bdo_data::target::Target;
use bdo_eval::comparison::run_task;
use bdo_eval::features::FeatureTable;
use bdo_eval::finetune::{HeadStart, TunePoint, TuneSettings};
use bdo_eval::fitted::HeadKind;
use bdo_eval::method::{FitOn, Method, Task};
use bdo_eval::model_method::FineTuning;
use bdo_eval::reference::ClosedForm;
use bdo_model::config::ModelConfig;
use bdo_model::frozen::FrozenModel;
use bdo_model::init::initial_parameters;
use bdo_model::pooling::Pooling;
use bdo_model::weights::TrainingPeople;
use burn::tensor::Device;

use crate::cohorts::{simulate, spec};
use crate::fixture::{Silent, small_config, written_for};

/// An encoder nobody trained: fine-tuning has all there is to learn.
fn encoder(path: &Path, cohort: &Cohort) -> FrozenModel {
    let regions = cohort.regions().len();
    let config = ModelConfig { regions, unit_regions: true, time_scale: 0.3, ..small_config() };
    let names = cohort.regions().iter().map(|region| region.name.clone()).collect();
    let parameters = initial_parameters(&config, 5);
    written_for(path, names, (config, parameters), (0.0, 1.0), TrainingPeople::default(), None)
}

/// Mean areas under the curve of sex over three seeds: the frozen probe, and fine-tuned.
fn areas(effects: Effects) -> [f64; 2] {
    let dir = tempfile::tempdir().unwrap();
    let cohort = simulate(spec(200, effects), &dir.path().join("c"), |_, scan| scan);
    let frozen = encoder(&dir.path().join("m"), &cohort);
    let table = Arc::new(FeatureTable::embed(&frozen, &cohort, Pooling::Mean, &Silent).unwrap());
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
    let (model, work) = (dir.path().join("m"), dir.path().join("work"));
    let tuned = FineTuning::new("bdo-finetune", &model, table.clone(), (&work, &Device::flex()), settings).unwrap();
    let probe = ClosedForm::new("bdo-mean", table, "").of_pretrained();
    let label = Target::of(cohort.participants(), "sex").unwrap();
    let division = Division::of(&cohort).unwrap().with_sites(None);
    let methods: [&dyn Method; 2] = [&probe, &tuned];
    methods.map(|method| {
        let area = |seed: u64| {
            let split = division.split(Some("sex"), Scheme::Random, seed).unwrap();
            let task = Task { cohort: &cohort, split: &split, target: &label, seed, fit_on: FitOn::Train };
            run_task(method, &task, "", &[]).unwrap().metrics.get("auc").unwrap()
        };
        (0..3).map(area).sum::<f64>() / 3.0
    })
}

#[test]
fn effects_are_found_by_the_probe_and_by_fine_tuning_and_not_where_there_are_none() {
    let [strong, weak] = [3.0, 1.0].map(|sex_coupling| areas(Effects { sex_coupling, ..Effects::default() }));
    let none = areas(Effects::none());
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
