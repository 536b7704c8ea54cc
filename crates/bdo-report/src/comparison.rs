//! A comparison: tables with intervals, forests, predictions, audit, efficiency.

use std::path::Path;

use bdo_eval::audit::AuditRow;
use bdo_eval::comparison::{Against, Protocol, Row, Summary, TaskResult};
use serde_json::Value;

use crate::chart::{Axis, Chart, Marks, Point, Reference};
use crate::figure::Figure;
use crate::page::{Citation, Page};
use crate::palette::Colour;
use crate::predictions::{MOST_METHODS, Predicted, prediction_figures};
use crate::scale::number;
use crate::source;
use crate::table::{Cell, Table};

/// Adds the folder of a comparison to a page; what is missing or damaged is left out and named.
pub(crate) fn show(folder: &Path, page: &mut Page) {
    let record: Value = source::json(&folder.join("table.json")).unwrap_or_default();
    let files = source::json_files(&folder.join("results"), 3);
    let results: Vec<TaskResult> = files.iter().filter_map(|file| source::json(file)).collect();
    let unreadable = files.len() - results.len();
    let text = |key: &str| record[key].as_str().unwrap_or("-").to_owned();
    let value = |record: &Value, key: &str| record[key].as_f64().unwrap_or(f64::NAN);
    let seconds = record["seconds"].as_f64();
    let memory = number(value(&record, "peak_rss_mib"));
    let count = record["results"].as_u64().unwrap_or(results.len() as u64);
    page.section("What was compared").facts(&[
        ("Cohort", format!("{} (BLAKE3 {})", text("cohort"), text("cohort_blake3"))),
        ("Model", text("model")),
        ("Splits", format!("BLAKE3 {}", text("splits_blake3"))),
        ("Fitted on", text("fit_on").replace('_', " ")),
        ("Results", format!("{count} of methods, labels and repetitions")),
        ("Time", seconds.map_or_else(|| "-".into(), |s| format!("{s:.1} s, {memory} MiB at most"))),
    ]);
    let pretraining = &record["pretraining"];
    if let Some(models) = pretraining["models"].as_u64() {
        page.paragraph(&format!(
            "Pre-training cost, shared by all BDO rows and not part of their columns: {models} models of {} parameters, {:.1} s in all, at most {:.0} MiB in use.",
            pretraining["parameters"],
            value(pretraining, "seconds"),
            value(pretraining, "memory_mib")
        ));
    }
    if let Ok(protocol) = serde_json::from_value(record["protocol"].clone()) {
        cut(page, &protocol);
    }
    if unreadable > 0 {
        page.missing(&format!("{unreadable} result files could not be read and are not shown."), "");
    }
    let Ok(summary) = serde_json::from_value::<Summary>(record["summary"].clone()) else {
        page.missing("There is no readable table.json with a summary; run the comparison to its end:", "bdo compare");
        return;
    };
    let audited: Vec<AuditRow> = serde_json::from_value(record["audit"].clone()).unwrap_or_default();
    let tasks = source::distinct(summary.rows.iter().map(|row| (&row.scheme, &row.target)));
    let of_task = |task| summary.rows.iter().filter(|row| (&row.scheme, &row.target) == task).collect();
    let tasks: Vec<Vec<&Row>> = tasks.into_iter().map(of_task).collect();
    for rows in &tasks {
        verdict(page, &summary, rows, &audited);
    }
    for rows in &tasks {
        task(page, &summary, rows, &results);
    }
    efficiency(page, &summary);
    audit(page, &audited);
    describe(page, &summary, !audited.is_empty());
}

