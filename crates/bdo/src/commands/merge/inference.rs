//! Parts of an inference that `--shard` cut, joined into the folder one process would have made.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bdo_data::durable;
use bdo_data::shard::Shard;
use bdo_eval::export::in_order;
use bdo_eval::folder::WorkFolder;
use bdo_eval::infer::output::join_tables;
use serde_json::{Value, json};

use crate::answer::Answer;

/// Tables of rows, one for all scans; whichever of them the verb wrote.
const TABLES: [&str; 2] = ["posterior.parquet", "latent.parquet"];
/// Lists with a header and a line per scan.
const LISTS: [&str; 2] = ["familiarity.tsv", "summary.tsv"];
/// Of the first scan, or the same in every part.
const FROM_THE_FIRST: [&str; 3] = ["example.json", "calibration.json", "dataset_description.json"];
const FACTS: &str = "inference.json";
const REQUEST: &str = "request.json";

pub(super) fn is_inference(folder: &Path) -> bool {
    folder.join(FACTS).is_file()
}

/// A part with what was asked of it and what it found.
struct Part {
    folder: PathBuf,
    facts: Value,
}

pub(super) fn merge(folders: &[PathBuf], out: &Path) -> anyhow::Result<Answer> {
    let read = |path: &Path| -> anyhow::Result<Value> {
        serde_json::from_slice(&durable::read(path)?).with_context(|| format!("{}: expected JSON", path.display()))
    };
    let (mut parts, mut asked): (_, Option<Value>) = (Vec::new(), None);
    for folder in folders {
        let mut request = read(&folder.join(REQUEST))?;
        let shard = request.as_object_mut().and_then(|request| request.remove("shard"));
        let Some(shard) = shard else {
            bail!("{}: expected a part made with --shard, found a whole inference", folder.display());
        };
        let shard: Shard = serde_json::from_value(shard)?;
        if let Some(expected) = asked.replace(request.clone()).filter(|expected| *expected != request) {
            bail!(
                "{}: expected the same request as the parts before it ({expected}), found {request}",
                folder.display()
            );
        }
        let facts = read(&folder.join(FACTS))?;
        parts.push((folder.clone(), shard, Part { folder: folder.clone(), facts }));
    }
    let parts = in_order(parts)?;
    let request = asked.context("a merge has at least one part")?;
    let folder = WorkFolder::open(out, &request)?;
    let of = |name: &str| parts.iter().map(|part| part.folder.join(name)).filter(|path| path.is_file()).collect();
    for table in TABLES {
        let files: Vec<PathBuf> = of(table);
        if !files.is_empty() {
            join_tables(&files, &folder.join(table))?;
        }
    }
    for list in LISTS {
        let mut whole = String::new();
        for file in of(list) {
            let text = String::from_utf8_lossy(&durable::read(&file)?).into_owned();
            let lines = usize::from(!whole.is_empty());
            text.split_inclusive('\n').skip(lines).for_each(|line| whole.push_str(line));
        }
        if !whole.is_empty() {
            durable::write(&folder.join(list), whole.as_bytes())?;
        }
    }
    for name in FROM_THE_FIRST {
        let files: Vec<PathBuf> = of(name);
        if let Some(first) = files.first() {
            durable::write(&folder.join(name), &durable::read(first)?)?;
        }
    }
    for part in &parts {
        for entry in std::fs::read_dir(&part.folder)?.flatten().filter(|entry| entry.path().is_dir()) {
            copy_tables(&entry.path(), &folder.path().join(entry.file_name()))?;
        }
    }
    let facts = joined_facts(&parts, out);
    folder.write_json(FACTS, &facts)?;
    let text = format!("{}: {} scans from {} parts", out.display(), facts["scans"], parts.len());
    Ok(Answer::new(facts, text))
}

/// Tables of scans, which only one part has each. They never change, so a link is as good as a copy.
fn copy_tables(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in std::fs::read_dir(from)?.flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_tables(&path, &target)?;
        } else if !target.exists() && std::fs::hard_link(&path, &target).is_err() {
            durable::write(&target, &durable::read(&path)?)?;
        }
    }
    Ok(())
}

/// Counts are added up and lists joined; the rest is the same in every part.
fn joined_facts(parts: &[Part], out: &Path) -> Value {
    let mut whole = parts.first().map_or(Value::Null, |part| part.facts.clone());
    for part in parts.iter().skip(1) {
        for (key, found) in part.facts.as_object().into_iter().flatten() {
            let sum = &mut whole[key.as_str()];
            match (&mut *sum, found) {
                (Value::Array(list), Value::Array(more)) if key == "passed_over" => list.extend(more.iter().cloned()),
                (Value::Number(a), Value::Number(b)) => {
                    *sum = match (a.as_u64(), b.as_u64()) {
                        (Some(a), Some(b)) => json!(a + b),
                        _ => json!(a.as_f64().unwrap_or(0.0) + b.as_f64().unwrap_or(0.0)),
                    };
                }
                _ => {}
            }
        }
    }
    whole["out"] = json!(out);
    whole
}
