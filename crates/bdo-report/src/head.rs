//! The output of a probe, a fine-tuning or a baseline: scores and predictions of test people.

use std::path::Path;

use bdo_eval::method::Prediction;
use serde_json::Value;

use crate::page::Page;
use crate::predictions::{Predicted, prediction_figures};
use crate::source::{self, facts_table, json, lines, text};
use crate::table::{Cell, Table};

pub(crate) fn show(folder: &Path, page: &mut Page) {
    let [result, head]: [Value; 2] =
        ["result.json", "head.json"].map(|name| json(&folder.join(name)).unwrap_or_default());
    let first = |keys: &[&str]| {
        keys.iter()
            .find_map(|k| result.pointer(k).or_else(|| head.pointer(k))?.as_str().map(str::to_owned))
            .unwrap_or_else(|| "-".into())
    };
    let target = first(&["/target", "/settings/target"]);
    verdict(page, &target, &result);
    page.section(&format!("Prediction of {target}")).facts(&[
        ("Folder", folder.display().to_string()),
        ("Made by", format!("bdo {} {}", first(&["/verb", "/method"]), first(&["/version"]))),
        ("Cohort", format!("BLAKE3 {}", first(&["/cohort_blake3"]))),
    ]);
    if result.is_null() {
        let command = "bdo probe --model DIR --data COHORT --target NAME --out DIR";
        page.missing("result.json is missing or cannot be read.", command);
    }
    let is_score = |name: &str, cell: &Cell| {
        !matches!(cell, Cell::Text(_))
            && !["settings", "summary", "pretrained_test_people"].iter().any(|key| name.starts_with(key))
    };
    page.table_if_any(&facts_table("Numbers of the result", &result, is_score));
    let mut summary = Table::new("Scores on test people", ["score", "mean", "spread over splits"].map(str::to_owned));
    for (name, score) in named_scores(&result["summary"]) {
        summary.row(vec![name.into(), score["mean"].as_f64().into(), score["spread"].as_f64().into()]);
    }
    page.table_if_any(&summary);
    let table = text(&folder.join("predictions.tsv"));
    let said = table.and_then(|t| predictions(&t, &source::name(folder)));
    let figures = said.map(|said| prediction_figures(&target, &[said])).unwrap_or_default();
    page.figures(&figures, "predictions.tsv is missing or cannot be read.", "");
    page.folded("Settings", &lines(&result["settings"]));
    page.say("A head was fitted on training people, its settings chosen on validation people, and test people were scored once.", &[]);
}

/// Scores by name: a list of named ones, or of a baseline one entry for each.
fn named_scores(summary: &Value) -> Vec<(&str, &Value)> {
    let listed = summary.as_array().into_iter().flatten().filter_map(|row| Some((row["name"].as_str()?, row)));
    listed.chain(summary.as_object().into_iter().flatten().map(|(name, row)| (name.as_str(), row))).collect()
}

/// The score on people the head has not seen.
fn verdict(page: &mut Page, target: &str, result: &Value) {
    let scores = named_scores(&result["summary"]);
    let find = |name: &str| {
        let (_, row) = scores.iter().find(|(named, _)| *named == name)?;
        let spread = row["spread"].as_f64().map_or_else(String::new, |s| format!(" \u{b1} {s:.3}"));
        Some((row["mean"].as_f64()?, spread))
    };
    let names = [
        ("auc", "Area under the curve (chance 0.5)"),
        ("rho", "Correlation of predicted and true (chance 0)"),
        ("balanced_accuracy", "Balanced accuracy"),
        ("accuracy", "Accuracy"),
        ("accuracy_percent", "Accuracy in percent"),
    ];
    let scored = names.into_iter().find_map(|(name, words)| Some((words, find(name)?)));
    let seeds = result["seeds"].as_array().map_or(0, Vec::len);
    let tested = result["seeds"][0]["people"][2].as_u64().or(result["seeds"][0]["test_people"].as_u64());
    let headline = match scored {
        Some((score, (mean, spread))) => {
            let plural = if seeds == 1 { "" } else { "s" };
            format!("{score} of {mean:.3}{spread} on people it has not seen, over {seeds} split{plural}.")
        }
        None => "No score on people it has not seen.".to_owned(),
    };
    let mut said = vec![];
    said.extend(tested.map(|n| format!("{n} people are tested in each split.")));
    if tested.is_some_and(|n| n < 20) {
        said.push("That is few: the score of other people may be quite another one.".to_owned());
    }
    if let Some(n) = result["pretrained_test_people"].as_u64().filter(|n| *n > 0) {
        said.push(format!("{n} of the tested people were pre-trained on, without labels."));
    }
    page.verdict(&format!("Prediction of {target}"), &headline, &said);
}

