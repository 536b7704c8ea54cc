//! A model directory: what the model is, what it expects, and what it was trained on.

use std::path::Path;

use crate::chart::{Axis, Chart, Marks, Point};
use crate::figure::Figure;
use crate::page::{Citation, Methods, Page};
use crate::palette::Colour;
use crate::source::{json, lines, text};

/// Adds a model directory to a page.
pub fn show_model(folder: &Path, page: &mut Page, methods: &mut Methods, command: &str) {
    let config = json(&folder.join("config.json")).unwrap_or_default();
    let contract = json(&folder.join("preprocessor_config.json")).unwrap_or_default();
    let people = json(&folder.join("training_people.json")).unwrap_or_default();
    let notes = json(&folder.join("training.json")).unwrap_or_default();
    let count = |key: &str| people[key].as_array().map_or_else(|| "-".to_owned(), |l| l.len().to_string());
    page.section("The model").facts(&[
        ("Folder", folder.display().to_string()),
        ("Regions", config["regions"].to_string()),
        ("Width, blocks, heads", format!("{}, {}, {}", config["width"], config["blocks"], config["heads"])),
        ("Atlas", contract["atlas_name"].as_str().unwrap_or("-").to_owned()),
        ("Trained on", format!("{} people, {} scans, known by their hashes only", count("subjects"), count("scans"))),
        ("Cohort", format!("BLAKE3 {}", notes["cohort_blake3"].as_str().unwrap_or("-"))),
        ("Weights", file_hash(&folder.join("model.safetensors"))),
    ]);
    for (what, found) in [
        ("config.json", !config.is_null()),
        ("preprocessor_config.json", !contract.is_null()),
        ("training.json", !notes.is_null()),
    ] {
        if !found {
            page.missing(&format!("{what} is not there or cannot be read."), "bdo pretrain --data COHORT --out RUN");
        }
    }
    page.folded("Configuration", &lines(&config));
    page.folded("What the input must be", &lines(&contract));
    if let Some(card) = text(&folder.join("README.md")) {
        page.folded("Model card", &card);
    }
    if let Some(figure) = autocorrelation(&notes["autocorrelation"]) {
        page.figure(&figure.made_by(command));
    }
    methods.say("The model encodes the visible frames of a scan and predicts the hidden ones through a linear stochastic process in a latent space.", &[Citation::Bdo]);
}

fn autocorrelation(notes: &serde_json::Value) -> Option<Figure> {
    let lag = notes["lag_seconds"].as_f64()?;
    let points: Vec<Point> = notes["values"]
        .as_array()?
        .iter()
        .enumerate()
        .filter_map(|(i, v)| Some(Point::at(i as f64 * lag, v.as_f64()?)))
        .collect();
    let mut chart = Chart::new("", Axis::linear("lag (s)"), Axis::linear("autocorrelation")).with(
        "",
        Colour::Kind(0),
        Marks::Line,
        points,
    );
    chart.size = Some((520.0, 280.0));
    (!chart.is_empty()).then(|| {
        Figure::of_charts(
            "autocorrelation",
            "Autocorrelation of the training people",
            "Mean over regions and training scans; what kriging predicts with.",
            &[chart],
            1,
        )
    })
}

fn file_hash(path: &Path) -> String {
    let hash = || {
        let mut hasher = blake3::Hasher::new();
        std::io::copy(&mut std::fs::File::open(path).ok()?, &mut hasher).ok()?;
        Some(format!("BLAKE3 {}", hasher.finalize().to_hex()))
    };
    hash().unwrap_or_else(|| "not there".into())
}
