//! The probe, top to bottom: features of a frozen model, a head for each seed chosen by validation, one test.

use crate::cache::cached_features;
use crate::error::EvalError;
use crate::features::{FeatureTable, ScanRow};
use crate::fit::{FitPlan, ProbePoint, fit, loss_of};
use crate::fitted::{FittedHead, HeadKind, Member};
use crate::folder::WorkFolder;
use crate::head::{AttentionHead, FittedTransform, Head, LinearHead};
use crate::method::{FitOn, Task};
use crate::metric::Metrics;
use crate::outcome::{HeadRequest, HeadResult, SeedOutcome, check_seeds, finish};
use crate::part::{Part, Parts};
use crate::problem::Problem;
use crate::score::beats;
use crate::supervised::recipe::Selection;
use bdo_data::cohort::{Cohort, Observer};
use bdo_data::division::{Division, Split};
use bdo_data::random::{shuffle, stream};
use bdo_data::target::Target;
use bdo_model::control::{ControlSequence, encode_cohort};
use bdo_model::frozen::FrozenModel;
use bdo_model::pooling::Pooling;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Folder of a head's model, below that of the head.
pub(crate) const MODEL_FOLDER: &str = "model";

/// What decides a probe, besides model and data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeSettings {
    pub target: String,
    pub pooling: Pooling,
    pub head: HeadKind,
    /// Whether features are z-scored by the training scans; the protocol takes them raw.
    pub standardise: bool,
    pub seeds: Vec<u64>,
    pub epochs: usize,
    pub grid: Vec<ProbePoint>,
}

impl ProbeSettings {
    /// The protocol: mean control, one linear layer, 50 epochs, twelve configurations, seeds 0, 1 and 2.
    pub fn protocol(target: &str) -> Self {
        Self {
            target: target.to_owned(),
            pooling: Pooling::Mean,
            head: HeadKind::Linear,
            standardise: false,
            seeds: vec![0, 1, 2],
            epochs: 50,
            grid: ProbePoint::grid(),
        }
    }

    fn check(&self) -> Result<(), EvalError> {
        check_seeds(&self.seeds)?;
        let refuse = |name, expected, found: &str| Err(EvalError::named(name, expected, found));
        if self.epochs == 0 || self.grid.is_empty() || self.grid.iter().any(|p| p.batch_size == 0) {
            return refuse("epochs, grid and batch size", "at least 1", "0");
        }
        if self.head == HeadKind::Attention && (self.pooling != Pooling::Mean || self.standardise) {
            let found = format!("pooling {}, standardise {}", self.pooling.name(), self.standardise);
            return refuse("head attention", "its own pooling of raw controls", &found);
        }
        Ok(())
    }
}

/// Probes a model and leaves results, predictions, splits and the fitted head in the folder.
pub fn probe(request: &HeadRequest<ProbeSettings>, observer: &dyn Observer) -> Result<HeadResult, EvalError> {
    let settings = &request.settings;
    settings.check()?;
    let frozen = request.trusting.applied(FrozenModel::read_on(&request.model, &request.device)?);
    frozen.able_to(settings.pooling)?;
    let cohort = Cohort::open(&request.data)?;
    let target = Target::of(cohort.participants(), &settings.target)?;
    let manifest = Division::of(&cohort)?.random(&settings.target, &settings.seeds)?;
    let asked = json!({
        "verb": "probe", "settings": settings, "model_blake3": frozen.blake3, "readout_blake3": frozen.readout_blake3(settings.pooling),
        "cohort_blake3": manifest.cohort_blake3, "version": env!("CARGO_PKG_VERSION"),
    });
    let folder = WorkFolder::open(&request.out, &asked)?;
    folder.write_json("splits.json", &manifest)?;
    let found: Vec<(SeedOutcome, Member)> = match settings.head {
        HeadKind::Linear | HeadKind::Ridge => {
            let table = cached_features(&folder.join("features"), &frozen, &cohort, settings.pooling, observer)?;
            let one = |split: &Split| match settings.head {
                HeadKind::Ridge => probe_closed_form(&table, &cohort, &target, split),
                _ => probe_features(&table, &target, split, settings),
            };
            manifest.splits.iter().map(one).collect::<Result<_, _>>()?
        }
        HeadKind::Attention => {
            let (rows, controls) = sequences(&frozen, &cohort, observer)?;
            let inputs: Vec<&ControlSequence> = controls.iter().collect();
            let linear = LinearHead { width: frozen.model.config().width, outputs: loss_of(&target.kind).outputs() };
            let head = AttentionHead { linear };
            let one = |split: &Split| {
                probe_split(&head, &rows, &inputs, &target, split, settings, FittedTransform::default())
            };
            manifest.splits.iter().map(one).collect::<Result<_, _>>()?
        }
    };
    folder.adopt_model(&request.model, MODEL_FOLDER)?;
    let (seeds, mut members): (Vec<SeedOutcome>, Vec<Member>) = found.into_iter().unzip();
    for member in &mut members {
        member.model_blake3.clone_from(&frozen.blake3);
        member.readout_blake3 = frozen.readout_blake3(settings.pooling);
        member.know_scans(&cohort);
    }
    let (width, cohort_blake3) = (frozen.feature_width(settings.pooling), manifest.cohort_blake3.clone());
    let head = FittedHead::of(&target, settings.pooling, settings.head, width, cohort_blake3);
    finish("probe", request, &folder, (head.with(members), seeds), [&frozen; 2], &cohort, observer)
}

