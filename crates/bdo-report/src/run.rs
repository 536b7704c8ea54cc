//! A run of pre-training: identity, progress and curves; and several of them side by side.

use std::path::{Path, PathBuf};

use bdo_data::record::{JournalText, Plan, RunRecord, ValidationEntry};
use bdo_train::words::Words;
use serde_json::Value;

use crate::chart::{Axis, Chart, Marks, Point};
use crate::figure::Figure;
use crate::page::{Citation, Page};
use crate::palette::Colour;
use crate::scale::number;
use crate::source;
use crate::table::{Cell, Table};
use crate::training::{names, training_figures, words};

const RECENT: usize = 50;

/// The folder of a run; files that are missing or cannot be read are `None`.
#[derive(Debug, Clone, Default)]
pub struct RunFolder {
    pub path: PathBuf,
    pub record: Option<RunRecord>,
    pub journal: Option<JournalText>,
}

impl RunFolder {
    pub fn read(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            record: RunRecord::read(path).ok(),
            journal: source::text(&path.join("journal.jsonl")).map(|text| JournalText::parse(&text)),
        }
    }

    pub fn setting(&self, section: &str, key: &str) -> Option<&Value> {
        self.record.as_ref()?.identity.setting(section, key)
    }

    pub(crate) fn setting_text(&self, section: &str, key: &str) -> String {
        self.setting(section, key).map_or_else(|| "-".to_owned(), source::plain)
    }

    /// The model that is trained; records of versions with one model have no such key.
    pub(crate) fn kind(&self) -> &str {
        self.setting("model", "kind").and_then(Value::as_str).unwrap_or("bdo")
    }

    pub fn plan(&self) -> Option<Plan> {
        self.record.as_ref()?.plan.filter(|plan| plan.steps_per_epoch > 0)
    }

    fn steps_taken(&self) -> u64 {
        self.journal.as_ref().map_or(0, JournalText::steps_taken)
    }

    pub fn recent_speed(&self) -> Option<f64> {
        let steps = &self.journal.as_ref()?.steps;
        let recent = &steps[steps.len().saturating_sub(RECENT)..];
        let seconds: f64 = recent.iter().map(|s| 1.0 / s.scans_per_second).filter(|x| x.is_finite()).sum();
        (seconds > 0.0).then(|| recent.len() as f64 / seconds)
    }

    pub fn seconds_left(&self) -> Option<f64> {
        let batch = self.setting("train", "batch_size")?.as_f64()?;
        let left = self.plan()?.total_steps.saturating_sub(self.steps_taken());
        Some(left as f64 * batch / self.recent_speed()?)
    }

    pub fn progress(&self) -> String {
        let taken = self.steps_taken();
        match self.plan().map(|plan| plan.total_steps) {
            Some(total) if taken >= total => format!("{taken} of {total} steps: complete"),
            Some(total) => format!("{taken} of {total} steps ({:.0} %)", 100.0 * taken as f64 / total.max(1) as f64),
            None => format!("{taken} steps; the total is not fixed yet"),
        }
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let text = |of: fn(&RunRecord) -> String| self.record.as_ref().map_or_else(|| "-".to_owned(), of);
        let epochs = self.plan().map(|plan| self.steps_taken() as f64 / plan.steps_per_epoch as f64);
        let speed = |s: f64| format!("{} scans / s over the last {RECENT} steps", number(s));
        vec![
            ("Folder", self.path.display().to_string()),
            ("Model", self.kind().to_owned()),
            ("Software", format!("bdo {}", text(|r| r.identity.version.clone()))),
            ("Cohort", text(|r| format!("{} (BLAKE3 {})", r.cohort.display(), r.identity.cohort_blake3))),
            ("Configuration", format!("BLAKE3 {}", text(|r| r.identity.settings_blake3.clone()))),
            ("Seed", text(|r| r.identity.seed.to_string())),
            ("Instruction set", text(|r| r.identity.instruction_set.clone())),
            ("Progress", self.progress()),
            ("Epochs", epochs.map_or_else(|| "-".into(), number)),
            ("Speed", self.recent_speed().map_or_else(|| "-".into(), speed)),
        ]
    }

    /// Did it learn, against what, how long did it take, and what comes next.
    fn verdict(&self, page: &mut Page) {
        let journal = self.journal.as_ref();
        let last = journal.and_then(|j| j.validations.last());
        let first = journal.and_then(|j| j.validations.first());
        let explained = |v: &ValidationEntry| 100.0 * v.measures.get("explained_variance");
        let headline = match (last, first) {
            (Some(last), Some(first)) if explained(last).is_finite() => {
                let judged = if explained(last) > 1.0 { "It learned" } else { "It has not learned yet" };
                let earlier = (last.step > first.step).then(|| explained(first));
                let before =
                    earlier.map_or_else(String::new, |share| format!(", {share:.1} % at its first validation"));
                let (share, scans) = (explained(last), last.scans);
                format!(
                    "{judged}: {share:.1} % of the variance of hidden frames of {scans} validation scans is explained{before}."
                )
            }
            (Some(last), _) => format!("Validation loss {} after {} steps.", number(last.loss.total), last.step),
            _ => "No validation yet: nothing says whether it learned.".to_owned(),
        };
        let mut said = vec![format!("{}.", self.progress())];
        said.extend(self.beside());
        let batch = self.setting("train", "batch_size").and_then(Value::as_f64).unwrap_or(f64::NAN);
        let seconds: f64 =
            journal.map_or(0.0, |j| j.steps.iter().map(|s| batch / s.scans_per_second).filter(|s| s.is_finite()).sum());
        if seconds > 0.0 {
            said.push(format!("{:.1} minutes of training steps.", seconds / 60.0));
        }
        let complete = self.plan().is_some_and(|plan| self.steps_taken() >= plan.total_steps);
        said.push(if complete {
            "Next: bdo evaluate --model RUN/model --data COHORT compares it with kriging and other predictors; bdo probe asks what its features are worth.".to_owned()
        } else {
            "Next: the same bdo pretrain command with --resume goes on.".to_owned()
        });
        page.verdict("Pre-training", &headline, &said);
    }

    /// What the model's error is beside those of others, which a run that came to its end leaves in `learned.json`.
    fn beside(&self) -> Option<String> {
        let learned: Value = source::json(&self.path.join("learned.json"))?;
        let [own, kriging, untrained] = ["model", "kriging", "untrained"].map(|name| learned[name].as_f64());
        let (own, kriging, untrained) = (own?, kriging?, untrained?);
        let judged = match (own < kriging, own < untrained) {
            (true, true) => "Better than kriging and than the untrained network",
            (true, false) => "Better than kriging, but NOT than the untrained network",
            (false, true) => "Better than the untrained network, but NOT than kriging",
            (false, false) => "NOT better than kriging or the untrained network",
        };
        Some(format!(
            "{judged}: error {} at hidden frames of {} validation scans, kriging (the best linear prediction) {}, untrained {}.",
            number(own),
            learned["scans"],
            number(kriging),
            number(untrained)
        ))
    }

    fn words(&self) -> Option<Words> {
        // A contract without the word is pooled, as those of earlier versions are.
        let contract: Option<Value> = source::json(&self.path.join("model").join("preprocessor_config.json"));
        let scaling = contract.map(|contract| serde_json::from_value(contract["scaling"].clone()).unwrap_or_default());
        Words::of_record(&self.record.as_ref()?.identity.settings, scaling)
    }

    fn show_journal(&self, journal: &JournalText, page: &mut Page) {
        if journal.unreadable > 0 || journal.unfinished {
            let cut = if journal.unfinished { "; the last one was still being written" } else { "" };
            let (unreadable, lines) = (journal.unreadable, journal.lines);
            page.missing(&format!("{unreadable} of {lines} lines of the journal could not be read{cut}."), "");
        }
        let skipped = journal.steps.iter().filter(|s| s.skipped.is_some()).count();
        if skipped > 0 {
            let why = "because a loss or gradient was not finite, or the loss jumped";
            page.paragraph(&format!("{skipped} steps were not taken {why}."));
        }
        let clip = self.setting("train", "clip_norm").and_then(Value::as_f64);
        let units = self.words().map(|words| words.input).unwrap_or_default();
        page.figures(&training_figures(journal, clip, &units), "The journal has no step yet.", "");
        let scores = names(journal.validations.iter().map(|v| &v.measures));
        let headings = ["step", "loss"].into_iter().map(str::to_owned).chain(scores.iter().map(|name| words(name)));
        let mut table = Table::new("Validations: hidden frames of validation people", headings.chain(["scans".into()]));
        for v in &journal.validations {
            let scores = scores.iter().map(|name| v.measures.get(name).into());
            let first = [(v.step as f64).into(), v.loss.total.into()];
            table.row(first.into_iter().chain(scores).chain([v.scans.into()]).collect::<Vec<_>>());
        }
        page.table_if_any(&table);
    }

    fn describe(&self, page: &mut Page) {
        let cited: (&str, &[Citation], Citation) = match self.kind() {
            "brainlm" => (
                "BrainLM hides tokens of a region and sixteen frames and reconstructs them.",
                &[Citation::Brainlm],
                Citation::Adamw,
            ),
            "brainjepa" => (
                "Brain-JEPA predicts the codes that a moving average of its encoder gives to hidden regions and frames.",
                &[Citation::BrainJepa],
                Citation::Adamw,
            ),
            _ => (
                "The model encodes the visible frames of a scan and predicts the hidden ones through a linear stochastic process in a latent space that is driven by a learned control; its moments have a closed form.",
                &[Citation::Bdo, Citation::Acssm],
                Citation::Adam,
            ),
        };
        page.say(cited.0, cited.1);
        if let Some(Words { input, visits, objective, optimiser }) = self.words() {
            for text in [input, visits, objective].into_iter().filter(|text| !text.is_empty()) {
                page.say(text, &[]);
            }
            page.say(optimiser, &[cited.2]);
        }
    }
}

