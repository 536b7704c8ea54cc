//! BrainNetCNN: edge-to-edge, edge-to-node and node-to-graph layers over a connectivity matrix.

use crate::connectivity::{Batch, Connectome};
use crate::pairwise::pair_sum;
use bdo_eval::supervised::network::{Network, Pass, Training};
use bdo_model::dropout::Dropout;
use bdo_model::layer::{Linear, Source};
use bdo_model::ops::Kernels;
use bdo_model::parameters::{ParameterError, Start};
use burn::module::{Module, Param};
use burn::tensor::{Tensor, activation};
use serde::{Deserialize, Serialize};

/// Slope of every LeakyReLU.
const SLOPE: f64 = 0.33;
pub(crate) const CHANNELS: [usize; 2] = [32, 64];
pub(crate) const GRAPH: usize = 256;
pub(crate) const HIDDEN: [usize; 2] = [128, 30];
/// Dropout that stays on when predicting has to come from somewhere.
const PREDICTION_KEY: [u8; 32] = [0x5a; 32];

/// Sizes, and the two oddities of the public code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrainNetCnnConfig {
    /// Regions, N.
    pub regions: usize,
    pub outputs: usize,
    /// Rate of dropout before the last three layers.
    pub dropout: f64,
    /// As in the public code: dropout stays active when predicting.
    pub dropout_when_predicting: bool,
    /// As in the public code: a LeakyReLU acts on the outputs.
    pub activate_output: bool,
}

impl BrainNetCnnConfig {
    /// One output, no oddities.
    pub fn new(regions: usize) -> Self {
        Self { regions, outputs: 1, dropout: 0.5, dropout_when_predicting: false, activate_output: false }
    }
}

#[derive(Module, Debug)]
pub struct BrainNetCnn {
    /// Edges of one channel to 32.
    pub e2e1: FirstEdges,
    /// 32 channels to 64.
    pub e2e2: Edges,
    /// Edges to nodes.
    pub e2n: Sum,
    /// Nodes to 256 numbers.
    pub n2g: Linear,
    /// 256 -> 128.
    pub linear1: Linear,
    /// 128 -> 30.
    pub linear2: Linear,
    /// 30 -> outputs.
    pub linear3: Linear,
    #[module(skip)]
    config: BrainNetCnnConfig,
    #[module(skip)]
    kernels: Kernels,
}

/// Row and column sums of the input matrix.
#[derive(Module, Debug)]
pub struct FirstEdges {
    /// N -> channels along a row.
    pub row: Linear,
    /// N -> channels down a column.
    pub column: Linear,
}

/// Row and column sums of edges that are given by their own rows and columns.
#[derive(Module, Debug)]
pub struct Edges {
    /// Along rows.
    pub row: Sum,
    /// Down columns.
    pub column: Sum,
}

/// A weight for every channel and region, for each output.
#[derive(Module, Debug)]
pub struct Sum {
    /// [out, in, N].
    pub weight: Param<Tensor<3>>,
    /// [out].
    pub bias: Param<Tensor<1>>,
}

impl Network for BrainNetCnn {
    type Config = BrainNetCnnConfig;
    type Input = Connectome;

    fn build(config: &Self::Config, source: &mut Source) -> Result<Self, ParameterError> {
        let n = config.regions;
        let [first, second] = CHANNELS;
        Ok(Self {
            e2e1: FirstEdges {
                row: source.linear("e2e1.row", n, first)?,
                column: source.linear("e2e1.column", n, first)?,
            },
            e2e2: Edges {
                row: Sum::build("e2e2.row", [second, first, n], source)?,
                column: Sum::build("e2e2.column", [second, first, n], source)?,
            },
            e2n: Sum::build("e2n", [1, second, n], source)?,
            n2g: source.linear("n2g", n, GRAPH)?,
            linear1: source.linear("linear1", GRAPH, HIDDEN[0])?,
            linear2: source.linear("linear2", HIDDEN[0], HIDDEN[1])?,
            linear3: source.linear("linear3", HIDDEN[1], config.outputs)?,
            config: config.clone(),
            kernels: source.kernels,
        })
    }

    fn pass(&self, batch: &Batch, training: Option<&Training>) -> Pass {
        let samples = batch.nodes.dims()[0];
        let rate = self.config.dropout;
        let dropout = match training {
            Some(training) => training.dropout(rate),
            None => self.config.dropout_when_predicting.then_some(Dropout { rate, key: PREDICTION_KEY }),
        };
        let drop = |site: usize, x: Tensor<3>| match dropout {
            Some(dropout) => dropout.apply(site, x),
            None => x,
        };
        let leaky = |x: Tensor<3>| activation::leaky_relu(x, SLOPE);
        let row = self.e2e1.row.forward(batch.nodes.clone()).swap_dims(1, 2); // [B, 32, N]
        let column = self.e2e1.column.forward(batch.nodes.clone().swap_dims(1, 2)).swap_dims(1, 2); // [B, 32, N]
        let second_row = self.e2e2.row.forward(self.kernels, row.clone(), column.clone()); // [B, 64, N]
        let second_column = self.e2e2.column.forward(self.kernels, column, row); // [B, 64, N]
        let nodes = pair_sum(self.kernels, second_row, second_column, self.e2n.weight.val(), SLOPE); // [B, N, 1]
        let nodes = leaky(nodes + self.e2n.bias.val().unsqueeze()).swap_dims(1, 2); // [B, 1, N]
        let graph = drop(0, leaky(self.n2g.forward(nodes))); // [B, 1, 256]
        let hidden = drop(1, leaky(self.linear1.forward(graph)));
        let hidden = drop(2, leaky(self.linear2.forward(hidden)));
        let mut output = self.linear3.forward(hidden);
        if self.config.activate_output {
            output = leaky(output);
        }
        Tensor::<2>::into(output.reshape([samples, self.config.outputs]))
    }
}

impl Sum {
    /// Both start uniform within one over the root of the inputs.
    fn build(name: &str, shape: [usize; 3], source: &mut Source) -> Result<Self, ParameterError> {
        let start = Start::Uniform(1.0 / ((shape[1] * shape[2]) as f64).sqrt());
        source.under(name, |source| {
            Ok(Self { weight: source.take("weight", shape, start)?, bias: source.take("bias", [shape[0]], start)? })
        })
    }

    /// Sums of leaky(along + across) over the axis of `across`: [B, in, N] twice -> [B, out, N].
    fn forward(&self, kernels: Kernels, along: Tensor<3>, across: Tensor<3>) -> Tensor<3> {
        let sums = pair_sum(kernels, along, across, self.weight.val(), SLOPE); // [B, N, out]
        (sums + self.bias.val().unsqueeze()).swap_dims(1, 2)
    }
}