/// One seed on a table of features: transform, grid and test.
pub fn probe_features(
    table: &FeatureTable,
    target: &Target,
    split: &Split,
    settings: &ProbeSettings,
) -> Result<(SeedOutcome, Member), EvalError> {
    let features: Vec<Vec<f32>> = (0..table.rows.len()).map(|i| table.feature(i)).collect();
    let trained = table.rows_of(|subject| split.train.contains(subject) && target.value(subject).is_some());
    let training: Vec<&[f32]> = trained.iter().map(|i| features[*i].as_slice()).collect();
    let transform = FittedTransform::fit(&training, settings.pooling == Pooling::Tangent, settings.standardise);
    let rows: Vec<Vec<f32>> = features.iter().map(|feature| transform.apply(feature)).collect();
    let inputs: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
    let head = LinearHead { width: table.features.width(), outputs: loss_of(&target.kind).outputs() };
    probe_split(&head, &table.rows, &inputs, target, split, settings, transform)
}

fn probe_split<H: Head>(
    head: &H,
    rows: &[ScanRow],
    inputs: &[&H::Input],
    target: &Target,
    split: &Split,
    settings: &ProbeSettings,
    transform: FittedTransform,
) -> Result<(SeedOutcome, Member), EvalError> {
    let parts = Parts::of(rows, inputs, target, split)?;
    let (tried, chosen, parameters) = search(head, &parts, settings, split.seed());
    // From here on nothing is chosen any more.
    let said = parts.said_by(head, &parameters, &parts.test);
    let (validation, chosen) = (tried[chosen].validation, json!(tried[chosen]));
    let member = Member::new(MODEL_FOLDER, split, &parts, chosen.clone());
    let outcome = SeedOutcome::of(split, &parts, validation, [chosen, json!(tried)], &said);
    Ok((outcome, Member { transform, parameters, ..member }))
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointOutcome {
    pub point: ProbePoint,
    /// Its best epoch, counted from 1.
    pub epoch: usize,
    /// Scores of the validation people at that epoch.
    pub validation: Metrics,
}

/// Trains every configuration and chooses by validation; of equal ones the first. The seed decides start and order. Returns all
/// outcomes, the place of the chosen one, and its parameters, rounded as they are stored, so that a head read back says the very
/// same. Test people do not come in here.
fn search<H: Head>(
    head: &H,
    parts: &Parts<'_, H::Input>,
    settings: &ProbeSettings,
    seed: u64,
) -> (Vec<PointOutcome>, usize, Vec<f32>) {
    let better = |first: &Metrics, second: &Metrics| beats(first, second, Selection::Protocol);
    let examples = parts.train.examples(parts.units);
    let run = |&point: &ProbePoint| {
        let plan = FitPlan { point, epochs: settings.epochs, loss: loss_of(parts.task) };
        let order = |epoch: usize| {
            let mut order: Vec<usize> = (0..examples.labels.len()).collect();
            shuffle(&mut order, &mut stream("probe order", &[seed, epoch as u64]));
            order
        };
        let mut best: Option<(PointOutcome, Vec<f32>)> = None;
        fit(head, &examples, &plan, head.start(seed), order, |epoch, parameters| {
            let rounded: Vec<f32> = parameters.iter().map(|p| *p as f32).collect();
            let said = parts.said_by(head, &rounded, &parts.validation);
            let validation = parts.score(&parts.validation, &said);
            if best.as_ref().is_none_or(|(outcome, _)| better(&validation, &outcome.validation)) {
                best = Some((PointOutcome { point, epoch, validation }, rounded));
            }
        });
        best.expect("at least one epoch is run")
    };
    let (tried, mut parameters): (Vec<PointOutcome>, Vec<Vec<f32>>) = settings.grid.par_iter().map(run).unzip();
    let chosen = (1..tried.len())
        .fold(0, |best, i| if better(&tried[i].validation, &tried[best].validation) { i } else { best });
    (tried, chosen, parameters.swap_remove(chosen))
}

/// One seed in closed form: the penalty is chosen inside the training people, so validation people only report.
fn probe_closed_form(
    table: &FeatureTable,
    cohort: &Cohort,
    target: &Target,
    split: &Split,
) -> Result<(SeedOutcome, Member), EvalError> {
    let inputs: Vec<&[f64]> = (0..table.rows.len()).map(|i| table.features.row(i)).collect();
    let parts = Parts::of(&table.rows, &inputs, target, split)?;
    let task = Task { cohort, split, target, seed: split.seed(), fit_on: FitOn::Train };
    let fit = Problem::of(&task, &table.rows)?.probe(&table.features, false)?;
    let said = |part: &Part<'_, [f64]>| part.said(|x| fit.says(x));
    let validation = parts.score(&parts.validation, &said(&parts.validation));
    let chosen = json!({"penalty": fit.penalty});
    let member = Member::new(MODEL_FOLDER, split, &parts, chosen.clone());
    let outcome = SeedOutcome::of(split, &parts, validation, [chosen, json!(fit.tried)], &said(&parts.test));
    Ok((outcome, Member { closed_form: Some(fit), ..member }))
}

/// The controls of all scans, for heads that pool themselves.
fn sequences(
    frozen: &FrozenModel,
    cohort: &Cohort,
    observer: &dyn Observer,
) -> Result<(Vec<ScanRow>, Vec<ControlSequence>), EvalError> {
    let scans: Vec<usize> = (0..cohort.len()).collect();
    let mut found: Vec<Option<ControlSequence>> = vec![None; cohort.len()];
    encode_cohort(frozen, cohort, &scans, observer, |i, encoded| found[i] = Some(encoded.control))?;
    Ok((cohort.index().iter().zip(found)).filter_map(|(entry, control)| Some((ScanRow::of(entry), control?))).unzip())
}
