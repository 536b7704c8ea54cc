//! The term of the loss on the universal feature itself, the mean control of a visit, and the small network it needs. That
//! network is trained with the model and thrown away: a model directory does not hold it.

use crate::config::ModelConfig;
use crate::device::{download, upload};
use crate::intake::Kin;
use crate::layer::{Linear, Source};
use crate::ops::{Epilogue, Kernels};
use crate::parameters::{ParameterError, ParameterSpec, Parameters};
use burn::module::Module;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Float, Tensor, TensorData};

/// Stands for minus infinity where a pair of samples is left out.
const LEFT_OUT: f32 = -1e9;

/// The network between the mean control and the identity term; it is there if the term has a weight.
#[derive(Module, Debug)]
pub struct FeatureHeads {
    /// d -> d.
    pub identity1: Option<Linear>,
    /// d -> coordinates in which visits are compared.
    pub identity2: Option<Linear>,
    temperature: f64,
}

/// The identity term of some samples, without its weight: the cross-entropy of finding the other visit of the same scan.
#[derive(Clone, Debug)]
pub struct IdentityTerm {
    /// Mean over the samples that have a partner and a stranger to tell it from.
    pub loss: Tensor<1>,
    /// [B, B] how similar samples are; what is not compared is far below all others.
    similar: Tensor<2>,
    /// Samples that are asked for, and their partners.
    asked: Vec<(usize, usize)>,
}

impl IdentityTerm {
    /// Share of them whose most similar sample is the partner.
    pub fn found(&self) -> f64 {
        let count = self.similar.dims()[0];
        let best = download(self.similar.clone());
        let found = self.asked.iter().filter(|&&(i, j)| {
            let row = &best[i * count..(i + 1) * count];
            row.iter().enumerate().all(|(other, x)| other == j || *x < row[j])
        });
        found.count() as f64 / self.asked.len() as f64
    }

    /// The same, worked out where the samples are: [1].
    pub fn found_there(&self) -> Tensor<1> {
        let similar = self.similar.clone().inner();
        let (count, share) = (similar.dims()[0], 1.0 / self.asked.len() as f32);
        let (mut partner, mut shares) = (vec![0.0f32; count * count], vec![0.0f32; count]);
        for &(i, j) in &self.asked {
            partner[i * count + j] = 1.0;
            shares[i] = share;
        }
        let place = (&similar.device(), similar.dtype());
        let partner = upload::<2, Float>(TensorData::new(partner, [count, count]), place);
        let of_partner = (similar.clone() * partner.clone()).sum_dim(1); // [B, 1]
        let of_others = (similar + partner * LEFT_OUT).max_dim(1); // [B, 1]
        let shares = upload::<2, Float>(TensorData::new(shares, [count, 1]), place);
        (of_partner.greater(of_others).float().cast(place.1) * shares).sum()
    }
}

/// Names and shapes of the parameters of the heads of a configuration.
pub fn head_table(config: &ModelConfig) -> Vec<ParameterSpec> {
    Source::list(|source| FeatureHeads::take(config, source))
}

impl FeatureHeads {
    /// The heads of a configuration.
    pub fn take(config: &ModelConfig, source: &mut Source) -> Result<Self, ParameterError> {
        let (d, loss) = (config.width, &config.loss);
        let mut linear =
            |name: &str, outputs: usize| (loss.identity > 0.0).then(|| source.linear(name, d, outputs)).transpose();
        Ok(Self {
            identity1: linear("identity1", d)?,
            identity2: linear("identity2", loss.identity_width)?,
            temperature: loss.identity_temperature,
        })
    }

    /// Takes the heads of a configuration out of parameters and leaves the others.
    pub fn split_off(
        config: &ModelConfig,
        parameters: &mut Parameters,
        kernels: Kernels,
        device: &Device,
    ) -> Result<Self, ParameterError> {
        let own = head_table(config).into_iter().filter_map(|row| parameters.0.remove_entry(&row.name)).collect();
        Source::build(Parameters(own), device, kernels, |source| Self::take(config, source))
    }

    /// The term of samples with mean controls [B, d]; absent without its weight or without a pair.
    pub fn identity(&self, feature: &Tensor<2>, kin: &[Kin]) -> Option<IdentityTerm> {
        let (first, second) = self.identity1.as_ref().zip(self.identity2.as_ref())?;
        let rows = feature.clone().unsqueeze_dim::<3>(0); // [1, B, d]
        let code: Tensor<2> = second.forward(first.forward_then(rows, Epilogue::Gelu)).squeeze_dim(0); // [B, c]
        identity_term(code, kin, self.temperature)
    }
}

/// code [B, c]: each sample must be most similar, by cosine, to the other visit of its scan, among samples of its group.
/// Other scans of the same person count neither as partners nor as strangers.
fn identity_term(code: Tensor<2>, kin: &[Kin], temperature: f64) -> Option<IdentityTerm> {
    let count = kin.len();
    let partner = |i: usize| (0..count).find(|&j| j != i && kin[j].scan == kin[i].scan);
    let stranger = |i: usize, j: usize| kin[j].person != kin[i].person && kin[j].group == kin[i].group;
    let asked: Vec<(usize, usize)> =
        (0..count).filter(|&i| (0..count).any(|j| stranger(i, j))).filter_map(|i| partner(i).map(|j| (i, j))).collect();
    if asked.is_empty() {
        return None;
    }
    let mut allowed = vec![LEFT_OUT; count * count];
    let mut wanted = vec![0.0f32; count * count];
    for &(i, j) in &asked {
        (0..count).filter(|&other| stranger(i, other)).for_each(|other| allowed[i * count + other] = 0.0);
        allowed[i * count + j] = 0.0;
        wanted[i * count + j] = -1.0 / asked.len() as f32;
    }
    let place = (&code.device(), code.dtype());
    let matrix = |values: Vec<f32>| upload::<2, Float>(TensorData::new(values, [count, count]), place);
    let size = code.clone().square().sum_dim(1).sqrt().clamp_min(1e-6);
    let code = code / size;
    let similar = code.clone().matmul(code.transpose()) / temperature + matrix(allowed); // [B, B]
    let loss = (log_softmax(similar.clone(), 1) * matrix(wanted)).sum();
    Some(IdentityTerm { loss, similar, asked })
}
