//! `bdo inspect`: what something on the disk is.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bdo_baselines::pretrain::directory::{TokenDirectory, kind_of_model};
use bdo_data::cohort::{self, Cohort, IndexEntry};
use bdo_data::ingest::read_series;
use bdo_data::participants::Label;
use bdo_data::record::{JournalText, RunRecord};
use bdo_model::device::{self, Runtime};
use bdo_model::parameters::{parameter_table, trainable_count};
use bdo_model::weights::ModelDirectory;
use bdo_report::kind::Kind;
use bdo_train::settings::reference::commented;
use bdo_train::settings::{Preset, Settings};
use clap::Args;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::args::one_of;
use crate::cli::Common;

/// A scan with more than this share of constant or missing regions is called badly covered.
const POOR_COVERAGE: f64 = 0.1;
/// Categories listed by name; a column with more is summarised.
const LISTED_LEVELS: usize = 8;

/// Say what a cohort, a model, a run or a scan file is
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bdo inspect cohort --verify\n  bdo inspect --preset default\n  bdo inspect --devices"
)]
pub(crate) struct InspectArgs {
    /// A cohort, model or run folder, or a series file
    #[arg(required_unless_present_any = ["preset", "devices"])]
    path: Option<PathBuf>,
    /// Print a preset instead: every key with its meaning, as TOML
    #[arg(long, value_name = "NAME", value_parser = one_of::<Preset>(), conflicts_with_all = ["path", "verify"])]
    preset: Option<Preset>,
    /// List the devices this program can run models on instead
    #[arg(long, conflicts_with_all = ["path", "verify", "preset"])]
    devices: bool,
    /// Check every byte of a cohort against its checksum
    #[arg(long, help_heading = "Input")]
    verify: bool,
}

pub(crate) fn run(args: &InspectArgs, common: &Common) -> anyhow::Result<Answer> {
    if let Some(preset) = args.preset {
        let json = json!({"kind": "preset", "name": preset, "settings": Settings::preset(preset)});
        return Ok(Answer::new(json, commented(preset)));
    }
    if args.devices {
        return Ok(devices());
    }
    let path = args.path.as_deref().context("expected a path, --preset or --devices")?;
    match Kind::of(path) {
        Some(Kind::Run) => return inspect_run(path),
        Some(Kind::Model) => return inspect_model(path),
        Some(Kind::Cohort) => {}
        Some(kind) => bail!(
            "{}: expected a cohort, model or run folder, or a series file, found a {}; `bdo report` shows it",
            path.display(),
            kind.name()
        ),
        None if path.is_file() => return inspect_series(path),
        // Refused below, with what is missing.
        None => {}
    }
    let damages = if args.verify { Some(cohort::verify(path)?) } else { None };
    let cohort = Cohort::open(path)?;
    let mut json = describe(&cohort)?;
    let mut text = as_text(&json);
    if let Some(damages) = &damages {
        json["verified"] = json!(damages.is_empty());
        json["damages"] =
            damages.iter().map(|d| json!({"file": d.path, "scans": d.scans, "message": d.message})).collect();
        if damages.is_empty() {
            text += "  verified      every byte agrees with its checksum\n";
        }
    }
    let answer = Answer::new(json, text);
    let damages = damages.unwrap_or_default();
    if damages.is_empty() {
        return Ok(answer);
    }
    answer.print(common)?;
    damages.iter().for_each(|damage| common.complain(format!("damaged: {}", damage.message)));
    bail!("{} is damaged in {} places", path.display(), damages.len());
}

/// What `--device` takes on this machine, and what this build left out.
fn devices() -> Answer {
    let (found, left_out) = (device::devices(), Runtime::left_out());
    let names: Vec<&str> = left_out.iter().map(|runtime| runtime.name()).collect();
    let mut text = String::new();
    for device in &found {
        let memory = device
            .memory_bytes
            .map_or_else(String::new, |bytes| format!(", {:.1} GiB", bytes as f64 / 1024f64.powi(3)));
        let _ = writeln!(text, "{:<10} {}{memory}", device.device.to_string(), device.name);
    }
    if !names.is_empty() {
        let _ = writeln!(text, "not in this build: {} (docs/devices.md)", names.join(", "));
    }
    Answer::new(json!({"kind": "devices", "devices": found, "not_built": names}), text.trim_end().to_owned())
}

/// Scans with too few regions, worst first.
pub(crate) fn poorly_covered(cohort: &Cohort) -> Vec<&IndexEntry> {
    let most = POOR_COVERAGE * cohort.regions().len() as f64;
    let mut poor: Vec<&IndexEntry> = cohort.index().iter().filter(|e| e.invalid_regions as f64 > most).collect();
    poor.sort_by_key(|e| std::cmp::Reverse(e.invalid_regions));
    poor
}

pub(crate) fn covered_json(scans: &[&IndexEntry]) -> Vec<Value> {
    let one =
        |e: &&IndexEntry| json!({"scan": e.id.to_string(), "source": e.source, "invalid_regions": e.invalid_regions});
    scans.iter().map(one).collect()
}

