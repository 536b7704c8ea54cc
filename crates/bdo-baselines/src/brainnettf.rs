//! BrainNetTF: a transformer over regions and a readout that sorts regions into orthonormal clusters.

use crate::connectivity::{Batch, Connectome};
use bdo_eval::supervised::network::{Network, Pass, Training};
use bdo_model::dropout::Dropout;
use bdo_model::init::draw_parameters;
use bdo_model::layer::{LayerNorm, Linear, LinearStart, Source};
use bdo_model::ops::{self, Epilogue, Kernels, KeyPadding};
use bdo_model::parameters::{ParameterError, Parameters, Start};
use burn::module::{Module, Param};
use burn::tensor::{Tensor, activation};
use serde::{Deserialize, Serialize};

const EPS: f64 = 1e-5;
const SLOPE: f64 = 0.01;
const CLUSTERS: usize = 100;
/// Width of the network that assigns regions to clusters.
pub(crate) const READOUT: usize = 32;
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

/// A transformer layer with its norms after the residual sums: norm1(x + attention(x)), then norm2(. + ffn(.)).
#[derive(Module, Debug)]
pub struct PostNormLayer {
    /// d -> 3d: all q, all k, all v; head-major inside each.
    pub qkv: Linear,
    /// d -> d.
    pub proj: Linear,
    /// After attention.
    pub norm1: LayerNorm,
    /// d -> ffn.
    pub linear1: Linear,
    /// ffn -> d.
    pub linear2: Linear,
    /// After the feed-forward layer.
    pub norm2: LayerNorm,
    heads: usize,
    #[module(skip)]
    kernels: Kernels,
}

impl PostNormLayer {
    fn build(name: &str, width: usize, heads: usize, ffn: usize, source: &mut Source) -> Result<Self, ParameterError> {
        let fan_in = Start::Uniform(1.0 / (width as f64).sqrt());
        source.under(name, |source| {
            Ok(Self {
                // The Xavier bound is that of the whole 3d x d matrix, as the framework of the original draws it.
                qkv: source.linear_from("qkv", width, 3 * width, LinearStart::Xavier, true)?,
                proj: source.linear_from("proj", width, width, LinearStart::Weight(fan_in), true)?,
                norm1: source.norm("norm1", width, EPS)?,
                linear1: source.linear("linear1", width, ffn)?,
                linear2: source.linear("linear2", ffn, width)?,
                norm2: source.norm("norm2", width, EPS)?,
                heads,
                kernels: source.kernels,
            })
        })
    }

    /// [B, T, d] -> [B, T, d]; dropout comes with the first of the four sites it acts at.
    fn forward(&self, x: Tensor<3>, dropout: Option<(Dropout, usize)>) -> Tensor<3> {
        let [samples, tokens, _] = x.dims();
        let padding = KeyPadding::new(vec![tokens; samples], tokens, &x.device());
        let drop = |offset: usize, x: Tensor<3>| match dropout {
            Some((dropout, site)) => dropout.apply(site + offset, x),
            None => x,
        };
        let mixed = ops::attention(self.kernels, self.qkv.forward(x.clone()), self.heads, &padding, dropout);
        let x = self.norm1.forward(x + drop(1, self.proj.forward(mixed)));
        let hidden = drop(2, self.linear1.forward_then(x.clone(), Epilogue::Relu));
        self.norm2.forward(x + drop(3, self.linear2.forward(hidden)))
    }
}

/// Regions are shared out over clusters with fixed, orthonormal centres: all of them at once through a narrow network, then soft
/// assignment.
#[derive(Module, Debug)]
pub struct ClusterReadout {
    /// N * d -> 32.
    pub linear1: Linear,
    /// 32 -> 32.
    pub linear2: Linear,
    /// 32 -> N * d.
    pub linear3: Linear,
    /// [K, d], orthonormal, not trained.
    pub centres: Param<Tensor<2>>,
    #[module(skip)]
    kernels: Kernels,
}

impl ClusterReadout {
    fn build(
        name: &str,
        regions: usize,
        width: usize,
        clusters: usize,
        source: &mut Source,
    ) -> Result<Self, ParameterError> {
        let bound = Start::Uniform((6.0 / (clusters + width) as f64).sqrt());
        source.under(name, |source| {
            Ok(Self {
                linear1: source.linear("linear1", regions * width, READOUT)?,
                linear2: source.linear("linear2", READOUT, READOUT)?,
                linear3: source.linear("linear3", READOUT, regions * width)?,
                centres: source.parameter("centres", [clusters, width], bound, false)?,
                kernels: source.kernels,
            })
        })
    }

    /// [B, N, d] -> [B, K, d].
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [samples, regions, width] = x.dims();
        let leaky = |x: Tensor<3>| activation::leaky_relu(x, SLOPE);
        let hidden = leaky(self.linear1.forward(x.reshape([samples, 1, regions * width])));
        let hidden = leaky(self.linear2.forward(hidden));
        let h = self.linear3.forward(hidden).reshape([samples, regions, width]); // [B, N, d]
        let centres = self.centres.val();
        let clusters = centres.dims()[0];
        let length = centres.clone().square().sum_dim(1).sqrt().reshape([1, 1, clusters]);
        let projection = h.clone().matmul(centres.transpose().unsqueeze()); // [B, N, K]
        let assignment = ops::softmax(self.kernels, projection.square() / length);
        assignment.swap_dims(1, 2).matmul(h)
    }
}

/// Gram-Schmidt on the rows of `values` [K, width], in double precision and twice, so that rows are orthogonal to rounding.
/// With `normalise_first` off, the first row keeps its length, as in the public code.
pub fn orthonormal_centres(values: &mut [f32], width: usize, normalise_first: bool) {
    let mut rows: Vec<Vec<f64>> =
        values.chunks_exact(width).map(|row| row.iter().map(|x| f64::from(*x)).collect()).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    for k in 0..rows.len() {
        let (before, rest) = rows.split_at_mut(k);
        let row = &mut rest[0];
        for _ in 0..2 {
            for other in before.iter() {
                let share = dot(row, other) / dot(other, other);
                row.iter_mut().zip(other).for_each(|(x, o)| *x -= share * o);
            }
        }
        if k > 0 || normalise_first {
            let length = dot(row, row).sqrt();
            row.iter_mut().for_each(|x| *x /= length);
        }
    }
    for (out, value) in values.iter_mut().zip(rows.iter().flatten()) {
        *out = *value as f32;
    }
}
