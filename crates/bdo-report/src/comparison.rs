//! The section of a comparison: tables with intervals, forests, predictions, audit, efficiency.

use std::path::Path;

use bdo_eval::audit::AuditRow;
use bdo_eval::comparison::{Protocol, Row, Summary, TaskResult};

use crate::chart::{Axis, Chart, Marks, Point, Reference};
use crate::figure::Figure;
use crate::page::{Citation, Methods, Page};
use crate::palette::Colour;
use crate::predictions::{MOST_METHODS, Predicted, Said, prediction_figures};
use crate::scale::number;
use crate::table::{Cell, Table};

/// What `bdo compare` left in its folder, as far as it can be read.
#[derive(Debug, Default)]
pub struct Comparison {
    /// `table.json` as it is.
    pub record: serde_json::Value,
    /// The rows, if they can be read.
    pub summary: Option<Summary>,
    /// What was cut, if the comparison says it.
    pub protocol: Option<Protocol>,
    /// The audit.
    pub audit: Vec<AuditRow>,
    /// Predictions, one a method, label and repetition.
    pub results: Vec<TaskResult>,
    /// Result files that cannot be read.
    pub unreadable: usize,
}

impl Comparison {
    /// Reads a folder; what is missing or damaged is left out.
    pub fn read(folder: &Path) -> Self {
        let record: serde_json::Value = crate::source::json(&folder.join("table.json")).unwrap_or_default();
        let mut files = vec![];
        crate::source::json_files(&folder.join("results"), 3, &mut files);
        let read: Vec<Option<TaskResult>> =
            files.iter().map(|f| serde_json::from_slice(&std::fs::read(f).ok()?).ok()).collect();
        Self {
            summary: serde_json::from_value(record["summary"].clone()).ok(),
            protocol: serde_json::from_value(record["protocol"].clone()).ok(),
            audit: serde_json::from_value(record["audit"].clone()).unwrap_or_default(),
            unreadable: read.iter().filter(|r| r.is_none()).count(),
            results: read.into_iter().flatten().collect(),
            record,
        }
    }

    /// Adds everything to a page.
    pub fn show(&self, page: &mut Page, methods: &mut Methods, command: &str) {
        let text = |key: &str| self.record[key].as_str().unwrap_or("-").to_owned();
        let pretraining = &self.record["pretraining"];
        page.section("What was compared").facts(&[
            ("Cohort", format!("{} (BLAKE3 {})", text("cohort"), text("cohort_blake3"))),
            ("Model", text("model")),
            ("Splits", format!("BLAKE3 {}", text("splits_blake3"))),
            ("Fitted on", text("fit_on").replace('_', " ")),
            (
                "Results",
                format!(
                    "{} of methods, labels and repetitions",
                    self.record["results"].as_u64().unwrap_or(self.results.len() as u64)
                ),
            ),
            (
                "Time",
                self.record["seconds"].as_f64().map_or_else(
                    || "-".into(),
                    |s| {
                        format!(
                            "{s:.1} s, {} MiB at most",
                            number(self.record["peak_rss_mib"].as_f64().unwrap_or(f64::NAN))
                        )
                    },
                ),
            ),
        ]);
        if let Some(models) = pretraining["models"].as_u64() {
            let value = |key: &str| pretraining[key].as_f64().unwrap_or(f64::NAN);
            page.paragraph(&format!(
                "Pre-training of BDO, not in the columns of its rows: {models} models of {} parameters, {:.1} s together, {:.0} MiB in use at most.",
                pretraining["parameters"],
                value("seconds"),
                value("memory_mib")
            ));
        }
        if let Some(protocol) = &self.protocol {
            cut(page, protocol);
        }
        if self.unreadable > 0 {
            page.missing(&format!("{} result files could not be read and are not shown.", self.unreadable), "");
        }
        let Some(summary) = &self.summary else {
            page.missing(
                "There is no readable table.json with a summary; run the comparison to its end:",
                "bdo compare",
            );
            return;
        };
        for (scheme, target) in pairs(summary) {
            let rows: Vec<&Row> = summary.rows.iter().filter(|r| r.scheme == scheme && r.target == target).collect();
            self.show_task(page, summary, &rows, command);
        }
        efficiency(page, summary, command);
        audit(page, &self.audit, command);
        describe(methods, summary, !self.audit.is_empty());
    }

