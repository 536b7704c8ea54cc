//! The leak guard: nobody, no relative of anybody and no copy of a scan on both sides of a split.

use std::collections::{BTreeMap, BTreeSet};

use bdo_data::cohort::{Cohort, CohortError};
use bdo_data::participants::Participants;
use bdo_data::split::Split;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// A scan by its content, whatever it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanContent {
    /// The person.
    pub subject: String,
    /// The scan.
    pub scan: String,
    /// BLAKE3 of the series alone: names and times are left out, so that a renamed copy is still a copy.
    pub series_blake3: String,
    /// BLAKE3 of the source file; empty where there was none.
    pub source_blake3: String,
    /// BLAKE3 of the stored batch, as models list the scans they were trained on.
    pub batch_blake3: String,
}

/// The contents of all scans of a cohort, which reads each of them once.
pub fn scan_contents(cohort: &Cohort) -> Result<Vec<ScanContent>, CohortError> {
    (0..cohort.len())
        .into_par_iter()
        .map(|i| {
            let entry = &cohort.index()[i];
            let mut hasher = blake3::Hasher::new();
            for x in &cohort.scan(i)?.series {
                hasher.update(&x.to_le_bytes());
            }
            Ok(ScanContent {
                subject: entry.id.subject.clone(),
                scan: entry.id.to_string(),
                series_blake3: hasher.finalize().to_hex().to_string(),
                source_blake3: entry.source_blake3.clone(),
                batch_blake3: entry.blake3.clone(),
            })
        })
        .collect()
}

/// Column of a table made by [`kept_together`].
pub const TOGETHER_COLUMN: &str = "kept_together";

/// A participants table with a column that holds families and people with copies of one scan together, and those copies.
///
/// None where there are no copies between people: then the family column is all that is needed, and splits stay as they are.
pub fn kept_together(
    people: &Participants,
    family: Option<&str>,
    contents: &[ScanContent],
) -> Option<(Participants, Vec<(String, String)>)> {
    let mut first: BTreeMap<&str, &ScanContent> = BTreeMap::new();
    let mut copies = vec![];
    for content in contents {
        for hash in [&content.series_blake3, &content.source_blake3].into_iter().filter(|h| !h.is_empty()) {
            let original = *first.entry(hash).or_insert(content);
            if original.subject != content.subject && !copies.contains(&(original, content)) {
                copies.push((original, content));
            }
        }
    }
    if copies.is_empty() {
        return None;
    }
    // Everybody starts as a group of his family or his own; each pair of copies joins two groups.
    let own = |row: usize, subject: &str| {
        let listed = family.and_then(|column| people.get(row, column));
        listed.map_or_else(|| format!("person {subject}"), |f| format!("family {f}"))
    };
    let mut groups: Vec<String> = people.subjects().enumerate().map(|(row, s)| own(row, s)).collect();
    for (a, b) in &copies {
        if let (Some(a), Some(b)) = (people.row_of(&a.subject), people.row_of(&b.subject)) {
            let (kept, gone) = (groups[a].clone(), groups[b].clone());
            groups.iter_mut().filter(|g| **g == gone).for_each(|g| g.clone_from(&kept));
        }
    }
    let mut table = people.clone();
    let note = "Families, and people with copies of one scan".to_owned();
    let note = bdo_data::participants::ColumnNote { description: Some(note), ..Default::default() };
    table.derive(TOGETHER_COLUMN, note, |_, row| Some(groups[row].clone()));
    Some((table, copies.iter().map(|(a, b)| (a.scan.clone(), b.scan.clone())).collect()))
}

/// What is on both sides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeakReport {
    /// People who are fitted (or selected) on and tested.
    pub people: Vec<String>,
    /// Families with members on both sides.
    pub families: Vec<String>,
    /// Scans with the same content, fitted on first, tested second.
    pub duplicates: Vec<(String, String)>,
    /// Test people the model was pre-trained on, by name or by one of their scans.
    pub pretrained: Vec<String>,
}

/// A split that must not be scored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected nobody on both sides of a split, found {found}; hint: people who belong together go into one family column, copies \
     out of the cohort"
)]
pub struct LeakError {
    /// What was found.
    pub found: String,
}

impl LeakReport {
    /// Compares the people fitted and selected on with those tested.
    pub fn of_split(split: &Split, families: Option<(&Participants, &str)>, contents: &[ScanContent]) -> Self {
        let fitted: Vec<&str> =
            split.train.subjects().iter().chain(split.validation.subjects()).map(String::as_str).collect();
        let tested: Vec<&str> = split.test.subjects().iter().map(String::as_str).collect();
        Self::between(&fitted, &tested, families, contents)
    }

