//! What was done to the scans of a cohort, and whether two cohorts were treated alike.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Cohort, CohortError, Provenance};

/// Settings of an ingest that differ between cohorts without their scans being treated differently.
const NOT_TREATMENT: [&str; 6] = ["files_blake3", "table_blake3", "regions_blake3", "format", "tr_seconds", "merged"];

/// What was done to scans: the settings of an ingest, or the verb that made them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// `ingest`, or what else made the scans.
    pub verb: String,
    /// Empty for other verbs.
    pub settings: Map<String, Value>,
}

impl std::fmt::Display for Recipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.verb)?;
        let shown = self.settings.iter().filter(|(key, value)| !value.is_null() && *key != "atlas_blake3");
        for (i, (key, value)) in shown.enumerate() {
            write!(f, "{}{key} {value}", if i == 0 { ": " } else { ", " })?;
        }
        Ok(())
    }
}

/// The recipes of a cohort: one, unless cohorts of several were merged.
pub fn recipe_of(cohort: &Cohort) -> Vec<Recipe> {
    let mut found = vec![];
    for step in &cohort.manifest().provenance {
        collect(step, &mut found);
    }
    found
}

fn collect(step: &Provenance, found: &mut Vec<Recipe>) {
    let recipe = match step.verb.as_str() {
        // Labels change nothing about scans.
        "label" => return,
        "merge" => {
            let steps = step.settings.get("merged").and_then(Value::as_array).into_iter().flatten();
            let steps = steps.flat_map(|m| m["provenance"].as_array().cloned().unwrap_or_default());
            for step in steps.filter_map(|s| serde_json::from_value::<Provenance>(s).ok()) {
                collect(&step, found);
            }
            return;
        }
        "ingest" => {
            let mut settings = step.settings.as_object().cloned().unwrap_or_default();
            settings.retain(|key, value| !NOT_TREATMENT.contains(&key.as_str()) && !value.is_null());
            Recipe { verb: step.verb.clone(), settings }
        }
        other => Recipe { verb: other.to_owned(), settings: Map::new() },
    };
    if !found.contains(&recipe) {
        found.push(recipe);
    }
}

/// The first difference between the treatments of these cohorts' scans; scans of different recipes should not be compared.
pub fn differing_recipes(cohorts: &[Cohort]) -> Result<(), CohortError> {
    let Some((first, others)) = cohorts.split_first() else { return Ok(()) };
    let expected = recipe_of(first);
    let nothing = Recipe { verb: "nothing".into(), settings: Map::new() };
    for other in others {
        let found = recipe_of(other);
        let same = |a: &[Recipe], b: &[Recipe]| a.iter().all(|r| b.contains(r));
        if same(&expected, &found) && same(&found, &expected) {
            continue;
        }
        let [a, b] = [&expected, &found].map(|recipes| recipes.first().unwrap_or(&nothing));
        let keys: BTreeSet<&String> = a.settings.keys().chain(b.settings.keys()).collect();
        let (expected, found) = match keys.into_iter().find(|key| a.settings.get(*key) != b.settings.get(*key)) {
            Some(key) if a.verb == b.verb => {
                let value = |r: &Recipe| r.settings.get(key).map_or_else(|| "nothing".into(), Value::to_string);
                (format!("{key} {} as in {}", value(a), first.folder().display()), format!("{key} {}", value(b)))
            }
            _ => (format!("scans made by {} as in {}", a.verb, first.folder().display()), b.verb.clone()),
        };
        let found = format!("{found}; hint: --different-recipes merges them all the same");
        return Err(CohortError::mismatch(other.folder(), expected, found));
    }
    Ok(())
}
