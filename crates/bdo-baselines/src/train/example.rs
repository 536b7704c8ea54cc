//! What is learned from: matrices, labels and whose they are.

use crate::connectivity::Connectome;
use bdo_data::random::{below, shuffle, stream};
use rand_chacha::rand_core::Rng;
use std::sync::Arc;

use crate::network::Batch;
use burn::tensor::{Device, Tensor, TensorData};

/// One scan.
#[derive(Clone, Debug)]
pub struct Example {
    /// Its matrices.
    pub inputs: Arc<Connectome>,
    /// 0 or 1 for a class, the z-scored value for a number.
    pub label: f32,
    /// Whose scan it is: predictions of one person are averaged.
    pub person: usize,
}

/// Who trains, who selects, who is tested.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Learned from.
    pub train: Vec<Example>,
    /// Chooses the epoch.
    pub validation: Vec<Example>,
    /// Predicted once, with the chosen epoch.
    pub test: Vec<Example>,
}

/// Matrices and labels of one step, on the host.
#[derive(Clone, Debug)]
pub(super) struct HostBatch {
    rows: usize,
    columns: usize,
    nodes: Vec<f32>,
    edges: Option<Arc<Vec<f32>>>,
    pub(super) labels: Vec<f32>,
}

impl HostBatch {
    pub(super) fn of(examples: &[&Example]) -> Self {
        let rows = examples[0].inputs.regions;
        let columns = examples[0].inputs.nodes.len() / rows.max(1);
        let mut nodes = Vec::with_capacity(examples.len() * rows * columns);
        let mut edges = examples[0].inputs.edges.is_some().then(|| Vec::with_capacity(nodes.capacity()));
        for example in examples {
            nodes.extend_from_slice(&example.inputs.nodes);
            if let (Some(all), Some(own)) = (&mut edges, &example.inputs.edges) {
                all.extend_from_slice(own);
            }
        }
        let labels = examples.iter().map(|example| example.label).collect();
        Self { rows, columns, nodes, edges: edges.map(Arc::new), labels }
    }

    /// Mixup: every sample and label becomes `share` of itself and the rest of another one of the batch.
    pub(super) fn mixed(mut self, seed: u64, step: u64) -> Self {
        let mut rng = stream("baseline mixup", &[seed, step]);
        // Beta(1, 1) is the uniform distribution.
        let share = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let mut partner: Vec<usize> = (0..self.labels.len()).collect();
        shuffle(&mut partner, &mut rng);
        let mix = |values: &[f32], width: usize| -> Vec<f32> {
            let rows: Vec<&[f32]> = values.chunks_exact(width).collect();
            let blend = |(i, j): (usize, &usize)| {
                let (a, b) = (rows[i], rows[*j]);
                a.iter().zip(b).map(|(a, b)| (share * f64::from(*a) + (1.0 - share) * f64::from(*b)) as f32)
            };
            partner.iter().enumerate().flat_map(blend).collect()
        };
        self.nodes = mix(&self.nodes, self.rows * self.columns);
        self.edges = self.edges.map(|edges| Arc::new(mix(&edges, self.rows * self.rows)));
        self.labels = mix(&self.labels, 1);
        self
    }

    pub(super) fn on(&self, device: &Device) -> Batch {
        let shape = [self.labels.len(), self.rows, self.columns];
        Batch {
            nodes: Tensor::from_data(TensorData::new(self.nodes.clone(), shape), device),
            edges: self.edges.clone(),
        }
    }

    /// Labels as classes, where all of them are.
    pub(super) fn classes(&self) -> Option<Vec<usize>> {
        let class = |label: &f32| (*label == 0.0 || *label == 1.0).then_some(*label as usize);
        self.labels.iter().map(class).collect()
    }
}

/// Order of the training examples in one pass: a function of seed and epoch alone.
pub(super) fn order(count: usize, seed: u64, epoch: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    shuffle(&mut order, &mut stream("baseline order", &[seed, epoch as u64]));
    order
}

/// Key of the dropout masks of a piece of a step's batch.
pub(super) fn dropout_key(seed: u64, step: u64, piece: usize) -> [u8; 32] {
    let place = [seed, step, piece as u64];
    // The first piece, which is usually the only one, is where the step is.
    let mut rng = stream("baseline dropout", if piece == 0 { &place[..2] } else { &place });
    std::array::from_fn(|_| below(&mut rng, 256) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(value: f32, label: f32) -> Example {
        let inputs = Connectome { regions: 1, nodes: vec![value], edges: None };
        Example { inputs: Arc::new(inputs), label, person: 0 }
    }

    #[test]
    fn mixing_uses_one_share_for_matrices_and_labels() {
        // Matrices equal labels, so whatever the share and the partners, they must stay equal.
        let examples: Vec<Example> = (0..9).map(|i| example(i as f32, i as f32)).collect();
        let batch = HostBatch::of(&examples.iter().collect::<Vec<_>>()).mixed(1, 2);
        assert_eq!(batch.nodes, batch.labels);
        let total: f32 = batch.labels.iter().sum();
        assert!((total - 36.0).abs() < 1e-4, "{total}");
        assert!(batch.labels.iter().enumerate().any(|(i, x)| *x != i as f32));
    }

    #[test]
    fn classes_are_only_whole_labels() {
        let of = |labels: &[f32]| {
            let examples: Vec<Example> = labels.iter().map(|l| example(0.0, *l)).collect();
            HostBatch::of(&examples.iter().collect::<Vec<_>>()).classes()
        };
        assert_eq!(of(&[0.0, 1.0]), Some(vec![0, 1]));
        assert_eq!(of(&[0.0, 0.4]), None);
    }
}
