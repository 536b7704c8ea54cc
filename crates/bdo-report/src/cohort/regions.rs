//! Regions of a cohort: how they go together, and where there is a signal.

use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::quality::Quality;
use bdo_eval::connectivity;

use crate::brain::glass_brain;
use crate::figure::Figure;
use crate::heatmap::HeatMap;
use crate::network::Order;
use crate::page::Page;
use crate::palette::ColourScale;
use crate::table::Table;

/// Scans whose connectivity is averaged for the picture.
const AVERAGED_SCANS: usize = 40;
const ROWS: usize = 20;

pub(super) fn show(cohort: &Cohort, quality: &Quality, page: &mut Page, command: &str) -> Result<(), CohortError> {
    page.section("Regions");
    if cohort.is_empty() || cohort.regions().is_empty() {
        return Ok(());
    }
    page.figure(&together(cohort)?.made_by(command));
    let inside: Vec<f64> = quality.coverage.iter().map(|c| c.unwrap_or(f64::NAN)).collect();
    let mut drawn = false;
    for (name, title, what, values) in [
        ("coverage", "Where there is a signal", "share of scans", &quality.valid_share),
        ("voxels", "Voxels inside the images", "mean share of voxels", &inside),
    ] {
        let known = values.iter().copied().filter(|x| x.is_finite());
        let least = known.fold(f64::INFINITY, f64::min);
        if !least.is_finite() {
            continue;
        }
        let scale = ColourScale::Between(if least < 0.95 { least } else { 0.0 }, 1.0);
        let caption =
            format!("{title}: {what} in {} scans, at the centre of each region in MNI space.", quality.read.len());
        if let Some(figure) = glass_brain(name, title, &caption, cohort.regions(), values, scale, what) {
            page.figure(&figure.made_by(command));
            drawn = true;
        }
    }
    if !drawn {
        page.missing("The atlas of this cohort has no coordinates, so no glass brain can be drawn; an atlas image with coordinates is given at ingest:", "bdo ingest SOURCE OUT --atlas FILE");
    }
    poor(cohort, quality, page);
    Ok(())
}

fn together(cohort: &Cohort) -> Result<Figure, CohortError> {
    let (order, count) = (Order::of(cohort.regions()), cohort.regions().len());
    let scans = cohort.len().min(AVERAGED_SCANS);
    let mut mean = vec![0.0f32; count * count];
    for i in 0..scans {
        let fc = connectivity::pearson(&cohort.scan(i * cohort.len() / scans)?.series, count);
        mean.iter_mut().zip(fc).for_each(|(m, r)| *m += r / scans as f32);
    }
    let mean = &mean;
    let values = order.rows.iter().flat_map(|i| order.rows.iter().map(move |j| mean[i * count + j])).collect();
    let map = HeatMap {
        title: "correlation".into(),
        values,
        columns: count,
        scale: ColourScale::Around(1.0),
        groups: order.groups,
        across: None,
        unit: "Pearson correlation".into(),
    };
    Ok(Figure {
        name: "connectivity".into(),
        title: "Regions that go together".into(),
        caption: format!(
            "Mean correlation between regions over {scans} scans evenly spread over the cohort, regions grouped by network; grey where a region is missing in one of them."
        ),
        svg: map.drawing(400.0, 400.0),
        csv: map.to_csv(),
        command: String::new(),
        wide: false,
    })
}

fn poor(cohort: &Cohort, quality: &Quality, page: &mut Page) {
    let mut poor: Vec<(usize, f64)> =
        quality.valid_share.iter().copied().enumerate().filter(|(_, s)| *s < 1.0).collect();
    poor.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    if poor.is_empty() {
        page.paragraph(&format!("Every region has a signal in all of the {} scans looked at.", quality.read.len()));
        return;
    }
    let caption =
        format!("Regions that are missing or constant in some scans: {}, the first {ROWS} are shown", poor.len());
    let mut table = Table::new(&caption, &["region", "with a signal (%)", "voxels inside (%)"]);
    for (r, share) in poor.into_iter().take(ROWS) {
        table.rows.push(vec![
            cohort.regions()[r].name.clone().into(),
            (100.0 * share).into(),
            quality.coverage[r].map(|c| 100.0 * c).into(),
        ]);
    }
    page.table(&table);
}
