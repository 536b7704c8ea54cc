//! BrainGNN: graph convolutions whose kernels depend on the region, with pooling that keeps the best half of the nodes.

mod layer;

pub use layer::{BatchNorm, RegionConv, TopK};

use crate::connectivity::{Batch, Connectome};
use crate::select::{indices, rows};
use bdo_eval::supervised::network::{Network, Pass, Training};
use bdo_model::layer::{Linear, Source};
use bdo_model::ops::Epilogue;
use bdo_model::parameters::{ParameterError, Start};
use burn::module::Module;
use burn::tensor::{Tensor, activation};
use layer::{Graphs, Pooled};
use serde::{Deserialize, Serialize};

pub(crate) const WIDTH: usize = 32;
pub(crate) const COMMUNITIES: usize = 8;
pub(crate) const HIDDEN: usize = 512;
/// Keeps logarithms finite.
const FLOOR: f64 = 1e-10;

/// Sizes, weights of the penalties, and the oddities of the public code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrainGnnConfig {
    /// Regions, N.
    pub regions: usize,
    pub outputs: usize,
    /// Rate of dropout before the last two layers.
    pub dropout: f64,
    /// Weight of the penalty that pushes scores of kept and dropped nodes apart.
    pub top_k_weight: f64,
    /// Weight of the penalty that makes scores of one class alike.
    pub consistency_weight: f64,
    /// As in the public code: a second sigmoid before the first penalty, a third before the second.
    pub repeat_sigmoid: bool,
    /// As in the public code: penalties see the kept scores in rank order, not all scores in the order of the regions.
    pub penalise_kept_only: bool,
}

impl BrainGnnConfig {
    /// One output, no oddities.
    pub fn new(regions: usize) -> Self {
        Self {
            regions,
            outputs: 1,
            dropout: 0.5,
            top_k_weight: 0.1,
            consistency_weight: 0.1,
            repeat_sigmoid: false,
            penalise_kept_only: false,
        }
    }
}

#[derive(Module, Debug)]
pub struct BrainGnn {
    /// N -> 32.
    pub conv1: RegionConv,
    /// Keeps half of the regions.
    pub pool1: TopK,
    /// 32 -> 32.
    pub conv2: RegionConv,
    /// Keeps half of those.
    pub pool2: TopK,
    /// 128 -> 32.
    pub linear1: Linear,
    pub norm1: BatchNorm,
    /// 32 -> 512.
    pub linear2: Linear,
    pub norm2: BatchNorm,
    /// 512 -> outputs.
    pub linear3: Linear,
    #[module(skip)]
    config: BrainGnnConfig,
}

impl Network for BrainGnn {
    type Config = BrainGnnConfig;
    type Input = Connectome;

    fn build(config: &Self::Config, source: &mut Source) -> Result<Self, ParameterError> {
        let direction = Start::Uniform(1.0 / (WIDTH as f64).sqrt());
        Ok(Self {
            conv1: RegionConv::build("conv1", config.regions, config.regions, source)?,
            pool1: TopK { weight: source.take("pool1.weight", [WIDTH], direction)? },
            conv2: RegionConv::build("conv2", config.regions, WIDTH, source)?,
            pool2: TopK { weight: source.take("pool2.weight", [WIDTH], direction)? },
            linear1: source.linear("linear1", 4 * WIDTH, WIDTH)?,
            norm1: BatchNorm::build("norm1", WIDTH, source)?,
            linear2: source.linear("linear2", WIDTH, HIDDEN)?,
            norm2: BatchNorm::build("norm2", HIDDEN, source)?,
            linear3: source.linear("linear3", HIDDEN, config.outputs)?,
            config: config.clone(),
        })
    }

