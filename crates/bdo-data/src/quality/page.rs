//! The page about the quality of a cohort: one file, no scripts, nothing fetched.

use std::fmt::Write;

use super::Quality;
use super::chart::{escaped, histogram, region_map};
use super::picture::data_address;
use crate::cohort::{Cohort, CohortError};
use crate::scan::Scan;

/// Scans shown as carpets, and rows of each table.
const CARPETS: usize = 4;
const ROWS: usize = 20;

const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}\
figure{display:inline-block;margin:0 1.5em 1.5em 0;vertical-align:top}figcaption{font-weight:bold}\
svg text{font:11px sans-serif;fill:#444}svg rect{fill:#4a7}table{border-collapse:collapse}\
td,th{padding:.2em .8em;border-bottom:1px solid #ddd;text-align:left}img{image-rendering:pixelated;width:100%;height:220px}";

/// Measures a cohort and draws the page.
pub fn page(cohort: &Cohort) -> Result<String, CohortError> {
    let quality = Quality::measure(cohort)?;
    let index = cohort.index();
    let mut html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Quality of a cohort</title><style>{STYLE}</style>"
    );
    let manifest = cohort.manifest();
    let _ = write!(
        html,
        "<h1>Quality of a cohort</h1><p>{} scans of {} people, {} regions of {}.</p>",
        manifest.scans,
        manifest.subjects,
        manifest.regions,
        escaped(&manifest.atlas.name)
    );
    html += "<h2>Scans</h2>";
    html += &histogram("Frames kept", "frames", &index.iter().map(|e| e.frames as f64).collect::<Vec<_>>());
    html += &histogram("Time covered", "s", &index.iter().map(|e| e.span_seconds).collect::<Vec<_>>());
    html += &histogram("Repetition time", "s", &index.iter().map(|e| e.tr_seconds).collect::<Vec<_>>());
    let motion: Vec<f64> = index.iter().filter_map(|e| e.mean_fd_mm).collect();
    html += &histogram("Mean framewise displacement", "mm", &motion);
    let tsnr: Vec<f64> = quality.tsnr.iter().flatten().copied().collect();
    html +=
        &histogram("Temporal signal-to-noise ratio (median region; absent where the mean was taken out)", "", &tsnr);
    html += "<h2>Regions</h2>";
    html += &region_map(
        "Share of scans in which a region has a signal, from above",
        cohort.regions(),
        &quality.valid_share,
    );
    if quality.coverage.iter().any(Option::is_some) {
        let shares: Vec<f64> = quality.coverage.iter().map(|c| c.unwrap_or(1.0)).collect();
        html += &region_map("Mean share of a region's voxels inside the images", cohort.regions(), &shares);
    }
    html += &poor_regions(cohort, &quality);
    html += "<h2>A few scans</h2><p>Regions down, true time across, each region in its own units; white where there is no frame or no signal.</p>";
    for i in chosen(cohort) {
        html += &carpet(&cohort.scan(i)?, cohort.regions().len());
    }
    html += &rejects(cohort)?;
    let settings = manifest.provenance.last().map(|p| p.settings.to_string()).unwrap_or_default();
    let version = manifest.provenance.last().map(|p| p.version.clone()).unwrap_or_default();
    let _ =
        write!(html, "<h2>Made by</h2><p>bdo {}: <code>{}</code></p></html>", escaped(&version), escaped(&settings));
    Ok(html)
}

fn poor_regions(cohort: &Cohort, quality: &Quality) -> String {
    let mut poor: Vec<(usize, f64)> =
        quality.valid_share.iter().copied().enumerate().filter(|(_, s)| *s < 1.0).collect();
    poor.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    if poor.is_empty() {
        return format!("<p>Every region has a signal in all of the {} scans looked at.</p>", quality.read.len());
    }
    let mut html = format!(
        "<p>{} regions are missing or constant in some scans.</p><table><tr><th>Region<th>With a signal",
        poor.len()
    );
    for (region, share) in poor.into_iter().take(ROWS) {
        let _ = write!(html, "<tr><td>{}<td>{:.1} %", escaped(&cohort.regions()[region].name), 100.0 * share);
    }
    html + "</table>"
}

/// The scan of most motion, that with most missing regions, the shortest and the middle one.
fn chosen(cohort: &Cohort) -> Vec<usize> {
    let index = cohort.index();
    let all = || 0..index.len();
    let motion = |i: &usize| index[*i].mean_fd_mm.unwrap_or(0.0);
    let picks = [
        all().max_by(|a, b| motion(a).total_cmp(&motion(b))),
        all().max_by_key(|i| index[*i].invalid_regions),
        all().min_by_key(|i| index[*i].frames),
        all().nth(index.len() / 2),
    ];
    let mut chosen: Vec<usize> = picks.into_iter().flatten().take(CARPETS).collect();
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

/// One row a region, one column a repetition time from the first kept frame to the last.
fn carpet(scan: &Scan, regions: usize) -> String {
    let first = scan.frame_times_seconds[0];
    let column = |t: usize| ((scan.frame_times_seconds[t] - first) / scan.tr_seconds).round() as usize;
    let width = (column(scan.frames() - 1) + 1).min(4000);
    let mut pixels = vec![255_u8; width * regions];
    for r in 0..regions {
        let values: Vec<f64> = (0..scan.frames()).map(|t| f64::from(scan.series[t * regions + r])).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let deviation = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt();
        // A missing region has a spread that is no number.
        if deviation.is_nan() || deviation <= 0.0 {
            continue;
        }
        for (t, x) in values.iter().enumerate().filter(|(t, _)| column(*t) < width) {
            // Two standard deviations either way fill the scale; white is kept for what is not there.
            pixels[r * width + column(t)] = (120.0 + 60.0 * (x - mean) / deviation).clamp(0.0, 240.0) as u8;
        }
    }
    let motion = scan.framewise_displacement_mm.as_ref().map_or_else(String::new, |fd| {
        format!(", mean displacement {:.3} mm", fd.iter().map(|x| f64::from(*x)).sum::<f64>() / fd.len().max(1) as f64)
    });
    format!(
        "<h3>{}</h3><p>{} frames over {:.0} s{motion}</p><img alt=\"series of all regions\" src=\"{}\">",
        escaped(&scan.id.to_string()),
        scan.frames(),
        scan.frame_times_seconds[scan.frames() - 1] - first,
        data_address(&pixels, width, regions)
    )
}

fn rejects(cohort: &Cohort) -> Result<String, CohortError> {
    let table = cohort.extra("rejected.tsv")?.unwrap_or_default();
    let table = String::from_utf8_lossy(&table).into_owned();
    let rows: Vec<&str> = table.lines().skip(1).collect();
    if rows.is_empty() {
        return Ok("<h2>Rejected</h2><p>None.</p>".into());
    }
    let mut html =
        format!("<h2>Rejected</h2><p>{} files.</p><table><tr><th>File<th>Reason<th>Expected<th>Found", rows.len());
    for row in rows.iter().take(ROWS) {
        html += "<tr>";
        for cell in row.split('\t') {
            let _ = write!(html, "<td>{}", escaped(cell));
        }
    }
    Ok(html + "</table>")
}
