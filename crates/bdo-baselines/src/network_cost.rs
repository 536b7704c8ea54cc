//! What a network over connectomes costs, counted: floating-point operations of its products as its authors define them, a
//! multiply-add as two. BrainNetCNN's sums over pairs of regions are counted so, though they are computed with fewer.

use crate::braingnn::{self, BrainGnnConfig};
use crate::brainnetcnn::{self, BrainNetCnnConfig};
use crate::brainnettf::{self, BrainNetTfConfig};

/// A backward pass costs two forward ones.
const TRAINING: f64 = 3.0;

/// A chain of linear layers of these widths, on one row.
fn chain(widths: &[usize]) -> f64 {
    widths.windows(2).map(|two| 2.0 * two[0] as f64 * two[1] as f64).sum()
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
