//! The grid: every configuration to its best epoch, the best of them by validation. Test people do not come in here.

use crate::fit::{FitPlan, Loss, ProbePoint, fit};
use crate::head::Head;
use crate::metric::Metrics;
use crate::part::Part;
use crate::probe::ProbeSettings;
use crate::score::{beats, score_rows};
use crate::supervised::recipe::Selection;
use bdo_data::target::{LabelScale, TargetKind};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointOutcome {
    pub point: ProbePoint,
    /// Its best epoch, counted from 1.
    pub epoch: usize,
    /// Scores of the validation people at that epoch.
    pub validation: Metrics,
}

/// Trains every configuration of a probe and chooses by validation; of equal ones the first. Units are those of the training
/// people; the seed decides start and order. Returns all outcomes, the place of the chosen one, and its parameters, rounded as
/// they are stored, so that a head read back says the very same.
pub fn search<H: Head>(
    head: &H,
    (train, validation): (&Part<'_, H::Input>, &Part<'_, H::Input>),
    task: &TargetKind,
    units: LabelScale,
    settings: &ProbeSettings,
    seed: u64,
) -> (Vec<PointOutcome>, usize, Vec<f32>) {
    let loss = loss_of(task);
    let better = |first: &Metrics, second: &Metrics| beats(first, second, Selection::Protocol);
    let examples = train.examples(units);
    let outcomes: Vec<(PointOutcome, Vec<f32>)> = settings
        .grid
        .par_iter()
        .map(|&point| {
            let plan = FitPlan { point, epochs: settings.epochs, loss, seed };
            let mut best: Option<(PointOutcome, Vec<f32>)> = None;
            fit(head, &examples, &plan, head.start(seed), |epoch, parameters| {
                let rounded: Vec<f32> = parameters.iter().map(|p| *p as f32).collect();
                let said = validation.predict(head, &widened(&rounded), loss, units);
                let score = score_rows(task, &said, &validation.labels, units);
                if best.as_ref().is_none_or(|(outcome, _)| better(&score, &outcome.validation)) {
                    best = Some((PointOutcome { point, epoch, validation: score }, rounded));
                }
            });
            best.expect("at least one epoch is run")
        })
        .collect();
    let chosen = (1..outcomes.len())
        .fold(0, |best, i| if better(&outcomes[i].0.validation, &outcomes[best].0.validation) { i } else { best });
    let parameters = outcomes[chosen].1.clone();
    (outcomes.into_iter().map(|(outcome, _)| outcome).collect(), chosen, parameters)
}

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
