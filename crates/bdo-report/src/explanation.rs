//! What a head uses: shares of regions and networks, a glass brain, and the check against shuffled weights.

use std::path::Path;

use bdo_data::region::Region;
use bdo_eval::explain::{Explanation, Used};

use crate::figure::Figure;
use crate::network::{NO_COORDINATES, RegionValues, network_figures};
use crate::page::Page;
use crate::source::json;
use crate::table::Table;

const ROWS: usize = 40;

pub(crate) fn show(folder: &Path, page: &mut Page) {
    let Some(found) = json::<Explanation>(&folder.join("explanation.json")) else {
        let command = "bdo explain --head DIR --data COHORT --out DIR";
        page.section("Explanation").missing("explanation.json is missing or cannot be read.", command);
        return;
    };
    verdict(page, &found);
    page.section(&format!("What the head of {} uses", found.target)).facts(&[
        ("Folder", folder.display().to_string()),
        ("Method", format!("{}, pooling {}", found.method, found.pooling.name())),
        ("Scans", found.scans.to_string()),
    ]);
    page.figures(&brain(&found), NO_COORDINATES, "bdo ingest SOURCE OUT --atlas FILE");
    for (caption, parts) in [("Networks", &found.networks), ("Regions", &found.regions)] {
        page.table_if_any(&table(caption, parts));
    }
    page.say(
        if found.method == "exact" {
            "The head is linear in correlations between regions: what it says of a scan minus what it says of the mean scan is a sum over pairs, each given in halves to its two regions. A share is the covariance of a region's part with the sum over the variance of the sum; shares add up to 1."
        } else {
            "Gradients of what the head says by the measured values were integrated along straight lines between pairs of scans and multiplied by their difference. A share is the covariance of a region's part with the sum over the variance of the sum; shares add up to 1."
        },
        &[],
    );
    page.say(
        "The check permutes the weights of the head: a map that stays the same would say nothing about them.",
        &[],
    );
}

fn brain(found: &Explanation) -> Vec<Figure> {
    let region = |used: &Used| Region {
        network: used.network.clone(),
        centroid_mm: used.centroid_mm,
        ..Region::named(used.name.clone())
    };
    let regions: Vec<Region> = found.regions.iter().map(region).collect();
    let values = RegionValues {
        name: "explanation".into(),
        title: format!("Shares in what the head of {} says", found.target),
        caption: "Share of the differences between scans that goes through each region; negative where it holds the others back.".into(),
        unit: "share (%)".into(),
        values: found.regions.iter().map(|used| 100.0 * used.share).collect(),
    };
    network_figures(&regions, &values)
}

/// The largest shares first.
pub fn largest(parts: &[Used]) -> Vec<&Used> {
    let mut sorted: Vec<&Used> = parts.iter().collect();
    sorted.sort_by(|a, b| b.share.abs().total_cmp(&a.share.abs()));
    sorted
}

fn verdict(page: &mut Page, found: &Explanation) {
    let parts = if found.networks.is_empty() { &found.regions } else { &found.networks };
    let first: Vec<String> =
        largest(parts).iter().take(3).map(|used| format!("{} ({:.0} %)", used.name, 100.0 * used.share)).collect();
    let headline = format!("The head of {} uses most: {}.", found.target, first.join(", "));
    let sanity = &found.sanity;
    let said = [
        if sanity.is_passed() {
            format!("The map follows the weights: shuffled ones give another (rank correlation {:.2}).", sanity.mean)
        } else {
            let mean = sanity.mean;
            format!("Do NOT trust the map: shuffled weights give nearly the same (rank correlation {mean:.2}).")
        },
        format!("Parts add up to what the head says within {:.1} %.", 100.0 * found.incompleteness),
        "It says what the head uses, not what causes the label.".to_owned(),
    ];
    page.verdict("Explanation", &headline, &said);
}

fn table(caption: &str, parts: &[Used]) -> Table {
    let caption =
        format!("{caption}: {}, the {} with the largest shares are shown", parts.len(), parts.len().min(ROWS));
    let mut table = Table::new(caption, ["name", "network", "share (%)", "importance"]).fitting();
    for used in largest(parts).into_iter().take(ROWS) {
        table.row([
            used.name.as_str().into(),
            used.network.as_deref().unwrap_or("-").into(),
            (100.0 * used.share).into(),
            used.importance.into(),
        ]);
    }
    table
}
