//! Features of scans projected to two dimensions, coloured by labels of people.

use bdo_data::participants::{Label, Participants};
use bdo_data::shard::evenly;
use bdo_eval::features::{FeatureTable, ScanRow};

use crate::chart::{Axis, Chart, Marks, Point};
use crate::figure::Figure;
use crate::palette::Colour;
use crate::scale::number;
use crate::umap::{pca, umap};

/// Quantile groups of a numeric label, so that the legend can filter it.
const GROUPS: usize = 5;
const MOST_CLASSES: usize = 28;
/// Larger tables are thinned evenly.
const MOST_SCANS: usize = 2000;
const SEED: u64 = 42;
/// Labels that colour the points, where the cohort has them.
const LABELS: [&str; 4] = ["age", "sex", "diagnosis", "site"];

/// The variance of the principal components, then components and UMAP of the features, one figure per label.
pub fn projection_figures(features: &FeatureTable, people: &Participants) -> Vec<Figure> {
    let chosen: Vec<usize> = evenly(features.rows.len(), MOST_SCANS).collect();
    let rows: Vec<&ScanRow> = chosen.iter().map(|row| &features.rows[*row]).collect();
    let values: Vec<f32> = chosen.iter().flat_map(|row| features.feature(*row)).collect();
    let width = features.features.width();
    let Some(components) = pca(&values, width, 10) else { return vec![] };
    let plane = umap(&values, width, SEED);
    let linear: Vec<[f64; 2]> = (0..rows.len()).map(|r| [0, 1].map(|c| components.score(r, c))).collect();
    let share = |k: usize| {
        components.explained.get(k).map_or_else(String::new, |s| format!(" ({:.1} % of the variance)", 100.0 * s))
    };
    let mut figures = vec![explained(&components.explained)];
    for label in LABELS {
        let Some(groups) = groups(&rows, people, label) else { continue };
        let axes = [0, 1].map(|k| format!("component {}{}", k + 1, share(k)));
        let mut charts = vec![scatter("principal components", axes, &linear, &rows, &groups)];
        if let Some(plane) = &plane {
            charts.push(scatter("UMAP", ["UMAP 1".into(), "UMAP 2".into()], plane, &rows, &groups));
        }
        let caption = format!(
            "The universal feature of {} scans, coloured by {label}{}. Click an entry of the legend to hide it. Distances between groups in a UMAP mean little; it is computed with 15 neighbours, from the principal components, with a fixed seed.",
            rows.len(),
            if groups.cut { " in five groups of equal size" } else { "" }
        );
        let (name, title) = (format!("features-{label}"), format!("Features by {label}"));
        figures.push(Figure::of_charts(name, title, caption, &charts, 2));
    }
    figures
}

fn explained(shares: &[f64]) -> Figure {
    let point = |(i, s): (usize, &f64)| {
        Point::at(i as f64, 100.0 * s).noted(format!("component {}: {:.2} %", i + 1, 100.0 * s))
    };
    let names = (1..=shares.len()).map(|i| i.to_string()).collect();
    let chart = Chart::new("", Axis::of_names("component", names), Axis::linear("share of the variance (%)"))
        .with("", Colour::Kind(0), Marks::GroupedBars, shares.iter().enumerate().map(point).collect())
        .sized(460.0, 280.0);
    let caption = "Share of the variance over scans in each component; a single large one means that the features vary mostly along one direction.";
    Figure::of_charts("components", "Principal components of the features", caption, &[chart], 1)
}

struct Groups {
    names: Vec<String>,
    colours: Vec<Colour>,
    of: Vec<usize>,
    shown: Vec<String>,
    /// Whether numbers were cut into groups.
    cut: bool,
}