    fn show_task(&self, page: &mut Page, summary: &Summary, rows: &[&Row], command: &str) {
        let Some(first) = rows.first() else { return };
        let scheme = if first.scheme == "random" { "random splits".into() } else { first.scheme.replace('_', " ") };
        page.section(&format!("{}: {scheme}", first.target));
        page.paragraph(&format!(
            "{:.0} people fitted on, {:.0} tested a repetition; {} repetitions.",
            first.fitted_people,
            first.tested_people,
            first.repetitions.len()
        ));
        page.table(&score_table(summary, rows));
        page.figure(&forest(summary, rows, command));
        // The best few; the others are in the table.
        let mut best: Vec<&&Row> = rows.iter().collect();
        best.sort_by(|a, b| score(b).total_cmp(&score(a)));
        let said: Vec<Predicted> =
            best.iter().filter(|r| r.interval.is_some()).take(MOST_METHODS).map(|row| self.predictions(row)).collect();
        let name = if first.scheme == "random" { first.target.clone() } else { format!("{} ({scheme})", first.target) };
        let figures = prediction_figures(&name, &said, command);
        if figures.is_empty() {
            page.missing("The predictions behind this table are not in the folder.", "bdo compare");
        }
        figures.iter().for_each(|f| {
            page.figure(f);
        });
    }

    fn predictions(&self, row: &Row) -> Predicted {
        let same = |r: &&TaskResult| r.method == row.method && r.target == row.target && scheme_of(r) == row.scheme;
        let people = self.results.iter().filter(same).flat_map(|r| {
            r.outcome.predictions.iter().map(|p| Said {
                subject: p.subject.clone(),
                seed: r.seed,
                truth: p.truth,
                predicted: p.predicted.clone(),
            })
        });
        Predicted {
            method: row.method.clone(),
            target: row.target.clone(),
            classes: row.classes.clone(),
            people: people.collect(),
        }
    }
}

/// What was cut, and the command that cuts nothing.
fn cut(page: &mut Page, protocol: &Protocol) {
    page.section("What was cut of the full protocol");
    if protocol.cuts.is_empty() {
        page.paragraph("Nothing; the command was:").verbatim(&protocol.full_command);
        return;
    }
    let mut table = Table::new(
        "Less than the full protocol, by an option or by its default",
        &["what", "here", "full protocol", "option"],
    );
    for cut in &protocol.cuts {
        let cells = [&cut.what, &cut.here, &cut.full, &cut.option];
        table.rows.push(cells.map(|text| Cell::from(text.as_str())).to_vec());
    }
    page.table(&table);
    page.paragraph("The full protocol on the same data, targets and methods:").verbatim(&protocol.full_command);
}

/// Schemes and labels in the order of the table.
fn pairs(summary: &Summary) -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> = vec![];
    for row in &summary.rows {
        let pair = (row.scheme.clone(), row.target.clone());
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    pairs
}

fn scheme_of(result: &TaskResult) -> String {
    match serde_json::to_value(result.scheme) {
        Ok(serde_json::Value::String(name)) => name,
        Ok(serde_json::Value::Object(map)) => map.keys().next().cloned().unwrap_or_default(),
        _ => String::new(),
    }
}

fn score(row: &Row) -> f64 {
    row.cell(&row.primary).and_then(|c| c.mean).unwrap_or(f64::NEG_INFINITY)
}

/// What no relation between label and prediction would score.
fn chance(primary: &str, classes: usize) -> f64 {
    match primary {
        "auc" => 0.5,
        "balanced_accuracy" => 1.0 / classes.max(1) as f64,
        _ => 0.0,
    }
}

