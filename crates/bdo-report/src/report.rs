//! From paths to a page: what each path is, and the sections it gets.

use std::path::{Path, PathBuf};

use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::division::SplitManifest;

use crate::bench::{measurements, show_bench};
use crate::cohort::show_cohort;
use crate::comparison::Comparison;
use crate::head_folder::show_head;
use crate::infer_folder::show_inference;
use crate::model_folder::show_model;
use crate::page::{Citation, Methods, Page};
use crate::run_folder::RunFolder;
use crate::scalability::{runs_table, scalability_figures};
use crate::source;
use crate::splits::split_figures;
use crate::sweep::show_sweep;

/// What a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Scans at rest.
    Cohort,
    /// Pre-training.
    Run,
    /// A model directory.
    Model,
    /// Methods by labels.
    Comparison,
    /// A setting varied.
    Sweep,
    /// A probe, a fine-tuning or a baseline.
    Head,
    /// Inference.
    Inference,
    /// Measurements of speed.
    Bench,
}

impl Kind {
    /// Recognises a path by the files it holds.
    pub fn of(path: &Path) -> Option<Self> {
        let has = |name: &str| path.join(name).is_file();
        if path.is_file() {
            return source::text(path).filter(|t| !measurements(t).is_empty()).map(|_| Self::Bench);
        }
        // A fitted head has its model beside it, so it is asked for before models are.
        if has("cohort.json") {
            Some(Self::Cohort)
        } else if has("run.json") || has("journal.jsonl") {
            Some(Self::Run)
        } else if has("inference.json") {
            Some(Self::Inference)
        } else if has("table.json") || has("results") || path.join("results").is_dir() {
            let record = source::json(&path.join("table.json")).unwrap_or_default();
            Some(if record["vary"].is_string() { Self::Sweep } else { Self::Comparison })
        } else if has("head.json") || has("result.json") || has("predictions.tsv") {
            Some(Self::Head)
        } else if has("model.safetensors") || has("preprocessor_config.json") {
            Some(Self::Model)
        } else {
            None
        }
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cohort => "cohort",
            Self::Run => "run",
            Self::Model => "model",
            Self::Comparison => "comparison",
            Self::Sweep => "sweep",
            Self::Head => "prediction",
            Self::Inference => "inference",
            Self::Bench => "measurement",
        }
    }
}

/// A page of one or several paths under construction.
#[derive(Debug)]
pub struct Report {
    /// The page so far.
    pub page: Page,
    /// What was done.
    pub methods: Methods,
    /// What to type to have the page again.
    pub command: String,
}

impl Report {
    /// An empty report.
    pub fn new(title: &str, command: &str) -> Self {
        Self { page: Page::new(title), methods: Methods::default(), command: command.to_owned() }
    }

    /// A title for these paths.
    pub fn title(paths: &[(PathBuf, Kind)]) -> String {
        match paths {
            [(path, kind)] => format!(
                "BDO {}: {}",
                kind.name(),
                path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned())
            ),
            many => format!("BDO report of {} folders", many.len()),
        }
    }

    /// Adds paths in their order; several runs are also put side by side. A damaged cohort is an error, since nothing
    /// else in its folder can be believed.
    pub fn add(&mut self, paths: &[(PathBuf, Kind)]) -> Result<(), CohortError> {
        let runs: Vec<RunFolder> = paths.iter().filter(|p| p.1 == Kind::Run).map(|p| RunFolder::read(&p.0)).collect();
        if runs.len() > 1 {
            self.page.section("Runs side by side").table(&runs_table(&runs));
            let figures = scalability_figures(&runs, &self.command);
            if figures.is_empty() {
                self.page.missing("None of these runs has a validation yet.", "bdo pretrain");
            }
            for figure in &figures {
                self.page.figure(figure);
            }
        }
        for (path, kind) in paths {
            self.add_one(path, *kind)?;
        }
        Ok(())
    }

    fn add_one(&mut self, path: &Path, kind: Kind) -> Result<(), CohortError> {
        let Self { page, methods, command } = self;
        match kind {
            Kind::Cohort => show_cohort(&Cohort::open(path)?, page, methods, command)?,
            Kind::Run => RunFolder::read(path).show(page, methods, command),
            Kind::Model => show_model(path, page, methods, command),
            Kind::Comparison => Comparison::read(path).show(page, methods, command),
            Kind::Sweep => {
                show_sweep(path, &source::json(&path.join("table.json")).unwrap_or_default(), page, methods, command);
            }
            Kind::Head => show_head(path, page, methods, command),
            Kind::Inference => show_inference(path, page),
            Kind::Bench => show_bench(
                &path.display().to_string(),
                &measurements(&source::text(path).unwrap_or_default()),
                page,
                command,
            ),
        }
        Ok(())
    }

    /// How the labels of a comparison or a probe are spread over its splits; needs the cohort the people are in.
    pub fn add_splits(&mut self, folder: &Path, cohort: Option<&Cohort>) {
        self.page.section("Splits");
        let manifest: Option<SplitManifest> =
            source::json(&folder.join("splits.json")).and_then(|v| serde_json::from_value(v).ok());
        let Some(manifest) = manifest else {
            self.page.missing("splits.json is not there or cannot be read.", "");
            return;
        };
        self.page.facts(&[("Divisions", format!("{}, BLAKE3 {}", manifest.splits.len(), manifest.blake3))]);
        let Some(cohort) = cohort else {
            self.page.missing(
                "How labels are spread over those who train, select and test needs the cohort:",
                "bdo report FOLDER --data COHORT --out page.html",
            );
            return;
        };
        let figures = split_figures(&manifest, cohort.participants(), &self.command);
        if figures.is_empty() {
            self.page.missing("The cohort does not have the labels of these splits.", "");
        }
        for figure in &figures {
            self.page.figure(figure);
        }
    }

    /// The whole page, with methods and how to make it again.
    pub fn finish(mut self, version: &str) -> String {
        self.methods.say("Colours of categories are from the palette of Okabe and Ito.", &[Citation::Colours]);
        self.page.methods(&self.methods);
        let figures = self.page.figure_count().to_string();
        self.page
            .section("How to make it again")
            .verbatim(&self.command)
            .facts(&[("Software", format!("bdo {version}")), ("Figures", figures)]);
        self.page.to_html()
    }
}
