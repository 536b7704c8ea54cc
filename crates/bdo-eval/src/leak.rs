//! The leak guard: nobody, no relative of anybody and no copy of a scan on both sides of a split.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::EvalError;
use bdo_data::cohort::IndexEntry;
use bdo_data::division::{Division, Split};
use bdo_model::weights::TrainingPeople;
use serde::{Deserialize, Serialize};

/// What is on both sides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeakReport {
    /// People who are fitted (or selected) on and tested.
    pub people: Vec<String>,
    pub families: Vec<String>,
    /// Scans with the same content, fitted on first, tested second.
    pub duplicates: Vec<(String, String)>,
    /// Test people the model was pre-trained on, by name or by one of their scans.
    pub pretrained: Vec<String>,
}

impl LeakReport {
    /// Compares the people fitted and selected on with those tested.
    pub fn of_split(split: &Split, division: &Division<'_>) -> Self {
        let fitted: Vec<&str> =
            split.train.subjects().iter().chain(split.validation.subjects()).map(String::as_str).collect();
        let tested: Vec<&str> = split.test.subjects().iter().map(String::as_str).collect();
        Self::between(&fitted, &tested, division)
    }

    pub fn between(fitted: &[&str], tested: &[&str], division: &Division<'_>) -> Self {
        let (fitted, tested): (BTreeSet<&str>, BTreeSet<&str>) =
            (fitted.iter().copied().collect(), tested.iter().copied().collect());
        let people = fitted.intersection(&tested).map(|s| (*s).to_owned()).collect();
        let mut relatives: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for subject in &fitted {
            division.family(subject).into_iter().for_each(|family| relatives.entry(family).or_default().push(subject));
        }
        // Somebody on both sides is named as a person; a family needs two of its members.
        let crosses = |subject: &&str| {
            let family = division.family(subject)?;
            relatives.get(family)?.iter().any(|other| other != subject).then(|| family.to_owned())
        };
        let families: BTreeSet<String> = tested.iter().filter_map(crosses).collect();
        let families = families.into_iter().collect();
        let mut duplicates = BTreeSet::new();
        let mut seen: BTreeMap<&str, Vec<&IndexEntry>> = BTreeMap::new();
        for content in division.contents().iter().filter(|c| fitted.contains(c.id.subject.as_str())) {
            content.content_hashes().for_each(|hash| seen.entry(hash).or_default().push(content));
        }
        for content in division.contents().iter().filter(|c| tested.contains(c.id.subject.as_str())) {
            for other in content.content_hashes().filter_map(|hash| seen.get(hash)).flatten() {
                if other.id.subject != content.id.subject {
                    duplicates.insert((other.id.to_string(), content.id.to_string()));
                }
            }
        }
        Self { people, families, duplicates: duplicates.into_iter().collect(), pretrained: vec![] }
    }

    /// Adds the test people a model was pre-trained on.
    pub fn with_pretraining(mut self, split: &Split, division: &Division<'_>, trained: &TrainingPeople) -> Self {
        let scans = division.contents().iter().map(|c| (&*c.id.subject, &*c.blake3, &*c.source_blake3));
        let known = trained.known_among(scans);
        self.pretrained = split.test.subjects().iter().filter(|s| known.is_trained(s)).cloned().collect();
        self
    }

    /// An overlap of fitting and testing is refused; one with pre-training is not, since it is flagged.
    pub fn refuse(&self) -> Result<(), EvalError> {
        let named = |what: &str, names: &[String]| {
            let more = if names.len() > 3 { ", ..." } else { "" };
            format!("{} {what} ({}{more})", names.len(), names[..names.len().min(3)].join(", "))
        };
        let pairs: Vec<String> = self.duplicates.iter().map(|(a, b)| format!("{a} = {b}")).collect();
        let found: Vec<String> = [("people", &self.people), ("families", &self.families), ("copied scans", &pairs)]
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| named(what, names))
            .collect();
        if found.is_empty() {
            return Ok(());
        }
        let hint = "people who belong together go into one family column, copies out of the cohort";
        Err(EvalError::found("nobody on both sides of a split", format!("{}; hint: {hint}", found.join(" and "))))
    }

    /// What a table must say about results of this split.
    pub fn flags(&self, tested: usize) -> Vec<String> {
        let n = self.pretrained.len();
        if n == 0 { vec![] } else { vec![format!("{n} of {tested} test people were pre-trained on")] }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use bdo_data::participants::Participants;
    use bdo_data::scan::ScanId;

    #[test]
    fn each_kind_of_overlap_is_named() {
        let table = Participants::parse("p", b"id\tfamily\na\t1\nb\t2\nc\t1\nd\tn/a\ne\tn/a\n", &[]).unwrap();
        let contents = [("a", "x"), ("b", "y"), ("c", "z"), ("d", "y"), ("e", "q")].map(|(name, series)| IndexEntry {
            id: ScanId::of_subject(name),
            series_blake3: series.into(),
            ..IndexEntry::default()
        });
        let division = Division::of_people(&table).with_contents(contents.to_vec());
        let clean = LeakReport::between(&["a", "c"], &["d", "e"], &division);
        assert!(clean.refuse().is_ok());
        let leaky = LeakReport::between(&["a", "b", "e"], &["c", "d", "e"], &division);
        assert_eq!(leaky.people, ["e"]);
        assert_eq!(leaky.families, ["family 1", "family 2"]);
        assert_eq!(leaky.duplicates, [("b".to_owned(), "d".to_owned())]);
        let message = leaky.refuse().unwrap_err().to_string();
        assert!(
            message.contains("1 people (e) and 2 families (family 1, family 2) and 1 copied scans (b = d)"),
            "{message}"
        );
    }
}
