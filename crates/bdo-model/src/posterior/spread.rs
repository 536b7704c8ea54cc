//! The spread of the state through the decoder, which is not linear: by drawing states, or by its slope at the mean.

use crate::device::{download, upload};
use crate::noise::fill_normal;
use crate::posterior::engine::{Engine, Piece};
use bdo_data::random::stream;
use burn::tensor::{Float, TensorData};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// How a spread passes the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Uncertainty {
    /// States are drawn and decoded.
    Sampled {
        /// How many.
        draws: usize,
    },
    /// The decoder is taken as linear around the mean state.
    Linearised,
}

/// Row-major [rows, regions] variance of decoded values in the units of the model, observation noise not included. The
/// draws are a function of `seed` and of the row, so that windows and threads change nothing.
pub fn decoded_variance(engine: &Engine<'_>, piece: &Piece, how: Uncertainty, seed: &[u64]) -> Vec<f32> {
    let sigma_p = engine.frozen().model.config().loss.sigma_p;
    let floor = (sigma_p * sigma_p) as f32;
    let total: Vec<f32> = piece.variance.iter().map(|v| v + floor).collect();
    let mut variance = match how {
        Uncertainty::Sampled { draws } => sampled(engine, piece, &total, draws.max(2), seed),
        Uncertainty::Linearised => linearised(engine, piece, &total),
    };
    for row in variance.chunks_exact_mut(piece.size.len().max(1)) {
        row.iter_mut().zip(&piece.size).for_each(|(v, size)| *v *= size * size);
    }
    variance
}

fn sampled(engine: &Engine<'_>, piece: &Piece, variance: &[f32], draws: usize, seed: &[u64]) -> Vec<f32> {
    let model = &engine.frozen().model;
    let (width, regions) = (model.config().width, model.config().regions);
    let rows = piece.rows.len();
    let deviation: Vec<f32> = variance.iter().map(|v| v.sqrt()).collect();
    // Around the first draw, so that squares of large offsets do not cancel.
    let mut offset: Vec<f32> = Vec::new();
    let (mut sums, mut squares) = (vec![0.0f32; rows * regions], vec![0.0f32; rows * regions]);
    for draw in 0..draws {
        let mut states = vec![0.0f32; rows * width];
        states.par_chunks_mut(width).enumerate().for_each(|(row, state)| {
            let mut key = seed.to_vec();
            key.extend([(piece.rows.start + row) as u64, draw as u64]);
            fill_normal(&mut stream("posterior", &key), state);
            let at = row * width..(row + 1) * width;
            for ((x, mean), sd) in state.iter_mut().zip(&piece.mean[at.clone()]).zip(&deviation[at]) {
                *x = mean + sd * *x;
            }
        });
        let states = upload::<3, Float>(TensorData::new(states, [1, rows, width]), &model.device());
        let decoded = download(model.decoder.forward(model.dynamics.rotate(engine.basis(), states), None));
        if draw == 0 {
            offset.clone_from(&decoded);
        }
        for (((sum, square), x), first) in sums.iter_mut().zip(&mut squares).zip(&decoded).zip(&offset) {
            let from_mean = x - first;
            *sum += from_mean;
            *square += from_mean * from_mean;
        }
    }
    let n = draws as f32;
    sums.iter().zip(&squares).map(|(sum, square)| ((square - sum * sum / n) / (n - 1.0)).max(0.0)).collect()
}

/// `sum_k J_nk^2 P_k` with J the slope of decoder and rotation at the mean state.
fn linearised(engine: &Engine<'_>, piece: &Piece, variance: &[f32]) -> Vec<f32> {
    let width = engine.frozen().model.config().width;
    let slopes = Slopes::of(engine);
    let row = |(mean, variance): (&[f32], &[f32])| slopes.variance(mean, variance);
    piece.mean.par_chunks_exact(width).zip(variance.par_chunks_exact(width)).map(row).flatten().collect()
}

/// The decoder's matrices on the host, the rotation folded into the first.
pub struct Slopes {
    width: usize,
    regions: usize,
    /// `W1 V` [d, d].
    first: Vec<f32>,
    bias: Vec<f32>,
    /// `W2` [N, d].
    second: Vec<f32>,
}

impl Slopes {
    /// Those of a model.
    pub fn of(engine: &Engine<'_>) -> Self {
        let model = &engine.frozen().model;
        let parameters = model.parameters();
        let values = |name: &str| parameters.0.get(name).map(|array| array.values.clone()).unwrap_or_default();
        let (width, regions) = (model.config().width, model.config().regions);
        let basis = download(engine.basis());
        let plain = values("decoder.linear1.weight");
        let mut first = vec![0.0f32; width * width];
        first.par_chunks_mut(width).zip(plain.par_chunks(width)).for_each(|(out, row)| {
            for (weight, basis) in row.iter().zip(basis.chunks_exact(width)) {
                out.iter_mut().zip(basis).for_each(|(x, v)| *x += weight * v);
            }
        });
        Self { width, regions, first, bias: values("decoder.linear1.bias"), second: values("decoder.linear2.weight") }
    }

    /// [d] 1 for the units of the decoder that are open at a state in the eigenbasis, 0 for the others.
    pub fn open(&self, state: &[f32]) -> Vec<f32> {
        let is_open = |(driven, bias): (f32, &f32)| f32::from(u8::from(driven + bias > 0.0));
        self.driven(state).zip(&self.bias).map(is_open).collect()
    }

    /// [N] movement of the regions for one of the state, through the open units.
    pub fn moved(&self, open: &[f32], step: &[f32]) -> Vec<f32> {
        let hidden: Vec<f32> = self.driven(step).zip(open).map(|(driven, open)| driven * open).collect();
        self.second.chunks_exact(self.width).map(|row| dot(row, &hidden)).collect()
    }

    fn driven(&self, x: &[f32]) -> impl Iterator<Item = f32> {
        self.first.chunks_exact(self.width).map(|row| dot(row, x))
    }

    /// [N, d] slope through the open units, or its mean where units are open for a share of the time.
    pub fn slope(&self, open: &[f32]) -> Vec<f32> {
        let mut slope = vec![0.0f32; self.regions * self.width];
        for (out, weights) in slope.chunks_exact_mut(self.width).zip(self.second.chunks_exact(self.width)) {
            let units = weights.iter().zip(self.first.chunks_exact(self.width)).zip(open);
            for ((weight, row), open) in units.filter(|(_, open)| **open > 0.0) {
                let weight = weight * open;
                out.iter_mut().zip(row).for_each(|(x, w)| *x += weight * w);
            }
        }
        slope
    }

    fn variance(&self, mean: &[f32], variance: &[f32]) -> Vec<f32> {
        let slope = self.slope(&self.open(mean));
        let region = |row: &[f32]| row.iter().zip(variance).map(|(j, v)| j * j * v).sum::<f32>();
        slope.chunks_exact(self.width).map(region).collect()
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
