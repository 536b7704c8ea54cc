//! The output of `bdo infer`: bands over what was measured, coverage, error by share missing, skill by horizon.

use std::path::Path;

use bdo_eval::infer::invariance::Change;
use serde::Deserialize;
use serde_json::Value;

use crate::chart::{Axis, Chart, Marks, Point, Reference};
use crate::figure::Figure;
use crate::page::Page;
use crate::palette::Colour;
use crate::scale::number;
use crate::source::{self, facts_table, json};
use crate::table::{Cell, Table};

/// Shares of the bands whose coverage is scored.
const LEVELS: [f64; 3] = [0.5, 0.8, 0.95];

/// Lists that have figures or tables of their own.
const DRAWN: [&str; 3] = ["scores", "timings", "simulation"];

pub(crate) fn show(folder: &Path, page: &mut Page) {
    let [facts, scores, example]: [Value; 3] =
        ["inference.json", "scores.json", "example.json"].map(|name| json(&folder.join(name)).unwrap_or_default());
    let verb = facts["verb"].as_str().or(scores["verb"].as_str()).unwrap_or("inference").to_owned();
    verdict(page, &verb, &facts, &scores);
    page.section(&format!("{verb}: {}", source::name(folder)))
        .facts(&[("Folder", folder.display().to_string()), ("What was asked", verb.clone())]);
    if facts.is_null() {
        page.missing("inference.json cannot be read.", "bdo infer");
    }
    let figures = [bands(&example), error(&scores), coverage(&scores), timings(&scores)];
    let figures: Vec<Figure> = figures.into_iter().flatten().collect();
    let command = "bdo infer impute --model DIR --data COHORT --out DIR --missing 0.25,0.5,0.75,0.9";
    page.figures(&figures, "Nothing was hidden that could be scored, and no example was kept.", command);
    for (name, value) in [("inference.json", &facts), ("scores.json", &scores)] {
        page.table_if_any(&facts_table(name, value, |name, _| !DRAWN.contains(&name)));
    }
    page.table_if_any(&records("Simulation of the same equation, by steps between frames", &scores["simulation"]));
    page.say("Bands are mean and standard deviation of the posterior with observation noise fitted on validation people; coverage is the share of hidden values inside them.", &[]);
}

fn rows(scores: &Value) -> &[Value] {
    source::list(&scores["scores"])
}

/// Simple predictors with their errors: imputation gives each beside its name, forecasting in the order of a list of names.
fn others<'a>(scores: &'a Value, row: &'a Value) -> Vec<(&'a str, f64)> {
    let named = |(place, other): (usize, &'a Value)| match scores["others"].as_array() {
        Some(names) => Some((names.get(place)?.as_str()?, other)),
        None => Some((other[0].as_str()?, &other[1])),
    };
    let named = source::list(&row["others"]).iter().enumerate().filter_map(named);
    named.map(|(name, error)| (name, error.as_f64().unwrap_or(f64::NAN))).collect()
}

fn error_of_model(row: &Value) -> f64 {
    row["model"]["mse"].as_f64().unwrap_or(f64::NAN)
}

/// Where a row of scores was taken.
fn place(row: &Value) -> String {
    match (row["missing"].as_f64(), row["frames_ahead"].as_u64()) {
        (Some(missing), _) => format!("with {:.0} % of the frames missing", 100.0 * missing),
        (None, Some(1)) => "one frame ahead".to_owned(),
        (None, ahead) => format!("{} frames ahead", ahead.unwrap_or(0)),
    }
}

