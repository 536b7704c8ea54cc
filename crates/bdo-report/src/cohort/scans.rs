//! Quality of scans: lengths, motion, signal, a few carpets, and rejected files.

use bdo_data::cohort::{Cohort, CohortError, IndexEntry};
use bdo_data::quality::Quality;
use bdo_data::scan::Scan;

use super::people::histogram;
use crate::escape;
use crate::figure::Figure;
use crate::heatmap::HeatMap;
use crate::network::Order;
use crate::page::Page;
use crate::palette::ColourScale;
use crate::scale::{ends, number};
use crate::table::Table;

const ROWS: usize = 20;
/// Columns of a carpet: a scan that lasts longer is cut.
const MOST_COLUMNS: usize = 1200;

pub(super) fn show(cohort: &Cohort, quality: &Quality, page: &mut Page) -> Result<(), CohortError> {
    page.section("Scans");
    let of = |value: &dyn Fn(&IndexEntry) -> f64| cohort.index().iter().map(value).collect::<Vec<f64>>();
    let mut same: Vec<String> = vec![];
    let tsnr: Vec<f64> = quality.tsnr.iter().map(|x| x.unwrap_or(f64::NAN)).collect();
    for (name, title, label, values) in [
        ("frames", "Frames kept", "frames", of(&|e| e.frames as f64)),
        ("minutes", "Time covered", "minutes", of(&|e| e.span_seconds / 60.0)),
        ("repetition-time", "Repetition time", "repetition time (s)", of(&|e| e.tr_seconds)),
        (
            "motion",
            "Mean framewise displacement",
            "mean framewise displacement (mm)",
            of(&|e| e.mean_fd_mm.unwrap_or(f64::NAN)),
        ),
        ("tsnr", "Temporal signal-to-noise ratio", "mean / standard deviation, median region", tsnr),
    ] {
        let (low, high) = ends(values.iter().copied().filter(|x| x.is_finite()));
        if low == high && values.iter().all(|x| x.is_finite()) {
            same.push(format!("{label} {}", number(low)));
        } else if let Some(figure) = histogram(name, title, label, "scans", &values) {
            page.figure(&figure);
        }
    }
    if !same.is_empty() {
        page.paragraph(&format!("The same in every scan: {}.", same.join(", ")));
    }
    let order = Order::of(cohort.regions());
    for (why, i) in chosen(cohort) {
        page.figure(&carpet(why, &cohort.scan(i)?, &order));
    }
    let poor = poor_scans(cohort);
    if poor.is_empty() {
        page.paragraph("Every region has a signal in every scan.");
    }
    page.table_if_any(&poor);
    rejected(cohort, page)
}

fn poor_scans(cohort: &Cohort) -> Table {
    let mut poor: Vec<_> = cohort.index().iter().filter(|e| e.invalid_regions > 0).collect();
    poor.sort_by_key(|e| std::cmp::Reverse(e.invalid_regions));
    let (some, all) = (poor.len(), cohort.len());
    let caption = format!("Scans with missing or constant regions: {some} of {all}, the first {ROWS} are shown");
    let headings = ["scan", "frames", "repetition time (s)", "missing regions", "mean displacement (mm)", "source"];
    let mut table = Table::new(caption, headings);
    for e in poor.iter().take(ROWS) {
        table.row([
            e.id.to_string().into(),
            (e.frames as f64).into(),
            e.tr_seconds.into(),
            (e.invalid_regions as f64).into(),
            e.mean_fd_mm.into(),
            e.source.clone().into(),
        ]);
    }
    table
}

fn rejected(cohort: &Cohort, page: &mut Page) -> Result<(), CohortError> {
    let rows = super::rejected_lines(cohort)?;
    if rows.is_empty() {
        page.paragraph("No file was rejected.");
        return Ok(());
    }
    let caption = format!("Rejected files: {}, the first {ROWS} are shown", rows.len());
    let mut table = Table::new(caption, ["file", "reason", "expected", "found"]);
    for row in rows.iter().take(ROWS) {
        table.row((0..4).map(|c| row.split('\t').nth(c).unwrap_or("").into()).collect::<Vec<_>>());
    }
    page.table(&table);
    Ok(())
}

/// The scan in the middle, the one with most motion, and the one with most missing regions.
fn chosen(cohort: &Cohort) -> Vec<(&'static str, usize)> {
    let index = cohort.index();
    let motion = |i: &usize| index[*i].mean_fd_mm.unwrap_or(0.0);
    let moved = (0..index.len()).max_by(|a, b| motion(a).total_cmp(&motion(b))).filter(|i| motion(i) > 0.0);
    let torn = (0..index.len()).max_by_key(|i| index[*i].invalid_regions).filter(|i| index[*i].invalid_regions > 0);
    let picks = [
        ("the middle one", (!index.is_empty()).then_some(index.len() / 2)),
        ("most motion", moved),
        ("most missing regions", torn),
    ];
    let mut chosen: Vec<(&str, usize)> = picks.into_iter().filter_map(|(why, pick)| Some((why, pick?))).collect();
    let all = chosen.clone();
    chosen.retain(|pick| all.iter().find(|first| first.1 == pick.1) == Some(pick));
    chosen
}

/// One row per region, one column per repetition time; each region in units of its own standard deviation.
fn carpet(why: &str, scan: &Scan, order: &Order) -> Figure {
    let (frames, regions) = (scan.frames(), scan.series.len() / scan.frames().max(1));
    let first = scan.frame_times_seconds.first().copied().unwrap_or(0.0);
    let column = |t: usize| ((scan.frame_times_seconds[t] - first) / scan.tr_seconds).round().max(0.0) as usize;
    let width = (column(frames.saturating_sub(1)) + 1).min(MOST_COLUMNS);
    let mut values = vec![f32::NAN; width * regions];
    for (row, r) in order.rows.iter().enumerate() {
        let series: Vec<f64> = (0..frames).map(|t| f64::from(scan.series[t * regions + r])).collect();
        let mean = series.iter().sum::<f64>() / frames as f64;
        let spread = (series.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / frames as f64).sqrt();
        if spread > 0.0 {
            for (t, x) in series.iter().enumerate().filter(|(t, _)| column(*t) < width) {
                values[row * width + column(t)] = ((x - mean) / spread) as f32;
            }
        }
    }
    let map = HeatMap {
        title: escape::shortened(&scan.id.to_string(), 60),
        values,
        columns: width,
        scale: ColourScale::Around(2.5),
        groups: &order.groups,
        across: Some(("time (s)", 0.0, width as f64 * scan.tr_seconds)),
        unit: "standard deviations",
    };
    let motion = scan.framewise_displacement_mm.as_ref().map_or_else(String::new, |fd| {
        let mean = fd.iter().map(|x| f64::from(*x)).sum::<f64>() / fd.len().max(1) as f64;
        format!(" Mean framewise displacement {mean:.3} mm.")
    });
    let caption = format!(
        "{}: {frames} kept frames over time, {regions} regions grouped by network; each region in units of its own standard deviation, grey where there is no frame or no signal.{motion}",
        scan.id
    );
    let name = format!("carpet-{}", why.replace(' ', "-"));
    map.figure(name, format!("A scan: {why}"), caption, (620.0, 300.0))
}
