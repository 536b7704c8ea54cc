//! Connectivity finds what was put in, the more the stronger it is, and nothing where there is nothing.

use std::sync::Arc;

use bdo_data::cohort::Cohort;
use bdo_data::division::{self, Division, Scheme, Split};
use bdo_data::participants::Participants;
use bdo_data::synth::Effects;
use bdo_data::target::Target;
use bdo_eval::audit::audit;
use bdo_eval::comparison::run_task;
use bdo_eval::confound::Nuisance;
use bdo_eval::connectivity::connectivity_table;
use bdo_eval::leak::LeakReport;
use bdo_eval::method::{FitOn, Task};
use bdo_eval::reference::ClosedForm;
use bdo_model::weights::TrainingPeople;

use crate::cohorts::{simulate, spec};

fn split(division: &Division<'_>, target: &str, seed: u64) -> Split {
    division.split(Some(target), Scheme::Random, seed).unwrap()
}

/// Mean score of connectivity over eight seeds: area under the curve, or correlation.
fn score(cohort: &Cohort, method: &ClosedForm, target: &str) -> f64 {
    let label = Target::of(cohort.participants(), target).unwrap();
    let division = Division::of(cohort).unwrap().with_sites(None);
    let scores = (0..8).map(|seed| {
        let split = split(&division, target, seed);
        let task = Task { cohort, split: &split, target: &label, seed, fit_on: FitOn::Train };
        let metrics = run_task(method, &task, "", &[]).unwrap().metrics;
        if target == "age" { metrics.get("rho").unwrap_or(0.0) } else { metrics.get("auc").unwrap() }
    });
    scores.sum::<f64>() / 8.0
}

#[test]
fn effects_are_found_in_order_of_their_size() {
    let sized = |x: f64| Effects {
        age_rate: x,
        age_coupling: x,
        age_motion: 0.0,
        sex_coupling: 2.0 * x,
        diagnosis_coupling: 1.5 * x,
        diagnosis_between: 1.5 * x,
        trait_coupling: 0.0,
    };
    let mut found: Vec<[f64; 3]> = vec![];
    for size in [0.0, 0.5, 1.5] {
        let folder = tempfile::tempdir().unwrap();
        let cohort = simulate(spec(400, sized(size)), &folder.path().join("c"), |_, scan| scan);
        let table = Arc::new(connectivity_table(&cohort).unwrap());
        let method = ClosedForm::new("fc", table, "");
        found.push(["age", "sex", "diagnosis"].map(|target| score(&cohort, &method, target)));
    }
    let [none, some, strong] = [found[0], found[1], found[2]];
    // Eight seeds test 333 of the 400 people: at chance an area has a standard deviation of 0.032, a correlation one of 0.055.
    // Three and a half of them.
    for (k, chance, limit) in [(0, 0.0, 0.19), (1, 0.5, 0.11), (2, 0.5, 0.11)] {
        assert!((none[k] - chance).abs() < limit, "no effect, yet {found:?}");
        assert!(strong[k] > some[k] && some[k] > none[k], "not in order: {found:?}");
        assert!(strong[k] - chance > limit, "a strong effect is not found: {found:?}");
    }
}

#[test]
fn a_planted_duplicate_is_caught() {
    let folder = tempfile::tempdir().unwrap();
    let spec = spec(20, Effects::none());
    let generator = bdo_data::synth::Generator::new(spec.clone()).unwrap();
    let original = generator.scan(0);
    // Person 7 is person 0 under another name.
    let cohort = simulate(spec, &folder.path().join("c"), |i, scan| match i {
        7 => bdo_data::scan::Scan { id: scan.id, ..original.clone() },
        _ => scan,
    });
    let contents = division::contents_of(&cohort).unwrap();
    // A division that knows of no families, so that only the scans can tell.
    let nobody = Participants::default();
    let strangers = Division::of_people(&nobody).with_contents(contents.clone());
    let names: Vec<&str> = contents.iter().map(|c| c.id.subject.as_str()).collect();
    let report = LeakReport::between(&names[..7], &names[7..], &strangers);
    assert_eq!(report.duplicates, [(contents[0].id.to_string(), contents[7].id.to_string())]);
    assert!(report.refuse().is_err());
    let apart = LeakReport::between(&names[..7], &names[8..], &strangers);
    assert!(apart.refuse().is_ok());
    // The same guard for pre-training flags instead of refusing.
    let division = Division::of(&cohort).unwrap();
    let split = split(&division, "sex", 0);
    let tested = split.test.subjects()[0].clone();
    let people =
        TrainingPeople { subjects: [TrainingPeople::subject_hash(&tested)].into(), ..TrainingPeople::default() };
    let report = LeakReport::of_split(&split, &division).with_pretraining(&split, &division, &people);
    assert!(report.refuse().is_ok());
    assert_eq!(report.pretrained, [tested]);
    assert_eq!(report.flags(4), ["1 of 4 test people were pre-trained on"]);
}

#[test]
fn the_audit_finds_the_scanner() {
    let folder = tempfile::tempdir().unwrap();
    let cohort = simulate(spec(120, Effects::none()), &folder.path().join("c"), |_, scan| scan);
    let nuisance = Nuisance::of(&cohort);
    // A feature that is the repetition time, beside one that is nothing.
    let sites = nuisance.site_table().unwrap().unwrap();
    let rows = audit("sites", &sites, &cohort, &Division::of(&cohort).unwrap(), &nuisance, 0).unwrap();
    let site = rows.iter().find(|r| r.nuisance == "site").unwrap();
    assert_eq!(site.metrics.unwrap().get("accuracy"), Some(1.0));
    assert_eq!(rows.len(), 4);
    let motion = rows.iter().find(|r| r.nuisance == "mean_fd_mm").unwrap();
    assert!(motion.metrics.is_some(), "head motion of simulated scans is known");
}