fn groups(scans: &[&ScanRow], people: &Participants, label: &str) -> Option<Groups> {
    let rows: Vec<Option<usize>> = scans.iter().map(|scan| people.row_of(&scan.subject)).collect();
    let label = people.label(label)?;
    let cut = matches!(label, Label::Number(_));
    let (mut names, mut colours): (Vec<String>, Vec<Colour>);
    let (of, shown): (Vec<Option<usize>>, Vec<Option<String>>);
    match label {
        Label::Number(values) => {
            let numbers: Vec<Option<f64>> = rows.iter().map(|r| values[(*r)?]).collect();
            let mut sorted: Vec<f64> = numbers.iter().flatten().copied().collect();
            sorted.sort_by(f64::total_cmp);
            let (first, last) = (*sorted.first()?, *sorted.last()?);
            let mut edges: Vec<f64> = (1..GROUPS).map(|g| sorted[g * sorted.len() / GROUPS]).collect();
            edges.dedup();
            of = numbers.iter().map(|x| x.map(|x| edges.partition_point(|edge| *edge <= x))).collect();
            shown = numbers.iter().map(|x| x.map(number)).collect();
            let steps = edges.len().max(1) as f64;
            colours = (0..=edges.len()).map(|g| Colour::Ramp(g as f64 / steps * 0.9)).collect();
            let ends: Vec<f64> = std::iter::once(first).chain(edges).chain([last]).collect();
            names = ends.windows(2).map(|ends| format!("{} to {}", number(ends[0]), number(ends[1]))).collect();
        }
        Label::Category(values) => {
            shown = rows.iter().map(|r| values[(*r)?].clone()).collect();
            names = shown.iter().flatten().cloned().collect();
            names.sort();
            names.dedup();
            if names.is_empty() || names.len() > MOST_CLASSES {
                return None;
            }
            of = shown.iter().map(|text| names.binary_search(text.as_ref()?).ok()).collect();
            colours = (0..names.len()).map(Colour::Kind).collect();
        }
    }
    let unknown = names.len();
    names.push("not known".into());
    colours.push(Colour::Grey);
    let of = of.into_iter().map(|group| group.unwrap_or(unknown)).collect();
    let shown = shown.into_iter().map(|text| text.unwrap_or_else(|| "not known".into())).collect();
    Some(Groups { names, colours, of, shown, cut })
}

fn scatter(title: &str, axes: [String; 2], places: &[[f64; 2]], scans: &[&ScanRow], groups: &Groups) -> Chart {
    let [x, y] = axes.map(Axis::linear);
    let mut chart = Chart::new(title, x, y).sized(540.0, 470.0);
    for (g, (name, colour)) in groups.names.iter().zip(&groups.colours).enumerate() {
        let point =
            |i: usize| Point::at(places[i][0], places[i][1]).noted(format!("{}: {}", scans[i].scan, groups.shown[i]));
        let points: Vec<Point> = (0..places.len()).filter(|i| groups.of[*i] == g).map(point).collect();
        if !points.is_empty() {
            chart = chart.with(name, *colour, Marks::Dots, points);
        }
    }
    chart
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn table() -> (FeatureTable, Participants) {
        let mut people = Participants::with_columns(["age", "sex"]);
        let (mut rows, mut values) = (vec![], vec![]);
        for i in 0..40u32 {
            let name = format!("s{i}");
            people.insert(
                name.clone(),
                vec![(i > 3).then(|| format!("{}", 20 + i)), Some(if i % 2 == 0 { "F" } else { "M" }.into())],
            );
            rows.push(ScanRow { scan: format!("{name} <b>"), subject: name, session: None });
            values.extend([f64::from(i).sin(), f64::from(i * 7).cos(), f64::from(i % 5)]);
        }
        (FeatureTable::new(rows, 3, values).unwrap(), people)
    }

    #[test]
    fn every_scan_is_in_every_figure_under_the_label_it_has() {
        let (rows, people) = table();
        let figures = projection_figures(&rows, &people);
        let names: Vec<&str> = figures.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["components", "features-age", "features-sex"]);
        let age = &figures[1];
        // 40 scans in two charts; legend swatches are circles as well.
        assert_eq!(age.svg.matches("data-t=").count(), 80);
        assert!(age.svg.contains("not known") && !age.svg.contains("<b>"));
        assert!(figures[2].svg.contains("aria-label=\"show F\""));
    }
}
