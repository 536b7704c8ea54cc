//! Who may be trained on, who selects, who is tested: by person, never by scan.
//!
//! A [`Division`] knows which people of a cohort belong together, families and owners of copies of one scan, and where they
//! were scanned. Everything that divides people gets its [`Split`]s from one, so no verb can put relatives on two sides.

mod assign;
mod split;

pub use split::{
    HELD_OUT_FRACTION, SITE_GROUPS, Scheme, Split, SplitError, SplitManifest, TestPeople, TrainPeople, ValidationPeople,
};

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use rayon::prelude::*;
use split::SplitSpec;

use crate::cohort::{Cohort, CohortError, IndexEntry};
use crate::participants::{ColumnNote, Participants};

/// Spellings of the family column, in lower case and without separators, the preferred one first.
const FAMILY_COLUMNS: [&str; 2] = ["familyid", "family"];
/// Columns of the site, where scans carry none of their own.
const SITE_COLUMNS: [&str; 4] = ["site", "SITE_ID", "site_id", "scanner"];
/// Column that holds families and owners of copies together, where there are copies.
const TOGETHER_COLUMN: &str = "kept_together";

/// The people of a cohort with their families, copies of scans and sites, ready to be split.
#[derive(Debug, Clone)]
pub struct Division<'a> {
    people: Cow<'a, Participants>,
    family_column: Option<String>,
    site_column: Option<String>,
    contents: Vec<IndexEntry>,
    copies: Vec<(String, String)>,
    cohort_blake3: String,
}

impl<'a> Division<'a> {
    /// Finds the family column by its usual spellings, and copies by reading every scan once.
    pub fn of(cohort: &'a Cohort) -> Result<Self, CohortError> {
        Self::by_family(cohort, None)
    }

    /// The same with the family column given, if it is.
    pub fn by_family(cohort: &'a Cohort, column: Option<&str>) -> Result<Self, CohortError> {
        let mut division = Self::of_people(cohort.participants());
        division.cohort_blake3 = cohort.content_blake3()?;
        division.family_column = column.map(str::to_owned).or(division.family_column);
        Ok(division.with_contents(contents_of(cohort)?))
    }

    /// The people of a table whose scans are not known, so that copies cannot be found.
    pub fn of_people(people: &'a Participants) -> Self {
        Self {
            people: Cow::Borrowed(people),
            family_column: family_column(people).map(str::to_owned),
            site_column: None,
            contents: Vec::new(),
            copies: Vec::new(),
            cohort_blake3: String::new(),
        }
    }

    /// Looks for the site of each person too, in the column that is given or one with a usual name.
    pub fn with_sites(mut self, column: Option<&str>) -> Self {
        self.site_column = column.or_else(|| site_column(&self.people)).map(str::to_owned);
        self
    }

    /// One split. Without a target everybody is divided; with one, people without a value are left out.
    pub fn split(&self, target: Option<&str>, scheme: Scheme, seed: u64) -> Result<Split, SplitError> {
        self.split_labels(&self.people, target, scheme, seed)
    }

    /// One split by a label that is in another table, such as head motion.
    pub fn split_labels(
        &self,
        labels: &Participants,
        target: Option<&str>,
        scheme: Scheme,
        seed: u64,
    ) -> Result<Split, SplitError> {
        let spec = SplitSpec {
            target: target.map(str::to_owned),
            family_column: self.family_column.clone(),
            site_column: self.site_column.clone(),
            scheme,
            seed,
        };
        let assigned = assign::assign(self, labels, &spec)?;
        Ok(Split::new(spec, assigned))
    }

    pub fn random(&self, target: &str, seeds: &[u64]) -> Result<SplitManifest, SplitError> {
        let one = |seed: &u64| self.split(Some(target), Scheme::Random, *seed);
        Ok(self.manifest(seeds.iter().map(one).collect::<Result<_, _>>()?))
    }

    /// A split for each group of sites that can be left out; fewer sites than groups make fewer splits.
    pub fn leave_site_out(&self, target: &str, seed: u64) -> Result<Vec<Split>, SplitError> {
        let folds = (0..SITE_GROUPS).map(|fold| self.split(Some(target), Scheme::LeaveSiteOut { fold }, seed));
        folds.take_while(|split| !matches!(split, Err(SplitError::NoSuchFold { .. }))).collect()
    }

    pub fn manifest(&self, splits: Vec<Split>) -> SplitManifest {
        SplitManifest::new(&self.cohort_blake3, splits)
    }

    /// The people; where there are copies, with a further column that says who stays together.
    pub fn people(&self) -> &Participants {
        &self.people
    }

    /// The family of a person, or the group that copies of scans have joined it to.
    pub fn family(&self, subject: &str) -> Option<&str> {
        self.value(subject, self.family_column.as_deref()?)
    }

    pub fn contents(&self) -> &[IndexEntry] {
        &self.contents
    }

    pub fn copies(&self) -> &[(String, String)] {
        &self.copies
    }

    pub fn cohort_blake3(&self) -> &str {
        &self.cohort_blake3
    }

    fn value(&self, subject: &str, column: &str) -> Option<&str> {
        self.people.get(self.people.row_of(subject)?, column)
    }

