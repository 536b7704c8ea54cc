//! The probe's Adam beside PyTorch's.

use bdo_eval::fit::{Examples, FitPlan, Loss, ProbePoint, fit};
use bdo_eval::head::LinearHead;
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    classes: bool,
    width: usize,
    epochs: usize,
    batch_size: usize,
    learning_rate: f64,
    least_learning_rate: f64,
    inputs: Vec<f32>,
    labels: Vec<f64>,
    start: Vec<f64>,
    orders: Vec<Vec<usize>>,
    after: Vec<Vec<f64>>,
}

#[test]
fn every_epoch_ends_where_pytorch_ends() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/golden/probe.json");
    let golden: Golden = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(golden.cases.len(), 2);
    for case in golden.cases {
        let examples =
            Examples { inputs: case.inputs.chunks_exact(case.width).collect::<Vec<&[f32]>>(), labels: case.labels };
        let plan = FitPlan {
            point: ProbePoint {
                batch_size: case.batch_size,
                learning_rate: case.learning_rate,
                least_learning_rate: case.least_learning_rate,
            },
            epochs: case.epochs,
            loss: if case.classes { Loss::CrossEntropy } else { Loss::SquaredError },
        };
        let mut epochs = 0;
        let order = |epoch: usize| case.orders[epoch].clone();
        fit(&LinearHead { width: case.width, outputs: 1 }, &examples, &plan, case.start, order, |epoch, found| {
            // Sums in another order: some 1e-15 a step, and Adam divides by a root that is not small here.
            for (found, expected) in found.iter().zip(&case.after[epoch - 1]) {
                assert!((found - expected).abs() < 1e-11, "epoch {epoch}: {found} {expected}");
            }
            epochs = epoch;
        });
        assert_eq!(epochs, case.epochs);
    }
}
