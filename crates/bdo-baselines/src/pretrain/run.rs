//! Pre-training of a token model, from a cohort to a model directory.

use super::directory::{TokenConfig, TokenDirectory};
use super::learner::{TokenData, TokenLearner};
use super::model::{TokenModel, TrainedJepa};
use super::scans::{grid_of, group_gradients};
use crate::brainlm::BrainLm;
use crate::token::TokenShape;
use crate::token::grid::Grid;
use crate::token::place::Places;
use bdo_data::scaler::{FittedRobustScaler, MeansError};
use bdo_data::shard::spread;
use bdo_eval::error::EvalError;
use bdo_train::error::TrainError;
use bdo_train::fit::{Keep, RunObserver, fit};
use bdo_train::publish::{contract, people_of};
use bdo_train::ranks::Ranks;
use bdo_train::run::{OpenedRun, Request, Summary, course_of};
use bdo_train::settings::{Kind, ScalingName, Settings};
use bdo_train::source::ScanSource;
use bdo_train::timer::Length;
use std::time::Instant;

/// Scans whose mean connectivity places the regions, at most.
const MOST_SCANS: usize = 2000;

/// Trains a token model until the end of the plan, or until asked to stop. With a split given, the validation people are
/// trained on too: nothing here is chosen by them.
pub fn pretrain(request: &Request, ranks: &dyn Ranks, observer: &dyn RunObserver) -> Result<Summary, EvalError> {
    let started = Instant::now();
    let (opened, cohort) = OpenedRun::open(request, ranks)?;
    let source = opened.source(cohort, request)?;
    let (grid, mut notes) = grid_of(source.cohort())?;
    let whole = shape(&opened.settings, &source, grid, &mut notes)?;
    let (begun, of_run) = ((started, notes), (opened, source));
    match whole.clone() {
        TokenConfig::BrainLm(config) => train::<BrainLm>(config, whole, of_run, begun, request, ranks, observer),
        TokenConfig::BrainJepa(config) => train::<TrainedJepa>(config, whole, of_run, begun, request, ranks, observer),
    }
}

fn train<M: TokenModel>(
    config: M::Config,
    whole: TokenConfig,
    (opened, source): (OpenedRun, ScanSource),
    (started, mut notes): (Instant, Vec<String>),
    request: &Request,
    ranks: &dyn Ranks,
    observer: &dyn RunObserver,
) -> Result<Summary, EvalError> {
    let (settings, seed) = (&opened.settings, request.seed);
    let scaler = scaler_of(settings, &source, &mut notes)?;
    notes.iter().for_each(|text| observer.note(text));
    let with_validation = request.people.is_some();
    let scans = scans_of(&source, with_validation, config.grid());
    if scans.is_empty() {
        return Err(TrainError::NoScan.into());
    }
    let split = source.split();
    let people = people_of(&source, |subject| {
        split.train.contains(subject) || (with_validation && split.validation.contains(subject))
    });
    let preprocessor = contract(&source, &scaler, 1.0)?;
    let kernels = settings.kernels(&request.device);
    let model = M::fresh(&config, seed, kernels, &request.device)?;
    let learner = TokenLearner { seed, kernels, ..TokenLearner::of(model, &settings.train) };
    let data = TokenData::<M> {
        batch_size: settings.train.batch_size.clamp(1, scans.len()),
        micro_batch_size: settings.train.micro_batch_size,
        model: opened.folder.join("model"),
        directory: TokenDirectory { config: whole, weights: Vec::new(), preprocessor, people },
        config,
        scaler,
        scans,
        source,
    };
    // A time is a limit here: never more epochs than configured.
    let length =
        Length { minutes: settings.train.max_minutes, whole_epochs: false, ..Length::of_epochs(settings.train.epochs) };
    let course = course_of(settings, seed, length, started);
    let keep = Keep::Run { folder: &opened.folder, record: Box::new(opened.record) };
    let fitted = fit(learner, &data, &course, keep, ranks, observer)?;
    Ok(Summary::of(fitted, data.model, data.scans.len(), notes))
}

/// The configuration of the model with the places of its regions.
fn shape(
    settings: &Settings,
    source: &ScanSource,
    grid: Grid,
    notes: &mut Vec<String>,
) -> Result<TokenConfig, EvalError> {
    let places = match settings.method.kind {
        Kind::BrainLm => Places::of_centres(source.cohort().regions()),
        Kind::BrainJepa => Some(group_gradients(source.cohort(), &spread(source.train_scans(), MOST_SCANS))?),
        Kind::Bdo => None,
    };
    let bdo = || EvalError::named("model.kind", "brainlm or brainjepa", Kind::Bdo.name());
    let mut config = TokenConfig::of(settings.method.kind, settings, grid, places.is_some()).ok_or_else(bdo)?;
    if settings.method.kind == Kind::BrainJepa {
        notes.push("regions are placed by gradients of the training people's mean connectivity".into());
    } else if places.is_none() {
        notes.push("not every region has a centre, so each has a learned code".into());
    }
    *config.places() = places;
    Ok(config)
}

/// The scaler of the run: BDO's, or for Brain-JEPA that of its authors where the data allow it.
fn scaler_of(
    settings: &Settings,
    source: &ScanSource,
    notes: &mut Vec<String>,
) -> Result<FittedRobustScaler, EvalError> {
    let asked = settings.method.scaling;
    if settings.method.kind != Kind::BrainJepa || asked == ScalingName::Pooled {
        return Ok(source.scaler().clone());
    }
    match FittedRobustScaler::fit_means(source.cohort(), &source.split().train) {
        Ok(scaler) => Ok(scaler),
        Err(MeansError::Cohort(error)) => Err(error.into()),
        Err(centred) if asked == ScalingName::Means => {
            Err(EvalError::named("model.scaling", "auto or pooled", format!("means; {centred}")))
        }
        Err(centred) => {
            notes.push(format!("scaled as BDO is, not by means over time as in the public code: {centred}"));
            Ok(source.scaler().clone())
        }
    }
}

/// Scans that are long enough, of the people who are trained on.
fn scans_of(source: &ScanSource, with_validation: bool, grid: Grid) -> Vec<usize> {
    let validation = if with_validation { source.validation_scans() } else { &[] };
    let frames = |i: usize| source.cohort().index()[i].frames;
    let mut scans: Vec<usize> = source.train_scans().iter().chain(validation).copied().collect();
    scans.retain(|i| frames(*i) >= grid.frames());
    scans.sort_unstable();
    scans
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn oddities_reach_the_model() {
        let sets = ["model.kind=brainlm", "model.attention_dropout=0.1", "mask.ratio=0.5"].map(String::from);
        let asked = Settings::resolve(None, "", &sets).unwrap().settings;
        let config = TokenConfig::of(Kind::BrainLm, &asked, Grid { regions: 10, windows: 4 }, true);
        let Some(TokenConfig::BrainLm(config)) = config else { panic!("{config:?}") };
        assert_eq!((config.attention_dropout, config.mask_ratio, config.dropout), (0.1, 0.5, 0.1));
    }
}