    fn pass(&self, batch: &Batch, training: Option<&Training>) -> Pass {
        let [samples, regions, _] = batch.nodes.dims();
        let edges = batch.edges.as_ref().expect("the loop gives a network that uses edges its edges");
        let graphs = Graphs::whole(samples, regions, edges);
        let x = self.conv1.forward(batch.nodes.clone(), &graphs); // [B, N, 32]
        let first = self.pool1.forward(x);
        let readout1 = readout(first.nodes.clone());
        let graphs = graphs.induced(&first.kept).two_hops();
        let x = self.conv2.forward(first.nodes.clone(), &graphs);
        let second = self.pool2.forward(x);
        let features = Tensor::cat(vec![readout1, readout(second.nodes.clone())], 2); // [B, 1, 128]

        let hidden = self.linear1.forward_then(features, Epilogue::Relu);
        let (hidden, statistics1) = self.norm1.forward(hidden, training.is_some());
        let drop = |site: usize, x: Tensor<3>| match training.and_then(|training| training.dropout(self.config.dropout))
        {
            Some(dropout) => dropout.apply(site, x),
            None => x,
        };
        let hidden = self.linear2.forward_then(drop(0, hidden), Epilogue::Relu);
        let (hidden, statistics2) = self.norm2.forward(hidden, training.is_some());
        let output = self.linear3.forward(drop(1, hidden)).reshape([samples, self.config.outputs]);
        let penalty = training.map(|training| self.penalty([&first, &second], training.classes.as_deref()));
        Pass { output, penalty, statistics: [statistics1, statistics2].into_iter().flatten().flatten().collect() }
    }

    fn absorb(mut self, statistics: &[Vec<f32>]) -> Self {
        if let [mean1, variance1, mean2, variance2] = statistics {
            self.norm1 = self.norm1.absorb(mean1, variance1);
            self.norm2 = self.norm2.absorb(mean2, variance2);
        }
        self
    }
}

impl BrainGnn {
    /// Weighted sum of both penalties; the one that compares people of a class needs classes.
    fn penalty(&self, pools: [&Pooled; 2], classes: Option<&[usize]>) -> Tensor<1> {
        let scores = pools.map(|pool| {
            let chosen = if self.config.penalise_kept_only { &pool.kept_scores } else { &pool.scores };
            if self.config.repeat_sigmoid { activation::sigmoid(chosen.clone()) } else { chosen.clone() }
        });
        let [first, second] = scores;
        let separation = top_k_separation(first.clone()) + top_k_separation(second);
        let mut penalty = separation * self.config.top_k_weight;
        if let Some(classes) = classes {
            let scores = if self.config.repeat_sigmoid { activation::sigmoid(first) } else { first };
            penalty = penalty + group_consistency(scores, classes) * self.config.consistency_weight;
        }
        penalty
    }
}

/// Largest and mean value over nodes: [B, n, 32] -> [B, 1, 64].
fn readout(nodes: Tensor<3>) -> Tensor<3> {
    Tensor::cat(vec![nodes.clone().max_dim(1), nodes.mean_dim(1)], 2)
}

/// Scores [B, n] in (0, 1): minus the mean log of the upper half and of one minus the lower half.
fn top_k_separation(scores: Tensor<2>) -> Tensor<1> {
    let nodes = scores.dims()[1];
    let half = nodes / 2;
    if half == 0 {
        return scores.sum() * 0.0;
    }
    let sorted = sorted_rows(scores);
    let high = sorted.clone().narrow(1, nodes - half, half);
    let low = sorted.narrow(1, 0, half);
    ((high + FLOOR).log().mean() + (low.neg() + (1.0 + FLOOR)).log().mean()).neg()
}

/// Half the mean squared distance between the scores [B, n] of two people of one class, summed over classes.
fn group_consistency(scores: Tensor<2>, classes: &[usize]) -> Tensor<1> {
    let mut present: Vec<usize> = classes.to_vec();
    present.sort_unstable();
    present.dedup();
    let mut total = scores.clone().sum() * 0.0;
    for class in present {
        let of_class = (0..classes.len()).filter(|i| classes[*i] == class);
        let members = scores.clone().select(0, indices(of_class, &scores.device()));
        let count = members.dims()[0] as f64;
        // 0.5 sum_ij |s_i - s_j|^2 = n_c sum_i |s_i - mean|^2: the form that does not cancel.
        let spread = (members.clone() - members.mean_dim(0)).square().sum();
        total = total + spread * (1.0 / count);
    }
    total
}

/// Each row in ascending order, by an order worked out on the host: sorting as such has no gradient in the framework.
fn sorted_rows(scores: Tensor<2>) -> Tensor<2> {
    let [samples, nodes] = scores.dims();
    let values = scores.to_data().try_to_vec::<f32>().expect("scores are f32");
    let order = |row: &[f32]| {
        let mut order: Vec<usize> = (0..nodes).collect();
        order.sort_by(|i, j| row[*i].total_cmp(&row[*j]));
        order
    };
    let order: Vec<Vec<usize>> = values.chunks_exact(nodes).map(order).collect();
    rows(scores.reshape([samples, nodes, 1]), &order).reshape([samples, nodes])
}