/// How the model does beside a simple predictor with this error: person by person where that was asked, else by the plain errors.
fn beside(scores: &Value, row: &Value, name: &str, error: f64) -> Option<(&'static str, String)> {
    let index = scores["others"].as_array().and_then(|names| names.iter().position(|n| n == name));
    let paired = index.and_then(|index| {
        let found = &row["against"][index];
        let mean = found["difference"].as_f64()?;
        Some((mean, found["interval"]["low"].as_f64()?, found["interval"]["high"].as_f64()?))
    });
    if let Some((mean, low, high)) = paired {
        let judged = match (high < 0.0, low > 0.0) {
            (true, _) => "Better than",
            (_, true) => "Worse than",
            _ => "Level with",
        };
        let words =
            format!("an error of {mean:+.3} of a scan's variance beside it (95 % interval {low:+.3} to {high:+.3})");
        return Some((judged, words));
    }
    let own = error_of_model(row);
    let judged = if own < error { "Better than" } else { "Not better than" };
    own.is_finite().then(|| (judged, format!("error {} against {}", number(own), number(error))))
}

/// A list of flat records as a table.
fn records(caption: &str, value: &Value) -> Table {
    let names: Vec<&String> = value[0].as_object().into_iter().flatten().map(|(name, _)| name).collect();
    let mut table = Table::new(caption, names.iter().map(|name| name.replace('_', " ")));
    for row in source::list(value) {
        table.row(names.iter().map(|name| row[name.as_str()].as_f64().into()).collect::<Vec<Cell>>());
    }
    table
}

/// How much of a feature other timings leave, which a check finds.
fn timings(scores: &Value) -> Option<Figure> {
    let found = source::list(&scores["timings"]);
    let name = |row: &Value| Change::deserialize(&row["change"]).map_or_else(|_| "another".to_owned(), Change::name);
    let names: Vec<String> = found.iter().map(name).collect();
    let dots = |key: &str| -> Vec<Point> {
        let at = |(place, row): (usize, &Value)| {
            let x = row[key].as_f64()?;
            Some(Point::at(x, place as f64).noted(format!("{}: {x:.3}", names[place])))
        };
        found.iter().enumerate().filter_map(at).collect()
    };
    let height = 90.0 + 26.0 * names.len() as f64;
    let chart = Chart::new(
        "",
        Axis::linear("correlation with the feature of the whole scan"),
        Axis::of_names("", names.clone()),
    )
    .with("the same scan", Colour::Kind(0), Marks::Dots, dots("similarity"))
    .with("different scans", Colour::Kind(3), Marks::Dots, dots("between"))
    .with("share of scans found again", Colour::Kind(2), Marks::Dots, dots("identified"))
    .sized(640.0, height);
    let caption = "Features of scans of which only some frames are seen, or whose repetition time is stated wrongly, beside those of whole scans.";
    Figure::of_any("timings", "The feature under other timings", caption, [chart], 1)
}

/// What a check found with every second frame.
fn half_rate(scores: &Value) -> Option<&Value> {
    let second = |timing: &&Value| timing["change"]["kind"] == "subsample" && timing["change"]["amount"] == 2;
    scores["timings"].as_array()?.iter().find(second)
}

fn verdict(page: &mut Page, verb: &str, facts: &Value, scores: &Value) {
    let mut said = vec![];
    let hardest = rows(scores).last();
    let headline = if let Some(row) = hardest {
        let inside = row["model"]["coverage"][2].as_f64().map(|share| 100.0 * share);
        said.extend(inside.map(|share| format!("{share:.1} % of the hidden values lie inside the bands of 95 %.")));
        let known = others(scores, row).into_iter().filter(|other| other.1.is_finite());
        let best = known.min_by(|a, b| a.1.total_cmp(&b.1));
        let against = |row: &Value| best.and_then(|(name, error)| beside(scores, row, name, error));
        // How it begins to go on matters as much as how far it reaches.
        if let Some((judged, words)) = rows(scores).first().filter(|first| *first != row).and_then(&against)
            && row["against"].is_array()
        {
            said.push(format!("{judged} it {}: {words}.", place(&rows(scores)[0])));
        }
        match (against(row), best) {
            (Some((judged, words)), Some((name, _))) => {
                format!("{judged} {name}, the best simple predictor, {}: {words}.", place(row))
            }
            _ => format!("Error {} {}.", number(error_of_model(row)), place(row)),
        }
    } else if let Some(timing) = half_rate(scores) {
        let [similarity, found] = ["similarity", "identified"].map(|key| timing[key].as_f64().unwrap_or(f64::NAN));
        let judged = if similarity > 0.8 { "hardly changes" } else { "changes" };
        format!(
            "The feature of a scan {judged} at half its rate: correlation {similarity:.3} with that of the whole scan, {:.0} % of {} scans found again.",
            100.0 * found,
            timing["scans"]
        )
    } else {
        let [rows, scans, unseen] = ["rows", "scans", "rows_not_seen"].map(|key| facts[key].as_u64().unwrap_or(0));
        format!("Answers for {rows} times of {scans} scans; at {unseen} of them the model saw no frame.")
    };
    if facts["calibrated"] == Value::Bool(false) {
        said.push("The bands are NOT calibrated and far too narrow; bdo infer calibrate makes ones that hold.".into());
    }
    if let Some(count) = facts["unfamiliar"].as_u64().filter(|count| *count > 0) {
        said.push(format!("{count} scans are not like those the model knows: see familiarity.tsv before using them."));
    }
    page.verdict(verb, &headline, &said);
}

