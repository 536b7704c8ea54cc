//! A fresh model from a seed. Each parameter has its own random stream, derived from the seed and its name, so
//! adding a parameter never changes another one.

use crate::config::{AttentionStart, EmbedStart, ModelConfig};
use crate::parameters::{Array, ParameterSpec, Parameters, Start, parameter_table};
use bdo_kernels::linalg::orthogonal_factor;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::f64::consts::TAU;

/// Draws every parameter of the configured model.
pub fn initial_parameters(config: &ModelConfig, seed: u64) -> Parameters {
    let mut parameters = draw_parameters(&parameter_table(config), seed);
    if config.attention_start == AttentionStart::Local {
        (0..config.blocks).for_each(|block| start_locally(&mut parameters, config, block));
    }
    if config.embed_start == EmbedStart::Affine {
        start_affine(&mut parameters, seed);
    }
    parameters
}

/// Factor on the weights of the two layers that read region values, and largest bias: data of about unit size then have a
/// spread of one half beside that of the biases, and nine units in ten are on.
const AFFINE_START: [(&str, f32, f64); 2] = [("encoder.embed.linear1", 2.0, 6.0), ("encoder.embed.linear2", 1.7, 4.0)];

fn start_affine(parameters: &mut Parameters, seed: u64) {
    for (layer, gain, most) in AFFINE_START {
        if let Some(weight) = parameters.0.get_mut(&format!("{layer}.weight")) {
            weight.values.iter_mut().for_each(|w| *w *= gain);
        }
        let name = format!("{layer}.bias");
        if let Some(bias) = parameters.0.get_mut(&name) {
            let mut stream = Stream::named(seed, &format!("{name} affine"));
            bias.values.iter_mut().for_each(|b| *b = (most * stream.uniform()) as f32);
        }
    }
}

/// Draws every parameter of a table.
pub fn draw_parameters(table: &[ParameterSpec], seed: u64) -> Parameters {
    Parameters(table.iter().map(|spec| (spec.name.clone(), draw(spec, seed))).collect())
}

/// Square of the gain of initial queries and keys: at 3 the frame at a head's lag has about 8 more than a far one before
/// the softmax.
const LOCAL_GAIN: f64 = 3.0;

/// Queries and keys read the sines and cosines of the time code, queries turned by the head's lag, so that their product
/// is largest for the frame at that lag. The output projection is the transposed value projection, near its inverse.
fn start_locally(parameters: &mut Parameters, config: &ModelConfig, block: usize) {
    let (d, heads) = (config.width, config.heads);
    let name = |layer: &str| format!("encoder.blocks.{block}.attn.{layer}.weight");
    let Some(qkv) = parameters.0.get_mut(&name("qkv")) else { return };
    let gain = LOCAL_GAIN.sqrt();
    qkv.values[..2 * d * d].fill(0.0);
    for head in 0..heads {
        let lag = config.time_code_rate() * head_lag_seconds(block * heads + head);
        for pair in 0..d / heads / 2 {
            let (sin, cos) = (lag / 10000f64.powf(2.0 * pair as f64 / d as f64)).sin_cos();
            let row = head * (d / heads) + 2 * pair;
            let mut put = |row: usize, column: usize, value: f64| qkv.values[row * d + column] = (gain * value) as f32;
            put(row, 2 * pair, cos);
            put(row, 2 * pair + 1, sin);
            put(row + 1, 2 * pair, -sin);
            put(row + 1, 2 * pair + 1, cos);
            put(d + row, 2 * pair, 1.0);
            put(d + row + 1, 2 * pair + 1, 1.0);
        }
    }
    let values = &qkv.values[2 * d * d..];
    let scale = config.attention_output_init as f32;
    let transposed: Vec<f32> = (0..d * d).map(|i| scale * values[(i % d) * d + i / d]).collect();
    if let Some(projection) = parameters.0.get_mut(&name("proj")) {
        projection.values = transposed;
    }
}

/// Its own time, ahead, back; at 1, 2, 4, 8 and 16 seconds in turn.
fn head_lag_seconds(head: usize) -> f64 {
    [0.0, 1.0, -1.0][head % 3] * f64::from(1u32 << (head / 3 % 5))
}