/// Reads a table of predictions: seed, subject, truth, then the predicted number or probabilities of classes.
fn predictions(text: &str, method: &str) -> Option<Predicted> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next()?.split('\t').collect();
    let column = |name: &str| header.iter().position(|h| *h == name);
    let (subject, truth) = (column("subject")?, column("truth")?);
    let probabilities: Vec<(usize, String)> =
        header.iter().enumerate().filter_map(|(i, h)| Some((i, h.strip_prefix("probability_")?.to_owned()))).collect();
    let number = column("prediction").or_else(|| column("predicted"));
    let rows: Vec<Vec<&str>> =
        lines.map(|l| l.split('\t').collect()).filter(|r: &Vec<&str>| r.len() == header.len()).collect();
    let mut classes: Vec<String> = probabilities.iter().map(|(_, name)| name.clone()).collect();
    if classes.len() == 1 {
        // Only the second class is written; the first one is the other value in the column of truths.
        let other = rows.iter().map(|r| r[truth]).find(|t| *t != classes[0])?;
        classes.insert(0, other.to_owned());
    }
    let said = |row: &Vec<&str>| {
        let seed = column("seed").and_then(|c| row[c].parse().ok()).unwrap_or(0);
        let predicted: Vec<f64> = match probabilities.len() {
            0 => vec![row[number?].parse().ok()?],
            1 => {
                let p: f64 = row[probabilities[0].0].parse().ok()?;
                vec![1.0 - p, p]
            }
            _ => probabilities.iter().map(|(c, _)| row[*c].parse().ok()).collect::<Option<_>>()?,
        };
        let class = || classes.iter().position(|class| class == row[truth]).map(|class| class as f64);
        let truth = if classes.is_empty() { row[truth].parse().ok()? } else { class()? };
        Some((seed, Prediction { subject: row[subject].to_owned(), truth, predicted }))
    };
    let people: Vec<(u64, Prediction)> = rows.iter().filter_map(said).collect();
    (!people.is_empty()).then(|| Predicted { method: method.to_owned(), classes, people })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_score_stands_in_a_table() {
        for summary in [
            serde_json::json!([{"name": "rho", "mean": 0.5, "spread": 0.125}]),
            serde_json::json!({"rho": {"mean": 0.5, "spread": 0.125}}),
        ] {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("result.json"), serde_json::json!({"summary": summary}).to_string())
                .unwrap();
            let mut page = Page::new("t", "c");
            show(folder.path(), &mut page);
            let html = page.finish("1");
            assert!(html.contains("Scores on test people") && html.contains(">0.125<"), "{summary}");
        }
    }

    #[test]
    fn tables_of_numbers_and_of_probabilities_are_read() {
        let found =
            predictions("seed\tsubject\ttruth\tprobability_b\n0\tx\ta\t0.2\n0\ty\tb\t0.9\nbroken\n", "m").unwrap();
        assert_eq!(found.classes, ["a", "b"]);
        assert_eq!(found.people.iter().map(|p| p.1.truth).collect::<Vec<_>>(), [0.0, 1.0]);
        assert_eq!(found.people[0].1.predicted, [0.8, 0.2]);
        let found = predictions("seed\tsubject\ttruth\tprediction\n1\tx\t3.5\t4\n", "m").unwrap();
        assert!(found.classes.is_empty() && found.people[0].1.predicted == [4.0] && found.people[0].0 == 1);
        assert!(predictions("nothing", "m").is_none());
    }
}