fn task(page: &mut Page, summary: &Summary, rows: &[&Row], results: &[TaskResult]) {
    let Some(first) = rows.first() else { return };
    let random = first.scheme == "random";
    let scheme = if random { "random splits".into() } else { first.scheme.replace('_', " ") };
    page.section(&format!("{}: {scheme}", first.target));
    page.paragraph(&format!(
        "{:.0} people fitted on and {:.0} tested per repetition; {} repetitions.",
        first.fitted_people,
        first.tested_people,
        first.repetitions.len()
    ));
    page.table(&score_table(summary, rows));
    for (i, footnote) in summary.footnotes.iter().enumerate() {
        if rows.iter().any(|row| footnote.methods.contains(&row.method)) {
            page.paragraph(&format!("[{}] {}", i + 1, footnote.text));
        }
    }
    page.figure(&forest(summary, rows));
    page.folded_table("All scores, parameters, seconds and memory", &cost_table(rows));
    let mut best: Vec<&&Row> = rows.iter().collect();
    best.sort_by(|a, b| score(b).total_cmp(&score(a)));
    let of_row = |row: &&&Row| {
        let same = |r: &&TaskResult| r.method == row.method && r.target == row.target && r.scheme.name() == row.scheme;
        let people = results
            .iter()
            .filter(same)
            .flat_map(|r| r.outcome.predictions.iter().map(|prediction| (r.seed, prediction.clone())));
        Predicted { method: row.method.clone(), classes: row.classes.clone(), people: people.collect() }
    };
    // The harmonised twin of a row is nearly the same picture, and a row without an interval says the same of everybody.
    let is_twin = |row: &Row| {
        let plain = row.method.strip_suffix("-combat");
        plain.is_some_and(|plain| rows.iter().any(|other| other.method == plain && other.interval.is_some()))
    };
    let shown = best.iter().filter(|row| row.interval.is_some() && !is_twin(row));
    let said: Vec<Predicted> = shown.take(MOST_METHODS).map(of_row).collect();
    let name = if random { first.target.clone() } else { format!("{} ({scheme})", first.target) };
    let missing = "The predictions behind this table are not in the folder.";
    page.figures(&prediction_figures(&name, &said), missing, "bdo compare");
}

/// What was cut from the full protocol, and the command that cuts nothing.
fn cut(page: &mut Page, protocol: &Protocol) {
    page.section("What was cut from the full protocol");
    if protocol.cuts.is_empty() {
        page.paragraph("Nothing; the command was:").verbatim(&protocol.full_command);
        return;
    }
    let mut table = Table::new("Cuts, by an option or by its default", ["what", "here", "full protocol", "option"]);
    for cut in &protocol.cuts {
        let cells = [&cut.what, &cut.here, &cut.full, &cut.option];
        table.row(cells.map(|text| Cell::from(text.as_str())));
    }
    page.table(&table);
    page.paragraph("The full protocol on the same data, targets and methods:").verbatim(&protocol.full_command);
}

fn score(row: &Row) -> f64 {
    row.cell(&row.primary).and_then(|c| c.mean).unwrap_or(f64::NEG_INFINITY)
}

/// The score of predictions unrelated to the label.
fn chance(primary: &str, classes: usize) -> f64 {
    match primary {
        "auc" => 0.5,
        "balanced_accuracy" => 1.0 / classes.max(1) as f64,
        _ => 0.0,
    }
}

/// What decides, in a table that fits its page; the rest is one click away.
fn score_table(summary: &Summary, rows: &[&Row]) -> Table {
    let first = rows[0];
    let headings = [
        "method".to_owned(),
        short_name(&first.primary).to_owned(),
        format!("{:.0} % interval", 100.0 * summary.settings.level),
        "p".to_owned(),
        "q".to_owned(),
        format!("against {} (p)", summary.settings.against),
        "notes".to_owned(),
    ];
    let caption = format!(
        "{}: {}, mean and population standard deviation over repetitions; click a heading to sort",
        first.target,
        metric_name(&first.primary)
    );
    let mut table = Table::new(caption, headings).fitting();
    for row in rows {
        let interval = row.interval.map(|i| Cell::Shown(i.low, format!("{:.3} to {:.3}", i.low, i.high)));
        let against = row.comparison.map(|c| {
            let p = c.p.map_or_else(|| "-".to_owned(), |p| format!("{p:.3}"));
            Cell::Shown(c.difference, format!("{:+.3} ({p})", c.difference))
        });
        table.row([
            Cell::from(summary.marked(&row.method)),
            shown(row, &row.primary),
            interval.unwrap_or(Cell::Empty),
            row.p.map_or(Cell::Empty, |p| Cell::Shown(p, format!("{p:.4}"))),
            row.q.map_or(Cell::Empty, |q| Cell::Shown(q, format!("{q:.4}"))),
            against.unwrap_or(Cell::Empty),
            row.flags.join("; ").into(),
        ]);
    }
    table
}