fn score_table(summary: &Summary, rows: &[&Row]) -> Table {
    let first = rows[0];
    let mut headings = vec!["method".to_owned()];
    headings.extend(first.cells.iter().map(|c| c.metric.replace('_', " ")));
    headings.extend([
        format!("{:.0} % interval of {}", 100.0 * summary.settings.level, first.primary),
        "p".into(),
        "q".into(),
        format!("against {}", summary.settings.against),
        "its p".into(),
        "its q".into(),
        "parameters".into(),
        "seconds".into(),
        "MiB".into(),
        "to know".into(),
    ]);
    let row = |row: &&Row| {
        let mut cells = vec![Cell::from(row.method.as_str())];
        cells.extend(row.cells.iter().map(|c| match (c.mean, c.spread) {
            (Some(mean), Some(spread)) => Cell::Shown(mean, format!("{mean:.3} \u{b1} {spread:.3}")),
            _ => Cell::Empty,
        }));
        cells.push(row.interval.map_or(Cell::Empty, |i| Cell::Shown(i.low, format!("{:.3} to {:.3}", i.low, i.high))));
        cells.extend([
            Cell::from(row.p),
            Cell::from(row.q),
            Cell::from(row.comparison.map(|c| c.difference)),
            Cell::from(row.comparison.and_then(|c| c.p)),
            Cell::from(row.comparison_q),
        ]);
        cells.extend([
            Cell::Shown(row.parameters as f64, row.parameters.to_string()),
            Cell::from(row.wall_seconds),
            row.peak_rss_mib.map_or(Cell::Empty, |mib| Cell::Shown(mib, format!("{mib:.0}"))),
            Cell::from(row.flags.join("; ")),
        ]);
        cells
    };
    Table {
        caption: format!("{}: mean and population spread over repetitions; click a heading to sort", first.target),
        headings,
        rows: rows.iter().map(row).collect(),
    }
}

fn forest(summary: &Summary, rows: &[&Row], command: &str) -> Figure {
    let first = rows[0];
    // The first row of the table is the uppermost.
    let names: Vec<String> = rows.iter().rev().map(|r| r.method.clone()).collect();
    let place = |row: &Row| names.iter().position(|n| *n == row.method).unwrap_or(0) as f64;
    let values = |row: &&Row| row.cell(&row.primary).map(|c| c.values.clone()).unwrap_or_default();
    let each = rows.iter().flat_map(|row| {
        values(row).into_iter().flatten().map(|v| Point {
            note: Some(format!("{}: {} in one repetition", row.method, number(v))),
            ..Point::at(v, place(row))
        })
    });
    let mean = rows.iter().filter_map(|row| {
        let mean = row.cell(&row.primary)?.mean?;
        Some(Point {
            between: row.interval.map(|i| (i.low, i.high)),
            note: Some(format!("{}: {}", row.method, number(mean))),
            ..Point::at(mean, place(row))
        })
    });
    let mut chart = Chart::new("", Axis::linear(metric_name(&first.primary)), Axis::of_names("", names.clone()))
        .with("mean and interval", Colour::Kind(0), Marks::Across, mean.collect())
        .with("a repetition", Colour::Kind(3), Marks::Dots, each.collect())
        .against(Reference::Upright("chance".into(), chance(&first.primary, first.classes.len())));
    chart.size = Some((640.0, 90.0 + 26.0 * names.len() as f64));
    let mut figure = Figure::of_charts(
        &format!("forest-{}-{}", first.target, first.scheme),
        &format!("{}: {} of every method", first.target, metric_name(&first.primary)),
        &format!(
            "Mean over repetitions with the {:.0} % interval over resamples of tested people; a method that says the same of everybody has no interval.",
            100.0 * summary.settings.level
        ),
        &[chart],
        1,
    );
    command.clone_into(&mut figure.command);
    figure
}

fn metric_name(metric: &str) -> String {
    match metric {
        "auc" => "area under the ROC curve".into(),
        "rho" => "correlation of predicted and true (rho)".into(),
        other => other.replace('_', " "),
    }
}