fn draw(spec: &ParameterSpec, seed: u64) -> Array {
    let count = spec.shape.iter().product();
    let mut stream = Stream::named(seed, &spec.name);
    let values = match spec.start {
        Start::Zeros => vec![0.0; count],
        Start::Ones => vec![1.0; count],
        Start::Uniform(bound) => (0..count).map(|_| ((2.0 * stream.uniform() - 1.0) * bound) as f32).collect(),
        Start::Normal => (0..count).map(|_| stream.normal() as f32).collect(),
        Start::TruncatedNormal(deviation) => (0..count).map(|_| (truncated(&mut stream) * deviation) as f32).collect(),
        Start::Identity(x) => (0..count).map(|k| if k % (spec.shape[1] + 1) == 0 { x as f32 } else { 0.0 }).collect(),
        Start::Orthogonal => random_orthogonal(spec.shape[0], &mut stream),
    };
    Array { shape: spec.shape.clone(), values }
}

/// A standard normal number, drawn again until it lies within two standard deviations.
fn truncated(stream: &mut Stream) -> f64 {
    loop {
        let value = stream.normal();
        if value.abs() <= 2.0 {
            return value;
        }
    }
}

/// A seekable stream of uniform and normal numbers.
pub struct Stream {
    source: ChaCha12Rng,
    spare: Option<f64>,
}

impl Stream {
    /// The stream that belongs to a seed and a name.
    pub fn named(seed: u64, name: &str) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("bdo-model random stream");
        hasher.update(&seed.to_le_bytes());
        hasher.update(name.as_bytes());
        Self::from_key(*hasher.finalize().as_bytes())
    }

    /// The stream of a 32-byte key.
    pub fn from_key(key: [u8; 32]) -> Self {
        Self { source: ChaCha12Rng::from_seed(key), spare: None }
    }

    /// Uniform in [0, 1), 53 bits.
    pub fn uniform(&mut self) -> f64 {
        (self.source.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Standard normal, by the Box-Muller transform.
    pub fn normal(&mut self) -> f64 {
        if let Some(value) = self.spare.take() {
            return value;
        }
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        let (sin, cos) = (TAU * self.uniform()).sin_cos();
        self.spare = Some(radius * sin);
        radius * cos
    }
}

/// Row-major Haar-distributed orthogonal matrix: the Q of a Gaussian matrix, signs fixed by the diagonal of R.
fn random_orthogonal(d: usize, stream: &mut Stream) -> Vec<f32> {
    let draws: Vec<f64> = (0..d * d).map(|_| stream.normal()).collect();
    let (q, diagonal) = orthogonal_factor(faer::Mat::from_fn(d, d, |i, j| draws[i * d + j]));
    (0..d * d).map(|k| (q[(k / d, k % d)] * diagonal[k % d].signum()) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Products of initial queries and keys for frames at these times, from the time code alone.
    fn scores(config: &ModelConfig, block: usize, head: usize, times: &[f64], query: usize) -> Vec<f64> {
        let d = config.width;
        let parameters = initial_parameters(config, 3);
        let qkv = &parameters.0[&format!("encoder.blocks.{block}.attn.qkv.weight")].values;
        let code = |t: f64| -> Vec<f64> {
            let angle = |i: usize| t * config.time_code_rate() / 10000f64.powf((2 * (i / 2)) as f64 / d as f64);
            (0..d).map(|i| if i % 2 == 0 { angle(i).sin() } else { angle(i).cos() }).collect()
        };
        let rows = |from: usize, t: f64| -> Vec<f64> {
            let code = code(t);
            let row = |r: usize| (0..d).map(|c| f64::from(qkv[(from + r) * d + c]) * code[c]).sum();
            (head * d / config.heads..(head + 1) * d / config.heads).map(row).collect()
        };
        let q = rows(0, times[query]);
        times.iter().map(|t| q.iter().zip(rows(d, *t)).map(|(a, b)| a * b).sum()).collect()
    }

    #[test]
    fn heads_that_start_locally_look_at_the_frame_at_their_lag() {
        let config = ModelConfig {
            regions: 5,
            time_scale: 0.3,
            time_encoding_rate: 6.0,
            attention_start: AttentionStart::Local,
            ..ModelConfig::tiny()
        };
        let times: Vec<f64> = (0..60).map(f64::from).collect();
        for (block, head) in [(0, 0), (0, 1), (0, 2), (2, 1), (4, 2)] {
            let found = scores(&config, block, head, &times, 30);
            let best = (0..60).max_by(|a, b| found[*a].total_cmp(&found[*b])).expect("sixty frames");
            let lag = head_lag_seconds(block * config.heads + head);
            assert!((times[best] - (30.0 + lag)).abs() < 0.5, "block {block}, head {head}: {best}, lag {lag}");
        }
    }
}
