//! The distribution of a label over training, validation and test people, for each seed.

use bdo_data::division::{Scheme, Split, SplitManifest};
use bdo_data::participants::{Label, Participants};

use crate::chart::{Axis, Chart, Marks, Point};
use crate::figure::Figure;
use crate::palette::Colour;
use crate::scale::{ends, number};

/// The bin or class of a row of the table of people.
type Place<'a> = Box<dyn Fn(usize) -> Option<usize> + 'a>;

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
        let charts: Vec<Chart> = seeds.filter_map(|s| chart(s, target, &label, people)).collect();
        let caption = "Share of the people of each part; bars of one colour sum to 100 %. Splits are stratified by the label and keep families together, so the parts should look alike.";
        (!charts.is_empty())
            .then(|| Figure::of_charts(format!("split-{target}"), format!("{target}: splits"), caption, &charts, 3))
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
    let (names, place): (Vec<String>, Place<'_>) = match label {
        Label::Number(values) => {
            let (low, high) = ends(values.iter().flatten().copied());
            if low > high {
                return None;
            }
            let mut distinct: Vec<f64> = values.iter().flatten().copied().collect();
            distinct.sort_by(f64::total_cmp);
            distinct.dedup();
            if distinct.len() <= BINS {
                // A code such as 1 and 2 is a class, not a quantity.
                let names = distinct.iter().map(|x| number(*x)).collect();
                let at = move |row: usize| values[row].and_then(|x| distinct.iter().position(|d| *d == x));
                (names, Box::new(at))
            } else {
                let step = ((high - low) / BINS as f64).max(f64::MIN_POSITIVE);
                let names =
                    (0..BINS).map(|i| number(((low + (i as f64 + 0.5) * step) * 10.0).round() / 10.0)).collect();
                let at = move |row: usize| values[row].map(|x| (((x - low) / step) as usize).min(BINS - 1));
                (names, Box::new(at))
            }
        }
        Label::Category(values) => {
            let mut names: Vec<String> = values.iter().flatten().cloned().collect();
            names.sort();
            names.dedup();
            if names.len() > MOST_CLASSES {
                return None;
            }
            let list = names.clone();
            let at = move |row: usize| values[row].as_ref().and_then(|x| list.iter().position(|n| n == x));
            (names, Box::new(at))
        }
    };
    let mut chart = Chart::new(title, Axis::of_names(target, names.clone()), y).sized(400.0, 300.0);
    for (i, (name, subjects)) in parts.into_iter().enumerate() {
        let mut counts = vec![0usize; names.len()];
        subjects.iter().filter_map(|s| place(people.row_of(s)?)).for_each(|k| counts[k] += 1);
        let all = counts.iter().sum::<usize>().max(1) as f64;
        let points = counts.iter().enumerate().map(|(k, n)| {
            let share = 100.0 * *n as f64 / all;
            Point::at(k as f64, share).noted(format!("{name}, {}: {n} people ({share:.1} %)", names[k]))
        });
        chart = chart.with(name, Colour::Kind(i), Marks::GroupedBars, points.collect());
    }
    Some(chart)
}
