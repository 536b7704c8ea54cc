//! `bdo inspect` of runs and models.

use std::path::Path;

use bdo_baselines::pretrain::directory::{TokenDirectory, kind_of_model};
use bdo_model::parameters::{parameter_table, trainable_count};
use bdo_model::weights::ModelDirectory;
use bdo_train::folder::read_record;
use bdo_train::journal::{Entry, entries};
use serde_json::json;

use super::print;
use crate::Outcome;
use crate::cli::Common;

/// What a run is and how far it has come.
pub(crate) fn inspect_run(path: &Path, common: &Common) -> anyhow::Result<Outcome> {
    let record = read_record(path)?;
    let journal = path.join("journal.jsonl");
    let found = if journal.is_file() { entries(&journal)? } else { Vec::new() };
    let step = found.iter().rev().find_map(|e| if let Entry::Step(s) = e { Some(s) } else { None });
    let validation = found.iter().rev().find_map(|e| if let Entry::Validation(v) = e { Some(v) } else { None });
    let plain = found.iter().rev().find_map(|e| if let Entry::PlainStep(s) = e { Some(s) } else { None });
    let json = json!({"kind": "run", "model_kind": record.identity.settings.model.kind, "last_plain_step": plain, "path": path, "identity": record.identity, "cohort": record.cohort,
                      "plan": record.plan, "last_step": step, "last_validation": validation});
    let reached = step.map(|s| s.step + 1).or(plain.map(|s| s.step + 1)).unwrap_or(0);
    let mut text = format!("run {} (bdo {})\n", path.display(), record.identity.version);
    text += &format!("  cohort        {} ({})\n", record.cohort.display(), record.identity.cohort_blake3);
    text += &format!("  seed          {}\n", record.identity.seed);
    let total = record.plan.map_or_else(|| "not fixed yet".to_owned(), |plan| plan.total_steps.to_string());
    text += &format!("  steps         {reached} of {total}\n");
    if let Some(step) = step {
        text += &format!("  last loss     {:.4}, {:.1} scans/s\n", step.loss.total, step.scans_per_second);
    }
    if let Some(step) = plain {
        text += &format!("  last loss     {:.4}, {:.1} scans/s\n", step.loss, step.scans_per_second);
    }
    if let Some(found) = validation {
        text += &format!("  validation    mse {:.4} of {:.4} at step {}\n", found.mse, found.mean_square, found.step);
    }
    text += "  configuration\n";
    for (key, value) in record.identity.settings.flat() {
        text += &format!("    {key} = {value}\n");
    }
    print(common, &json, text.trim_end());
    Ok(Outcome::Done)
}

/// What a model directory holds.
pub(crate) fn inspect_model(path: &Path, common: &Common) -> anyhow::Result<Outcome> {
    if let Some(kind) = kind_of_model(path) {
        let model = TokenDirectory::read(path)?;
        let (grid, people) = (model.config.grid(), &model.people);
        let count: usize = model.config.files().first().map_or(0, |(_, table)| trainable_count(table));
        let json = json!({"kind": "model", "path": path, "model_kind": kind, "config": model.config,
                          "parameters": count, "regions": grid.regions, "windows": grid.windows,
                          "atlas": model.preprocessor.atlas_name, "training_people": people.subjects.len(),
                          "training_scans": people.scans.len()});
        let text = format!(
            "model {} ({})\n  parameters    {count}\n  regions       {} ({}), {} windows\n  trained on    {} people, {} scans",
            path.display(),
            kind.name(),
            grid.regions,
            model.preprocessor.atlas_name,
            grid.windows,
            people.subjects.len(),
            people.scans.len()
        );
        print(common, &json, &text);
        return Ok(Outcome::Done);
    }
    let model = ModelDirectory::read(path)?;
    let count = trainable_count(&parameter_table(&model.config));
    let json = json!({"kind": "model", "path": path, "config": model.config, "parameters": count,
                      "regions": model.config.regions, "atlas": model.preprocessor.atlas_name,
                      "training_people": model.people.subjects.len(), "training_scans": model.people.scans.len()});
    let text = format!(
        "model {}\n  parameters    {count}\n  regions       {} ({})\n  width         {}, {} blocks\n  trained on    {} people, {} scans",
        path.display(),
        model.config.regions,
        model.preprocessor.atlas_name,
        model.config.width,
        model.config.blocks,
        model.people.subjects.len(),
        model.people.scans.len()
    );
    print(common, &json, &text);
    Ok(Outcome::Done)
}
