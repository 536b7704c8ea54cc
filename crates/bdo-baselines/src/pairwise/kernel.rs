//! The pair sum without the pairs.
//!
//! For one channel, `sum_j w_j leaky(r + c_j)` is a linear function of r between two neighbouring values of `-c_j`: with P
//! and Q the sums of `w_j` and `w_j c_j` over the j with `r + c_j > 0`, and T and S the same over all j, it is
//! `slope (r T + S) + (1 - slope) (r P + Q)`. Going through the r in ascending order, P and Q only ever gain terms. That
//! makes N O work a channel of what would be N N O, and nothing of size N x N exists, forward or backward.

use rayon::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairShape {
    pub batch: usize,
    /// Channels summed over.
    pub channels: usize,
    /// Values of a row, I.
    pub rows: usize,
    /// Values of a column, J.
    pub columns: usize,
    /// Sums for each row value.
    pub outputs: usize,
}

/// row [B, C, I], column [B, C, J], weight [O, C, J] -> [B, I, O].
pub fn forward(shape: PairShape, row: &[f32], column: &[f32], weight: &[f32], slope: f32) -> Vec<f32> {
    let PairShape { channels, rows, columns, outputs, .. } = shape;
    let weight = outputs_last(shape, weight);
    let mut y = vec![0.0f32; shape.batch * rows * outputs];
    y.par_chunks_mut(rows * outputs).enumerate().for_each(|(b, y)| {
        let mut sums = vec![0.0f64; rows * outputs];
        for c in 0..channels {
            let r = &row[(b * channels + c) * rows..][..rows];
            let k = &column[(b * channels + c) * columns..][..columns];
            let w = &weight[c * columns * outputs..][..columns * outputs];
            let mut sweep = Sweep::new(outputs, slope, k, w);
            for i in ascending(r) {
                sweep.include_above(-r[i]);
                sweep.add_line(f64::from(r[i]), &mut sums[i * outputs..][..outputs]);
            }
        }
        for (y, sum) in y.iter_mut().zip(&sums) {
            *y = *sum as f32;
        }
    });
    y
}

/// Gradients of row [B, C, I], column [B, C, J] and weight [O, C, J] for an upstream gradient [B, I, O].
pub fn backward(
    shape: PairShape,
    row: &[f32],
    column: &[f32],
    weight: &[f32],
    slope: f32,
    upstream: &[f32],
) -> [Vec<f32>; 3] {
    let PairShape { batch, channels, rows, columns, outputs } = shape;
    let weight = outputs_last(shape, weight);
    // One task a channel: each owns its rows of all three gradients, and sums over samples in order.
    let parts: Vec<Part> = (0..channels)
        .into_par_iter()
        .map(|c| {
            let w = &weight[c * columns * outputs..][..columns * outputs];
            let mut part = Part::new(shape);
            for b in 0..batch {
                let r = &row[(b * channels + c) * rows..][..rows];
                let k = &column[(b * channels + c) * columns..][..columns];
                part.add_sample(b, r, k, w, slope, &upstream[b * rows * outputs..][..rows * outputs]);
            }
            part
        })
        .collect();
    let mut of_row = vec![0.0; batch * channels * rows];
    let mut of_column = vec![0.0; batch * channels * columns];
    let mut of_weight = vec![0.0; outputs * channels * columns];
    for (c, part) in parts.iter().enumerate() {
        for b in 0..batch {
            of_row[(b * channels + c) * rows..][..rows].copy_from_slice(&part.row[b * rows..][..rows]);
            of_column[(b * channels + c) * columns..][..columns]
                .copy_from_slice(&part.column[b * columns..][..columns]);
        }
        for (j, by_output) in part.weight.chunks_exact(outputs).enumerate() {
            for (o, value) in by_output.iter().enumerate() {
                of_weight[(o * channels + c) * columns + j] = *value as f32;
            }
        }
    }
    [of_row, of_column, of_weight]
}

