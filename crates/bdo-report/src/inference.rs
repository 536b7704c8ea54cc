//! The output of `bdo infer`: facts and scores.

use std::path::Path;

use crate::page::Page;
use crate::source::{facts_table, json};

/// Adds an inference folder to a page.
pub(crate) fn show(folder: &Path, page: &mut Page) {
    page.section("Inference").facts(&[("Folder", folder.display().to_string())]);
    for (name, missing, command) in [
        ("inference.json", "inference.json cannot be read.", "bdo infer"),
        ("scores.json", "There is no scores.json in this folder: nothing was hidden that could be scored.", ""),
    ] {
        match json(&folder.join(name)) {
            Some(facts) => page.table(&facts_table(name, &facts, |_, _| true)),
            None => page.missing(missing, command),
        };
    }
}
