//! A run of pre-training: what it is, how far it has come, and its curves.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::journal::Journal;
use crate::page::{Citation, Methods, Page};
use crate::scale::number;
use crate::source;
use crate::table::Table;
use crate::training::training_figures;

/// Steps over which the speed is averaged.
const RECENT: usize = 50;

/// What lies in the folder of a run; pieces that are not there are empty.
#[derive(Debug, Clone, Default)]
pub struct RunFolder {
    /// Where it is.
    pub path: PathBuf,
    /// `run.json`.
    pub record: Value,
    /// `config.toml`: the resolved configuration.
    pub config: Option<String>,
    /// The journal, if there is one.
    pub journal: Option<Journal>,
    /// Whether `model` is there.
    pub has_model: bool,
}

impl RunFolder {
    /// Reads a folder; nothing in it is required.
    pub fn read(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            record: source::json(&path.join("run.json")).unwrap_or_default(),
            config: source::text(&path.join("config.toml")),
            journal: source::text(&path.join("journal.jsonl")).map(|text| Journal::parse(&text)),
            has_model: path.join("model/model.safetensors").is_file(),
        }
    }

    /// A setting by its place, e.g. `/train/batch_size`.
    pub fn setting(&self, pointer: &str) -> Option<&Value> {
        self.record.pointer(&format!("/identity/settings{pointer}")).filter(|v| !v.is_null())
    }

    /// Steps the run is planned for, once that is known.
    pub fn total_steps(&self) -> Option<u64> {
        self.record["plan"]["total_steps"].as_u64()
    }

    /// Steps of a pass over the data.
    pub fn steps_per_epoch(&self) -> Option<f64> {
        self.record["plan"]["steps_per_epoch"].as_f64().filter(|n| *n > 0.0)
    }

    /// Scans a second over the last steps.
    pub fn recent_speed(&self) -> Option<f64> {
        let steps = &self.journal.as_ref()?.steps;
        let recent = &steps[steps.len().saturating_sub(RECENT)..];
        let seconds: f64 = recent.iter().map(|s| 1.0 / s.scans_per_second).filter(|x| x.is_finite()).sum();
        (seconds > 0.0).then(|| recent.len() as f64 / seconds)
    }

    /// Time the remaining steps would take at the recent speed.
    pub fn seconds_left(&self) -> Option<f64> {
        let batch = self.setting("/train/batch_size")?.as_f64()?;
        let left = self.total_steps()?.saturating_sub(self.journal.as_ref()?.steps_taken());
        Some(left as f64 * batch / self.recent_speed()?)
    }

    /// How far the run has come, in words.
    pub fn progress(&self) -> String {
        let taken = self.journal.as_ref().map_or(0, Journal::steps_taken);
        match self.total_steps() {
            Some(total) if taken >= total => format!("{taken} of {total} steps: complete"),
            Some(total) => format!("{taken} of {total} steps ({:.0} %)", 100.0 * taken as f64 / total.max(1) as f64),
            None => format!("{taken} steps; how many there will be is not fixed yet"),
        }
    }

    /// Adds everything to a page.
    pub fn show(&self, page: &mut Page, methods: &mut Methods, command: &str) {
        let text = |pointer: &str| self.record.pointer(pointer).map_or_else(|| "-".to_owned(), plain);
        page.section("The run").facts(&[
            ("Folder", self.path.display().to_string()),
            ("Software", format!("bdo {}", text("/identity/version"))),
            ("Cohort", format!("{} (BLAKE3 {})", text("/cohort"), text("/identity/cohort_blake3"))),
            ("Configuration", format!("BLAKE3 {}", text("/identity/settings_blake3"))),
            ("Seed", text("/identity/seed")),
            ("Instruction set", text("/identity/instruction_set")),
            ("Progress", self.progress()),
            ("Passes over the data", self.epochs().map_or_else(|| "-".into(), number)),
            (
                "Speed",
                self.recent_speed()
                    .map_or_else(|| "-".into(), |s| format!("{} scans / s over the last {RECENT} steps", number(s))),
            ),
        ]);
        if self.record.is_null() {
            page.missing(
                "run.json is not there or cannot be read; a run writes it before its first step:",
                "bdo pretrain --data COHORT --out RUN",
            );
        }
        if !self.has_model {
            page.missing(
                "There is no finished model in this run yet; it goes on with:",
                "bdo pretrain --data COHORT --out RUN --resume",
            );
        }
        page.section("Training");
        match &self.journal {
            None => {
                page.missing(
                    "journal.jsonl is not there; a run writes a line a step.",
                    "bdo pretrain --data COHORT --out RUN",
                );
            }
            Some(journal) => self.show_journal(journal, page, command),
        }
        page.section("Configuration");
        match &self.config {
            Some(config) => page.folded("config.toml, as resolved before the first step", config),
            None => page.missing("config.toml is not there.", ""),
        };
        self.describe(methods);
    }

    fn show_journal(&self, journal: &Journal, page: &mut Page, command: &str) {
        if journal.unreadable > 0 || journal.unfinished {
            let cut = if journal.unfinished { "; the last one was still being written" } else { "" };
            page.missing(
                &format!("{} of {} lines of the journal could not be read{cut}.", journal.unreadable, journal.lines),
                "",
            );
        }
        let skipped = journal.steps.iter().filter(|s| s.skipped).count();
        if skipped > 0 {
            page.paragraph(&format!("{skipped} steps were not taken because a loss or gradient was not a number."));
        }
        let clip = self.setting("/train/clip_norm").and_then(Value::as_f64);
        let figures = training_figures(journal, clip, command);
        if figures.is_empty() {
            page.missing("The journal has no step yet.", "");
        }
        for figure in &figures {
            page.figure(figure);
        }
        if !journal.validations.is_empty() {
            let mut table = Table::new(
                "Validations: hidden frames of held-out people",
                &["step", "error", "predicting the mean", "explained %", "scans"],
            );
            for v in &journal.validations {
                table.rows.push(vec![
                    (v.step as f64).into(),
                    v.mse.into(),
                    v.mean_square.into(),
                    (100.0 * v.explained_variance).into(),
                    (v.scans as f64).into(),
                ]);
            }
            page.table(&table);
        }
    }

    /// Passes over the data so far.
    fn epochs(&self) -> Option<f64> {
        Some(self.journal.as_ref()?.steps_taken() as f64 / self.steps_per_epoch()?)
    }

    fn describe(&self, methods: &mut Methods) {
        let value = |pointer: &str| self.setting(pointer).map_or_else(|| "-".to_owned(), plain);
        methods.say(
            "The model encodes the visible frames of a scan and predicts the hidden ones through a linear stochastic process in a latent space that is driven by a learned control; its moments have a closed form.",
            &[Citation::Bdo, Citation::Acssm],
        );
        methods.say(
            format!(
                "At each visit {} frames are drawn and a share of {} of them is hidden in all regions. The loss is the squared error at hidden frames, plus {} times the distance to a slowly moving copy of the encoder, plus the energy of the control.",
                value("/mask/frames"), value("/mask/ratio"), value("/loss/tau")
            ),
            &[],
        );
        methods.say(
            format!(
                "Adam, batches of {} scans, a learning rate from {} up to {} and down to {} along a cosine, gradients clipped at norm {}. {} % of the people were held out to validate and as many to test.",
                value("/train/batch_size"), value("/train/learning_rate_start"), value("/train/learning_rate"), value("/train/learning_rate_end"), value("/train/clip_norm"), value("/train/held_out_percent")
            ),
            &[Citation::Adam],
        );
        methods.say(
            "Series are centred per scan and region and divided by the inter-quartile range of the training people.",
            &[],
        );
    }
}

pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_folder_is_a_page_that_says_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let mut page = Page::new("t");
        RunFolder::read(folder.path()).show(&mut page, &mut Methods::default(), "");
        let html = page.to_html();
        for words in
            ["run.json is not there", "journal.jsonl is not there", "no finished model", "config.toml is not there"]
        {
            assert!(html.contains(words), "{words}");
        }
    }

    #[test]
    fn time_left_follows_from_speed_and_plan() {
        let line =
            |step: u64| format!("{{\"kind\":\"step\",\"step\":{step},\"scans_per_second\":8.0,\"loss\":{{}}}}\n");
        let run = RunFolder {
            record: serde_json::json!({"identity": {"settings": {"train": {"batch_size": 4}}}, "plan": {"total_steps": 110, "steps_per_epoch": 5}}),
            journal: Some(Journal::parse(&(0..10).map(line).collect::<String>())),
            ..RunFolder::default()
        };
        // 100 steps of 4 scans at 8 scans a second.
        assert_eq!(run.seconds_left(), Some(50.0));
        assert_eq!(run.progress(), "10 of 110 steps (9 %)");
    }
}
