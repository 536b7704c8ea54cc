//! ABIDE and ADHD-200 as the Preprocessed Connectomes Project gives them: `SITE_00ID_rois_ATLAS.1D`, or Athena's
//! `sfnwmrda00ID_session_1_rest_1_ATLAS_TCs.1D`, and phenotypic tables.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::repetition::RepetitionTime;
use super::sources::Sources;
use super::{IngestError, IngestOptions, IngestPlan, UNSTEADY_VOLUMES, columns, files};
use crate::bids::Kind;
use crate::cohort::Rejection;
use crate::participants::{ColumnNote, Participants};
use crate::problem::Problem;
use crate::region::Region;
use crate::scan::ScanId;

const MISSING: [&str; 6] = ["-9999", "-9999.0", "-999", "-999.0", "no_filename", "pending"];
const TABLES: [&str; 5] = [
    "phenotypic.tsv",
    "phenotypic.csv",
    "Phenotypic_V1_0b_preprocessed1.csv",
    "Phenotypic_V1_0b_preprocessed.csv",
    "participants.tsv",
];

pub(super) fn is_scan(path: &Path) -> bool {
    files::ending(path) == "1d" && Named::of(path).is_some()
}

struct Named {
    /// As `FILE_ID` of the phenotypic table spells it: `Pitt_0050003`.
    file_id: String,
    session: Option<String>,
    run: Option<String>,
    atlas: String,
    /// Whether it is of Athena's pipeline, which has dropped the first volumes.
    athena: bool,
}

impl Named {
    fn of(path: &Path) -> Option<Self> {
        let stem = files::stem(path);
        if let Some((id, atlas)) = stem.split_once("_rois_") {
            let (file_id, atlas) = (id.to_owned(), atlas.to_owned());
            return Some(Self { file_id, session: None, run: None, atlas, athena: false });
        }
        let words: Vec<&str> = stem.strip_suffix("_TCs")?.split('_').collect();
        let [scan, "session", session, "rest", run, atlas @ ..] = words.as_slice() else { return None };
        let digits = scan.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) && !atlas.is_empty();
        whole.then(|| Self {
            file_id: digits.to_owned(),
            session: Some((*session).to_owned()),
            run: Some((*run).to_owned()),
            atlas: atlas.join("_"),
            athena: true,
        })
    }
}

pub(super) fn plan(sources: &Sources, options: &IngestOptions) -> Result<IngestPlan, IngestError> {
    let source = &sources.root;
    let scans = sources.scans(is_scan);
    let Some(first) = scans.first().and_then(|f| Named::of(f)) else {
        let expected = "files named SITE_00ID_rois_ATLAS.1D or *_session_N_rest_N_ATLAS_TCs.1D";
        return Err(IngestError::source(source, expected, "none"));
    };
    let atlases: BTreeSet<String> = scans.iter().filter_map(|f| Some(Named::of(f)?.atlas)).collect();
    if atlases.len() > 1 {
        let found = atlases.into_iter().collect::<Vec<_>>().join(", ");
        return Err(IngestError::source(source, "one atlas in a cohort, or --pattern to choose", found));
    }
    let mut people = people(sources, options, first.athena)?;
    add_plain_labels(&mut people);
    let usual_drop = if first.athena { 0 } else { UNSTEADY_VOLUMES };
    let mut plan = IngestPlan::new(Participants::default(), usual_drop, options);
    plan.regions = regions(source, &scans, &first.atlas, options)?;
    plan.atlas_name = first.atlas;
    let own = |path: &Path| {
        let Some(named) = Named::of(path) else { return ScanId::of_subject(files::stem(path)) };
        let subject = row_of_file(&people, &named.file_id).and_then(|r| people.subjects().nth(r));
        let subject = subject.map_or_else(|| bare_number(&named.file_id), str::to_owned);
        ScanId { subject, session: named.session, task: None, run: named.run }
    };
    plan.files = sources.planned(&scans, Kind::Tables, own, options, &mut plan.warnings);
    for file in &mut plan.files {
        let file_id = Named::of(&file.path).map(|n| n.file_id).unwrap_or_default();
        let row = row_of_file(&people, &file_id);
        let of_name = || file_id.rsplit_once('_').map(|(site, _)| site.to_uppercase());
        file.site = row.and_then(|r| people.get(r, "site")).map(str::to_owned).or_else(of_name);
        let stated = row.and_then(|r| people.get(r, "TR"));
        let time = |beside| repetition_time(stated, beside).map_err(|problem| Rejection::of(&file.name, problem));
        file.tr_seconds = file.tr_seconds.clone().and_then(time);
    }
    let nobody = plan.files.iter().filter(|f| people.row_of(&f.id.subject).is_none()).count();
    if nobody > 0 {
        let all = plan.files.len();
        plan.warnings.push(format!("{nobody} of {all} scans are of people without a row in a phenotypic table"));
    }
    plan.participants = people;
    Ok(plan)
}

