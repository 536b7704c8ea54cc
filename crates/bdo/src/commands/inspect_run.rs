//! `bdo inspect` of runs and models.

use std::path::Path;

use bdo_baselines::pretrain::directory::{TokenDirectory, kind_of_model};
use bdo_data::record::{JournalText, RunRecord};
use bdo_model::parameters::{parameter_table, trainable_count};
use bdo_model::weights::ModelDirectory;
use serde_json::json;

use crate::answer::Answer;

/// A run: its configuration and how far it has come.
pub(crate) fn inspect_run(path: &Path) -> anyhow::Result<Answer> {
    let record = RunRecord::read(path)?;
    let journal = JournalText::read(&path.join("journal.jsonl"))?;
    let (step, validation) = (journal.steps.last(), journal.validations.last());
    let json = json!({"kind": "run", "model_kind": record.identity.setting("model", "kind"), "path": path,
                      "identity": record.identity, "cohort": record.cohort, "plan": record.plan,
                      "last_step": step, "last_validation": validation});
    let reached = journal.steps_taken();
    let mut text = format!("run {} (bdo {})\n", path.display(), record.identity.version);
    text += &format!("  cohort        {} ({})\n", record.cohort.display(), record.identity.cohort_blake3);
    text += &format!("  seed          {}\n", record.identity.seed);
    let total = record.plan.map_or_else(|| "not fixed yet".to_owned(), |plan| plan.total_steps.to_string());
    text += &format!("  steps         {reached} of {total}\n");
    if let Some(step) = step {
        text += &format!("  last loss     {:.4}, {:.1} scans/s\n", step.loss.total, step.scans_per_second);
    }
    if let Some(found) = validation {
        text += &format!(
            "  validation    mse {:.4} of {:.4} at step {}\n",
            found.measures.get("mse"),
            found.measures.get("mean_square"),
            found.step
        );
    }
    text += "  configuration\n";
    for (key, value) in record.identity.flat_settings() {
        text += &format!("    {key} = {value}\n");
    }
    Ok(Answer::new(json, text))
}

/// A model directory: size, regions, training people.
pub(crate) fn inspect_model(path: &Path) -> anyhow::Result<Answer> {
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
        return Ok(Answer::new(json, text));
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
    Ok(Answer::new(json, text))
}
