//! The table for people (Markdown), for papers (LaTeX) and for programs (CSV; JSON is the summary itself).

use std::fmt::Write;

use super::summary::{Against, Cell, Row, Summary, each_once};
use crate::resample::Comparison;

/// What a cell without a value shows.
const NOTHING: &str = "-";

/// The scores shown first, with the heading and factor they are shown by.
fn shown(row: &Row) -> &'static [(&'static str, &'static str, f64)] {
    if row.classes.is_empty() {
        return &[("mse", "MSE", 1.0), ("rho", "rho", 1.0), ("r2", "R2", 1.0), ("mae", "MAE", 1.0)];
    }
    &[
        ("accuracy", "ACC %", 100.0),
        ("macro_f1", "F1 %", 100.0),
        ("auc", "AUC %", 100.0),
        ("balanced_accuracy", "balanced %", 100.0),
        ("brier", "Brier", 1.0),
        ("calibration_error", "ECE", 1.0),
    ]
}

fn number(x: f64, factor: f64) -> String {
    if factor > 1.0 { format!("{:.2}", x * factor) } else { format!("{x:.3}") }
}

fn or_nothing(cell: Option<String>) -> String {
    cell.unwrap_or_else(|| NOTHING.to_owned())
}

fn mean_and_spread(cell: Option<&Cell>, factor: f64, sign: &str) -> String {
    // One repetition has no spread.
    let spread = cell.and_then(|c| c.spread).map(|spread| format!(" {sign} {}", number(spread, factor)));
    or_nothing(cell.and_then(|c| c.mean).map(|mean| number(mean, factor) + &spread.unwrap_or_default()))
}

fn chance(p: Option<f64>) -> String {
    or_nothing(p.map(|p| if p < 0.001 { format!("{p:.1e}") } else { format!("{p:.3}") }))
}

/// Rows of one scheme and target together, in order.
fn tables(summary: &Summary) -> Vec<Vec<&Row>> {
    fn table(row: &Row) -> (&str, &str) {
        (&row.scheme, &row.target)
    }
    let rows = || summary.rows.iter();
    each_once(rows().map(table)).into_iter().map(|own| rows().filter(|row| table(row) == own).collect()).collect()
}

/// One table a scheme and target: mean and population spread, interval, chance, comparison, flags.
pub fn to_markdown(summary: &Summary) -> String {
    let settings = &summary.settings;
    let mut out = String::new();
    for table in tables(summary) {
        let row = table[0];
        let what = match (row.scheme.as_str(), row.classes.is_empty()) {
            ("random", _) => format!("random splits, seeds {}", joined(&row.repetitions)),
            ("leave_site_out", _) => format!("groups of sites left out, {} folds", row.repetitions.len()),
            (other, _) => other.to_owned(),
        };
        let classes =
            if row.classes.is_empty() { String::new() } else { format!(", classes {}", row.classes.join(", ")) };
        let _ = writeln!(out, "### {}: {what}{classes}\n", row.target);
        let _ =
            writeln!(out, "{:.0} people fitted on, {:.0} tested a repetition.\n", row.fitted_people, row.tested_people);
        let headings: Vec<&str> = shown(row).iter().map(|(_, heading, _)| *heading).collect();
        let level = 100.0 * settings.level;
        let has_further = table.iter().any(|row| !row.further.is_empty());
        let _ = writeln!(
            out,
            "| method | {} | {level:.0} % interval of {} | p | q | against {} (p, q) |{} trained | frozen | seconds | MiB | flags |",
            headings.join(" | "),
            row.primary,
            settings.against,
            if has_further { " against others (p, q) |" } else { "" }
        );
        let _ = writeln!(out, "|---|{}", "---|".repeat(headings.len() + 9 + usize::from(has_further)));
        for row in table {
            let cells: Vec<String> =
                shown(row).iter().map(|(name, _, factor)| mean_and_spread(row.cell(name), *factor, "±")).collect();
            let factor = shown(row).iter().find(|(name, ..)| *name == row.primary).map_or(1.0, |(_, _, f)| *f);
            let interval = row.interval.map(|i| format!("{} to {}", number(i.low, factor), number(i.high, factor)));
            let interval = or_nothing(interval);
            let difference = |c: Comparison, q: Option<f64>| {
                let sign = if c.difference >= 0.0 { "+" } else { "" };
                format!("{sign}{} ({}, {})", number(c.difference, factor), chance(c.p), chance(q))
            };
            let against = or_nothing(row.comparison.map(|c| difference(c, row.comparison_q)));
            let further = |a: &Against| format!("{}: {}", a.row, difference(a.comparison, a.q));
            let further = match row.further.as_slice() {
                _ if !has_further => String::new(),
                [] => format!(" {NOTHING} |"),
                some => format!(" {} |", escaped(&some.iter().map(further).collect::<Vec<_>>().join("; "))),
            };
            let _ = writeln!(
                out,
                "| {} | {} | {interval} | {} | {} | {against} |{further} {} | {} | {:.1} | {} | {} |",
                escaped(&summary.marked(&row.method)),
                cells.join(" | "),
                chance(row.p),
                chance(row.q),
                row.parameters,
                row.frozen_parameters,
                row.wall_seconds,
                or_nothing(row.own_mib.map(|mib| format!("{mib:.0}"))),
                escaped(&row.flags.join("; "))
            );
        }
        out.push('\n');
    }
    let _ = writeln!(
        out,
        "Mean ± population spread over repetitions. Intervals: {} resamples of people. p: {} permutations of the tested people's \
         labels, without refitting. Against {}{}: corrected t-test over repeated splits (Nadeau and Bengio). q: Benjamini and \
         Hochberg over the targets of a method. Trained: numbers fitted with labels in a repetition; frozen: numbers of a \
         pre-trained model used as they are. Seconds: fitting and predicting, all repetitions together. MiB: the most the process took for \
         a repetition in addition to the data it held before. Every row is computed alone.",
        settings.bootstraps,
        settings.permutations,
        settings.against,
        if summary.rows.iter().any(|row| !row.further.is_empty()) { " and others" } else { "" }
    );
    for (i, footnote) in summary.footnotes.iter().enumerate() {
        let _ = writeln!(out, "\n[{}] {}", i + 1, footnote.text);
    }
    out
}

