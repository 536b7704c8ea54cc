//! The probe, top to bottom: features of a frozen model, a head for each seed chosen by validation, one test.

use crate::cache::cached_features;
use crate::error::EvalError;
use crate::features::{FeatureTable, ScanRow};
use crate::fit::ProbePoint;
use crate::fitted::{FittedHead, HeadKind, Member, closed_form_says, mean_of};
use crate::folder::WorkFolder;
use crate::head::{AttentionHead, Head, LinearHead};
use crate::method::{FitOn, Task};
use crate::outcome::{HeadRequest, HeadResult, SeedOutcome, check_seeds, finish};
use crate::part::{Part, Parts};
use crate::reference::closed_form_probe;
use crate::score::score_rows;
use crate::select::{loss_of, search, widened};
use crate::transform::FittedTransform;
use bdo_data::cohort::{Cohort, Observer};
use bdo_data::division::{Division, Split};
use bdo_data::target::{LabelScale, Target};
use bdo_model::control::{ControlSequence, encode_cohort};
use bdo_model::frozen::FrozenModel;
use bdo_model::pooling::Pooling;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

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
    let asked = serde_json::json!({
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
    let width = match settings.head {
        HeadKind::Linear | HeadKind::Ridge => frozen.feature_width(settings.pooling),
        HeadKind::Attention => frozen.model.config().width,
    };
    let head = FittedHead::of(&target, settings.pooling, settings.head, width, manifest.cohort_blake3.clone());
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
    let units = LabelScale::fit(&target.kind, &parts.train.labels);
    let (tried, chosen, parameters) =
        search(head, (&parts.train, &parts.validation), &target.kind, units, settings, split.seed());
    // From here on nothing is chosen any more.
    let said = parts.test.predict(head, &widened(&parameters), loss_of(&target.kind), units);
    let chosen = &tried[chosen];
    let outcome = SeedOutcome {
        chosen: serde_json::json!(chosen),
        tried: serde_json::json!(tried),
        ..SeedOutcome::of(split, &parts, chosen.validation, &target.kind, &said, units)
    };
    let member = Member::new(MODEL_FOLDER, split, &parts.train.people, units, outcome.chosen.clone());
    Ok((outcome, Member { transform, parameters, ..member }))
}

/// One seed in closed form: the penalty is chosen inside the training people, so validation people only report.
fn probe_closed_form(
    table: &FeatureTable,
    cohort: &Cohort,
    target: &Target,
    split: &Split,
) -> Result<(SeedOutcome, Member), EvalError> {
    let features: Vec<Vec<f32>> = (0..table.rows.len()).map(|i| table.feature(i)).collect();
    let inputs: Vec<&[f32]> = features.iter().map(Vec::as_slice).collect();
    let parts = Parts::of(&table.rows, &inputs, target, split)?;
    let units = LabelScale::fit(&target.kind, &parts.train.labels);
    let task = Task { cohort, split, target, seed: split.seed(), fit_on: FitOn::Train };
    let fit = closed_form_probe(&task, table, false)?;
    let says = |part: &Part<'_, [f32]>| -> Vec<Vec<f64>> {
        let one =
            |scans: &Vec<&[f32]>| mean_of(&scans.iter().map(|x| closed_form_says(&fit, x)).collect::<Vec<Vec<f64>>>());
        part.scans.par_iter().map(one).collect()
    };
    let validation = score_rows(&target.kind, &says(&parts.validation), &parts.validation.labels, units);
    let outcome = SeedOutcome {
        chosen: serde_json::json!({"penalty": fit.penalty}),
        tried: serde_json::json!(fit.tried),
        ..SeedOutcome::of(split, &parts, validation, &target.kind, &says(&parts.test), units)
    };
    let member = Member::new(MODEL_FOLDER, split, &parts.train.people, units, outcome.chosen.clone());
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
