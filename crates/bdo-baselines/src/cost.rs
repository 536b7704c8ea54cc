//! What the five networks cost, counted: floating-point operations of their products as their authors define them, a multiply-add as
//! two. BrainNetCNN's sums over pairs of regions are counted so, though they are computed with fewer.

use crate::braingnn::{self, BrainGnnConfig};
use crate::brainjepa::{BrainJepaConfig, GRADIENTS, JepaMasks};
use crate::brainlm::BrainLmConfig;
use crate::brainnetcnn::{self, BrainNetCnnConfig};
use crate::brainnettf::{self, BrainNetTfConfig};
use crate::token::grid::PATCH;
use crate::token::trunk::TrunkShape;
use bdo_data::random::stream;

/// A backward pass costs two forward ones.
const TRAINING: f64 = 3.0;

/// Draws of masks whose mean stands for all of them.
const DRAWS: u64 = 64;

/// Operations of one scan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenCost {
    pub tokens: usize,
    /// Those the encoder sees in training, on average.
    pub visible: f64,
    /// Of one training step.
    pub train_flops: f64,
    /// Of a feature.
    pub embed_flops: f64,
}

/// One pass of a trunk over so many tokens: four products in attention, eight in the feed-forward layers, and every pair of
/// tokens twice.
fn trunk(shape: TrunkShape, tokens: f64) -> f64 {
    let d = shape.width as f64;
    2.0 * tokens * shape.blocks as f64 * (12.0 * d * d + 2.0 * tokens * d)
}

fn linear(rows: f64, inputs: usize, outputs: usize) -> f64 {
    2.0 * rows * inputs as f64 * outputs as f64
}

/// A chain of linear layers of these widths, on one row.
fn chain(widths: &[usize]) -> f64 {
    widths.windows(2).map(|two| linear(1.0, two[0], two[1])).sum()
}

impl TokenCost {
    /// BrainLM: the encoder sees a quarter, the decoder everything.
    pub fn of_brain_lm(config: &BrainLmConfig) -> Self {
        let (e, d, tokens) = (config.encoder, config.decoder, config.grid.tokens() as f64);
        let visible = (tokens * (1.0 - config.mask_ratio) + 1e-9).floor();
        let hidden = tokens - visible;
        let encoder = |seen: f64| linear(seen, PATCH, e.width) + trunk(e, 1.0 + seen);
        let decoder = linear(1.0 + visible, e.width, d.width)
            + trunk(d, 1.0 + tokens)
            + linear(hidden, d.width, d.width / 2)
            + linear(hidden, d.width / 2, PATCH);
        // Patches need no gradient.
        let train_flops = TRAINING * (encoder(visible) + decoder) - linear(visible, PATCH, e.width);
        Self { tokens: config.grid.tokens(), visible, train_flops, embed_flops: encoder(tokens) }
    }

    /// Brain-JEPA: the slow encoder sees everything, the fast one the context, the predictor context and targets.
    pub fn of_brain_jepa(config: &BrainJepaConfig) -> Self {
        let (e, p, tokens) = (config.encoder, config.predictor, config.grid.tokens() as f64);
        let places = linear(config.grid.regions as f64, GRADIENTS, e.width / 2);
        let encoder = |seen: f64| linear(seen, PATCH, e.width) + places + trunk(e, seen);
        let (mut visible, mut fast) = (0.0, 0.0);
        for draw in 0..DRAWS {
            let masks = JepaMasks::draw(config.grid, 1, &mut stream("token cost", &[draw]));
            let (context, targets) = (masks.context[0].len() as f64, masks.target[0].len() as f64);
            let predictor =
                linear(context, e.width, p.width) + trunk(p, context + targets) + linear(targets, p.width, e.width);
            visible += context / DRAWS as f64;
            fast += (TRAINING * (encoder(context) + predictor) - linear(context, PATCH, e.width)) / DRAWS as f64;
        }
        let slow = encoder(tokens);
        Self { tokens: config.grid.tokens(), visible, train_flops: fast + slow, embed_flops: slow }
    }
}

/// Of one training step, per scan.
pub fn of_brain_net_cnn(config: &BrainNetCnnConfig) -> f64 {
    let (n, [first, second]) = (config.regions as f64, brainnetcnn::CHANNELS.map(|channels| channels as f64));
    // Along rows and down columns of all pairs, then to regions.
    let pairs = 2.0 * n * n * (2.0 * first + 2.0 * first * second + second);
    let [hidden1, hidden2] = brainnetcnn::HIDDEN;
    TRAINING * (pairs + chain(&[config.regions, brainnetcnn::GRAPH, hidden1, hidden2, config.outputs]))
}