fn cost_table(rows: &[&Row]) -> Table {
    let scores: Vec<&str> = rows
        .iter()
        .max_by_key(|r| r.cells.len())
        .map_or_else(Vec::new, |row| row.cells.iter().map(|cell| cell.metric.as_str()).collect());
    let has_further = rows.iter().any(|row| !row.further.is_empty());
    let headings = std::iter::once("method".to_owned())
        .chain(scores.iter().map(|name| name.replace('_', " ")))
        .chain(["q against".to_owned()])
        .chain(has_further.then(|| "against others (p, q)".to_owned()))
        .chain(["trained", "frozen", "seconds", "MiB"].map(str::to_owned));
    let mut table = Table::new(format!("{}: all scores and costs", rows[0].target), headings);
    for row in rows {
        let mut cells = vec![Cell::from(row.method.as_str())];
        cells.extend(scores.iter().map(|name| shown(row, name)));
        cells.push(row.comparison_q.into());
        cells.extend(has_further.then(|| further(row)));
        cells.extend([
            row.parameters.into(),
            row.frozen_parameters.into(),
            row.wall_seconds.into(),
            row.own_mib.map_or(Cell::Empty, |mib| Cell::Shown(mib, format!("{mib:.0}"))),
        ]);
        table.row(cells);
    }
    table
}

/// Differences from the rows a row is judged by.
fn further(row: &Row) -> Cell {
    let chance = |p: Option<f64>| p.map_or_else(|| "-".to_owned(), number);
    let one = |a: &Against| {
        let (p, q) = (chance(a.comparison.p), chance(a.q));
        format!("{}: {:+.3} ({p}, {q})", a.row, a.comparison.difference)
    };
    row.further.iter().map(one).collect::<Vec<_>>().join("; ").into()
}

fn shown(row: &Row, metric: &str) -> Cell {
    match row.cell(metric).and_then(|c| Some((c.mean?, c.spread))) {
        Some((mean, None)) => Cell::Shown(mean, format!("{mean:.3}")),
        Some((mean, Some(spread))) => Cell::Shown(mean, format!("{mean:.3} \u{b1} {spread:.3}")),
        None => Cell::Empty,
    }
}

fn short_name(metric: &str) -> &str {
    match metric {
        "auc" => "AUC",
        "balanced_accuracy" => "balanced accuracy",
        other => other,
    }
}

/// A box of one label: the best method, whether it is above chance, how it stands to connectivity, and what may be wrong.
fn verdict(page: &mut Page, summary: &Summary, rows: &[&Row], audited: &[AuditRow]) {
    let (scheme, target) = (&rows[0].scheme, &rows[0].target);
    let with_brain = |row: &&&Row| !["motion", "site", "age-sex", "majority"].contains(&row.method.as_str());
    let best_of = |with: bool| {
        let scored = rows.iter().filter(|row| with_brain(row) == with && score(row).is_finite());
        scored.max_by(|a, b| score(a).total_cmp(&score(b)))
    };
    let Some(best) = best_of(true) else {
        page.verdict(target, "No method has a result.", &[]);
        return;
    };
    let level = chance(&best.primary, best.classes.len());
    let above = match (best.q.or(best.p), best.interval) {
        (Some(p), _) if p < 0.05 && score(best) > level => "above chance",
        (_, Some(interval)) if interval.low > level && best.p.is_none() => "above chance",
        _ => "NOT above chance",
    };
    let interval = best.interval.map_or_else(String::new, |i| format!(" ({:.3} to {:.3})", i.low, i.high));
    let (metric, reached) = (short_name(&best.primary), score(best));
    let headline = format!("Best is {} with {metric} {reached:.3}{interval}: {above}.", best.method);
    let mut said = vec![];
    for name in ["fc", "fc-tangent"].into_iter().filter(|name| *name != best.method) {
        let Some(other) = rows.iter().find(|r| r.method == name && score(r).is_finite()) else { continue };
        let tested = best.comparison.filter(|_| name == summary.settings.against).and_then(|c| c.p);
        let p = tested.map_or_else(String::new, |p| format!(", p = {p:.3}"));
        said.push(format!("Against {name}: {:+.3}{p}.", score(best) - score(other)));
    }
    if let Some(blind) = best_of(false) {
        let enough = score(blind) >= best.interval.map_or(score(best), |i| i.low);
        let word = if enough { "Confounds may explain it: without a brain," } else { "Confounds alone do less:" };
        said.push(format!("{word} {} reaches {:.3}.", blind.method, score(blind)));
    }
    let carried = audited.iter().filter_map(|row| {
        let value = row.metrics.and_then(|m| m.get(&row.primary))? - chance(&row.primary, row.classes);
        (value > 0.2).then(|| format!("{} in {}", row.nuisance.replace('_', " "), row.features))
    });
    let carried: Vec<String> = carried.take(3).collect();
    if !carried.is_empty() {
        said.push(format!("Features carry nuisances: {}.", carried.join(", ")));
    }
    let leak = rows.iter().flat_map(|r| &r.flags).find(|f| f.contains("pre-trained on"));
    said.push(leak.map_or_else(|| "No test person was trained on.".to_owned(), |flag| format!("Leak: {flag}.")));
    said.extend(best.flags.iter().filter(|f| f.starts_with("only ")).map(|f| format!("{f}.")));
    let dashes = rows.iter().filter(|r| r.cells.is_empty()).count();
    if dashes > 0 {
        said.push(format!("{dashes} methods have no result; their notes say why."));
    }
    let how = if scheme == "random" { String::new() } else { format!(", {}", scheme.replace('_', " ")) };
    page.verdict(&format!("Comparison: {target}{how}"), &headline, &said);
}

