//! The page of a cohort: people, quality of scans, regions, and splits.

mod people;
mod regions;
mod scans;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::division::Division;
use bdo_data::quality::Quality;

use crate::page::{Citation, Page};
use crate::splits::split_figures;

const LABELS_COMMAND: &str = "bdo ingest SOURCE OUT --participants FILE";
/// Labels whose splits are shown, by the names that sources give them.
const SPLIT_LABELS: [&str; 3] = ["age", "sex", "diagnosis"];

/// Adds a cohort to a page. A damaged cohort is an error, since nothing else in its folder can be trusted.
pub(crate) fn show(folder: &Path, page: &mut Page) -> Result<(), CohortError> {
    let cohort = &Cohort::open(folder)?;
    let manifest = cohort.manifest();
    let made: Vec<String> =
        manifest.provenance.iter().map(|p| format!("{} {} {}", p.name, p.version, p.verb)).collect();
    verdict(cohort, page)?;
    let scans = format!("{} scans of {} people", cohort.len(), manifest.subjects);
    page.section("The cohort").facts(&[
        ("Folder", cohort.folder().display().to_string()),
        ("Scans", scans.clone()),
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
    people::show(cohort, page);
    let quality = Quality::measure(cohort)?;
    scans::show(cohort, &quality, page)?;
    divisions(cohort, page)?;
    regions::show(cohort, &quality, page)?;
    let regions = format!("{} regions of {}", cohort.regions().len(), manifest.atlas.name);
    page.say(format!("The cohort holds {scans} in {regions}."), &[]);
    page.say("Random splits give 60 % of the people to training, 20 % to validation and 20 % to testing, stratified by the label; families stay together.", &[]);
    page.say("Head motion is the mean framewise displacement, where scans come with it. The temporal signal-to-noise ratio is mean over standard deviation in time, median over regions; it is absent where the mean was removed.", &[Citation::Displacement]);
    Ok(())
}

/// File, reason, what was expected and what was found of every rejected file.
fn rejected_lines(cohort: &Cohort) -> Result<Vec<String>, CohortError> {
    let table = cohort.extra("rejected.tsv")?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&table).lines().skip(1).map(str::to_owned).collect())
}

/// How many scans can be used, and what was rejected and why.
fn verdict(cohort: &Cohort, page: &mut Page) -> Result<(), CohortError> {
    let manifest = cohort.manifest();
    let headline =
        format!("{} usable scans of {} people in {} regions.", cohort.len(), manifest.subjects, cohort.regions().len());
    let lines = rejected_lines(cohort)?;
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for line in &lines {
        *reasons.entry(line.split('\t').nth(1).unwrap_or("no reason given")).or_default() += 1;
    }
    let rejected: usize = reasons.values().sum();
    let mut listed: Vec<(&str, usize)> = reasons.into_iter().collect();
    listed.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let shown: Vec<String> = listed.iter().take(4).map(|(reason, count)| format!("{count} {reason}")).collect();
    let mut said = vec![if rejected == 0 {
        "No file was rejected.".to_owned()
    } else {
        format!("{rejected} files were rejected: {}{}.", shown.join(", "), if listed.len() > 4 { ", ..." } else { "" })
    }];
    let poor = cohort.index().iter().filter(|e| 10 * e.invalid_regions > cohort.regions().len()).count();
    if poor > 0 {
        said.push(format!("{poor} scans lack more than a tenth of their regions."));
    }
    let timings: BTreeSet<String> = cohort.index().iter().map(|e| format!("{:.3}", e.tr_seconds)).collect();
    said.push(match (timings.first(), timings.last()) {
        (Some(first), Some(last)) if first == last => format!("One repetition time: {first} s."),
        (Some(first), Some(last)) => format!("{} repetition times, {first} to {last} s.", timings.len()),
        _ => "No repetition time.".to_owned(),
    });
    let labels = cohort.participants().columns();
    said.push(if labels.is_empty() {
        "There are no labels: bdo can pre-train and embed, and predict once a participants table is given.".to_owned()
    } else {
        let more = if labels.len() > 12 { format!(" and {} more", labels.len() - 12) } else { String::new() };
        format!("Labels: {}{more}.", labels.iter().take(12).map(String::as_str).collect::<Vec<_>>().join(", "))
    });
    page.verdict("Cohort", &headline, &said);
    Ok(())
}

/// Three seeds of the random split of each usual label, as every method would share them.
fn divisions(cohort: &Cohort, page: &mut Page) -> Result<(), CohortError> {
    let people = cohort.participants();
    page.section("Training, validation and test people");
    let division = Division::of(cohort)?.with_sites(None);
    let mut figures = vec![];
    for target in SPLIT_LABELS.iter().filter(|t| people.label(t).is_some()) {
        let Ok(manifest) = division.random(target, &[0, 1, 2]) else { continue };
        figures.extend(split_figures(&manifest, people));
    }
    let missing = "No label named age, sex or diagnosis has enough people to be split.";
    page.figures(&figures, missing, LABELS_COMMAND);
    Ok(())
}
