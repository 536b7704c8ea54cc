//! A comparison that was stopped goes on where it was, and its table says what it should.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bdo_data::division::{Division, Scheme};
use bdo_data::synth::Effects;
use bdo_data::target::Target;
use bdo_eval::comparison::{ResultStore, SummarySettings, run_task, summarise, to_csv, to_latex, to_markdown};
use bdo_eval::confound::Nuisance;
use bdo_eval::error::EvalError;
use bdo_eval::method::{FitOn, Method, Outcome, Task};
use bdo_eval::reference::{NoBrain, NoBrainKind};

use crate::cohorts::{simulate, spec};

/// Counts how often a method really runs.
struct Counted(NoBrain, AtomicUsize, &'static str);

impl Method for Counted {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn fingerprint(&self) -> String {
        self.2.to_owned()
    }

    fn run(&self, task: &Task<'_>) -> Result<Outcome, EvalError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.run(task)
    }
}

#[test]
fn stored_results_are_used_again_if_nothing_changed() {
    let folder = tempfile::tempdir().unwrap();
    let cohort = simulate(spec(60, Effects::none()), &folder.path().join("c"), |_, scan| scan);
    let nuisance = Arc::new(Nuisance::of(&cohort));
    let target = Target::of(cohort.participants(), "sex").unwrap();
    let store = ResultStore::open(&folder.path().join("results")).unwrap();
    let kinds = [NoBrainKind::Motion, NoBrainKind::Site, NoBrainKind::AgeSex, NoBrainKind::Majority];
    let mut results = vec![];
    for (round, fingerprint) in ["one", "one", "two"].into_iter().enumerate() {
        let methods = kinds.map(|k| Counted(NoBrain::new(k, nuisance.clone()), AtomicUsize::new(0), fingerprint));
        results.clear();
        for method in &methods {
            for seed in 0..3 {
                let division = Division::of_people(cohort.participants());
                let split = division.split(Some("sex"), Scheme::Random, seed).unwrap();
                let task = Task { cohort: &cohort, split: &split, target: &target, seed, fit_on: FitOn::Train };
                let result = store.find(method, &task, "cohort").unwrap_or_else(|| {
                    let result = run_task(method, &task, "cohort", &[]).unwrap();
                    store.keep(&result).unwrap();
                    result
                });
                results.push(result);
            }
            let ran = method.1.load(Ordering::Relaxed);
            assert_eq!(ran, if round == 1 { 0 } else { 3 }, "round {round}: {}", method.name());
        }
    }
    let settings =
        SummarySettings { bootstraps: 200, permutations: 99, against: "site".into(), ..SummarySettings::default() };
    let summary = summarise(&results, &settings);
    assert_eq!(summary.rows.len(), 4);
    let row = |name: &str| summary.rows.iter().find(|r| r.method == name).unwrap();
    assert_eq!(row("majority").p, None, "a constant prediction has no chance level");
    assert_eq!(row("majority").cell("auc").unwrap().mean, Some(0.5));
    assert!(row("site").comparison.is_none() && row("motion").comparison.is_some());
    assert!(row("motion").p.unwrap() > 0.0 && row("motion").q.unwrap() >= row("motion").p.unwrap());
    let interval = row("motion").interval.unwrap();
    assert!(interval.low < interval.high);
    assert!(to_markdown(&summary).contains("### sex: random splits, seeds 0, 1, 2, classes"));
    assert_eq!(to_csv(&summary).lines().count(), 1 + 4 * 7);
    assert!(to_latex(&summary).contains("age-sex & $"));
    let json = serde_json::to_string(&summary).unwrap();
    assert_eq!(serde_json::from_str::<bdo_eval::comparison::Summary>(&json).unwrap(), summary);
}