fn forest(summary: &Summary, rows: &[&Row]) -> Figure {
    let first = rows[0];
    // The first row of the table is at the top.
    let names: Vec<String> = rows.iter().rev().map(|r| r.method.clone()).collect();
    let place = |row: &Row| names.iter().position(|n| *n == row.method).unwrap_or(0) as f64;
    let each = rows.iter().flat_map(|row| {
        let values = row.cell(&row.primary).into_iter().flat_map(|cell| &cell.values).flatten();
        let note = |v: f64| format!("{}: {} in one repetition", row.method, number(v));
        values.map(move |v| Point::at(*v, place(row)).noted(note(*v)))
    });
    let mean = rows.iter().filter_map(|row| {
        let mean = row.cell(&row.primary)?.mean?;
        let interval = row.interval.map(|i| (i.low, i.high));
        Some(Point::at(mean, place(row)).between(interval).noted(format!("{}: {}", row.method, number(mean))))
    });
    let chart = Chart::new("", Axis::linear(metric_name(&first.primary)), Axis::of_names("", names.clone()))
        .with("mean and interval", Colour::Kind(0), Marks::Across, mean.collect())
        .with("a repetition", Colour::Kind(3), Marks::Dots, each.collect())
        .against(Reference::Upright("chance".into(), chance(&first.primary, first.classes.len())))
        .sized(640.0, 90.0 + 26.0 * names.len() as f64);
    let caption = format!(
        "Mean over repetitions with the {:.0} % interval over resamples of test people; a method with the same prediction for everybody has no interval.",
        100.0 * summary.settings.level
    );
    let title = format!("{}: {} of every method", first.target, metric_name(&first.primary));
    Figure::of_charts(format!("forest-{}-{}", first.target, first.scheme), title, caption, &[chart], 1)
}

fn metric_name(metric: &str) -> String {
    match metric {
        "auc" => "area under the ROC curve".into(),
        "rho" => "correlation of predicted and true (rho)".into(),
        other => other.replace('_', " "),
    }
}

