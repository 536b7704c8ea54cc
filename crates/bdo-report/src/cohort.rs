//! The page of a cohort: who is in it, what a scan looks like, how regions go together, and how people are divided.

use std::collections::BTreeMap;

use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::participants::Label;
use bdo_data::quality::Quality;
use bdo_data::split::{Scheme, SplitManifest, SplitSpec};
use bdo_eval::{confound, connectivity};

use crate::brain::glass_brain;
use crate::chart::{Axis, Chart, Marks, Point};
use crate::figure::Figure;
use crate::heatmap::HeatMap;
use crate::network::Order;
use crate::page::{Citation, Methods, Page};
use crate::palette::{Colour, ColourScale};
use crate::scale::number;
use crate::splits::split_figures;
use crate::table::Table;

/// Scans whose connectivity is averaged for the picture.
const AVERAGED_SCANS: usize = 40;
const BINS: usize = 16;
/// More levels than this (an identifier) have no shape worth drawing.
const MOST_LEVELS: usize = 24;
/// Columns that are drawn; a table of hundreds of labels is described in words.
const MOST_COLUMNS: usize = 12;
/// Labels whose splits are shown, by the names that sources give them.
const SPLIT_LABELS: [&str; 3] = ["age", "sex", "diagnosis"];

/// Adds a cohort to a page.
pub fn show_cohort(cohort: &Cohort, page: &mut Page, methods: &mut Methods, command: &str) -> Result<(), CohortError> {
    let manifest = cohort.manifest();
    let made: Vec<String> =
        manifest.provenance.iter().map(|p| format!("{} {} {}", p.name, p.version, p.verb)).collect();
    page.section("The cohort").facts(&[
        ("Folder", cohort.folder().display().to_string()),
        ("Scans", format!("{} of {} people", cohort.len(), manifest.subjects)),
        ("Regions", format!("{} ({})", cohort.regions().len(), manifest.atlas.name)),
        ("Made by", made.join(", ")),
        ("BLAKE3", cohort.content_blake3()?),
    ]);
    let settings: String = manifest
        .provenance
        .iter()
        .map(|p| serde_json::to_string_pretty(&p.settings).unwrap_or_default() + "\n")
        .collect();
    page.folded("Settings it was made with", &settings);
    page.section("People");
    people(cohort, page, command);
    page.section("Scans");
    scans(cohort, page, command);
    divisions(cohort, page, command)?;
    regions(cohort, page, command)?;
    methods.say(
        format!(
            "The cohort holds {} scans of {} people in {} regions of {}.",
            cohort.len(),
            manifest.subjects,
            cohort.regions().len(),
            manifest.atlas.name
        ),
        &[],
    );
    methods.say("Random divisions give six parts of the people to training, two to selection and two to the test, stratified by the label; families stay together.", &[]);
    methods.say("Head motion is the mean framewise displacement, where scans come with it.", &[Citation::Displacement]);
    Ok(())
}

/// Counts of numbers in equal intervals.
pub(crate) fn histogram(name: &str, title: &str, label: &str, values: &[f64]) -> Option<Figure> {
    let known: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
    let (low, high) = known.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(*x), h.max(*x)));
    if known.is_empty() {
        return None;
    }
    let step = if high > low { (high - low) / BINS as f64 } else { (high.abs() * 0.01).max(0.01) };
    let mut counts = vec![0usize; if high > low { BINS } else { 1 }];
    let last = counts.len() - 1;
    known.iter().for_each(|x| counts[(((x - low) / step) as usize).min(last)] += 1);
    let points = counts.iter().enumerate().map(|(i, n)| {
        let from = low + step * i as f64;
        Point {
            between: Some((from, from + step)),
            note: Some(format!("{} to {}: {n}", number(from), number(from + step))),
            ..Point::at(from + step / 2.0, *n as f64)
        }
    });
    let mut chart = Chart::new("", Axis::linear(label), Axis::linear("count")).with(
        "",
        Colour::Kind(0),
        Marks::Bars,
        points.collect(),
    );
    chart.size = Some((420.0, 260.0));
    Some(Figure::of_charts(
        name,
        title,
        &format!("{} values, {} missing.", known.len(), values.len() - known.len()),
        &[chart],
        1,
    ))
}