/// Of one training step, per scan; every pair of regions as a neighbour.
pub fn of_brain_gnn(config: &BrainGnnConfig) -> f64 {
    let width = braingnn::WIDTH as f64;
    // A kernel per community and a shared one, then the mean over neighbours.
    let convolution = |nodes: f64, inputs: f64| {
        2.0 * nodes * inputs * width * (braingnn::COMMUNITIES + 1) as f64 + 2.0 * nodes * nodes * width
    };
    let n = config.regions as f64;
    let half = (n / 2.0).ceil();
    let head = chain(&[4 * braingnn::WIDTH, braingnn::WIDTH, braingnn::HIDDEN, config.outputs]);
    // Neighbours of neighbours have no gradient.
    TRAINING * (convolution(n, n) + convolution(half, width) + head) + 2.0 * half.powi(3)
}

/// Of one training step, per scan.
pub fn of_brain_net_tf(config: &BrainNetTfConfig) -> f64 {
    let (n, d, k) = (config.regions as f64, config.width() as f64, config.clusters as f64);
    let layer = 2.0 * n * (4.0 * d * d + 2.0 * d * config.ffn as f64 + 2.0 * n * d);
    let all = config.regions * config.width();
    let readout = chain(&[all, brainnettf::READOUT, brainnettf::READOUT, all]) + 2.0 * 2.0 * n * k * d;
    let [hidden1, hidden2] = brainnettf::HIDDEN;
    let reduced = brainnettf::REDUCED;
    let head =
        k * chain(&[config.width(), reduced]) + chain(&[reduced * config.clusters, hidden1, hidden2, config.outputs]);
    TRAINING * (2.0 * layer + readout + head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::grid::Grid;

    #[test]
    fn costs_grow_as_they_should() {
        let small = Grid { regions: 50, windows: 10 };
        let large = Grid { regions: 100, windows: 10 };
        let lm = |grid| TokenCost::of_brain_lm(&BrainLmConfig::of_width(grid, 192, true));
        let jepa = |grid| TokenCost::of_brain_jepa(&BrainJepaConfig::of_width(grid, 192));
        assert_eq!((lm(small).tokens, lm(small).visible), (500, 125.0));
        // Twice the tokens cost more than twice, because of the pairs, and less than four times.
        for (a, b) in [(lm(small), lm(large)), (jepa(small), jepa(large))] {
            let grown = b.embed_flops / a.embed_flops;
            assert!(grown > 2.0 && grown < 4.0, "{grown}");
            assert!(a.train_flops > a.embed_flops);
        }
        // By hand, one block of width 2 and one token: qkv 12, proj 4, feed-forward 32 multiply-adds, pairs 2 x 2.
        let shape = TrunkShape { width: 2, blocks: 1, heads: 1 };
        assert_eq!(trunk(shape, 1.0), 2.0 * (12.0 + 4.0 + 32.0 + 4.0));
    }

    #[test]
    fn counts_by_hand() {
        // Two layers of two widths: 2 * (3 * 5 + 5 * 7).
        assert_eq!(chain(&[3, 5, 7]), 100.0);
        // One region: 32 + 32 along and down, 2 * 32 * 64 to the second layer, 64 to the region, then the narrow layers.
        let cnn = 2.0 * (64.0 + 4096.0 + 64.0) + 2.0 * (256.0 + 256.0 * 128.0 + 128.0 * 30.0 + 30.0);
        assert_eq!(of_brain_net_cnn(&BrainNetCnnConfig::new(1)), 3.0 * cnn);
    }

    #[test]
    fn pairs_of_regions_make_the_cost() {
        let costs = |n: usize| {
            [
                of_brain_net_cnn(&BrainNetCnnConfig::new(n)),
                of_brain_gnn(&BrainGnnConfig::new(n)),
                of_brain_net_tf(&BrainNetTfConfig::new(n)),
            ]
        };
        // Twice the regions cost four times, or eight times where rows of pairs meet rows of pairs.
        for (small, large) in costs(200).into_iter().zip(costs(400)) {
            let grown = large / small;
            assert!(grown > 3.5 && grown < 8.0, "{grown}");
        }
    }
}