fn efficiency(page: &mut Page, summary: &Summary) {
    let random: Vec<&Row> = summary.rows.iter().filter(|r| r.scheme == "random").collect();
    let mut targets: Vec<&str> = random.iter().map(|r| r.target.as_str()).collect();
    targets.dedup();
    if random.is_empty() {
        return;
    }
    let chart = |title: &str, label: &str, of: &dyn Fn(&Row) -> f64| {
        let mut chart = Chart::new(title, Axis::log(label), Axis::linear("score over chance")).sized(500.0, 340.0);
        for (i, target) in targets.iter().enumerate() {
            let points = random.iter().filter(|r| r.target == *target && of(r) > 0.0).filter_map(|r| {
                let over = r.cell(&r.primary)?.mean? - chance(&r.primary, r.classes.len());
                let (score, cost) = (number(over), number(of(r)));
                let note = format!("{} on {target}: {score} over chance, {cost} {label}", r.method);
                Some(Point::at(of(r), over).noted(note))
            });
            chart = chart.with(*target, Colour::Kind(i), Marks::Dots, points.collect());
        }
        chart
    };
    let charts = [
        chart("parameters", "parameters, trained and frozen (log scale)", &|r| {
            (r.parameters + r.frozen_parameters) as f64
        }),
        chart("memory", "memory of its own (MiB, log scale)", &|r| r.own_mib.unwrap_or(0.0)),
        chart("time", "seconds for all repetitions (log scale)", &|r| r.wall_seconds),
    ];
    let caption = "One point per method and label: primary score minus chance (0.5 for the area under the curve, 0 for a correlation), against what a row holds and takes in this comparison, its pre-training not included. Point at a marker for its name.";
    let title = "Score against parameters, memory and time";
    page.section("Score against cost").figure(&Figure::of_charts("efficiency", title, caption, &charts, 3));
}

fn audit(page: &mut Page, rows: &[AuditRow]) {
    page.section("Confound audit: nuisances predicted from features");
    if rows.is_empty() {
        page.missing("No audit is in this comparison; it is made unless --no-audit is given:", "bdo compare");
        return;
    }
    let value = |row: &AuditRow| row.metrics.and_then(|m| m.get(&row.primary));
    let label = |row: &AuditRow| format!("{} ({})", row.nuisance.replace('_', " "), row.primary.replace('_', " "));
    let mut table = Table::new(
        "How well features predict nuisances, by the closed-form probe on one random split",
        ["features", "nuisance", "score", "value", "chance", "people tested"],
    );
    for row in rows {
        table.row([
            row.features.as_str().into(),
            row.nuisance.replace('_', " ").into(),
            row.primary.as_str().into(),
            value(row).into(),
            chance(&row.primary, row.classes).into(),
            row.tested_people.into(),
        ]);
    }
    page.table(&table);
    let nuisances: Vec<String> = source::distinct(rows.iter().map(label));
    let features = source::distinct(rows.iter().map(|row| row.features.as_str()));
    let mut chart = Chart::new("", Axis::of_names("", nuisances.clone()), Axis::linear("score minus chance"));
    for (i, name) in features.iter().enumerate() {
        let points = rows.iter().filter(|r| r.features == *name).filter_map(|r| {
            let place = nuisances.iter().position(|n| *n == label(r))? as f64;
            let note = format!("{name}, {}: {}", label(r), number(value(r)?));
            Some(Point::at(place, value(r)? - chance(&r.primary, r.classes)).noted(note))
        });
        chart = chart.with(*name, Colour::Kind(i), Marks::GroupedBars, points.collect());
    }
    let caption = "Zero is chance. A high bar means that the features carry the nuisance, so that a label related to it can be predicted without any biology.";
    let title = "Site, motion and timing predicted from features";
    page.figure(&Figure::of_charts("confound-audit", title, caption, &[chart], 1));
}

fn describe(page: &mut Page, summary: &Summary, audited: bool) {
    page.say("Every method was fitted and tested on the same splits, by person and never by scan: 60 % training, 20 % validation, 20 % test; families and copies of one scan stay on one side. Scalers, harmonisers and label transforms are fitted on training people only.", &[]);
    page.say(
        format!("Intervals are percentiles of {} bootstrap resamples of test people; p permutes the labels of test people {} times; q controls the false discovery rate over the labels of a method.", summary.settings.bootstraps, summary.settings.permutations),
        &[Citation::Bootstrap, Citation::BenjaminiHochberg],
    );
    page.say(
        format!("Differences from {} are tested with the corrected resampled t-test.", summary.settings.against),
        &[Citation::NadeauBengio],
    );
    page.say("Rows without a brain (motion, site, age and sex, majority) show what can be predicted from nuisances alone. Calibration error uses ten equal bins.", &[Citation::Calibration]);
    if audited {
        let text = "The audit predicts site, repetition time, scan length and head motion from the features.";
        page.say(text, &[Citation::Displacement]);
    }
}