    /// Joins families and people with copies of one scan. Without copies the family column is all that is needed.
    pub fn with_contents(mut self, contents: Vec<IndexEntry>) -> Self {
        let copies = copies(&contents);
        if !copies.is_empty() {
            // Everybody starts in a group of the family or alone; each pair of copies joins two groups.
            let own = |subject| {
                let family = self.family(subject);
                family.map_or_else(|| format!("person {subject}"), |family| format!("family {family}"))
            };
            let names: Vec<String> = self.people.subjects().map(own).collect();
            let mut first: HashMap<&str, usize> = HashMap::new();
            // The row that each belongs to, which may belong to another; a group is called after its last one.
            let mut joined: Vec<usize> =
                names.iter().enumerate().map(|(row, name)| *first.entry(name).or_insert(row)).collect();
            for (a, b) in &copies {
                if let (Some(a), Some(b)) = (self.people.row_of(&a.id.subject), self.people.row_of(&b.id.subject)) {
                    let (kept, gone) = (last_row(&mut joined, a), last_row(&mut joined, b));
                    joined[gone] = kept;
                }
            }
            let groups: Vec<&String> = (0..names.len()).map(|row| &names[last_row(&mut joined, row)]).collect();
            let description = Some("Families, and people with copies of one scan".to_owned());
            let note = ColumnNote { description, ..ColumnNote::default() };
            self.people.to_mut().derive(TOGETHER_COLUMN, note, |_, row| Some(groups[row].clone()));
            self.family_column = Some(TOGETHER_COLUMN.to_owned());
        }
        self.copies = copies.iter().map(|(a, b)| (a.id.to_string(), b.id.to_string())).collect();
        self.contents = contents;
        self
    }
}

/// Where following the rows that a row belongs to ends; the way is shortened for the next time.
fn last_row(joined: &mut [usize], mut row: usize) -> usize {
    while joined[row] != row {
        joined[row] = joined[joined[row]];
        row = joined[row];
    }
    row
}

/// The column of families: `family_id`, `Family_ID`, `FamilyID`, `family` or the like, whatever the case and separators.
fn family_column(people: &Participants) -> Option<&str> {
    let plain =
        |name: &str| -> String { name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect() };
    let named = |wanted: &str| people.columns().iter().find(|column| plain(column) == wanted);
    let exact = people.columns().iter().find(|column| *column == "family_id");
    exact.or_else(|| FAMILY_COLUMNS.iter().find_map(|wanted| named(wanted))).map(String::as_str)
}

/// The column of sites of a table, where it has one under a usual name.
pub fn site_column(people: &Participants) -> Option<&'static str> {
    SITE_COLUMNS.into_iter().find(|name| people.columns().iter().any(|column| column == name))
}

/// Every scan of a cohort with the hash of its series, by which a copy is told whatever it is called. All are read, and so
/// verified, also where the index has the hash.
pub fn contents_of(cohort: &Cohort) -> Result<Vec<IndexEntry>, CohortError> {
    let read = |(i, entry): (usize, &IndexEntry)| {
        Ok(IndexEntry { series_blake3: cohort.scan(i)?.series_blake3(), ..entry.clone() })
    };
    cohort.index().par_iter().enumerate().map(read).collect()
}

/// Pairs of scans of different people with the same content, the original first.
fn copies(contents: &[IndexEntry]) -> Vec<(&IndexEntry, &IndexEntry)> {
    let mut first: BTreeMap<&str, &IndexEntry> = BTreeMap::new();
    let mut copies = vec![];
    for content in contents {
        for hash in content.content_hashes() {
            let original = *first.entry(hash).or_insert(content);
            // Both hashes may tell the same.
            if original.id.subject != content.id.subject && copies.last() != Some(&(original, content)) {
                copies.push((original, content));
            }
        }
    }
    copies
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::ScanId;

    fn content(subject: &str, series: &str) -> IndexEntry {
        IndexEntry { id: ScanId::of_subject(subject), series_blake3: series.into(), ..IndexEntry::default() }
    }

    #[test]
    fn copies_join_families() {
        let table = Participants::parse("p", b"id\tFamily-ID\na\t1\nb\t2\nc\t1\nd\tn/a\ne\tn/a\n", &[]).unwrap();
        let contents = [content("a", "x"), content("b", "y"), content("c", "z"), content("d", "y"), content("e", "z")];
        let division = Division::of_people(&table).with_contents(contents.to_vec());
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(division.copies(), [pair("b", "d"), pair("c", "e")]);
        let groups: Vec<&str> = ["a", "b", "c", "d", "e"].iter().map(|s| division.family(s).unwrap()).collect();
        assert_eq!(groups, ["family 1", "family 2", "family 1", "family 2", "family 1"]);
        let apart = Division::of_people(&table).with_contents(contents[..3].to_vec());
        assert_eq!((apart.copies().len(), apart.family("a"), apart.family("d")), (0, Some("1"), None));
    }

    #[test]
    fn every_spelling_of_the_family_column_is_known() {
        for name in ["family_id", "Family_ID", "FamilyID", "family", "FAMILY_ID", "Family ID", "family-id", "FAMILY"] {
            let people = Participants::with_columns(["family_income", "age", name]);
            assert_eq!(family_column(&people), Some(name));
        }
        assert_eq!(family_column(&Participants::with_columns(["family_income", "sub_family"])), None);
        assert_eq!(family_column(&Participants::with_columns(["family", "Family_ID", "family_id"])), Some("family_id"));
    }
}
