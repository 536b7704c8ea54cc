//! A transformer layer with its norms after the residual sums.

use bdo_model::dropout::Dropout;
use bdo_model::layer::{LayerNorm, Linear, LinearStart, Source};
use bdo_model::ops::{self, Epilogue, Kernels, KeyPadding};
use bdo_model::parameters::{ParameterError, Start};
use burn::module::Module;
use burn::tensor::Tensor;

const EPS: f64 = 1e-5;

/// norm1(x + attention(x)), then norm2(. + ffn(.)).
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
    pub(super) fn build(
        name: &str,
        width: usize,
        heads: usize,
        ffn: usize,
        source: &mut Source,
    ) -> Result<Self, ParameterError> {
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
    pub(super) fn forward(&self, x: Tensor<3>, dropout: Option<(Dropout, usize)>) -> Tensor<3> {
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
