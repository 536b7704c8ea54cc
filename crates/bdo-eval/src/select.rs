//! The grid: every configuration to its best epoch, the best of them by validation. Test people do not come in here.

use crate::fit::{FitPlan, Loss, ProbePoint, fit};
use crate::head::Head;
use crate::metric::Metrics;
use crate::part::Part;
use crate::score::beats;
use bdo_data::target::{LabelScale, TargetKind};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// What one configuration came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointOutcome {
    /// The configuration.
    pub point: ProbePoint,
    /// Its best epoch, counted from 1.
    pub epoch: usize,
    /// Scores of the validation people at that epoch.
    pub validation: Metrics,
}

/// The configuration that was chosen.
#[derive(Clone, Debug)]
pub struct Selected {
    /// Rounded as they are stored, so that a head read back says the very same.
    pub parameters: Vec<f32>,
    /// Place in `tried`.
    pub chosen: usize,
    /// Every configuration.
    pub tried: Vec<PointOutcome>,
}

/// How the grid is searched.
#[derive(Clone, Debug)]
pub struct Search<'a> {
    /// Number or classes.
    pub task: &'a TargetKind,
    /// Units of the label, fitted on the training people.
    pub units: LabelScale,
    /// Configurations.
    pub grid: &'a [ProbePoint],
    /// Epochs of each.
    pub epochs: usize,
    /// Decides start and order.
    pub seed: u64,
}

impl Search<'_> {
    /// Trains every configuration and chooses by validation; of equal ones the first.
    pub fn run<H: Head>(&self, head: &H, train: &Part<'_, H::Input>, validation: &Part<'_, H::Input>) -> Selected {
        let loss = loss_of(self.task);
        let examples = train.examples(self.units);
        let outcomes: Vec<(PointOutcome, Vec<f32>)> = self
            .grid
            .par_iter()
            .map(|&point| {
                let plan = FitPlan { point, epochs: self.epochs, loss, seed: self.seed };
                let mut best: Option<(PointOutcome, Vec<f32>)> = None;
                fit(head, &examples, &plan, head.start(self.seed), |epoch, parameters| {
                    let rounded: Vec<f32> = parameters.iter().map(|p| *p as f32).collect();
                    let said = validation.predict(head, &widened(&rounded), loss, self.units);
                    let score = validation.score(self.task, &said, self.units);
                    if best.as_ref().is_none_or(|(outcome, _)| beats(&score, &outcome.validation)) {
                        best = Some((PointOutcome { point, epoch, validation: score }, rounded));
                    }
                });
                best.expect("at least one epoch is run")
            })
            .collect();
        let better = |best: usize, i: usize| {
            if beats(&outcomes[i].0.validation, &outcomes[best].0.validation) { i } else { best }
        };
        let chosen = (1..outcomes.len()).fold(0, better);
        let parameters = outcomes[chosen].1.clone();
        Selected { parameters, chosen, tried: outcomes.into_iter().map(|(outcome, _)| outcome).collect() }
    }
}

/// The loss of a task.
pub fn loss_of(task: &TargetKind) -> Loss {
    match task.classes().len() {
        0 => Loss::SquaredError,
        2 => Loss::CrossEntropy,
        classes => Loss::Softmax(classes),
    }
}

/// Stored parameters as heads compute with them.
pub fn widened(parameters: &[f32]) -> Vec<f64> {
    parameters.iter().map(|p| f64::from(*p)).collect()
}