fn describe(cohort: &Cohort) -> anyhow::Result<Value> {
    let index = cohort.index();
    let count = |key: &dyn Fn(&IndexEntry) -> String| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for entry in index {
            *counts.entry(key(entry)).or_default() += 1;
        }
        counts
    };
    let mut frames: Vec<usize> = index.iter().map(|e| e.frames).collect();
    frames.sort_unstable();
    let mut minutes: Vec<f64> = index.iter().map(|e| e.span_seconds / 60.0).collect();
    minutes.sort_by(f64::total_cmp);
    let invalid = index.iter().filter(|e| e.invalid_regions > 0).count();
    let manifest = cohort.manifest();
    Ok(json!({
        "kind": "cohort",
        "path": cohort.folder(),
        "format": manifest.format,
        "scans": index.len(),
        "subjects": manifest.subjects,
        "regions": cohort.regions().len(),
        "atlas": manifest.atlas,
        "content_blake3": cohort.content_blake3()?,
        "tr_seconds": count(&|e| format!("{}", e.tr_seconds)),
        "frames": {"least": frames.first(), "median": frames.get(frames.len() / 2), "most": frames.last()},
        "minutes": {"least": minutes.first(), "median": minutes.get(minutes.len() / 2), "most": minutes.last()},
        "irregular_scans": index.iter().filter(|e| (e.span_seconds - (e.frames.max(1) - 1) as f64 * e.tr_seconds).abs() > 0.5 * e.tr_seconds).count(),
        "sites": count(&|e| e.site.clone().unwrap_or_else(|| "n/a".into())),
        "labels": labels(cohort),
        "scans_with_invalid_regions": invalid,
        "badly_covered": covered_json(&poorly_covered(cohort)),
        "recipes": cohort::recipe_of(cohort).iter().map(ToString::to_string).collect::<Vec<_>>(),
        "provenance": manifest.provenance,
    }))
}

fn labels(cohort: &Cohort) -> Vec<Value> {
    let people = cohort.participants();
    let summary = |name: &String| {
        let label = people.label(name)?;
        Some(match label {
            Label::Number(values) => {
                let present: Vec<f64> = values.iter().copied().flatten().collect();
                let mean = present.iter().sum::<f64>() / present.len().max(1) as f64;
                let (low, high) =
                    present.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(*x), h.max(*x)));
                json!({"name": name, "kind": "number", "present": present.len(), "missing": values.len() - present.len(),
                       "least": low, "mean": mean, "most": high})
            }
            Label::Category(values) => {
                let mut levels: BTreeMap<&str, usize> = BTreeMap::new();
                for value in values.iter().flatten() {
                    *levels.entry(value).or_default() += 1;
                }
                let present: usize = levels.values().sum();
                let mut json = json!({"name": name, "kind": "category", "present": present, "missing": values.len() - present, "distinct": levels.len()});
                if levels.len() <= LISTED_LEVELS {
                    json["levels"] = json!(levels);
                }
                json
            }
        })
    };
    people.columns().iter().filter_map(summary).collect()
}

fn as_text(json: &Value) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<13} {value}");
    };
    let counts = |value: &Value| {
        let pairs = value.as_object().into_iter().flatten();
        let mut shown: Vec<String> = pairs.map(|(k, n)| format!("{k} ({n})")).collect();
        let more = shown.len().saturating_sub(24);
        shown.truncate(24);
        shown.join(", ") + &if more > 0 { format!(", {more} more") } else { String::new() }
    };
    line("scans", format!("{} of {} people", json["scans"], json["subjects"]));
    line("regions", format!("{} ({})", json["regions"], json["atlas"]["name"].as_str().unwrap_or_default()));
    line("TR (scans)", counts(&json["tr_seconds"]));
    line(
        "frames",
        format!("{} to {}, median {}", json["frames"]["least"], json["frames"]["most"], json["frames"]["median"]),
    );
    let minutes = |key: &str| json["minutes"][key].as_f64().unwrap_or(0.0);
    line("minutes", format!("{:.1} to {:.1}, median {:.1}", minutes("least"), minutes("most"), minutes("median")));
    for recipe in json["recipes"].as_array().into_iter().flatten() {
        line("recipe", recipe.as_str().unwrap_or_default().to_owned());
    }
    line("irregular", format!("{} scans have gaps in time", json["irregular_scans"]));
    line("sites", counts(&json["sites"]));
    line("bad regions", format!("{} scans have constant or missing regions", json["scans_with_invalid_regions"]));
    for scan in json["badly_covered"].as_array().into_iter().flatten() {
        line(
            "",
            format!(
                "badly covered: {} ({} regions; {})",
                scan["scan"].as_str().unwrap_or_default(),
                scan["invalid_regions"],
                scan["source"].as_str().unwrap_or_default()
            ),
        );
    }
    for label in json["labels"].as_array().into_iter().flatten() {
        let number = |key: &str| label[key].as_f64().unwrap_or(f64::NAN);
        let what = match label["kind"].as_str() {
            Some("number") => format!("{:.4} to {:.4}, mean {:.4}", number("least"), number("most"), number("mean")),
            _ if label["levels"].is_object() => counts(&label["levels"]),
            _ => format!("{} different values", label["distinct"]),
        };
        line("label", format!("{}: {what}; {} missing", label["name"].as_str().unwrap_or_default(), label["missing"]));
    }
    format!(
        "cohort {} ({})\n{text}",
        json["path"].as_str().unwrap_or_default(),
        json["format"].as_str().unwrap_or_default()
    )
}

fn inspect_series(path: &Path) -> anyhow::Result<Answer> {
    let table = read_series(path)?;
    let valid = bdo_data::scan::valid_regions(&table.values, table.frames).iter().filter(|v| **v).count();
    let json = json!({"kind": "series", "path": path, "frames": table.frames, "regions": table.columns, "named": table.names.is_some(),
                      "invalid_regions": table.columns - valid, "blake3": table.blake3});
    let named = if table.names.is_some() { "named" } else { "without names" };
    let text = format!(
        "series {}: {} frames of {} regions, {named}; {} regions are constant or missing",
        path.display(),
        table.frames,
        table.columns,
        table.columns - valid
    );
    Ok(Answer::new(json, text))
}

/// A run: its configuration and how far it has come.
fn inspect_run(path: &Path) -> anyhow::Result<Answer> {
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
fn inspect_model(path: &Path) -> anyhow::Result<Answer> {
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
