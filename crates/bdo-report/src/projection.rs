//! Features of scans projected to two dimensions, coloured by labels of people.

use bdo_data::participants::{Label, Participants};

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

#[derive(Debug, Clone, PartialEq)]
pub struct FeatureRows {
    pub scans: Vec<String>,
    pub subjects: Vec<String>,
    pub width: usize,
    /// Row-major.
    pub values: Vec<f32>,
}

/// The variance of the principal components, then components and UMAP of the features, one figure per label.
pub fn projection_figures(features: &FeatureRows, people: &Participants) -> Vec<Figure> {
    let features = thinned(features);
    let Some(components) = pca(&features.values, features.width, 10) else { return vec![] };
    let plane = umap(&features.values, features.width, SEED);
    let linear: Vec<[f64; 2]> = (0..features.scans.len()).map(|r| [0, 1].map(|c| components.score(r, c))).collect();
    let share = |k: usize| {
        components.explained.get(k).map_or_else(String::new, |s| format!(" ({:.1} % of the variance)", 100.0 * s))
    };
    let mut figures = vec![explained(&components.explained)];
    for label in LABELS {
        let Some(groups) = groups(&features, people, label) else { continue };
        let axes = [0, 1].map(|k| format!("component {}{}", k + 1, share(k)));
        let mut charts = vec![scatter("principal components", axes, &linear, &features, &groups)];
        if let Some(plane) = &plane {
            charts.push(scatter("UMAP", ["UMAP 1".into(), "UMAP 2".into()], plane, &features, &groups));
        }
        let caption = format!(
            "The universal feature of {} scans, coloured by {label}{}. Click an entry of the legend to hide it. Distances between groups in a UMAP mean little; it is computed with 15 neighbours, from the principal components, with a fixed seed.",
            features.scans.len(),
            if groups.cut { " in five groups of equal size" } else { "" }
        );
        let (name, title) = (format!("features-{label}"), format!("Features by {label}"));
        figures.push(Figure::of_charts(name, title, caption, &charts, 2));
    }
    figures
}

fn thinned(features: &FeatureRows) -> FeatureRows {
    let count = features.scans.len();
    if count <= MOST_SCANS {
        return features.clone();
    }
    let kept: Vec<usize> = (0..MOST_SCANS).map(|i| i * count / MOST_SCANS).collect();
    FeatureRows {
        scans: kept.iter().map(|i| features.scans[*i].clone()).collect(),
        subjects: kept.iter().map(|i| features.subjects[*i].clone()).collect(),
        width: features.width,
        values: kept.iter().flat_map(|i| &features.values[i * features.width..][..features.width]).copied().collect(),
    }
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

fn groups(features: &FeatureRows, people: &Participants, label: &str) -> Option<Groups> {
    let rows: Vec<Option<usize>> = features.subjects.iter().map(|s| people.row_of(s)).collect();
    match people.label(label)? {
        Label::Number(values) => {
            let of: Vec<Option<f64>> = rows.iter().map(|r| values[(*r)?]).collect();
            let mut sorted: Vec<f64> = of.iter().flatten().copied().collect();
            sorted.sort_by(f64::total_cmp);
            let mut edges: Vec<f64> =
                (1..GROUPS).filter_map(|g| sorted.get(g * sorted.len() / GROUPS).copied()).collect();
            edges.dedup();
            let count = edges.len() + 1;
            let place = |x: f64| edges.iter().filter(|e| x >= **e).count();
            let ends =
                |g: usize| (if g == 0 { sorted.first() } else { edges.get(g - 1) }, edges.get(g).or(sorted.last()));
            let mut names: Vec<String> = (0..count)
                .map(|g| match ends(g) {
                    (Some(a), Some(b)) => format!("{} to {}", number(*a), number(*b)),
                    _ => "none".into(),
                })
                .collect();
            names.push("not known".into());
            let mut colours: Vec<Colour> =
                (0..count).map(|g| Colour::Ramp(g as f64 / (count.max(2) - 1) as f64 * 0.9)).collect();
            colours.push(Colour::Grey);
            (!sorted.is_empty()).then(|| Groups {
                of: of.iter().map(|x| x.map_or(count, place)).collect(),
                shown: of.iter().map(|x| x.map_or_else(|| "not known".into(), number)).collect(),
                names,
                colours,
                cut: true,
            })
        }
        Label::Category(values) => {
            let of: Vec<Option<&String>> = rows.iter().map(|r| values[(*r)?].as_ref()).collect();
            let mut names: Vec<String> = of.iter().flatten().map(|s| (*s).clone()).collect();
            names.sort();
            names.dedup();
            if names.is_empty() || names.len() > MOST_CLASSES {
                return None;
            }
            let count = names.len();
            let place = |x: &String| names.iter().position(|n| n == x).unwrap_or(count);
            let of_rows = of.iter().map(|x| x.map_or(count, place)).collect();
            let shown = of.iter().map(|x| x.map_or_else(|| "not known".into(), Clone::clone)).collect();
            names.push("not known".into());
            let colours = (0..count).map(Colour::Kind).chain([Colour::Grey]).collect();
            Some(Groups { names, colours, of: of_rows, shown, cut: false })
        }
    }
}

fn scatter(title: &str, axes: [String; 2], places: &[[f64; 2]], features: &FeatureRows, groups: &Groups) -> Chart {
    let [x, y] = axes.map(Axis::linear);
    let mut chart = Chart::new(title, x, y).sized(540.0, 470.0);
    for (g, (name, colour)) in groups.names.iter().zip(&groups.colours).enumerate() {
        let point = |i: usize| {
            Point::at(places[i][0], places[i][1]).noted(format!("{}: {}", features.scans[i], groups.shown[i]))
        };
        let points: Vec<Point> = (0..places.len()).filter(|i| groups.of[*i] == g).map(point).collect();
        if !points.is_empty() {
            chart = chart.with(name, *colour, Marks::Dots, points);
        }
    }
    chart
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> (FeatureRows, Participants) {
        let mut people = Participants::with_columns(["age", "sex"]);
        let mut rows = FeatureRows { scans: vec![], subjects: vec![], width: 3, values: vec![] };
        for i in 0..40u32 {
            let name = format!("s{i}");
            people.insert(
                name.clone(),
                vec![(i > 3).then(|| format!("{}", 20 + i)), Some(if i % 2 == 0 { "F" } else { "M" }.into())],
            );
            rows.scans.push(format!("{name} <b>"));
            rows.subjects.push(name);
            rows.values.extend([f64::from(i).sin() as f32, f64::from(i * 7).cos() as f32, f64::from(i % 5) as f32]);
        }
        (rows, people)
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

    #[test]
    fn large_tables_are_thinned_evenly() {
        let rows = FeatureRows {
            scans: (0..4100).map(|i| i.to_string()).collect(),
            subjects: vec![String::new(); 4100],
            width: 1,
            values: (0..4100u16).map(f32::from).collect(),
        };
        let thin = thinned(&rows);
        assert_eq!((thin.scans.len(), thin.values.len()), (MOST_SCANS, MOST_SCANS));
        assert!(thin.values[MOST_SCANS - 1] > 4090.0);
    }
}
