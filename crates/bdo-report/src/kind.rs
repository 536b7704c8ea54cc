//! The kind of a folder or file, detected from the files in it.

use std::path::Path;

use bdo_data::cohort::CohortError;

use crate::page::Page;
use crate::{bench, cohort, comparison, explanation, head, inference, model, run, source, sweep};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Cohort,
    /// Pre-training of any model.
    Run,
    Model,
    /// Methods by labels.
    Comparison,
    /// Models over the values of a setting.
    Sweep,
    /// A probe, a fine-tuning or a baseline.
    Head,
    /// The output of `bdo infer`.
    Inference,
    Explanation,
    /// A file of measurements of `bdo bench`.
    Bench,
}

impl Kind {
    /// The kind of a path; `None` for anything else.
    pub fn of(path: &Path) -> Option<Self> {
        let has = |name: &str| path.join(name).is_file();
        if path.is_file() {
            let measured = source::text(path).is_some_and(|text| !bench::measurements(&text).is_empty());
            return measured.then_some(Self::Bench);
        }
        // A fitted head may have its model beside it, so it comes before models.
        if has("cohort.json") {
            Some(Self::Cohort)
        } else if has("run.json") || has("journal.jsonl") {
            Some(Self::Run)
        } else if has("explanation.json") {
            Some(Self::Explanation)
        } else if has("inference.json") {
            Some(Self::Inference)
        } else if has("table.json") || path.join("results").is_dir() {
            let record: serde_json::Value = source::json(&path.join("table.json")).unwrap_or_default();
            Some(if record["vary"].is_string() { Self::Sweep } else { Self::Comparison })
        } else if has("head.json") || has("result.json") || has("predictions.tsv") {
            Some(Self::Head)
        } else if has("model.safetensors") || has("preprocessor_config.json") {
            Some(Self::Model)
        } else {
            None
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Cohort => "cohort",
            Self::Run => "run",
            Self::Model => "model",
            Self::Comparison => "comparison",
            Self::Sweep => "sweep",
            Self::Head => "prediction",
            Self::Inference => "inference",
            Self::Explanation => "explanation",
            Self::Bench => "measurement",
        }
    }

    /// Adds the sections of a path to a page. Only a damaged cohort is an error; anything else that is missing or damaged
    /// is named on the page.
    pub(crate) fn show(self, path: &Path, page: &mut Page) -> Result<(), CohortError> {
        match self {
            Self::Cohort => cohort::show(path, page)?,
            Self::Run => run::show(path, page),
            Self::Model => model::show(path, page),
            Self::Comparison => comparison::show(path, page),
            Self::Sweep => sweep::show(path, page),
            Self::Head => head::show(path, page),
            Self::Inference => inference::show(path, page),
            Self::Explanation => explanation::show(path, page),
            Self::Bench => bench::show(path, page),
        }
        Ok(())
    }
}
