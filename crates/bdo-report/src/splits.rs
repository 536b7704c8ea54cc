//! The distribution of a label over training, validation and test people, for each seed.

use bdo_data::division::{Scheme, Split, SplitManifest};
use bdo_data::participants::{Label, Participants, Values};

use crate::chart::{Axis, Chart, Marks, Point};
use crate::figure::Figure;
use crate::palette::Colour;
use crate::scale::{ends, number};

const BINS: usize = 10;
const MOST_CLASSES: usize = 16;

/// One figure per label with one chart per seed; labels that the table of people does not have are left out.
pub(crate) fn split_figures(manifest: &SplitManifest, people: &Participants) -> Vec<Figure> {
    let random: Vec<&Split> = manifest.splits.iter().filter(|s| s.scheme() == Scheme::Random).collect();
    let mut targets: Vec<&str> = random.iter().filter_map(|s| s.target()).collect();
    targets.dedup();
    let figure = |target: &str| {
        let label = people.label(target)?;
        let seeds = random.iter().filter(|s| s.target() == Some(target)).take(3);
        let charts = seeds.filter_map(|s| chart(s, target, &label, people));
        let caption = "Share of the people of each part; bars of one colour sum to 100 %. Splits are stratified by the label and keep families together, so the parts should look alike.";
        Figure::of_any(format!("split-{target}"), format!("{target}: splits"), caption, charts, 3)
    };
    targets.into_iter().filter_map(figure).collect()
}

fn chart(split: &Split, target: &str, label: &Label, people: &Participants) -> Option<Chart> {
    let parts: [(&str, &[String]); 3] = [
        ("train", split.train.subjects()),
        ("validation", split.validation.subjects()),
        ("test", split.test.subjects()),
    ];
    let title =
        format!("seed {}: {}, {}, {} people", split.seed(), parts[0].1.len(), parts[1].1.len(), parts[2].1.len());
    let y = Axis::linear("share of the part (%)");
    let (names, places): (Vec<String>, Vec<Option<usize>>) = match label.values() {
        Values::Classes { names, .. } if names.len() > MOST_CLASSES => return None,
        Values::Classes { names, of } => (names, of),
        Values::Quantity(values) => {
            let (low, high) = ends(values.iter().flatten().copied());
            let step = ((high - low) / BINS as f64).max(f64::MIN_POSITIVE);
            let middle = |i: usize| number(((low + (i as f64 + 0.5) * step) * 10.0).round() / 10.0);
            let bin = |x: f64| (((x - low) / step) as usize).min(BINS - 1);
            ((0..BINS).map(middle).collect(), values.iter().map(|value| value.map(bin)).collect())
        }
    };
    let mut chart = Chart::new(title, Axis::of_names(target, names.clone()), y).sized(400.0, 300.0);
    for (i, (name, subjects)) in parts.into_iter().enumerate() {
        let mut counts = vec![0usize; names.len()];
        subjects.iter().filter_map(|s| places[people.row_of(s)?]).for_each(|k| counts[k] += 1);
        let all = counts.iter().sum::<usize>().max(1) as f64;
        let points = counts.iter().enumerate().map(|(k, n)| {
            let share = 100.0 * *n as f64 / all;
            Point::at(k as f64, share).noted(format!("{name}, {}: {n} people ({share:.1} %)", names[k]))
        });
        chart = chart.with(name, Colour::Kind(i), Marks::GroupedBars, points.collect());
    }
    Some(chart)
}