pub(crate) fn show(path: &Path, page: &mut Page) {
    let run = RunFolder::read(path);
    run.verdict(page);
    page.section("The run").facts(&run.facts());
    let command = "bdo pretrain --data COHORT --out RUN";
    if run.record.is_none() {
        page.missing("run.json is missing or cannot be read; a run writes it before its first step:", command);
    }
    if !path.join("model").join("config.json").is_file() {
        page.missing("There is no finished model in this run yet; continue with:", &format!("{command} --resume"));
    }
    page.section("Training");
    match &run.journal {
        None => {
            page.missing("journal.jsonl is missing; a run writes one line per step.", command);
        }
        Some(journal) => run.show_journal(journal, page),
    }
    page.section("Configuration");
    match source::text(&path.join("config.toml")) {
        Some(config) => page.folded("config.toml, as resolved before the first step", &config),
        None => page.missing("config.toml is missing.", ""),
    };
    run.describe(page);
}

/// Settings that may differ between the runs, with their names.
const SCALED: [(&str, &str, &str); 3] =
    [("model", "size", "size"), ("model", "width", "width"), ("train", "data_fraction", "share of the data")];

/// Adds a table of the runs, and one figure per setting that differs between them, or one figure of all runs.
pub(crate) fn show_several(runs: &[RunFolder], page: &mut Page) {
    page.section("Runs side by side").table(&table(runs));
    let mut figures: Vec<Figure> = SCALED
        .iter()
        .filter(|(section, key, _)| {
            runs.iter().any(|r| r.setting_text(section, key) != runs[0].setting_text(section, key))
        })
        .filter_map(|(section, key, name)| {
            figure(runs, name, |run| format!("{name} {}", run.setting_text(section, key)))
        })
        .collect();
    if figures.is_empty() {
        figures.extend(figure(runs, "run", |run| source::name(&run.path)));
    }
    page.figures(&figures, "None of these runs has a validation yet.", "bdo pretrain");
}

