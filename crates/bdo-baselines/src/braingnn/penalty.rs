//! What BrainGNN adds to the loss: scores should be far apart, and alike within a class.

use burn::tensor::{Int, Tensor, TensorData};

/// Keeps logarithms finite.
const FLOOR: f64 = 1e-10;

/// Scores [B, n] in (0, 1): minus the mean log of the upper half and of one minus the lower half.
pub fn top_k_separation(scores: Tensor<2>) -> Tensor<1> {
    let nodes = scores.dims()[1];
    let half = nodes / 2;
    if half == 0 {
        return scores.sum() * 0.0;
    }
    let sorted = sorted_rows(scores);
    let high = sorted.clone().narrow(1, nodes - half, half);
    let low = sorted.narrow(1, 0, half);
    ((high + FLOOR).log().mean() + (low.neg() + (1.0 + FLOOR)).log().mean()).neg()
}

/// Half the mean squared distance between the scores [B, n] of two people of one class, summed over classes.
pub fn group_consistency(scores: Tensor<2>, classes: &[usize]) -> Tensor<1> {
    let mut present: Vec<usize> = classes.to_vec();
    present.sort_unstable();
    present.dedup();
    let mut total = scores.clone().sum() * 0.0;
    for class in present {
        let rows: Vec<i64> = (0..classes.len()).filter(|i| classes[*i] == class).map(|i| i as i64).collect();
        let count = rows.len() as f64;
        let rows = Tensor::<1, Int>::from_data(TensorData::new(rows.clone(), [rows.len()]), &scores.device());
        let members = scores.clone().select(0, rows);
        // 0.5 sum_ij |s_i - s_j|^2 = n_c sum_i |s_i - mean|^2: the form that does not cancel.
        let spread = (members.clone() - members.mean_dim(0)).square().sum();
        total = total + spread * (1.0 / count);
    }
    total
}

/// Each row in ascending order, by an order worked out on the host: sorting as such has no gradient in the framework.
fn sorted_rows(scores: Tensor<2>) -> Tensor<2> {
    let [samples, nodes] = scores.dims();
    let values = scores.to_data().try_to_vec::<f32>().expect("scores are f32");
    let mut order = Vec::with_capacity(samples * nodes);
    for (b, row) in values.chunks_exact(nodes).enumerate() {
        let mut of_row: Vec<usize> = (0..nodes).collect();
        of_row.sort_by(|i, j| row[*i].total_cmp(&row[*j]));
        order.extend(of_row.into_iter().map(|i| (b * nodes + i) as i64));
    }
    let order = Tensor::<1, Int>::from_data(TensorData::new(order, [samples * nodes]), &scores.device());
    scores.reshape([samples * nodes]).select(0, order).reshape([samples, nodes])
}
