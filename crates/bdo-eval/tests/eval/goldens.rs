//! scikit-learn, scipy, numpy and neuroCombat: see `tools/reference/make_statistics_goldens.py`.

use bdo_eval::combat::FittedCombat;
use bdo_eval::design::Design;
use bdo_eval::features::Features;
use bdo_eval::logistic::{Exactness, LogisticProblem, says};
use bdo_eval::resample::two_sided_p;
use bdo_eval::ridge::{left_out_residuals, ridge};
use bdo_eval::{metric, resample};
use serde_json::Value;

fn golden(name: &str) -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/golden/statistics.json");
    let all: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    all[name].clone()
}

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn numbers(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as usize).collect()
}

fn close(found: f64, expected: &Value, tolerance: f64, what: &str) {
    let expected = expected.as_f64().unwrap();
    assert!((found - expected).abs() <= tolerance * (1.0 + expected.abs()), "{what}: {found} against {expected}");
}

#[test]
fn scores_of_classes() {
    for (k, g) in golden("classification").as_array().unwrap().iter().enumerate() {
        let classes = g["classes"].as_u64().unwrap() as usize;
        let m = metric::classification(&numbers(&g["truth"]), &floats(&g["probabilities"]), classes).unwrap();
        for (name, value) in metric::Metrics::Classification(m).named() {
            close(value.unwrap(), &g[name], 1e-12, &format!("case {k}: {name}"));
        }
    }
}

#[test]
fn scores_of_numbers() {
    let g = golden("regression");
    let spread = g["spread"].as_f64().unwrap();
    let m = metric::regression(&floats(&g["truth"]), &floats(&g["predicted"]), spread).unwrap();
    for (name, value) in metric::Metrics::Regression(m).named() {
        close(value.unwrap(), &g[name], 1e-12, name);
    }
}

struct Linear {
    features: Features,
    train: Vec<usize>,
    test: Vec<usize>,
}

fn linear(g: &Value) -> Linear {
    let (rows, width) = (g["rows"].as_u64().unwrap() as usize, g["width"].as_u64().unwrap() as usize);
    let x = floats(&g["x"]);
    let all = x.len() / width;
    let features = Features::new(all, width, x).unwrap();
    Linear { features, train: (0..rows).collect(), test: (rows..all).collect() }
}

/// Predictions of weights in a design's coordinates, through the weights of the features.
fn outputs(design: &Design<'_>, features: &Features, row: usize, weights: &[f64], intercept: f64) -> f64 {
    let w = design.feature_weights(weights);
    let terms = features.row(row).iter().enumerate();
    intercept + terms.map(|(j, x)| w[j] * design.standardiser().value(j, *x)).sum::<f64>()
}

#[test]
fn ridge_as_scikit_learn() {
    for (k, g) in golden("linear").as_array().unwrap().iter().enumerate() {
        let Linear { features, train, test } = linear(g);
        let y = &floats(&g["y"])[..train.len()];
        let design = Design::new(&features, &train).unwrap();
        for (a, penalty) in floats(&g["penalties"]).into_iter().enumerate() {
            let fit = ridge(&design, y, penalty);
            for (t, &row) in test.iter().enumerate() {
                let found = outputs(&design, &features, row, &fit.weights, fit.intercept);
                close(found, &g["ridge"][a][t], 1e-9, &format!("case {k}, penalty {penalty}, row {t}"));
            }
            let left_out = left_out_residuals(&design, y, &train, penalty);
            let mse = left_out.iter().map(|e| e * e).sum::<f64>() / y.len() as f64;
            close(mse, &g["ridge_left_out_mse"][a], 1e-9, &format!("case {k}, penalty {penalty}: left-out error"));
        }
    }
}

#[test]
fn logistic_as_scikit_learn() {
    for (k, g) in golden("linear").as_array().unwrap().iter().enumerate() {
        let Linear { features, train, test } = linear(g);
        let classes = g["classes"].as_u64().unwrap() as usize;
        let codes = numbers(&g["codes"]);
        let design = Design::new(&features, &train).unwrap();
        let problem = LogisticProblem::new(&design, train.clone(), &codes, classes);
        for (a, penalty) in floats(&g["penalties"]).into_iter().enumerate() {
            let weights = problem.fit(penalty, Exactness::Final, problem.zeros());
            for (t, &row) in test.iter().enumerate() {
                let logits: Vec<f64> = weights
                    .chunks_exact(design.rank() + 1)
                    .map(|w| outputs(&design, &features, row, &w[..design.rank()], w[design.rank()]))
                    .collect();
                for (c, p) in says(&logits, classes).into_iter().enumerate() {
                    let what = format!("case {k}, penalty {penalty}, row {t}, class {c}");
                    close(p, &g["logistic"][a][t * classes + c], 1e-6, &what);
                }
            }
        }
    }
}

#[test]
fn resampling_as_scipy() {
    let g = golden("resampling");
    let values = floats(&g["percentile"]["values"]);
    for (k, q) in floats(&g["percentile"]["q"]).into_iter().enumerate() {
        close(resample::percentile(&values, q).unwrap(), &g["percentile"]["result"][k], 1e-14, "percentile");
    }
    let t = &g["corrected_t"];
    let found =
        resample::corrected_comparison(&floats(&t["differences"]), t["test_over_train"].as_f64().unwrap()).unwrap();
    close(found.t.unwrap(), &t["t"], 1e-10, "t");
    close(found.p.unwrap(), &t["p"], 1e-10, "p");
    for line in g["student"].as_array().unwrap() {
        let [t, df] = [0, 1].map(|i| line[i].as_f64().unwrap());
        let (found, expected) = (two_sided_p(t, df), line[2].as_f64().unwrap());
        assert!((found - expected).abs() <= 1e-10 * expected, "t {t}, {df} degrees: {found} against {expected}");
    }
    let found = resample::false_discovery(&floats(&g["false_discovery"]["p"]));
    for (k, q) in found.into_iter().enumerate() {
        close(q, &g["false_discovery"]["q"][k], 1e-14, "q");
    }
}

#[test]
fn random_permutations_near_all_permutations() {
    let g = &golden("resampling")["exact_permutation"];
    let (truth, predicted) = (floats(&g["truth"]), floats(&g["predicted"]));
    let permutations = 20_000;
    let found = resample::permutation_p(truth.len(), permutations, 0, |order| {
        metric::pearson(&order.iter().map(|i| truth[*i]).collect::<Vec<_>>(), &predicted)
    });
    let exact = g["p"].as_f64().unwrap();
    // The count of permutations as high is binomial; five standard deviations, and the one that is always counted.
    let tolerance = 5.0 * (exact * (1.0 - exact) / permutations as f64).sqrt() + 1.0 / permutations as f64;
    assert!((found.unwrap() - exact).abs() < tolerance, "{found:?} against {exact} +- {tolerance}");
}

#[test]
fn harmonisation_as_neurocombat() {
    for (k, g) in golden("combat").as_array().unwrap().iter().enumerate() {
        let sites: Vec<&str> = g["sites"].as_array().unwrap().iter().map(|s| s.as_str().unwrap()).collect();
        let width = g["width"].as_u64().unwrap() as usize;
        let features = Features::new(sites.len(), width, floats(&g["x"])).unwrap();
        let rows: Vec<usize> = (0..sites.len()).collect();
        let fitted = FittedCombat::fit(&features, &rows, &sites);
        let found = fitted.apply(&features, &rows, &sites);
        for (i, x) in found.into_iter().enumerate() {
            close(x, &g["harmonised"][i], 1e-8, &format!("case {k}, value {i}"));
        }
    }
}
