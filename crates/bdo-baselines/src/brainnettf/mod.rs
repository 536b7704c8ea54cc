//! BrainNetTF: a transformer over regions and a readout that sorts regions into orthonormal clusters.

mod layer;
mod ocread;

pub use layer::PostNormLayer;
pub(crate) use ocread::HIDDEN as READOUT;
pub use ocread::{ClusterReadout, orthonormal_centres};

use crate::connectivity::{Batch, Connectome};
use bdo_eval::supervised::network::{Network, Pass, Training};
use bdo_model::init::draw_parameters;
use bdo_model::layer::{Linear, Source};
use bdo_model::parameters::{ParameterError, Parameters, Start};
use burn::module::{Module, Param};
use burn::tensor::{Tensor, activation};
use serde::{Deserialize, Serialize};

const SLOPE: f64 = 0.01;
const CLUSTERS: usize = 100;
pub(crate) const REDUCED: usize = 8;
pub(crate) const HIDDEN: [usize; 2] = [256, 32];

/// Sizes, and the oddity of the public code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrainNetTfConfig {
    /// Regions, N.
    pub regions: usize,
    pub outputs: usize,
    /// Attention heads; must divide the width.
    pub heads: usize,
    /// Clusters; at most the width, since more cannot be orthogonal.
    pub clusters: usize,
    /// Width of the feed-forward layers.
    pub ffn: usize,
    /// Rate of dropout in attention, feed-forward layers and residual branches.
    pub dropout: f64,
    /// Width of a learned code of the region, put beside its row of connectivity; 0 for none.
    pub identity: usize,
    /// As in the public code: the first centre keeps its length.
    pub first_centre_unnormalised: bool,
}

impl BrainNetTfConfig {
    /// One output, no oddities. The public code's four heads, where they divide the regions (450 is given five of 90), and
    /// its hundred clusters, where there are as many regions.
    pub fn new(regions: usize) -> Self {
        let heads = [4, 5, 6, 3, 7, 2].into_iter().find(|h| regions.is_multiple_of(*h)).unwrap_or(1);
        Self {
            regions,
            outputs: 1,
            heads,
            clusters: CLUSTERS.min(regions),
            ffn: 1024,
            dropout: 0.1,
            identity: 0,
            first_centre_unnormalised: false,
        }
    }

    pub(crate) fn width(&self) -> usize {
        self.regions + self.identity
    }
}

#[derive(Module, Debug)]
pub struct BrainNetTf {
    /// [N, identity], if there is one.
    pub identity: Option<Param<Tensor<2>>>,
    /// Two transformer layers.
    pub layers: Vec<PostNormLayer>,
    /// Regions to clusters.
    pub readout: ClusterReadout,
    /// width -> 8, for each cluster.
    pub reduce: Linear,
    /// 8 clusters -> 256.
    pub linear1: Linear,
    /// 256 -> 32.
    pub linear2: Linear,
    /// 32 -> outputs.
    pub linear3: Linear,
    #[module(skip)]
    config: BrainNetTfConfig,
}

impl Network for BrainNetTf {
    type Config = BrainNetTfConfig;
    type Input = Connectome;

    fn initial(config: &Self::Config, seed: u64) -> Parameters {
        let mut parameters = draw_parameters(&Self::table(config), seed);
        if let Some(identity) = parameters.0.get_mut("identity") {
            let deviation = (2.0 / config.identity as f32).sqrt();
            identity.values.iter_mut().for_each(|x| *x *= deviation);
        }
        if let Some(centres) = parameters.0.get_mut("readout.centres") {
            orthonormal_centres(&mut centres.values, config.width(), !config.first_centre_unnormalised);
        }
        parameters
    }

    fn build(config: &Self::Config, source: &mut Source) -> Result<Self, ParameterError> {
        let width = config.width();
        Ok(Self {
            identity: match config.identity {
                0 => None,
                identity => Some(source.take("identity", [config.regions, identity], Start::Normal)?),
            },
            layers: (0..2)
                .map(|i| PostNormLayer::build(&format!("layers.{i}"), width, config.heads, config.ffn, source))
                .collect::<Result<_, _>>()?,
            readout: ClusterReadout::build("readout", config.regions, width, config.clusters, source)?,
            reduce: source.linear("reduce", width, REDUCED)?,
            linear1: source.linear("linear1", REDUCED * config.clusters, HIDDEN[0])?,
            linear2: source.linear("linear2", HIDDEN[0], HIDDEN[1])?,
            linear3: source.linear("linear3", HIDDEN[1], config.outputs)?,
            config: config.clone(),
        })
    }

    fn pass(&self, batch: &Batch, training: Option<&Training>) -> Pass {
        let [samples, regions, _] = batch.nodes.dims();
        let leaky = |x: Tensor<3>| activation::leaky_relu(x, SLOPE);
        let mut x = batch.nodes.clone(); // [B, N, width]
        if let Some(identity) = &self.identity {
            let code = identity.val().reshape([1, regions, self.config.identity]);
            x = Tensor::cat(vec![x, code.expand([samples, regions, self.config.identity])], 2);
        }
        for (i, layer) in self.layers.iter().enumerate() {
            x = layer.forward(x, training.and_then(|t| t.dropout(self.config.dropout)).map(|dropout| (dropout, 4 * i)));
        }
        let clusters = self.readout.forward(x); // [B, K, width]
        let reduced = leaky(self.reduce.forward(clusters)).reshape([samples, 1, REDUCED * self.config.clusters]);
        let hidden = leaky(self.linear1.forward(reduced));
        let hidden = leaky(self.linear2.forward(hidden));
        let output: Tensor<2> = self.linear3.forward(hidden).reshape([samples, self.config.outputs]);
        output.into()
    }
}