fn counted(name: &str, title: &str, counts: &BTreeMap<String, usize>, missing: usize) -> Figure {
    let names: Vec<String> = counts.keys().cloned().collect();
    let points = counts
        .iter()
        .enumerate()
        .map(|(i, (level, n))| Point { note: Some(format!("{level}: {n}")), ..Point::at(i as f64, *n as f64) });
    let mut chart = Chart::new("", Axis::of_names("", names), Axis::linear("people")).with(
        "",
        Colour::Kind(2),
        Marks::GroupedBars,
        points.collect(),
    );
    chart.size = Some((420.0, 260.0));
    Figure::of_charts(
        name,
        title,
        &format!("{} values, {missing} missing.", counts.values().sum::<usize>()),
        &[chart],
        1,
    )
}

fn people(cohort: &Cohort, page: &mut Page, command: &str) {
    let (mut drawn, mut left_out) = (0, vec![]);
    for column in cohort.participants().columns() {
        let figure = match cohort.participants().label(column) {
            Some(Label::Number(values)) => {
                let values: Vec<f64> = values.iter().map(|v| v.unwrap_or(f64::NAN)).collect();
                histogram(&format!("people-{column}"), column, column, &values)
            }
            Some(Label::Category(values)) => {
                let mut counts = BTreeMap::new();
                values.iter().flatten().for_each(|v| *counts.entry(v.clone()).or_insert(0) += 1);
                let missing = values.iter().filter(|v| v.is_none()).count();
                (1..=MOST_LEVELS)
                    .contains(&counts.len())
                    .then(|| counted(&format!("people-{column}"), column, &counts, missing))
            }
            None => None,
        };
        match figure.filter(|_| drawn < MOST_COLUMNS) {
            Some(figure) => {
                drawn += 1;
                page.figure(&figure.made_by(command));
            }
            None => left_out.push(column.clone()),
        }
    }
    if cohort.participants().columns().is_empty() {
        page.missing(
            "The cohort has no labels of people; a table of them is given at ingest:",
            "bdo ingest SOURCE OUT --participants FILE",
        );
    } else if !left_out.is_empty() {
        page.paragraph(&format!("Not drawn, since there are too many values or columns: {}.", left_out.join(", ")));
    }
}

fn scans(cohort: &Cohort, page: &mut Page, command: &str) {
    let index = cohort.index();
    let minutes: Vec<f64> = index.iter().map(|e| e.span_seconds / 60.0).collect();
    let frames: Vec<f64> = index.iter().map(|e| e.frames as f64).collect();
    let repetition: Vec<f64> = index.iter().map(|e| e.tr_seconds).collect();
    let motion: Vec<f64> = index.iter().map(|e| e.mean_fd_mm.unwrap_or(f64::NAN)).collect();
    let figures = [
        histogram("frames", "Frames kept", "frames", &frames),
        histogram("minutes", "Time covered", "minutes", &minutes),
        histogram("repetition-time", "Repetition time", "repetition time (s)", &repetition),
        histogram("motion", "Head motion", "mean framewise displacement (mm)", &motion),
    ];
    for figure in figures.into_iter().flatten() {
        page.figure(&figure.made_by(command));
    }
    let mut table = Table::new(
        "Scans with most missing or constant regions",
        &["scan", "frames", "repetition time (s)", "missing regions", "mean displacement (mm)", "source"],
    );
    let mut poor: Vec<_> = index.iter().filter(|e| e.invalid_regions > 0).collect();
    poor.sort_by_key(|e| std::cmp::Reverse(e.invalid_regions));
    for e in poor.iter().take(20) {
        table.rows.push(vec![
            e.id.to_string().into(),
            (e.frames as f64).into(),
            e.tr_seconds.into(),
            (e.invalid_regions as f64).into(),
            e.mean_fd_mm.into(),
            e.source.clone().into(),
        ]);
    }
    if table.rows.is_empty() {
        page.paragraph("Every region has a signal in every scan.");
    } else {
        page.table(&table);
    }
    if let Ok(Some(bytes)) = cohort.extra("rejected.tsv") {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let rows: Vec<&str> = text.lines().skip(1).collect();
        if !rows.is_empty() {
            let mut table = Table::new(
                &format!("Rejected files: {} in all, the first 20 are shown", rows.len()),
                &["file", "reason", "expected", "found"],
            );
            table.rows = rows
                .iter()
                .take(20)
                .map(|row| (0..4).map(|c| row.split('\t').nth(c).unwrap_or("").into()).collect())
                .collect();
            page.table(&table);
        }
    }
}