/// Scores against the number of fitted parameters and against time.
fn efficiency(page: &mut Page, summary: &Summary, command: &str) {
    let random: Vec<&Row> = summary.rows.iter().filter(|r| r.scheme == "random").collect();
    let mut targets: Vec<&str> = random.iter().map(|r| r.target.as_str()).collect();
    targets.dedup();
    if random.is_empty() {
        return;
    }
    let chart = |title: &str, label: &str, of: &dyn Fn(&Row) -> f64| {
        let mut chart = Chart::new(title, Axis::log(label), Axis::linear("score over chance"));
        for (i, target) in targets.iter().enumerate() {
            let points = random.iter().filter(|r| r.target == *target && of(r) > 0.0).filter_map(|r| {
                let over = r.cell(&r.primary)?.mean? - chance(&r.primary, r.classes.len());
                Some(Point {
                    note: Some(format!(
                        "{} on {target}: {} over chance, {} {label}",
                        r.method,
                        number(over),
                        number(of(r))
                    )),
                    ..Point::at(of(r), over)
                })
            });
            chart = chart.with(*target, Colour::Kind(i), Marks::Dots, points.collect());
        }
        chart.size = Some((500.0, 340.0));
        chart
    };
    let charts = [
        chart("parameters", "fitted parameters (log scale)", &|r| r.parameters as f64),
        chart("time", "seconds for all repetitions (log scale)", &|r| r.wall_seconds),
    ];
    page.section("What a score costs").figure(
        &Figure::of_charts(
            "efficiency",
            "Score against parameters and time",
            "One point a method and label: primary score minus chance (0.5 for the area under the curve, 0 for a correlation), against what is fitted in this comparison; weights of a frozen model are not counted. Point at a marker for its name.",
            &charts,
            2,
        )
        .made_by(command),
    );
}

fn audit(page: &mut Page, rows: &[AuditRow], command: &str) {
    page.section("Confound audit: what features know that they should not");
    if rows.is_empty() {
        page.missing("No audit is in this comparison; it is made unless --no-audit is given:", "bdo compare");
        return;
    }
    let value = |row: &AuditRow| row.metrics.and_then(|m| m.get(&row.primary));
    let mut table = Table::new(
        "How well features predict nuisances, by the closed-form probe on one random split",
        &["features", "nuisance", "score", "value", "chance", "people tested"],
    );
    for row in rows {
        table.rows.push(vec![
            row.features.as_str().into(),
            row.nuisance.replace('_', " ").into(),
            row.primary.as_str().into(),
            value(row).into(),
            Cell::from(chance(&row.primary, row.classes)),
            Cell::Shown(row.tested_people as f64, row.tested_people.to_string()),
        ]);
    }
    page.table(&table);
    let mut nuisances: Vec<String> = vec![];
    let mut features: Vec<&str> = vec![];
    for row in rows {
        let name = format!("{} ({})", row.nuisance.replace('_', " "), row.primary.replace('_', " "));
        if !nuisances.contains(&name) {
            nuisances.push(name);
        }
        if !features.contains(&row.features.as_str()) {
            features.push(&row.features);
        }
    }
    let mut chart = Chart::new("", Axis::of_names("", nuisances.clone()), Axis::linear("score minus chance"));
    for (i, name) in features.iter().enumerate() {
        let points = rows.iter().filter(|r| r.features == *name).filter_map(|r| {
            let label = format!("{} ({})", r.nuisance.replace('_', " "), r.primary.replace('_', " "));
            Some(Point {
                note: Some(format!("{name}, {label}: {}", number(value(r)?))),
                ..Point::at(
                    nuisances.iter().position(|n| *n == label)? as f64,
                    value(r)? - chance(&r.primary, r.classes),
                )
            })
        });
        chart = chart.with(*name, Colour::Kind(i), Marks::GroupedBars, points.collect());
    }
    page.figure(&Figure::of_charts("confound-audit", "What features say about site, motion and timing", "Zero is chance; a high bar means the features carry the nuisance, so that a label which goes with it can be predicted without any biology.", &[chart], 1).made_by(command));
}

fn describe(methods: &mut Methods, summary: &Summary, audited: bool) {
    methods.say("Every method was fitted and tested on the same divisions of people, by person and never by scan: six parts train, two select, two test; families and copies of one scan stay on one side. Scalers, harmonisers and label transforms come from training people only.", &[]);
    methods.say(
        format!("Intervals are percentiles of {} bootstrap resamples of tested people; p permutes the labels of tested people {} times; q controls the false discovery rate over the labels of a method.", summary.settings.bootstraps, summary.settings.permutations),
        &[Citation::Bootstrap, Citation::BenjaminiHochberg],
    );
    methods.say(
        format!("Differences from {} are tested with the corrected resampled t-test.", summary.settings.against),
        &[Citation::NadeauBengio],
    );
    methods.say("Rows without a brain (motion, site, age and sex, majority) say what can be predicted from nuisances alone. Calibration error uses ten equal bins.", &[Citation::Calibration]);
    if audited {
        methods.say(
            "The audit predicts site, repetition time, scan length and head motion from the features.",
            &[Citation::Displacement],
        );
    }
}
