//! The grid of fine-tuning, and which part of it is run.

use crate::supervised::recipe::{Rate, Recipe, Selection};
use bdo_data::random::{shuffle, stream};
use serde::{Deserialize, Serialize};

/// Epochs and configurations are chosen by their loss on the validation people, as the penalty of the probe they begin with is:
/// the best accuracy of dozens of epochs on a few dozen people is mostly luck.
pub(super) const SELECTION: Selection = Selection::LossAfter(0);

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunePoint {
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

    /// Every configuration at each of these learning rates, the least rate in proportion.
    pub fn at_rates(points: &[Self], rates: &[f64]) -> Vec<Self> {
        let scaled = |point: &Self, rate: f64| Self {
            learning_rate: rate,
            least_learning_rate: point.least_learning_rate * rate / point.learning_rate,
            ..*point
        };
        points.iter().flat_map(|point| rates.iter().map(|rate| scaled(point, *rate))).collect()
    }

    /// As a training of so many epochs.
    pub fn recipe(&self, epochs: usize) -> Recipe {
        let rate = Rate::OpenCosine { from: self.learning_rate, to: self.least_learning_rate };
        Recipe {
            layer_decay: Some(self.layer_decay),
            selection: SELECTION,
            order: "fine-tuning order",
            ..Recipe::plain(epochs, self.batch_size, rate, self.weight_decay)
        }
    }
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
}