/// The phenotypic tables: the one given, one with a usual name, or, as ADHD-200 has one for each site, all there are.
fn people(sources: &Sources, options: &IngestOptions, athena: bool) -> Result<Participants, IngestError> {
    let usual = options.participants.clone().or_else(|| files::beside(&sources.root, &TABLES));
    let mut tables: Vec<PathBuf> = usual.into_iter().collect();
    if tables.is_empty() {
        let is_one = |f: &&PathBuf| {
            files::name(f).to_lowercase().contains("phenotypic") && ["csv", "tsv"].contains(&files::ending(f).as_str())
        };
        tables.extend(sources.found.files.iter().filter(is_one).cloned());
    }
    if tables.is_empty() && !athena {
        let expected = format!("the phenotypic table ({}), or --participants", TABLES[0]);
        return Err(IngestError::source(&sources.root, expected, "none"));
    }
    let mut people = Participants::default();
    for table in &tables {
        people = people.merged_with(&Participants::read(table, &MISSING)?);
    }
    Ok(people)
}

/// Names from the header most files have, prefixed by the atlas, since the header has bare numbers.
fn regions(
    source: &Path,
    scans: &[&PathBuf],
    atlas: &str,
    options: &IngestOptions,
) -> Result<Vec<Region>, IngestError> {
    if let Some(labels) = &options.labels {
        return Ok(super::read_region_names(labels)?.into_iter().map(Region::named).collect());
    }
    let (path, table) = columns::most_common_table(source, scans)?;
    let names = table.names.ok_or_else(|| IngestError::source(&path, "a header line of region labels", "numbers"))?;
    if let Some(twice) = crate::region::repeated_name(names.iter().map(String::as_str)) {
        return Err(IngestError::source(source, "different region labels", format!("{twice:?} twice")));
    }
    Ok(names.into_iter().map(|n| Region::named(format!("{atlas}-{n}"))).collect())
}

/// The table's row of a file: by `FILE_ID`, else by the person's number at the end of the name.
fn row_of_file(people: &Participants, file_id: &str) -> Option<usize> {
    let by_file = (0..people.len()).find(|r| people.get(*r, "FILE_ID") == Some(file_id));
    by_file.or_else(|| people.row_of(&bare_number(file_id))).or_else(|| people.row_of(file_id))
}

/// `Pitt_0050003` to `50003`, as `SUB_ID` spells it.
fn bare_number(file_id: &str) -> String {
    let digits = file_id.rsplit('_').next().unwrap_or(file_id);
    digits.parse::<u64>().map_or_else(|_| file_id.to_owned(), |n| n.to_string())
}

/// From the phenotypic table, else what sidecar and `--tr` say.
fn repetition_time(stated: Option<&str>, beside: RepetitionTime) -> Result<RepetitionTime, Problem> {
    let problem = |expected: &str, found: &str| Err(Problem::new("repetition time", expected, found));
    match stated.map(|text| (text, text.parse::<f64>())) {
        Some((_, Ok(tr))) => Ok(RepetitionTime { stated: Some(tr), ..beside }),
        Some((text, Err(_))) if beside.given.is_none() => problem("a number of seconds in the phenotypic table", text),
        None if beside.stated.is_none() && beside.given.is_none() => {
            problem("TR in the phenotypic table, --tr, or a --manifest", "none of them")
        }
        _ => Ok(beside),
    }
}

/// Adds columns with the names and spellings other datasets use, computed from the coded ones, which stay.
fn add_plain_labels(people: &mut Participants) {
    type Value = fn(&str) -> Option<String>;
    /// Column, the one it is from, what it is, units, levels, and value.
    type Column<'a> = (&'a str, &'a str, &'a str, Option<&'a str>, &'a [(&'a str, &'a str)], Value);
    let copied: Value = |text| Some(text.to_owned());
    let adhd: Value = |text| {
        let value = text.parse::<f64>().ok().filter(|x| (0.0..=3.0).contains(x))?;
        Some(if value == 0.0 { "control" } else { "adhd" }.to_owned())
    };
    let (years, sexes) = (Some("years"), &[("F", "female"), ("M", "male")][..]);
    let control = ("control", "typically developing");
    let autism = [("autism", "autism spectrum disorder"), control];
    let attention = [("adhd", "attention deficit hyperactivity disorder"), control];
    // ADHD-200 codes sex and diagnosis from 0.
    let columns: [Column<'_>; 9] = [
        ("site", "SITE_ID", "Acquisition site", None, &[], copied),
        ("age", "AGE_AT_SCAN", "Age at the scan", years, &[], copied),
        ("sex", "SEX", "Sex", None, sexes, |text| of_code(text, 1.0, ["M", "F"])),
        ("diagnosis", "DX_GROUP", "Diagnosis", None, &autism, |text| of_code(text, 1.0, ["autism", "control"])),
        ("age", "Age", "Age", years, &[], copied),
        ("sex", "Gender", "Sex", None, sexes, |text| of_code(text, 0.0, ["F", "M"])),
        ("diagnosis", "DX", "Diagnosis", None, &attention, adhd),
        ("site", "Site", "Acquisition site", None, &[], copied),
        ("mean_fd", "func_mean_fd", "Mean framewise displacement", Some("mm"), &[], copied),
    ];
    for (column, from, what, units, levels, value) in columns {
        if people.columns().iter().any(|c| c == from) {
            let note = ColumnNote {
                description: Some(format!("{what}, from {from}")),
                units: units.map(str::to_owned),
                levels: levels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            };
            people.derive(column, note, |people, row| value(people.get(row, from)?));
        }
    }
}

/// The name of a code that counts from `first`.
fn of_code(text: &str, first: f64, names: [&str; 2]) -> Option<String> {
    let code = text.parse::<f64>().ok()?;
    [first, first + 1.0].iter().position(|c| *c == code).map(|i| names[i].to_owned())
}
