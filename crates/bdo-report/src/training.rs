//! Curves of a training run. Loss terms, measures and scores are drawn by the names the journal gives them.

use std::collections::BTreeSet;

use bdo_data::record::{JournalText, StepEntry, Terms};

use crate::chart::{Axis, Chart, Marks, Point, Reference};
use crate::figure::Figure;
use crate::palette::Colour;
use crate::scale::ends;

/// Longer journals are drawn as means of equal groups of steps, with the range of each group as a band.
const MOST_POINTS: usize = 500;

/// A quantity of steps: name, title, axis, colour, caption and value.
type Quantity<'a> = (&'a str, &'a str, Axis, usize, &'a str, fn(&StepEntry) -> f64);

/// The figures of a journal; `clip_norm` is where gradients are clipped, `units` those of the validation error.
pub(crate) fn training_figures(journal: &JournalText, clip_norm: Option<f64>, units: &str) -> Vec<Figure> {
    let steps = &journal.steps;
    if steps.is_empty() {
        return vec![];
    }
    let size = steps.len().div_ceil(MOST_POINTS);
    let smoothed = format!(" Lines are means of groups of {size} steps, bands the range of a group.");
    let smoothed = if size > 1 { smoothed } else { String::new() };
    let x = || Axis::linear("step");
    let terms = names(steps.iter().map(|s| &s.loss.terms));
    // A term such as a log-likelihood may be negative.
    let negative = steps.iter().flat_map(|s| s.loss.terms.0.values()).any(|term| *term < 0.0);
    let loss_axis = if negative { Axis::linear("loss") } else { Axis::log("loss (log scale)") };
    let mut loss = curve(Chart::new("", x(), loss_axis), steps, "total", Colour::Kind(0), |s| s.loss.total);
    for (i, name) in terms.iter().enumerate() {
        loss = curve(loss, steps, &words(name), Colour::Kind(i + 1), |s| s.loss.term(name));
    }
    let caption = format!("Every term with its weight. Terms that are zero throughout are not drawn.{smoothed}");
    let mut figures = vec![Figure::of_charts("training-loss", "Loss terms", caption, &[loss], 1)];
    if !journal.validations.is_empty() {
        figures.push(validation(journal, units));
    }
    let (norm, speed) = (Axis::log("gradient norm (log scale)"), Axis::linear("scans / s"));
    let quantities: [Quantity<'_>; 4] = [
        ("learning-rate", "Learning rate", Axis::linear("learning rate"), 0, "Of each step.", |s| s.learning_rate),
        ("gradient-norm", "Gradient norm", norm, 1, "Norm over all parameters before clipping.", |s| s.gradient_norm),
        ("training-speed", "Speed", speed, 2, "Scans per second, waiting for data included.", |s| s.scans_per_second),
        ("training-memory", "Memory", Axis::linear("memory (MiB)"), 5, "Memory of the process.", |s| s.memory_mib),
    ];
    for (name, title, axis, colour, caption, of) in quantities {
        let mut chart = curve(Chart::new("", x(), axis), steps, &title.to_lowercase(), Colour::Kind(colour), of);
        if name == "gradient-norm" {
            let skipped = steps.iter().filter(|s| s.skipped.is_some()).map(|s| Point::at(s.step as f64, of(s)));
            let skipped: Vec<Point> = skipped.collect();
            if !skipped.is_empty() {
                chart = chart.with("step not taken", Colour::Kind(0), Marks::Dots, skipped);
            }
            if let Some(norm) = clip_norm {
                chart = chart.against(Reference::Level("clipped above".into(), norm));
            }
        }
        figures.push(Figure::of_charts(name, title, format!("{caption}{smoothed}"), &[chart], 1));
    }
    figures.extend(measures(journal, &smoothed));
    figures
}

pub fn words(name: &str) -> String {
    name.replace('_', " ")
}

pub(crate) fn names<'a>(sets: impl Iterator<Item = &'a Terms>) -> Vec<&'a str> {
    sets.flat_map(|terms| terms.0.keys().map(String::as_str)).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The error at hidden frames, or the loss of a model that has no such score.
