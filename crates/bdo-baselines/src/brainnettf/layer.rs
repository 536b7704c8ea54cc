//! A transformer layer with its norms after the residual sums.

use crate::table::Table;
use bdo_model::dropout::Dropout;
use bdo_model::layer::{LayerNorm, Linear, Source};
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
    pub(super) fn describe(table: &mut Table, name: &str, width: usize, ffn: usize) {
        // The Xavier bound is that of the whole 3d x d matrix, as the framework of the original draws it.
        table.xavier_linear(&format!("{name}.qkv"), width, 3 * width);
        table.push(&format!("{name}.proj.weight"), &[width, width], Start::Uniform(1.0 / (width as f64).sqrt()));
        table.push(&format!("{name}.proj.bias"), &[width], Start::Zeros);
        table.norm(&format!("{name}.norm1"), width);
        table.linear(&format!("{name}.linear1"), width, ffn);
        table.linear(&format!("{name}.linear2"), ffn, width);
        table.norm(&format!("{name}.norm2"), width);
    }

    pub(super) fn build(
        name: &str,
        width: usize,
        heads: usize,
        ffn: usize,
        source: &mut Source,
    ) -> Result<Self, ParameterError> {
        Ok(Self {
            qkv: source.linear(&format!("{name}.qkv"), width, 3 * width, true)?,
            proj: source.linear(&format!("{name}.proj"), width, width, true)?,
            norm1: source.norm(&format!("{name}.norm1"), width, EPS)?,
            linear1: source.linear(&format!("{name}.linear1"), width, ffn, true)?,
            linear2: source.linear(&format!("{name}.linear2"), ffn, width, true)?,
            norm2: source.norm(&format!("{name}.norm2"), width, EPS)?,
            heads,
            kernels: source.kernels,
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
