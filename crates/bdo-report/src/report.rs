//! From paths to a page.

use std::path::{Path, PathBuf};

use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::division::SplitManifest;

use crate::kind::Kind;
use crate::page::Page;
use crate::run::{self, RunFolder};
use crate::source;
use crate::splits::split_figures;

/// The page of paths, in their order; several runs are also compared with each other. `command` makes the page again.
pub fn page_of(paths: &[(PathBuf, Kind)], command: &str) -> Result<Page, CohortError> {
    let title = match paths {
        [(path, kind)] => format!("BDO {}: {}", kind.name(), source::name(path)),
        many => format!("BDO report of {} folders", many.len()),
    };
    let mut page = Page::new(&title, command);
    add_paths(&mut page, paths)?;
    Ok(page)
}

pub fn add_paths(page: &mut Page, paths: &[(PathBuf, Kind)]) -> Result<(), CohortError> {
    let runs: Vec<&PathBuf> = paths.iter().filter(|p| p.1 == Kind::Run).map(|p| &p.0).collect();
    if runs.len() > 1 {
        let runs: Vec<RunFolder> = runs.into_iter().map(|path| RunFolder::read(path)).collect();
        run::show_several(&runs, page);
    }
    paths.iter().try_for_each(|(path, kind)| kind.show(path, page.of_folder(&source::name(path))))
}

/// Adds the distribution of labels over the splits of a comparison or a probe; needs the cohort of the people.
pub fn add_splits(page: &mut Page, folder: &Path, cohort: Option<&Cohort>) {
    page.section("Splits");
    let Some(manifest) = source::json::<SplitManifest>(&folder.join("splits.json")) else {
        page.missing("splits.json is missing or cannot be read.", "");
        return;
    };
    page.facts(&[("Splits", format!("{}, BLAKE3 {}", manifest.splits.len(), manifest.blake3))]);
    match cohort {
        Some(cohort) => {
            let figures = split_figures(&manifest, cohort.participants());
            page.figures(&figures, "The cohort does not have the labels of these splits.", "")
        }
        None => page.missing(
            "The distribution of labels over training, validation and test people needs the cohort:",
            "bdo report FOLDER --data COHORT --out page.html",
        ),
    };
}