fn figure(runs: &[RunFolder], what: &str, group: impl Fn(&RunFolder) -> String) -> Option<Figure> {
    let mut names: Vec<String> = runs.iter().map(&group).collect();
    names.sort_by(|a, b| order(a).total_cmp(&order(b)).then(a.cmp(b)));
    names.dedup();
    let chart = |label: &str, of: fn(&ValidationEntry) -> f64| {
        let mut chart = Chart::new("", Axis::linear("epochs"), Axis::linear(label)).sized(520.0, 340.0);
        for run in runs {
            let (Some(journal), Some(plan)) = (&run.journal, run.plan()) else { continue };
            let name = group(run);
            let colour = names.iter().position(|n| *n == name).unwrap_or(0);
            let points = journal.validations.iter().map(|v| {
                let note = format!("{name} ({}): {:.4} after {} steps", run.path.display(), of(v), v.step);
                Point::at(v.step as f64 / plan.steps_per_epoch as f64, of(v)).noted(note)
            });
            chart = chart.with(name.clone(), Colour::Kind(colour), Marks::LineAndDots, points.collect());
        }
        chart
    };
    let charts = [
        chart("mean squared error at hidden frames", |v| v.measures.get("mse")),
        chart("explained variance (%)", |v| 100.0 * v.measures.get("explained_variance")),
        chart("validation loss", |v| v.loss.total),
    ];
    let caption = "One curve per run, on its validation people. Curves are comparable where the cohort and the split are the same (see the table).";
    let (name, title) = (format!("scalability-{what}"), format!("Validation over epochs, by {what}"));
    Figure::of_any(name, title, caption, charts, 2)
}

