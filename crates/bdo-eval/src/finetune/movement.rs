//! Fine-tuning of a model with a fingerprint. Its mean control does not depend on single frames, and a probe of it knows the
//! training people nearly by heart, since the axes of the fingerprint were fitted on them: as it is, it leaves an encoder nothing
//! to learn from.
//!
//! So the probe stays, and an encoder learns what the probe leaves, under a head that reads how far and how fast the control moves.
//! Training people are shown the probe as others are: fitted without them. The sum is a linear head again, on
//! [`Pooling::MeanMovement`](bdo_model::pooling::Pooling::MeanMovement).

use super::tuned::{HeadShape, head_of_probe};
use crate::closed_form::FittedProbe;
use crate::error::EvalError;
use crate::features::Features;
use crate::head::{FittedTransform, Head, LinearHead, widened};
use crate::problem::Problem;
use bdo_data::target::LabelScale;

/// The probe of the mean control, and what is learned beside it.
#[derive(Debug)]
pub(super) struct Beside {
    /// Of the probe: rows of d weights, then biases.
    probe: Vec<f32>,
    /// Outputs of the probe for each row of the table: for training people, of one fitted without them. Empty where there is no label.
    pub(super) said: Vec<Vec<f32>>,
    /// What the head on movement begins with: weights and biases of 0, then the centre and the scale of what it reads, those of
    /// training people.
    pub(super) start: Vec<f32>,
}

impl Beside {
    /// `features` are those of the frozen control, the mean first.
    pub(super) fn new(
        problem: &Problem<'_>,
        features: &Features,
        (units, HeadShape { width, outputs, .. }): (LabelScale, HeadShape),
        seed: u64,
    ) -> Result<Self, EvalError> {
        let latents = features.width() - width;
        let mean = features.columns(0..latents);
        let probe = problem.probe(&mean, true)?;
        let group = (&problem.labels, problem.groups.as_slice());
        let (folds, others) = FittedProbe::without_each(&mean, &problem.fitted, group, probe.penalty, seed)?;

        let (probe, others) = (head_of_probe(&probe, units), others.iter().map(|other| head_of_probe(other, units)));
        let others: Vec<Vec<f32>> = others.collect();
        let narrow = |row: &[f64]| row.iter().map(|x| *x as f32).collect::<Vec<f32>>();
        let says = |head: &[f32], row: usize| {
            let outputs = LinearHead { width: latents, outputs }.outputs(&widened(head), &narrow(mean.row(row)));
            narrow(&outputs)
        };
        let mut said = vec![vec![]; features.values().len() / features.width()];
        problem.choosing.iter().for_each(|i| said[*i] = says(&probe, *i));
        problem.fitted.iter().zip(folds).for_each(|(i, fold)| said[*i] = says(&others[fold], *i));

        let rows: Vec<Vec<f32>> = problem.fitted.iter().map(|i| narrow(&features.row(*i)[latents..])).collect();
        let fitted = FittedTransform::fit(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>(), true, true);
        let nothing = vec![0.0; outputs * (width + 1)];
        let start = nothing.into_iter().chain(fitted.centre.into_iter().chain(fitted.scale).flatten()).collect();
        Ok(Self { probe, said, start })
    }

    /// The probe and a trained head on movement as one head: rows of weights on mean and movement, then biases.
    pub(super) fn summed(&self, movement: &[f32], HeadShape { width, outputs, .. }: HeadShape) -> Vec<f32> {
        let (weights, rest) = movement.split_at(outputs * width);
        let (biases, units) = rest.split_at(outputs);
        let (centre, scale) = units.split_at(width);
        let latents = self.probe.len() / outputs - 1;
        let (probe_weights, probe_biases) = self.probe.split_at(outputs * latents);
        let (mut rows, mut last) = (vec![], vec![]);
        for k in 0..outputs {
            let own: Vec<f32> = weights[k * width..][..width].iter().zip(scale).map(|(w, s)| w / s).collect();
            let taken = own.iter().zip(centre).map(|(w, c)| w * c).sum::<f32>();
            rows.extend(&probe_weights[k * latents..][..latents]);
            rows.extend(own);
            last.push(probe_biases[k] + biases[k] - taken);
        }
        rows.into_iter().chain(last).collect()
    }
}
