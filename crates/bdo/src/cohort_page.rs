//! The page of a cohort: who is in it, what a scan looks like, how regions go together.

use anyhow::Context;
use bdo_data::cohort::Cohort;
use bdo_data::participants::Label;
use bdo_data::scaler::FittedRobustScaler;
use bdo_data::split::Split;
use bdo_eval::{connectivity, heatmap, histogram, page::Page};

/// Scans whose connectivity is averaged for the picture.
const AVERAGED_SCANS: usize = 40;
/// Wanted width of a picture in pixels.
const PICTURE_PIXELS: usize = 800;

/// Draws the page of a cohort with the split and the scaler fitted on it.
pub(crate) fn cohort_page(cohort: &Cohort, split: &Split, scaler: &FittedRobustScaler) -> anyhow::Result<String> {
    let mut page = Page::new("BDO: a cohort");
    let manifest = cohort.manifest();
    page.section("What this is").facts(&[
        ("Cohort", cohort.folder().display().to_string()),
        ("Scans", format!("{} of {} people", cohort.len(), manifest.subjects)),
        ("Regions", format!("{} ({})", cohort.regions().len(), manifest.atlas.name)),
        (
            "Made by",
            manifest
                .provenance
                .iter()
                .map(|p| format!("{} {} {}", p.name, p.version, p.verb))
                .collect::<Vec<_>>()
                .join(", "),
        ),
        ("Checksum", cohort.content_blake3()?),
    ]);
    page.paragraph("Every stored byte was compared with its checksum before this page was drawn.");
    people(cohort, &mut page);
    page.section("Who trains, selects, tests").facts(&[
        ("Training", format!("{} people", split.train.subjects().len())),
        ("Validation", format!("{} people", split.validation.subjects().len())),
        ("Test", format!("{} people", split.test.subjects().len())),
        ("Split", format!("seed {}, BLAKE3 {}", split.spec.seed, split.blake3)),
        (
            "Scaler",
            format!("fitted on {} training scans, BLAKE3 of their list {}", scaler.scans(), scaler.scans_blake3()),
        ),
    ]);
    page.paragraph(
        "Families stay together; median and inter-quartile range of each region come from training people only.",
    );
    a_scan(cohort, scaler, &mut page)?;
    regions_together(cohort, scaler, &mut page)?;
    page.section("How to make it again").command("bdo demo");
    Ok(page.to_html())
}

fn people(cohort: &Cohort, page: &mut Page) {
    page.section("People");
    for column in cohort.participants().columns() {
        let counts = match cohort.participants().label(column) {
            Some(Label::Number(values)) => {
                histogram::intervals(&values.iter().copied().flatten().collect::<Vec<_>>(), 8)
            }
            Some(Label::Category(values)) => {
                let mut counts = std::collections::BTreeMap::new();
                values.iter().for_each(|v| *counts.entry(v.clone().unwrap_or_else(|| "n/a".into())).or_insert(0) += 1);
                counts.into_iter().collect()
            }
            None => continue,
        };
        // A column with a value for nearly everybody (an identifier) has no shape worth drawing.
        if (1..=10).contains(&counts.len()) {
            page.drawing(&histogram::bars(column, &counts), &format!("{column}: people"));
        }
    }
}

/// Columns in the order of their networks, so that what belongs together lies together.
fn by_network(cohort: &Cohort) -> Vec<usize> {
    let mut order: Vec<usize> = (0..cohort.regions().len()).collect();
    order.sort_by_key(|r| cohort.regions()[*r].network.clone());
    order
}

fn a_scan(cohort: &Cohort, scaler: &FittedRobustScaler, page: &mut Page) -> anyhow::Result<()> {
    let scan = cohort.scan(0)?;
    let scaled = scaler.apply(&scan);
    let (regions, frames, order) = (cohort.regions().len(), scan.frames(), by_network(cohort));
    // Regions down, time across.
    let picture: Vec<f32> = order
        .iter()
        .flat_map(|r| {
            let (r, scaled) = (*r, &scaled);
            (0..frames).map(move |t| if scaled.region_valid[r] { scaled.values[t * regions + r] } else { f32::NAN })
        })
        .collect();
    let pixels = (PICTURE_PIXELS / frames.max(1)).clamp(1, 4);
    let uri = heatmap::data_uri(&heatmap::png(&picture, frames, 2.0, pixels));
    page.section("A scan").picture(
        &uri,
        "Carpet plot: one row a region, one column a frame",
        &format!(
            "{}: {frames} frames at {} s across, {regions} regions down, ordered by network. Centred and divided by the inter-quartile range of training people; blue to red is -2 to 2, grey is missing.",
            scan.id, scan.tr_seconds
        ),
    );
    Ok(())
}

fn regions_together(cohort: &Cohort, scaler: &FittedRobustScaler, page: &mut Page) -> anyhow::Result<()> {
    let (regions, order) = (cohort.regions().len(), by_network(cohort));
    let scans = cohort.len().min(AVERAGED_SCANS);
    let mut mean = vec![0.0f32; regions * regions];
    for i in 0..scans {
        let fc = connectivity::pearson(&scaler.apply(&cohort.scan(i)?).values, regions);
        mean.iter_mut().zip(fc).for_each(|(m, r)| *m += r / scans as f32);
    }
    let mut ordered = Vec::with_capacity(mean.len());
    for i in &order {
        ordered.extend(order.iter().map(|j| mean[i * regions + j]));
    }
    let pixels = (PICTURE_PIXELS / 2 / regions.max(1)).clamp(1, 6);
    let uri = heatmap::data_uri(&heatmap::png(&ordered, regions, 1.0, pixels));
    let networks: Vec<String> = order.iter().filter_map(|r| cohort.regions()[*r].network.clone()).collect();
    let mut names = networks.clone();
    names.dedup();
    let named = if names.is_empty() { String::new() } else { format!(" Networks in order: {}.", names.join(", ")) };
    let caption = format!(
        "Mean correlation between regions over {scans} scans, ordered by network; blue to red is -1 to 1.{named}"
    );
    page.section("Regions that go together").picture(&uri, "Matrix of correlations between regions", &caption);
    (!order.is_empty()).then_some(()).context("a cohort without regions cannot be drawn")
}