/// Sizes by their size, numbers by their value.
fn order(name: &str) -> f64 {
    let last = name.rsplit(' ').next().unwrap_or("");
    ["tiny", "small", "base"]
        .iter()
        .position(|size| *size == last)
        .map_or_else(|| last.parse().unwrap_or(0.0), |place| place as f64 + 1.0)
}

fn table(runs: &[RunFolder]) -> Table {
    let headings =
        "run,model,size,share of data,mask ratio,tau,steps,last loss,last error,explained %,cohort BLAKE3".split(',');
    let mut table = Table::new("The runs; click a heading to sort", headings);
    for run in runs {
        let number = |section: &str, key: &str| Cell::from(run.setting(section, key).and_then(Value::as_f64));
        let last = run.journal.as_ref().and_then(|j| j.validations.last());
        let cohort = run.record.as_ref().map_or("-", |r| &r.identity.cohort_blake3);
        table.row([
            run.path.display().to_string().into(),
            run.kind().into(),
            run.setting_text("model", "size").into(),
            number("train", "data_fraction"),
            number("mask", "ratio"),
            number("loss", "tau"),
            run.journal.as_ref().map(|j| j.steps_taken() as f64).into(),
            run.journal.as_ref().and_then(|j| j.steps.last()).map(|s| s.loss.total).into(),
            last.map(|v| v.measures.get("mse")).into(),
            last.map(|v| 100.0 * v.measures.get("explained_variance")).into(),
            cohort.chars().take(12).collect::<String>().into(),
        ]);
    }
    table
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_folder_is_a_page_that_says_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let mut page = Page::new("t", "c");
        show(folder.path(), &mut page);
        let html = page.finish("1");
        for words in ["run.json is missing", "journal.jsonl is missing", "no finished model", "config.toml is missing"]
        {
            assert!(html.contains(words), "{words}");
        }
    }

    #[test]
    fn time_left_follows_from_speed_and_plan() {
        let record = serde_json::json!({
            "identity": {"version": "1", "cohort_blake3": "", "seed": 1, "instruction_set": "", "settings_blake3": "",
                "settings": {"train": {"batch_size": 4}}},
            "cohort": "c", "plan": {"total_steps": 110, "steps_per_epoch": 5, "calibration_steps": 0}
        });
        let line = |step| format!("{{\"kind\":\"step\",\"step\":{step},\"scans_per_second\":8.0,\"loss\":{{}}}}\n");
        let run = RunFolder {
            record: serde_json::from_value(record).unwrap(),
            journal: Some(JournalText::parse(&(0..10).map(line).collect::<String>())),
            ..RunFolder::default()
        };
        // 100 steps of 4 scans at 8 scans per second.
        assert_eq!(run.seconds_left(), Some(50.0));
        assert_eq!(run.progress(), "10 of 110 steps (9 %)");
    }
}
