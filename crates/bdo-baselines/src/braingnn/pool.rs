//! Pooling that keeps the better half of the nodes.

use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor, TensorData, activation};

/// Scores nodes by their projection on a learned direction.
#[derive(Module, Debug)]
pub struct TopK {
    /// [32] the direction, of any length.
    pub weight: Param<Tensor<1>>,
}

#[derive(Clone, Debug)]
pub(super) struct Pooled {
    /// [B, k, 32] kept nodes, best first, each multiplied by its score.
    pub(super) nodes: Tensor<3>,
    /// Kept nodes of each sample, best first.
    pub(super) kept: Vec<Vec<usize>>,
    /// [B, n] every node's score, in the order of the nodes.
    pub(super) scores: Tensor<2>,
    /// [B, k] the kept scores, best first.
    pub(super) kept_scores: Tensor<2>,
}

impl TopK {
    /// Nodes [B, n, 32]; keeps n/2 of them, rounded up.
    pub(super) fn forward(&self, x: Tensor<3>) -> Pooled {
        let [samples, nodes, width] = x.dims();
        let direction = self.weight.val();
        let length = direction.clone().square().sum().sqrt();
        let direction = (direction / length).reshape([1, 1, width]);
        let scores = activation::sigmoid((x.clone() * direction).sum_dim(2)).reshape([samples, nodes]);
        let keep = nodes.div_ceil(2);
        let values = scores.to_data().try_to_vec::<f32>().expect("scores are f32");
        let kept: Vec<Vec<usize>> = values.chunks_exact(nodes).map(|scores| best(scores, keep)).collect();
        let rows: Vec<i64> =
            kept.iter().enumerate().flat_map(|(b, kept)| kept.iter().map(move |i| (b * nodes + i) as i64)).collect();
        let rows = Tensor::<1, Int>::from_data(TensorData::new(rows, [samples * keep]), &x.device());
        let kept_scores = scores.clone().reshape([samples * nodes, 1]).select(0, rows.clone()); // [B * k, 1]
        let chosen = x.reshape([samples * nodes, width]).select(0, rows) * kept_scores.clone();
        Pooled {
            nodes: chosen.reshape([samples, keep, width]),
            kept,
            scores,
            kept_scores: kept_scores.reshape([samples, keep]),
        }
    }
}

/// Indices of the largest scores, in descending order; the first of equal ones comes first.
fn best(scores: &[f32], keep: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    order.truncate(keep);
    order
}

#[cfg(test)]
mod tests {
    use super::best;

    #[test]
    fn the_best_are_kept_in_order_and_ties_by_index() {
        assert_eq!(best(&[0.1, 0.9, 0.5, 0.9], 3), [1, 3, 2]);
    }
}
