//! The page of a cohort: who is in it, how good the scans are, how regions go together, and how people are divided.

mod people;
mod regions;
mod scans;

use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::division::Division;
use bdo_data::quality::Quality;

use crate::page::{Citation, Methods, Page};
use crate::splits::split_figures;

/// Labels whose splits are shown, by the names that sources give them.
const SPLIT_LABELS: [&str; 3] = ["age", "sex", "diagnosis"];

/// Adds a cohort to a page.
pub fn show_cohort(cohort: &Cohort, page: &mut Page, methods: &mut Methods, command: &str) -> Result<(), CohortError> {
    let manifest = cohort.manifest();
    let made: Vec<String> =
        manifest.provenance.iter().map(|p| format!("{} {} {}", p.name, p.version, p.verb)).collect();
    page.section("The cohort").facts(&[
        ("Folder", cohort.folder().display().to_string()),
        ("Scans", format!("{} scans of {} people", cohort.len(), manifest.subjects)),
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
    people::show(cohort, page, command);
    let quality = Quality::measure(cohort)?;
    scans::show(cohort, &quality, page, command)?;
    divisions(cohort, page, command)?;
    regions::show(cohort, &quality, page, command)?;
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
    methods.say("Head motion is the mean framewise displacement, where scans come with it. The temporal signal-to-noise ratio is mean over standard deviation in time, median over regions; it is absent where the mean was taken out.", &[Citation::Displacement]);
    Ok(())
}

/// Three seeds of the random split of each usual label, as every method would share them.
fn divisions(cohort: &Cohort, page: &mut Page, command: &str) -> Result<(), CohortError> {
    let people = cohort.participants();
    page.section("Who trains, selects, tests");
    let division = Division::of(cohort)?.with_sites(None);
    let mut shown = 0;
    for target in SPLIT_LABELS.iter().filter(|t| people.label(t).is_some()) {
        let Ok(manifest) = division.random(target, &[0, 1, 2]) else { continue };
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
