//! A model at work on the scans of a cohort: one training step, or the features of one batch.

use std::path::Path;

use anyhow::{Context, bail};
use bdo_baselines::brainjepa::BrainJepaConfig;
use bdo_baselines::brainlm::{BrainLm, BrainLmConfig};
use bdo_baselines::cost::TokenCost;
use bdo_baselines::pretrain::learner::{TokenLearner, of_preset};
use bdo_baselines::pretrain::model::{TokenModel, TrainedJepa};
use bdo_baselines::pretrain::scans::{TokenScan, features, grid_of, group_gradients};
use bdo_baselines::token::grid::Grid;
use bdo_baselines::token::place::Places;
use bdo_data::cohort::Cohort;
use bdo_data::record::Plan;
use bdo_data::scaler::ScaledScan;
use bdo_model::model::Bdo;
use bdo_model::ops::{Kernels, Precision};
use bdo_model::parameters::{parameter_table, trainable_count};
use bdo_train::learner::At;
use bdo_train::optimiser::AdamState;
use bdo_train::settings::{Preset, TrainSettings};
use bdo_train::source::ScanSource;
use burn::tensor::Device;

use super::steps::{MICRO_BATCH, features as feature_work, sample, step_on};
use super::{Phase, Workload, workload};

/// Size and operations of a model, known without timing it.
pub(super) struct Facts {
    pub(super) parameters: usize,
    pub(super) tokens: usize,
    pub(super) visible_tokens: f64,
    pub(super) flops_per_scan: f64,
    pub(super) regions: usize,
    pub(super) frames: usize,
}

/// A model in a phase.
pub(super) struct Contestant {
    pub(super) facts: Facts,
    /// One training step, or the features of one batch.
    pub(super) work: Box<dyn FnMut() -> anyhow::Result<()>>,
}

impl Contestant {
    /// Reads as many scans as a batch has and cuts them to the frames the token models can take, so that all see the same.
    pub(super) fn new(args: &Workload, data: &Path, model: &str, phase: Phase, seed: u64) -> anyhow::Result<Self> {
        let cohort = Cohort::open(data)?;
        let (grid, _) = grid_of(&cohort)?;
        let everybody = TrainSettings { held_out_percent: 0, split_seed: 0, ..TrainSettings::default() };
        let source = ScanSource::new(cohort, &everybody)?;
        let scans = same_scans(&source, grid, args.batch)?;
        let kernels = workload::kernels(args, &Device::flex()).0;
        match model {
            "bdo" => Self::bdo(args, grid, &scans, phase, kernels, seed),
            "brainlm" => {
                let places = Places::of_centres(source.cohort().regions());
                let config = BrainLmConfig::of_width(grid, args.size.width(), places.is_some());
                let config = BrainLmConfig { places, ..config };
                let learner = BrainLm::fresh(&config, seed, kernels, &Device::flex())?;
                let cost = TokenCost::of_brain_lm(&config);
                let train = of_preset(Preset::BrainLm, args.batch);
                Ok(Self::tokens(learner, cost, &train, scans, phase, grid))
            }
            "brainjepa" => {
                let places = Some(group_gradients(source.cohort(), source.train_scans())?);
                let config = BrainJepaConfig { places, ..BrainJepaConfig::of_width(grid, args.size.width()) };
                let learner = TrainedJepa::fresh(&config, seed, kernels, &Device::flex())?;
                let cost = TokenCost::of_brain_jepa(&config);
                let train = of_preset(Preset::BrainJepa, args.batch);
                Ok(Self::tokens(learner, cost, &train, scans, phase, grid))
            }
            other => bail!("--only: expected bdo, brainlm or brainjepa, found {other:?}"),
        }
    }

    fn bdo(
        args: &Workload,
        grid: Grid,
        scans: &[TokenScan],
        phase: Phase,
        kernels: Kernels,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let (frames, regions) = (grid.frames(), grid.regions);
        let mut config = workload::config(args);
        config.regions = regions;
        let context = frames - (0.75 * frames as f64 + 0.5) as usize;
        let train = workload::train_flops(&config, 1, context, frames - context);
        let embed = workload::encoder_flops(&config, frames);
        let facts = Facts {
            parameters: trainable_count(&parameter_table(&config)),
            tokens: frames,
            visible_tokens: context as f64,
            flops_per_scan: if phase == Phase::Train { train } else { embed },
            regions,
            frames,
        };
        if phase == Phase::Train {
            let samples = scans.iter().enumerate().map(|(b, scan)| sample(scan.scan.clone(), seed, b)).collect();
            let kernels = (kernels, Precision::fastest());
            let step = step_on(&config, samples, kernels, (frames, MICRO_BATCH), (seed, &Device::flex()))?;
            return Ok(Self { facts, work: step.work });
        }
        let model = Bdo::init(&config, seed, workload::embed_kernels(args).0, &Device::flex())?;
        let scans: Vec<ScaledScan> = scans.iter().map(|scan| scan.scan.clone()).collect();
        Ok(Self { facts, work: feature_work(model, scans) })
    }

    fn tokens<M: TokenModel + 'static>(
        model: M,
        cost: TokenCost,
        train: &TrainSettings,
        scans: Vec<TokenScan>,
        phase: Phase,
        grid: Grid,
    ) -> Self {
        let facts = Facts {
            parameters: M::files(model.config()).first().map_or(0, |(_, table)| trainable_count(table)),
            tokens: cost.tokens,
            visible_tokens: cost.visible,
            flops_per_scan: if phase == Phase::Train { cost.train_flops } else { cost.embed_flops },
            regions: grid.regions,
            frames: grid.frames(),
        };
        if phase == Phase::Embed {
            let work = move || -> anyhow::Result<()> {
                let scans: Vec<&TokenScan> = scans.iter().collect();
                std::hint::black_box(features(&model, &scans, EMBEDDED_AT_ONCE));
                Ok(())
            };
            return Self { facts, work: Box::new(work) };
        }
        let mut learner = Some(TokenLearner::of(model, train));
        // In the middle of a long run: a rate above zero, the moving average still moving.
        let at = At { plan: Plan::of_epochs(1000.0, 1), step: 500, seed: 0 };
        let mut adam = AdamState::default();
        let work = move || -> anyhow::Result<()> {
            let taken = learner.take().context("an earlier step failed")?;
            learner = Some(taken.step(&scans, scans.len(), &mut adam, &at)?.0);
            Ok(())
        };
        Self { facts, work: Box::new(work) }
    }
}

/// Scans the token models encode at once, as they do for a probe.
const EMBEDDED_AT_ONCE: usize = 4;

/// The first scans that are long enough, again from the start where there are too few, each cut to the frames of the grid in
/// its middle.
fn same_scans(source: &ScanSource, grid: Grid, count: usize) -> anyhow::Result<Vec<TokenScan>> {
    let long = |i: &&usize| source.cohort().index()[**i].frames >= grid.frames();
    let chosen: Vec<usize> = source.train_scans().iter().filter(long).take(count).copied().collect();
    if chosen.is_empty() {
        bail!("expected a scan of at least {} frames, found none", grid.frames());
    }
    let cut = |&i: &usize| -> anyhow::Result<TokenScan> {
        let scan = source.cohort().scan(i)?;
        let scaled = source.scaler().apply(&scan);
        let from = grid.middle_cut(scaled.times_seconds.len(), 1).start;
        let scaled = scaled.cut(from..from + grid.frames(), 0.0);
        Ok(TokenScan { scan: scaled, tr_seconds: scan.tr_seconds })
    };
    let scans = chosen.iter().map(cut).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(scans.iter().cycle().take(count).cloned().collect())
}