fn validation(journal: &JournalText, units: &str) -> Figure {
    let scored = journal.validations.iter().any(|v| v.measures.get("mse").is_finite());
    let label = if scored { "mean squared error" } else { "loss" };
    let points = journal.validations.iter().map(|v| {
        let y = if scored { v.measures.get("mse") } else { v.loss.total };
        Point::at(v.step as f64, y).noted(format!("step {}: {label} {y:.4}", v.step))
    });
    let mut chart = Chart::new("", Axis::linear("step"), Axis::linear(label));
    chart = curve(chart, &journal.steps, "training (with noise)", Colour::Grey, |s| {
        if scored { s.loss.term("reconstruction") } else { s.loss.total }
    });
    chart = chart.with("validation", Colour::Kind(0), Marks::LineAndDots, points.collect());
    let last = journal.validations.last();
    if let Some(level) = last.map(|v| v.measures.get("mean_square")).filter(|level| level.is_finite()) {
        chart = chart.against(Reference::Level("predicting the mean".into(), level));
    }
    let scans = last.map_or(0, |v| v.scans);
    let (title, caption) = if scored {
        let caption =
            format!("Noise-free reconstruction of hidden frames of {scans} scans of validation people. {units}");
        ("Error at hidden frames", caption)
    } else {
        ("Validation loss", format!("Loss on {scans} scans of validation people."))
    };
    Figure::of_charts("validation", title, caption, &[chart], 1)
}

fn measures(journal: &JournalText, smoothed: &str) -> Option<Figure> {
    let (steps, validations) = (&journal.steps, &journal.validations);
    let all = steps.iter().map(|s| &s.measures).chain(validations.iter().map(|v| &v.measures));
    let chart = |name: &str| {
        let chart = Chart::new(words(name), Axis::linear("step"), Axis::linear("")).sized(300.0, 220.0);
        let chart = curve(chart, steps, "training", Colour::Grey, |s| s.measures.get(name));
        let points: Vec<Point> = validations.iter().map(|v| Point::at(v.step as f64, v.measures.get(name))).collect();
        if points.iter().any(Point::is_finite) {
            chart.with("validation", Colour::Kind(0), Marks::LineAndDots, points)
        } else {
            chart
        }
    };
    let caption = format!("Other numbers of the journal. Those that are zero throughout are not drawn.{smoothed}");
    Figure::of_any("measures", "Measures", caption, names(all).into_iter().map(chart), 3)
}

fn curve(chart: Chart, steps: &[StepEntry], name: &str, colour: Colour, of: impl Fn(&StepEntry) -> f64) -> Chart {
    let groups = grouped(steps, of);
    // A term whose weight is zero has no place on a logarithmic axis.
    if groups.iter().all(|(_, mean, _)| !mean.is_finite() || *mean == 0.0) {
        return chart;
    }
    let points = |band: bool| {
        groups.iter().map(|(step, mean, ends)| Point::at(*step, *mean).between(ends.filter(|_| band))).collect()
    };
    let chart = if steps.len() > MOST_POINTS { chart.with("", colour, Marks::Band, points(true)) } else { chart };
    chart.with(name, colour, Marks::Line, points(false))
}

type Group = (f64, f64, Option<(f64, f64)>);

fn grouped(steps: &[StepEntry], of: impl Fn(&StepEntry) -> f64) -> Vec<Group> {
    let size = steps.len().div_ceil(MOST_POINTS).max(1);
    let group = |group: &[StepEntry]| {
        let known: Vec<f64> = group.iter().map(&of).filter(|x| x.is_finite()).collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        let step = group.iter().map(|s| s.step as f64).sum::<f64>() / group.len() as f64;
        (step, mean, (!known.is_empty()).then(|| ends(known.iter().copied())))
    };
    steps.chunks(size).map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bdo_data::record::Loss;

    #[test]
    fn long_journals_are_grouped_without_losing_their_ends() {
        let loss = |step| Loss::plain(if step == 777 { 9.0 } else { 1.0 });
        let steps: Vec<StepEntry> =
            (0..50_000).map(|step| StepEntry { step, loss: loss(step), ..StepEntry::default() }).collect();
        let groups = grouped(&steps, |s| s.loss.total);
        assert_eq!(groups.len(), MOST_POINTS);
        assert_eq!(groups.iter().filter_map(|g| g.2).map(|ends| ends.1).fold(0.0, f64::max), 9.0);
    }

    #[test]
    fn a_term_or_measure_of_any_name_is_drawn() {
        let line = "{\"kind\":\"step\",\"step\":0,\"loss\":{\"total\":1.5,\"new_term\":-0.5},\"new_measure\":2.5}\n";
        let figures = training_figures(&JournalText::parse(line), None, "");
        let find = |name: &str| figures.iter().find(|f| f.name == name).map_or("", |f| f.csv.as_str());
        assert!(find("training-loss").contains("new term,0,-0.5"), "{}", find("training-loss"));
        assert!(find("measures").contains("new measure,training,0,2.5"), "{}", find("measures"));
        assert!(training_figures(&JournalText::default(), None, "").is_empty());
    }
}
