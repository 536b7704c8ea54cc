//! Curves of a training run.

use crate::chart::{Axis, Chart, Marks, Point, Reference};
use crate::figure::Figure;
use crate::journal::{Journal, Step};
use crate::palette::Colour;

/// More steps than this are drawn as means of equal groups of steps, with their least and most as a band.
const MOST_POINTS: usize = 500;

/// The figures of a journal; `clip_norm` is where gradients are cut.
pub fn training_figures(journal: &Journal, clip_norm: Option<f64>, command: &str) -> Vec<Figure> {
    if journal.steps.is_empty() {
        return vec![];
    }
    let steps = &journal.steps;
    let curve = |chart: Chart, name: &str, colour: usize, of: fn(&Step) -> f64| {
        add_curve(chart, steps, name, Colour::Kind(colour), of)
    };
    let x = || Axis::linear("step");
    let smoothed = if steps.len() > MOST_POINTS {
        format!(
            " Lines are means of groups of {} steps, bands run from the least to the most in a group.",
            steps.len().div_ceil(MOST_POINTS)
        )
    } else {
        String::new()
    };
    let mut loss = Chart::new("", x(), Axis::log("loss a value (log scale)"));
    loss = curve(loss, "total", 0, |s| s.total);
    loss = curve(loss, "reconstruction", 2, |s| s.reconstruction);
    loss = curve(loss, "latent target", 5, |s| s.latent);
    loss = curve(loss, "control energy", 1, |s| s.energy);
    let mut figures = vec![Figure::of_charts(
        "training-loss",
        "Loss terms",
        &format!(
            "Every term with its weight, divided by hidden frames and valid regions. A term whose weight is zero is not drawn.{smoothed}"
        ),
        &[loss],
        1,
    )];
    if !journal.validations.is_empty() {
        figures.push(validation(journal));
    }
    let rate = curve(Chart::new("", x(), Axis::linear("learning rate")), "learning rate", 0, |s| s.learning_rate);
    figures.push(Figure::of_charts("learning-rate", "Learning rate", "Linear warm-up, then a cosine.", &[rate], 1));
    let mut gradient =
        curve(Chart::new("", x(), Axis::log("gradient norm (log scale)")), "gradient norm", 1, |s| s.gradient_norm);
    let skipped: Vec<Point> =
        steps.iter().filter(|s| s.skipped).map(|s| Point::at(s.step as f64, s.gradient_norm)).collect();
    if !skipped.is_empty() {
        gradient = gradient.with("step not taken", Colour::Kind(0), Marks::Dots, skipped);
    }
    if let Some(norm) = clip_norm {
        gradient = gradient.against(Reference::Level("clipped above".into(), norm));
    }
    figures.push(Figure::of_charts(
        "gradient-norm",
        "Gradient norm",
        &format!("Norm over all parameters before clipping.{smoothed}"),
        &[gradient],
        1,
    ));
    let speed = curve(Chart::new("", x(), Axis::linear("scans / s")), "speed", 2, |s| s.scans_per_second);
    figures.push(Figure::of_charts(
        "training-speed",
        "Speed",
        &format!("Scans a second, waiting for data included.{smoothed}"),
        &[speed],
        1,
    ));
    let memory = curve(Chart::new("", x(), Axis::linear("memory (MiB)")), "memory", 5, |s| s.memory_mib);
    figures.push(Figure::of_charts(
        "training-memory",
        "Memory",
        &format!("Memory of the process.{smoothed}"),
        &[memory],
        1,
    ));
    figures.into_iter().map(|f| f.made_by(command)).collect()
}

fn validation(journal: &Journal) -> Figure {
    let points = journal.validations.iter().map(|v| Point {
        note: Some(format!("step {}: error {:.4}, explained {:.2} %", v.step, v.mse, 100.0 * v.explained_variance)),
        ..Point::at(v.step as f64, v.mse)
    });
    let mut chart = Chart::new("", Axis::linear("step"), Axis::linear("mean squared error (scaled units)"));
    chart = add_curve(chart, &journal.steps, "training (with noise)", Colour::Grey, |s| s.reconstruction);
    chart = chart.with("validation", Colour::Kind(0), Marks::LineAndDots, points.collect());
    if let Some(last) = journal.validations.last() {
        chart = chart.against(Reference::Level("predicting the mean".into(), last.mean_square));
    }
    let scans = journal.validations.last().map_or(0, |v| v.scans);
    Figure::of_charts(
        "validation",
        "Error at hidden frames",
        &format!(
            "Noise-free reconstruction of hidden frames of {scans} scans of held-out people. Values are divided by the inter-quartile range of training people."
        ),
        &[chart],
        1,
    )
}

/// A curve over steps; groups of steps where there are many.
fn add_curve(chart: Chart, steps: &[Step], name: &str, colour: Colour, of: impl Fn(&Step) -> f64) -> Chart {
    let points = grouped(steps, of, MOST_POINTS);
    // A term whose weight is zero has no place on a logarithmic axis.
    if points.iter().all(|p| !p.y.is_finite() || p.y == 0.0) {
        return chart;
    }
    let grouped = steps.len() > MOST_POINTS;
    let chart = if grouped { chart.with("", colour, Marks::Band, points.clone()) } else { chart };
    let points = points.into_iter().map(|p| Point { between: None, ..p }).collect();
    chart.with(name, colour, Marks::Line, points)
}

/// Means of at most `most` equal groups of steps, with their least and most.
pub(crate) fn grouped(steps: &[Step], of: impl Fn(&Step) -> f64, most: usize) -> Vec<Point> {
    let size = steps.len().div_ceil(most.max(1)).max(1);
    let group = |group: &[Step]| {
        let known: Vec<f64> = group.iter().map(&of).filter(|x| x.is_finite()).collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        let ends = known.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(*x), h.max(*x)));
        Point {
            between: (!known.is_empty()).then_some(ends),
            ..Point::at(group.iter().map(|s| s.step as f64).sum::<f64>() / group.len() as f64, mean)
        }
    };
    steps.chunks(size).map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_journals_are_grouped_without_losing_their_ends() {
        let steps: Vec<Step> = (0..50_000)
            .map(|step| Step { step, total: if step == 777 { 9.0 } else { 1.0 }, ..Step::default() })
            .collect();
        let points = grouped(&steps, |s| s.total, MOST_POINTS);
        assert_eq!(points.len(), MOST_POINTS);
        assert_eq!(points.iter().filter_map(|p| p.between).map(|b| b.1).fold(0.0, f64::max), 9.0);
    }

    #[test]
    fn an_empty_journal_has_no_figures() {
        assert!(training_figures(&Journal::default(), None, "").is_empty());
    }
}
