//! The grid of fine-tuning, and which part of it is run.

use bdo_data::random::{shuffle, stream};
use bdo_kernels::adam::{Adam, WeightDecay};
use serde::{Deserialize, Serialize};

/// One configuration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunePoint {
    /// Scans a step.
    pub batch_size: usize,
    /// Of the last layer, at the first step.
    pub learning_rate: f64,
    /// Where the cosine ends.
    pub least_learning_rate: f64,
    /// Decoupled, on matrices only.
    pub weight_decay: f64,
    /// Factor on the learning rate from each layer to the one below.
    pub layer_decay: f64,
}

impl TunePoint {
    /// The 36 configurations of the protocol.
    pub fn grid() -> Vec<Self> {
        let mut grid = Vec::with_capacity(36);
        for batch_size in [16, 32] {
            for least_learning_rate in [0.0, 1e-4, 1e-3] {
                for weight_decay in [0.0, 0.01] {
                    for layer_decay in [0.85, 0.90, 0.95] {
                        let learning_rate = 1e-3;
                        grid.push(Self { batch_size, learning_rate, least_learning_rate, weight_decay, layer_decay });
                    }
                }
            }
        }
        grid
    }

    /// The first `count` of the grid in a fixed order that does not depend on the data: the middle of the grid, then
    /// the others as they were shuffled once.
    pub fn subset(count: usize) -> Vec<Self> {
        let mut grid = Self::grid();
        shuffle(&mut grid, &mut stream("fine-tuning grid", &[0]));
        let middle =
            |p: &Self| (p.batch_size, p.least_learning_rate, p.weight_decay, p.layer_decay) != (16, 1e-4, 0.01, 0.90);
        grid.sort_by_key(middle);
        grid.truncate(count);
        grid
    }

    /// Of the last layer at step `step` out of `total`.
    pub fn rate(&self, step: u64, total: u64) -> f64 {
        let share = step as f64 / total as f64;
        let (first, least) = (self.learning_rate, self.least_learning_rate);
        least + (first - least) * 0.5 * (1.0 + (std::f64::consts::PI * share).cos())
    }

    /// Settings of one parameter at a scheduled rate, given the number of blocks.
    pub fn adam(&self, name: &str, axes: usize, rate: f64, blocks: usize) -> Adam {
        let below = (blocks + 1 - layer_of(name, blocks)) as i32;
        Adam {
            learning_rate: rate * self.layer_decay.powi(below),
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: if axes > 1 && self.weight_decay > 0.0 {
                WeightDecay::Decoupled(self.weight_decay)
            } else {
                WeightDecay::None
            },
            gradient_scale: 1.0,
        }
    }
}

/// 0 for the embedder, 1 to `blocks` for the blocks, one more for what is above them.
fn layer_of(name: &str, blocks: usize) -> usize {
    if name.contains("encoder.embed.") {
        return 0;
    }
    let block = name.split_once("encoder.blocks.").and_then(|(_, rest)| rest.split('.').next()?.parse::<usize>().ok());
    block.map_or(blocks + 1, |block| block + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_has_36_points_and_a_subset_is_part_of_it() {
        let grid = TunePoint::grid();
        assert_eq!(grid.len(), 36);
        let subset = TunePoint::subset(5);
        assert_eq!(subset.len(), 5);
        assert!(subset.iter().all(|p| grid.contains(p)));
        assert_eq!((subset[0].batch_size, subset[0].layer_decay), (16, 0.90));
        assert_eq!(TunePoint::subset(36).iter().filter(|p| grid.contains(p)).count(), 36);
    }

    #[test]
    fn layers_learn_slower_the_deeper_they_are() {
        let point = TunePoint { weight_decay: 0.01, layer_decay: 0.9, ..TunePoint::grid()[0] };
        let rate = |name: &str| point.adam(name, 2, 1e-3, 12).learning_rate;
        let near = |a: f64, b: f64| (a - b).abs() < 1e-15;
        assert!(near(rate("bdo.encoder.embed.linear1.weight"), 1e-3 * 0.9f64.powi(13)));
        assert!(near(rate("bdo.encoder.blocks.0.norm1.weight"), 1e-3 * 0.9f64.powi(12)));
        assert!(near(rate("bdo.encoder.blocks.11.attn.qkv.weight"), 1e-3 * 0.9));
        for top in ["bdo.encoder.norm.weight", "bdo.dynamics.control.weight", "head.weight"] {
            assert!(near(rate(top), 1e-3), "{top}");
        }
        assert_eq!(point.adam("head.bias", 1, 1e-3, 12).weight_decay, WeightDecay::None);
        assert_eq!(point.adam("head.weight", 2, 1e-3, 12).weight_decay, WeightDecay::Decoupled(0.01));
    }
}
