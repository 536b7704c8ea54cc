//! A model directory: configuration, expected input, and training people.

use std::path::Path;

use serde_json::Value;

use crate::chart::{Axis, Chart, Marks, Point};
use crate::figure::Figure;
use crate::page::{Citation, Page};
use crate::palette::Colour;
use crate::source::{json, lines, plain, text};

pub(crate) fn show(folder: &Path, page: &mut Page) {
    let [config, contract, people, notes]: [(&str, Value); 4] =
        ["config.json", "preprocessor_config.json", "training_people.json", "training.json"]
            .map(|name| (name, json(&folder.join(name)).unwrap_or_default()));
    let missing = [&config, &contract, &notes].into_iter().filter(|(_, value)| value.is_null()).map(|(name, _)| *name);
    let (config, contract, people, notes) = (&config.1, &contract.1, &people.1, &notes.1);
    // Token models keep their kind and shape one level deeper.
    let token = &config["model"];
    let kind = config["model_type"].as_str().or(token["model_type"].as_str()).unwrap_or("-");
    let shape = |key: &str, part: &str| plain(config.get(key).unwrap_or(&token["config"][part][key]));
    let count = |key: &str| people[key].as_array().map_or_else(|| "-".to_owned(), |l| l.len().to_string());
    let card = text(&folder.join("README.md"));
    let explained = card.iter().flat_map(|card| card.lines()).find(|line| line.contains("mean squared error"));
    let mut said: Vec<String> = explained.iter().map(|line| line.trim_matches(['-', '*', ' ']).to_owned()).collect();
    said.push(format!(
        "Trained on {} people and {} scans; it expects the regions of {}.",
        count("subjects"),
        count("scans"),
        contract["atlas_name"].as_str().unwrap_or("its atlas")
    ));
    said.push("Next: bdo embed makes features of a cohort, bdo probe asks what they predict.".to_owned());
    let headline =
        format!("A {kind} model of {} regions, width {}.", shape("regions", "grid"), shape("width", "encoder"));
    page.verdict("Model", &headline, &said);
    page.section("The model").facts(&[
        ("Folder", folder.display().to_string()),
        ("Kind", kind.to_owned()),
        ("Regions", shape("regions", "grid")),
        ("Width, blocks, heads", ["width", "blocks", "heads"].map(|key| shape(key, "encoder")).join(", ")),
        ("Atlas", contract["atlas_name"].as_str().unwrap_or("-").to_owned()),
        ("Trained on", format!("{} people, {} scans, listed by hash", count("subjects"), count("scans"))),
        ("Cohort", format!("BLAKE3 {}", notes["cohort_blake3"].as_str().unwrap_or("-"))),
        ("Weights", file_hash(&folder.join("model.safetensors"))),
    ]);
    for name in missing {
        page.missing(&format!("{name} is missing or cannot be read."), "bdo pretrain --data COHORT --out RUN");
    }
    page.folded("Configuration", &lines(config));
    page.folded("Expected input", &lines(contract));
    if let Some(card) = &card {
        page.folded("Model card", card);
    }
    if let Some(figure) = autocorrelation(&notes["autocorrelation"]) {
        page.figure(&figure);
    }
    if kind == "bdo" {
        page.say("The model encodes the visible frames of a scan and predicts the hidden ones through a linear stochastic process in a latent space.", &[Citation::Bdo]);
    }
}

fn autocorrelation(notes: &Value) -> Option<Figure> {
    let lag = notes["lag_seconds"].as_f64()?;
    let values = notes["values"].as_array()?.iter().enumerate();
    let points = values.filter_map(|(i, v)| Some(Point::at(i as f64 * lag, v.as_f64()?))).collect();
    let chart = Chart::new("", Axis::linear("lag (s)"), Axis::linear("autocorrelation"))
        .with("", Colour::Kind(0), Marks::Line, points)
        .sized(520.0, 280.0);
    let caption = "Mean over regions and training scans; the basis of kriging.";
    Figure::of_any("autocorrelation", "Autocorrelation of the training people", caption, [chart], 1)
}

fn file_hash(path: &Path) -> String {
    let hash = || {
        let mut hasher = blake3::Hasher::new();
        std::io::copy(&mut std::fs::File::open(path).ok()?, &mut hasher).ok()?;
        Some(format!("BLAKE3 {}", hasher.finalize().to_hex()))
    };
    hash().unwrap_or_else(|| "missing".into())
}