/// The gradients of one channel.
struct Part {
    shape: PairShape,
    row: Vec<f32>,
    column: Vec<f32>,
    weight: Vec<f64>,
}

impl Part {
    fn new(shape: PairShape) -> Self {
        let PairShape { batch, rows, columns, outputs, .. } = shape;
        Self {
            shape,
            row: vec![0.0; batch * rows],
            column: vec![0.0; batch * columns],
            weight: vec![0.0; columns * outputs],
        }
    }

    fn add_sample(&mut self, b: usize, r: &[f32], k: &[f32], w: &[f32], slope: f32, upstream: &[f32]) {
        let PairShape { rows, columns, outputs, .. } = self.shape;
        let mut sweep = Sweep::new(outputs, slope, k, w);
        for i in ascending(r) {
            sweep.include_above(-r[i]);
            self.row[b * rows + i] = sweep.dot_slope(&upstream[i * outputs..][..outputs]) as f32;
        }
        // The same with the parts of rows and columns exchanged: the upstream gradient takes the place of the weights.
        let mut sweep = Sweep::new(outputs, slope, r, upstream);
        for j in ascending(k) {
            sweep.include_above(-k[j]);
            self.column[b * columns + j] = sweep.dot_slope(&w[j * outputs..][..outputs]) as f32;
            sweep.add_line(f64::from(k[j]), &mut self.weight[j * outputs..][..outputs]);
        }
    }
}

/// Running sums over the points that lie above a falling threshold.
struct Sweep<'a> {
    slope: f64,
    points: &'a [f32],
    /// [points, outputs].
    weights: &'a [f32],
    order: Vec<usize>,
    included: usize,
    /// `slope T + (1 - slope) P` and `slope S + (1 - slope) Q`, by output.
    gain: Vec<f64>,
    offset: Vec<f64>,
}

impl<'a> Sweep<'a> {
    fn new(outputs: usize, slope: f32, points: &'a [f32], weights: &'a [f32]) -> Self {
        let mut order = ascending(points);
        order.reverse();
        let mut sweep = Self {
            slope: f64::from(slope),
            points,
            weights,
            order,
            included: 0,
            gain: vec![0.0; outputs],
            offset: vec![0.0; outputs],
        };
        for point in 0..points.len() {
            sweep.add(point, f64::from(slope));
        }
        sweep
    }

    fn add(&mut self, point: usize, share: f64) {
        let outputs = self.gain.len();
        let at = f64::from(self.points[point]);
        let weights = &self.weights[point * outputs..][..outputs];
        for ((gain, offset), w) in self.gain.iter_mut().zip(&mut self.offset).zip(weights) {
            let w = f64::from(*w) * share;
            *gain += w;
            *offset += w * at;
        }
    }

    /// Counts points above `threshold` in full; thresholds must not rise from call to call.
    fn include_above(&mut self, threshold: f32) {
        while let Some(&point) = self.order.get(self.included) {
            // A sum of exactly zero has the slope of the negative side, as in PyTorch.
            if self.points[point] <= threshold {
                break;
            }
            self.add(point, 1.0 - self.slope);
            self.included += 1;
        }
    }

    fn add_line(&self, at: f64, out: &mut [f64]) {
        for ((out, gain), offset) in out.iter_mut().zip(&self.gain).zip(&self.offset) {
            *out += at * gain + offset;
        }
    }

    fn dot_slope(&self, weights: &[f32]) -> f64 {
        self.gain.iter().zip(weights).map(|(gain, w)| gain * f64::from(*w)).sum()
    }
}

fn ascending(values: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    order
}

/// [O, C, J] -> [C, J, O], so that the inner loops run over neighbours.
fn outputs_last(shape: PairShape, weight: &[f32]) -> Vec<f32> {
    let PairShape { channels, columns, outputs, .. } = shape;
    let mut out = vec![0.0; weight.len()];
    for (o, of_output) in weight.chunks_exact(channels * columns).enumerate() {
        for (position, value) in of_output.iter().enumerate() {
            out[position * outputs + o] = *value;
        }
    }
    out
}
