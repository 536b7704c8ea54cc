//! Regions of a cohort: connectivity and coverage.

use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::quality::Quality;
use bdo_data::shard::evenly;
use bdo_eval::connectivity;

use crate::brain::glass_brain;
use crate::figure::Figure;
use crate::heatmap::HeatMap;
use crate::network::{NO_COORDINATES, Order, RegionValues};
use crate::page::Page;
use crate::palette::ColourScale;
use crate::scale::ends;
use crate::table::Table;

/// Scans whose connectivity is averaged for the picture.
const AVERAGED_SCANS: usize = 40;
const ROWS: usize = 20;

pub(super) fn show(cohort: &Cohort, quality: &Quality, page: &mut Page) -> Result<(), CohortError> {
    page.section("Regions");
    if cohort.is_empty() || cohort.regions().is_empty() {
        return Ok(());
    }
    page.figure(&connectivity_figure(cohort)?);
    let inside: Vec<f64> = quality.coverage.iter().map(|c| c.unwrap_or(f64::NAN)).collect();
    let mut brains = vec![];
    for (name, title, unit, values) in [
        ("coverage", "Regions with a signal", "share of scans", &quality.valid_share),
        ("voxels", "Voxels inside the images", "mean share of voxels", &inside),
    ] {
        let least = ends(values.iter().copied()).0;
        if !least.is_finite() {
            continue;
        }
        let scale = ColourScale::Between(if least < 0.95 { least } else { 0.0 }, 1.0);
        let found = RegionValues {
            name: name.into(),
            title: title.into(),
            caption: format!(
                "{title}: {unit} in {} scans, at the centre of each region in MNI space.",
                quality.read.len()
            ),
            unit: unit.into(),
            values: values.clone(),
        };
        brains.extend(glass_brain(cohort.regions(), &found, scale));
    }
    page.figures(&brains, NO_COORDINATES, "bdo ingest SOURCE OUT --atlas FILE");
    poor(cohort, quality, page);
    Ok(())
}

fn connectivity_figure(cohort: &Cohort) -> Result<Figure, CohortError> {
    let (order, count) = (Order::of(cohort.regions()), cohort.regions().len());
    let chosen = evenly(cohort.len(), AVERAGED_SCANS);
    let scans = chosen.clone().count();
    let mut mean = vec![0.0f32; count * count];
    for i in chosen {
        let fc = connectivity::pearson(&cohort.scan(i)?.series, count);
        mean.iter_mut().zip(fc).for_each(|(m, r)| *m += r / scans as f32);
    }
    let mean = &mean;
    let map = HeatMap {
        title: "correlation".into(),
        values: order.rows.iter().flat_map(|i| order.rows.iter().map(move |j| mean[i * count + j])).collect(),
        columns: count,
        scale: ColourScale::Around(1.0),
        groups: &order.groups,
        across: None,
        unit: "Pearson correlation",
    };
    let caption = format!(
        "Mean correlation between regions over {scans} scans evenly spread over the cohort, regions grouped by network; grey where a region is missing in one of them."
    );
    Ok(map.figure("connectivity".into(), "Functional connectivity".into(), caption, (400.0, 400.0)))
}

fn poor(cohort: &Cohort, quality: &Quality, page: &mut Page) {
    let mut poor: Vec<(usize, f64)> =
        quality.valid_share.iter().copied().enumerate().filter(|(_, s)| *s < 1.0).collect();
    poor.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    if poor.is_empty() {
        page.paragraph(&format!("Every region has a signal in all {} scans that were read.", quality.read.len()));
        return;
    }
    let caption =
        format!("Regions that are missing or constant in some scans: {}, the first {ROWS} are shown", poor.len());
    let mut table = Table::new(caption, ["region", "with a signal (%)", "voxels inside (%)"]);
    for (r, share) in poor.into_iter().take(ROWS) {
        let name = cohort.regions()[r].name.as_str();
        table.row([name.into(), (100.0 * share).into(), quality.coverage[r].map(|c| 100.0 * c).into()]);
    }
    page.table(&table);
}