fn joined(numbers: &[u64]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

/// One line a score: scheme, target, method, metric, mean, spread, the values, and for the primary score all that is known.
pub fn to_csv(summary: &Summary) -> String {
    let mut out = String::from(
        "scheme,target,method,metric,mean,spread,values,interval_low,interval_high,p,q,difference,difference_p,difference_q,\
         fitted_people,tested_people,parameters,frozen_parameters,wall_seconds,own_mib,flags,further\n",
    );
    let text = |x: Option<f64>| x.map(|x| x.to_string()).unwrap_or_default();
    for row in &summary.rows {
        for cell in &row.cells {
            let values: Vec<String> = cell.values.iter().map(|v| text(*v)).collect();
            let primary = cell.metric == row.primary;
            let only = |x: Option<f64>| if primary { text(x) } else { String::new() };
            let fields = [
                quoted(&row.scheme),
                quoted(&row.target),
                quoted(&row.method),
                cell.metric.clone(),
                text(cell.mean),
                text(cell.spread),
                values.join(" "),
                only(row.interval.map(|i| i.low)),
                only(row.interval.map(|i| i.high)),
                only(row.p),
                only(row.q),
                only(row.comparison.map(|c| c.difference)),
                only(row.comparison.and_then(|c| c.p)),
                only(row.comparison_q),
                row.fitted_people.to_string(),
                row.tested_people.to_string(),
                row.parameters.to_string(),
                row.frozen_parameters.to_string(),
                row.wall_seconds.to_string(),
                text(row.own_mib),
                quoted(&row.flags.join("; ")),
                if primary { quoted(&further(&row.further)) } else { String::new() },
            ];
            let _ = writeln!(out, "{}", fields.join(","));
        }
    }
    out
}

/// Differences from further rows for programs: row, difference, p and q with blanks between, semicolons between rows.
fn further(further: &[Against]) -> String {
    let number = |x: Option<f64>| or_nothing(x.map(|x| x.to_string()));
    let one = |a: &Against| format!("{} {} {} {}", a.row, a.comparison.difference, number(a.comparison.p), number(a.q));
    further.iter().map(one).collect::<Vec<_>>().join(";")
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// Methods by targets as papers print them, one table a scheme: accuracy and macro-F1, or error and correlation.
pub fn to_latex(summary: &Summary) -> String {
    let mut out = String::new();
    for scheme in each_once(summary.rows.iter().map(|row| &row.scheme)) {
        let rows: Vec<&Row> = summary.rows.iter().filter(|row| row.scheme == *scheme).collect();
        let methods = each_once(rows.iter().map(|row| &row.method));
        let targets = each_once(rows.iter().map(|row| &row.target)).into_iter();
        let targets: Vec<&Row> =
            targets.filter_map(|target| rows.iter().copied().find(|row| row.target == *target)).collect();
        let _ = writeln!(out, "% {scheme}: mean and population spread over repetitions");
        let _ = writeln!(out, "\\begin{{tabular}}{{l{}}}\n\\hline", "cc".repeat(targets.len()));
        let heads: Vec<String> =
            targets.iter().map(|t| format!("\\multicolumn{{2}}{{c}}{{{}}}", latex(&t.target))).collect();
        let _ = writeln!(out, " & {} \\\\", heads.join(" & "));
        let names: Vec<String> =
            targets.iter().flat_map(|t| shown(t)[..2].iter().map(|(_, heading, _)| latex(heading))).collect();
        let _ = writeln!(out, "method & {} \\\\\n\\hline", names.join(" & "));
        for method in methods {
            let mut cells: Vec<String> = vec![];
            for target in &targets {
                let row = rows.iter().find(|r| r.method == *method && r.target == target.target);
                for (name, _, factor) in &shown(target)[..2] {
                    let cell = mean_and_spread(row.and_then(|r| r.cell(name)), *factor, "\\pm");
                    cells.push(if cell == NOTHING { cell } else { format!("${cell}$") });
                }
            }
            let _ = writeln!(out, "{} & {} \\\\", latex(&summary.marked(method)), cells.join(" & "));
        }
        let _ = writeln!(out, "\\hline\n\\end{{tabular}}\n");
    }
    for (i, footnote) in summary.footnotes.iter().enumerate() {
        let _ = writeln!(out, "[{}] {}\n", i + 1, latex(&footnote.text));
    }
    out
}

fn latex(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '_' | '%' | '&' | '#' | '$' | '{' | '}' => out.extend(['\\', c]),
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            c => out.push(c),
        }
    }
    out
}
