//! Values and gradients against PyTorch twins in double precision.

use crate::reference::{Golden, gradients, numbers, relative};
use bdo_baselines::braingnn::{BrainGnn, BrainGnnConfig};
use bdo_baselines::brainnetcnn::{BrainNetCnn, BrainNetCnnConfig};
use bdo_baselines::brainnettf::{BrainNetTf, BrainNetTfConfig};
use bdo_baselines::connectivity::{Batch, Connectome};
use bdo_eval::supervised::network::{Network, Training};
use bdo_model::ops::Kernels;
use bdo_model::parameters::Parameters;
use burn::tensor::{Device, Tensor, activation};
use std::sync::Arc;

/// Single precision against double, through a network: outputs to 1e-5 of the largest, gradients to 1e-4.
const OUTPUT: f64 = 1e-5;
const GRADIENT: f64 = 1e-4;

#[test]
fn brainnetcnn() {
    check::<BrainNetCnn>("brainnetcnn", &BrainNetCnnConfig { dropout: 0.0, ..BrainNetCnnConfig::new(7) });
}

#[test]
fn braingnn() {
    check::<BrainGnn>("braingnn", &BrainGnnConfig { dropout: 0.0, ..BrainGnnConfig::new(9) });
}

#[test]
fn braingnn_as_the_public_code_has_it() {
    let config =
        BrainGnnConfig { dropout: 0.0, repeat_sigmoid: true, penalise_kept_only: true, ..BrainGnnConfig::new(9) };
    check::<BrainGnn>("braingnn_quirks", &config);
}

#[test]
fn brainnettf() {
    let config = BrainNetTfConfig { dropout: 0.0, clusters: 5, ffn: 16, ..BrainNetTfConfig::new(12) };
    check::<BrainNetTf>("brainnettf", &config);
}

fn check<N: Network<Input = Connectome>>(name: &str, config: &N::Config) {
    for kernels in [Kernels::default(), Kernels::Composed] {
        against::<N>(&Golden::read(name), config, kernels);
    }
}

fn against<N: Network<Input = Connectome>>(golden: &Golden, config: &N::Config, kernels: Kernels) {
    let device = Device::flex().autodiff();
    let network = N::from_parameters(config, golden.under("param."), kernels, &device).unwrap();
    let batch = Batch {
        nodes: golden.tensor("input.nodes", &device),
        edges: golden.0.get("input.edges").map(|edges| Arc::new(edges.values.clone())),
    };
    let predicted = network.pass(&batch, None);
    assert!(predicted.penalty.is_none() && predicted.statistics.is_empty());
    close("predicting", &numbers(&predicted.output), golden.values("out.predicting"), OUTPUT);

    let classes = golden.0.get("input.classes").map(|c| c.values.iter().map(|x| *x as usize).collect());
    let pass = network.pass(&batch, Some(&Training { key: [0; 32], classes }));
    close("training", &numbers(&pass.output), golden.values("out.training"), OUTPUT);
    let labels = golden.values("input.labels");
    let labels = Tensor::<1>::from_floats(labels, &device).reshape([labels.len(), 1]);
    let output = pass.output.clone();
    let entropy = activation::relu(output.clone()) - output.clone() * labels + output.abs().neg().exp().log1p();
    let mut loss = entropy.mean();
    if let Some(penalty) = &pass.penalty {
        close("penalty", &numbers(penalty), golden.values("out.penalty"), OUTPUT);
        loss = loss + penalty.clone();
    }
    close("loss", &numbers(&loss), golden.values("out.loss"), OUTPUT);

    let found = gradients(&network, &loss);
    let expected = golden.under("grad.");
    // Every parameter the table calls trainable has a gradient, no other has.
    let trained: Vec<String> = N::table(config).into_iter().filter(|r| r.trainable).map(|r| r.name).collect();
    let mut names: Vec<&String> = found.keys().collect();
    names.sort();
    let mut trained: Vec<&String> = trained.iter().collect();
    trained.sort();
    assert_eq!(names, trained);
    for (name, gradient) in &found {
        close(name, gradient, &expected.0[name].values, GRADIENT);
    }

    let absorbed = Parameters::of_module(&network.absorb(&pass.statistics), "");
    for (name, array) in golden.under("statistic.").0 {
        close(&name, &absorbed.0[&name].values, &array.values, OUTPUT);
    }
}

fn close(what: &str, found: &[f32], expected: &[f32], tolerance: f64) {
    let difference = relative(found, expected);
    assert!(difference < tolerance, "{what}: {difference:e}");
}