    /// Compares two lists of people.
    pub fn between(
        fitted: &[&str],
        tested: &[&str],
        families: Option<(&Participants, &str)>,
        contents: &[ScanContent],
    ) -> Self {
        let (fitted, tested): (BTreeSet<&str>, BTreeSet<&str>) =
            (fitted.iter().copied().collect(), tested.iter().copied().collect());
        let people = fitted.intersection(&tested).map(|s| (*s).to_owned()).collect();
        let family = |subject: &&str| {
            let (table, column) = families?;
            table.get(table.row_of(subject)?, column).map(str::to_owned)
        };
        let of = |side: &BTreeSet<&str>| -> BTreeSet<String> { side.iter().filter_map(family).collect() };
        let families = of(&fitted).intersection(&of(&tested)).cloned().collect();
        let mut duplicates = BTreeSet::new();
        let hashes: [fn(&ScanContent) -> &str; 2] = [|c| c.series_blake3.as_str(), |c| c.source_blake3.as_str()];
        for hash in hashes {
            let mut seen: BTreeMap<&str, Vec<&ScanContent>> = BTreeMap::new();
            let known = |c: &&ScanContent| fitted.contains(c.subject.as_str()) && !hash(c).is_empty();
            for content in contents.iter().filter(known) {
                seen.entry(hash(content)).or_default().push(content);
            }
            for content in contents.iter().filter(|c| tested.contains(c.subject.as_str())) {
                for other in seen.get(hash(content)).into_iter().flatten().filter(|o| o.subject != content.subject) {
                    duplicates.insert((other.scan.clone(), content.scan.clone()));
                }
            }
        }
        Self { people, families, duplicates: duplicates.into_iter().collect(), pretrained: vec![] }
    }

    /// Adds the test people whose identifier or scan is among the hashes a model lists as its training people.
    pub fn with_pretraining(
        mut self,
        split: &Split,
        contents: &[ScanContent],
        subject_hashes: &BTreeSet<String>,
        scan_hashes: &BTreeSet<String>,
    ) -> Self {
        let by_scan: BTreeSet<&str> =
            contents.iter().filter(|c| scan_hashes.contains(&c.batch_blake3)).map(|c| c.subject.as_str()).collect();
        let listed = |s: &str| subject_hashes.contains(blake3::hash(s.as_bytes()).to_hex().as_str());
        let known = |s: &&String| listed(s) || by_scan.contains(s.as_str());
        self.pretrained = split.test.subjects().iter().filter(known).cloned().collect();
        self
    }

    /// An overlap of fitting and testing is refused; one with pre-training is not, since it is flagged.
    pub fn refuse(&self) -> Result<(), LeakError> {
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
        if found.is_empty() { Ok(()) } else { Err(LeakError { found: found.join(" and ") }) }
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

    fn content(subject: &str, series: &str) -> ScanContent {
        ScanContent {
            subject: subject.into(),
            scan: subject.into(),
            series_blake3: series.into(),
            source_blake3: String::new(),
            batch_blake3: format!("batch of {subject}"),
        }
    }

    #[test]
    fn copies_join_families() {
        let table = Participants::parse("p", b"id\tfam\na\t1\nb\t2\nc\t1\nd\tn/a\ne\tn/a\n", &[]).unwrap();
        let contents = [content("a", "x"), content("b", "y"), content("c", "z"), content("d", "y"), content("e", "z")];
        let (joined, copies) = kept_together(&table, Some("fam"), &contents).unwrap();
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(copies, [pair("b", "d"), pair("c", "e")]);
        let groups: Vec<&str> = (0..5).map(|row| joined.get(row, TOGETHER_COLUMN).unwrap()).collect();
        assert_eq!(groups, ["family 1", "family 2", "family 1", "family 2", "family 1"]);
        assert!(kept_together(&table, Some("fam"), &contents[..3]).is_none());
    }

    #[test]
    fn each_kind_of_overlap_is_named() {
        let table = Participants::parse("p", b"id\tfam\na\t1\nb\t2\nc\t1\nd\tn/a\ne\tn/a\n", &[]).unwrap();
        let contents = [content("a", "x"), content("b", "y"), content("c", "z"), content("d", "y"), content("e", "q")];
        let clean = LeakReport::between(&["a", "c"], &["d", "e"], Some((&table, "fam")), &contents);
        assert_eq!(clean.refuse(), Ok(()));
        let leaky = LeakReport::between(&["a", "b", "e"], &["c", "d", "e"], Some((&table, "fam")), &contents);
        assert_eq!(leaky.people, ["e"]);
        assert_eq!(leaky.families, ["1"]);
        assert_eq!(leaky.duplicates, [("b".to_owned(), "d".to_owned())]);
        let message = leaky.refuse().unwrap_err().to_string();
        assert!(message.contains("1 people (e) and 1 families (1) and 1 copied scans (b = d)"), "{message}");
    }
}
