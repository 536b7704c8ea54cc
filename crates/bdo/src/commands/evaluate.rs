//! `bdo evaluate`: masked reconstruction beside simple predictors.

use std::fmt::Write;

use anyhow::{Context, bail};
use bdo_data::cohort::Cohort;
use bdo_model::model::Bdo;
use bdo_model::weights::ModelDirectory;
use bdo_train::evaluate::Evaluation;
use bdo_train::mask::MaskSettings;
use bdo_train::publish::read_notes;
use bdo_train::settings::Settings;
use burn::tensor::Device;
use serde_json::json;

use super::{note, print};
use crate::Outcome;
use crate::cli::{Common, EvaluateArgs};

pub(crate) fn run(args: &EvaluateArgs, common: &Common) -> anyhow::Result<Outcome> {
    let directory = ModelDirectory::read(&args.model)?;
    let notes = read_notes(&args.model)
        .with_context(|| format!("{}: expected training.json, which kriging needs", args.model.display()))?;
    let cohort = Cohort::open(&args.data)?;
    let kernels = Settings::default().kernels();
    let model = Bdo::from_parameters(&directory.config, directory.parameters, kernels, &Device::flex())?;
    let known = |i: &usize| !directory.people.overlap([cohort.index()[*i].id.subject.as_str()]).is_empty();
    let all: Vec<usize> = (0..cohort.len()).filter(|&i| cohort.index()[i].frames >= 2).collect();
    let unseen: Vec<usize> = all.iter().copied().filter(|i| !known(i)).collect();
    let scans = if args.include_training_people { &all } else { &unseen };
    if scans.is_empty() {
        bail!("{}: expected people the model was not trained on, found none", args.data.display());
    }
    if scans.len() < all.len() {
        note(common, &format!("{} scans of people the model was trained on are left out", all.len() - scans.len()));
    }
    let ratios = if args.mask_ratio.is_empty() { vec![notes.mask.ratio] } else { args.mask_ratio.clone() };
    let evaluation = Evaluation {
        model: &model,
        contract: &directory.preprocessor,
        autocorrelation: &notes.autocorrelation,
        cohort: &cohort,
        scans,
        seed: common.seed,
    };
    let mut results = Vec::new();
    let mut text = String::new();
    for ratio in ratios {
        if !(0.0..1.0).contains(&ratio) {
            bail!("--mask-ratio: expected at least 0 and below 1, found {ratio}");
        }
        let mask = MaskSettings {
            ratio,
            window_seconds: args.window_seconds.unwrap_or(notes.mask.window_seconds),
            ..notes.mask
        };
        let result = evaluation.run(&mask)?;
        writeln!(text, "mask ratio {ratio}, {} scans, mean square {:.4}", result.scans, result.mean_square)?;
        for (name, score) in &result.scores {
            writeln!(text, "  {name:<14} mse {:.4}   rho {:.4}", score.mse, score.rho)?;
        }
        let scores: serde_json::Map<String, serde_json::Value> =
            result.scores.iter().map(|(name, score)| ((*name).to_owned(), json!(score))).collect();
        results.push(json!({"mask_ratio": ratio, "window_seconds": mask.window_seconds, "scans": result.scans,
                            "mean_square": result.mean_square, "scores": scores}));
    }
    let regions = &directory.preprocessor.roi_names;
    print(
        common,
        &json!({"model": args.model, "data": args.data, "regions": regions, "results": results}),
        text.trim_end(),
    );
    Ok(Outcome::Done)
}