/// Mean and band of a few regions of one scan over what was measured.
fn bands(example: &Value) -> Option<Figure> {
    let numbers =
        |value: &Value| -> Vec<f64> { source::list(value).iter().map(|x| x.as_f64().unwrap_or(f64::NAN)).collect() };
    let times = numbers(&example["times_seconds"]);
    let reach = example["half_width"].as_f64()?;
    let mut charts = vec![];
    for (i, name) in example["regions"].as_array()?.iter().enumerate() {
        let [truth, mean, sd] = ["truth", "mean", "sd"].map(|key| numbers(&example[key][i]));
        let at = |values: &[f64]| -> Vec<Point> { times.iter().zip(values).map(|(t, x)| Point::at(*t, *x)).collect() };
        // Folders of earlier versions do not say which rows the model was shown.
        let was_shown = |row: usize| example["shown"][row].as_bool().unwrap_or(true);
        let part = |shown: bool| -> Vec<Point> {
            let rows = at(&truth).into_iter().enumerate();
            rows.filter(|(row, _)| was_shown(*row) == shown).map(|(_, point)| point).collect()
        };
        let band = times.iter().zip(mean.iter().zip(&sd));
        let band = band.map(|(t, (m, s))| Point::at(*t, *m).between((m - reach * s, m + reach * s)));
        charts.push(
            Chart::new(name.as_str().unwrap_or("a region"), Axis::linear("time (s)"), Axis::linear("signal"))
                .with("band of 95 %", Colour::Kind(1), Marks::Band, band.collect())
                .with("mean", Colour::Kind(0), Marks::Line, at(&mean))
                .with("measured, shown", Colour::Kind(3), Marks::Dots, part(true))
                .with("measured, hidden", Colour::Kind(2), Marks::Dots, part(false))
                .sized(900.0, 220.0),
        );
    }
    let scan = example["scan"].as_str().unwrap_or("a scan");
    let caption = format!(
        "{scan}: three regions. Where nothing was measured, or it was hidden, the band is all the model knows."
    );
    Figure::of_any("bands", "Bands over what was measured", caption, charts, 1)
}

/// The horizontal axis of the scores: share missing, or seconds ahead.
fn across(row: &Value) -> f64 {
    row["missing"].as_f64().map(|share| 100.0 * share).or(row["seconds_ahead"].as_f64()).unwrap_or(f64::NAN)
}

fn axis(scores: &Value) -> Axis {
    let missing = rows(scores).first().is_some_and(|row| row["missing"].is_number());
    Axis::linear(if missing { "frames missing (%)" } else { "time ahead (s)" })
}