/// Three seeds of the random split of each usual label, as every method would share them.
fn divisions(cohort: &Cohort, page: &mut Page, command: &str) -> Result<(), CohortError> {
    let people = cohort.participants();
    page.section("Who trains, selects, tests");
    let content = cohort.content_blake3()?;
    let mut shown = 0;
    for target in SPLIT_LABELS.iter().filter(|t| people.label(t).is_some()) {
        let spec = |seed| SplitSpec {
            target: Some((*target).to_owned()),
            family_column: confound::family_column(people).map(str::to_owned),
            site_column: confound::site_column(people).map(str::to_owned),
            scheme: Scheme::Random,
            seed,
        };
        let Ok(manifest) = SplitManifest::new(&content, people, &(0..3).map(spec).collect::<Vec<_>>()) else {
            continue;
        };
        for figure in split_figures(&manifest, people, command) {
            page.figure(&figure);
            shown += 1;
        }
    }
    if shown == 0 {
        page.missing(
            "No label named age, sex or diagnosis has enough people to be divided.",
            "bdo ingest SOURCE OUT --participants FILE",
        );
    }
    Ok(())
}

fn regions(cohort: &Cohort, page: &mut Page, command: &str) -> Result<(), CohortError> {
    let order = Order::of(cohort.regions());
    let count = cohort.regions().len();
    if cohort.is_empty() || count == 0 {
        return Ok(());
    }
    page.section("Regions");
    let scan = cohort.scan(0)?;
    page.figure(&carpet(&scan.series, scan.frames(), scan.tr_seconds, &scan.id.to_string(), &order).made_by(command));
    let scans = cohort.len().min(AVERAGED_SCANS);
    let mut mean = vec![0.0f32; count * count];
    for i in 0..scans {
        let fc = connectivity::pearson(&cohort.scan(i)?.series, count);
        mean.iter_mut().zip(fc).for_each(|(m, r)| *m += r / scans as f32);
    }
    let mean = &mean;
    let values = order.rows.iter().flat_map(|i| order.rows.iter().map(move |j| mean[i * count + j])).collect();
    let map = HeatMap {
        title: "correlation".into(),
        values,
        columns: count,
        scale: ColourScale::Around(1.0),
        groups: order.groups.clone(),
        across: None,
        unit: "Pearson correlation".into(),
    };
    page.figure(
        &Figure {
            name: "connectivity".into(),
            title: "Regions that go together".into(),
            caption: format!("Mean correlation between regions over {scans} scans, regions grouped by network; grey where a region is missing."),
            svg: map.drawing(400.0, 400.0),
            csv: map.to_csv(),
            command: command.to_owned(),
            wide: false,
        },
    );
    let quality = Quality::measure(cohort)?;
    let least = quality.valid_share.iter().copied().fold(1.0, f64::min);
    let scale = ColourScale::Between(if least < 1.0 { least } else { 0.0 }, 1.0);
    let caption = format!(
        "Share of {} scans in which a region has a signal, at the region's centre in MNI space.",
        quality.read.len()
    );
    match glass_brain("coverage", "Where there is a signal", &caption, cohort.regions(), &quality.valid_share, scale, "share of scans") {
        Some(figure) => page.figure(&figure.made_by(command)),
        None => page.missing("The atlas of this cohort has no coordinates, so no glass brain can be drawn; an atlas image with coordinates is given at ingest:", "bdo ingest SOURCE OUT --atlas FILE"),
    };
    Ok(())
}

/// One row a region, each in units of its own spread.
fn carpet(series: &[f32], frames: usize, tr_seconds: f64, name: &str, order: &Order) -> Figure {
    let regions = series.len() / frames.max(1);
    let mut values = Vec::with_capacity(series.len());
    for r in &order.rows {
        let column: Vec<f64> = (0..frames).map(|t| f64::from(series[t * regions + r])).collect();
        let mean = column.iter().sum::<f64>() / frames as f64;
        let spread = (column.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / frames as f64).sqrt();
        values.extend(column.iter().map(|x| if spread > 0.0 { ((x - mean) / spread) as f32 } else { f32::NAN }));
    }
    let across = Some(("time (s)".to_owned(), 0.0, frames as f64 * tr_seconds));
    let map = HeatMap {
        title: crate::escape::shortened(name, 60),
        values,
        columns: frames,
        scale: ColourScale::Around(2.5),
        groups: order.groups.clone(),
        across,
        unit: "standard deviations".into(),
    };
    Figure {
        name: "carpet".into(),
        title: "A scan".into(),
        caption: format!(
            "{name}: {frames} kept frames across, {regions} regions down, grouped by network; each region in units of its own spread, grey where it is missing."
        ),
        svg: map.drawing(620.0, 320.0),
        csv: map.to_csv(),
        command: String::new(),
        wide: true,
    }
}