fn error(scores: &Value) -> Option<Figure> {
    let line = |of: &dyn Fn(&Value) -> Option<f64>| -> Vec<Point> {
        rows(scores).iter().filter_map(|row| Some(Point::at(across(row), of(row)?))).collect()
    };
    let mut chart = Chart::new("", axis(scores), Axis::linear("mean squared error")).sized(560.0, 320.0);
    for (i, (name, _)) in rows(scores).first().into_iter().flat_map(|row| others(scores, row)).enumerate() {
        let error = |row: &Value| others(scores, row).into_iter().find(|other| other.0 == name).map(|other| other.1);
        let points = line(&|row| error(row).filter(|error| error.is_finite()));
        chart = chart.with(name, Colour::Kind(i + 1), Marks::LineAndDots, points);
    }
    let chart = chart.with("model", Colour::Kind(0), Marks::LineAndDots, line(&|row| row["model"]["mse"].as_f64()));
    let forecast = rows(scores).first().is_some_and(|row| row["frames_ahead"].is_number());
    let title = if forecast { "Forecast error by horizon" } else { "Error by share of missing frames" };
    let caption = "Mean squared error in the units of the model, on frames that were hidden; lower is better.";
    Figure::of_any("inference-error", title, caption, [chart], 1)
}

fn coverage(scores: &Value) -> Option<Figure> {
    let mut chart = Chart::new("", axis(scores), Axis::linear("values inside the band (%)").between(0.0, 100.0))
        .sized(560.0, 320.0);
    for (i, level) in LEVELS.iter().enumerate() {
        let point = |row: &Value| Some(Point::at(across(row), 100.0 * row["model"]["coverage"][i].as_f64()?));
        let name = format!("band of {:.0} %", 100.0 * level);
        chart = chart
            .with(name.clone(), Colour::Kind(i), Marks::LineAndDots, rows(scores).iter().filter_map(point).collect())
            .against(Reference::Level(name, 100.0 * level));
    }
    let caption = "A band keeps its promise where its line lies on the dashed one of the same share.";
    Figure::of_any("coverage", "How often the truth is inside the bands", caption, [chart], 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn scores_of_both_kinds_have_figures_and_a_verdict() {
        let model = serde_json::json!({"mse": 0.4, "crps": 0.3, "coverage": [0.5, 0.8, 0.94]});
        let filled = serde_json::json!({"verb": "impute", "scores": [{"missing": 0.25, "scans": 3, "model": model, "others": [["kriging", 0.5], ["mean", 1.0]]}]});
        let ahead = serde_json::json!({"verb": "forecast", "others": ["hold", "mean"], "scores": [{"frames_ahead": 1, "seconds_ahead": 2.0, "model": model, "others": [0.3, 1.0]}]});
        for (scores, words) in [(&filled, "Better than kriging"), (&ahead, "Not better than hold")] {
            assert!(error(scores).is_some() && coverage(scores).is_some());
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("scores.json"), scores.to_string()).unwrap();
            let mut page = Page::new("t", "c");
            show(folder.path(), &mut page);
            let html = page.finish("1");
            assert!(html.contains(words) && html.contains("94.0 % of the hidden values"), "{words}");
        }
        let against = serde_json::json!([{"difference": -0.02, "interval": {"low": -0.04, "high": 0.01}}]);
        let paired = serde_json::json!({"verb": "forecast", "others": ["kriging"], "scores": [{"frames_ahead": 1, "seconds_ahead": 2.0, "model": model, "others": [0.3], "against": against}]});
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("scores.json"), paired.to_string()).unwrap();
        let mut page = Page::new("t", "c");
        show(folder.path(), &mut page);
        assert!(page.finish("1").contains("Level with kriging, the best simple predictor, one frame ahead"));
        let check = serde_json::json!({"verb": "check", "timings": [{"change": {"kind": "subsample", "amount": 2}, "scans": 50, "similarity": 0.965, "identified": 0.98}]});
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("scores.json"), check.to_string()).unwrap();
        let mut page = Page::new("t", "c");
        show(folder.path(), &mut page);
        assert!(
            page.finish("1").contains("correlation 0.965 with that of the whole scan, 98 % of 50 scans found again")
        );
        let example = serde_json::json!({"scan": "s", "half_width": 1.96, "regions": ["a"], "times_seconds": [0.0, 2.0], "truth": [[1.0, null]], "mean": [[0.9, 0.8]], "sd": [[0.1, 0.4]]});
        assert!(bands(&example).is_some());
    }
}
