//! ABIDE and ADHD-200 as the Preprocessed Connectomes Project gives them: `SITE_00ID_rois_ATLAS.1D`, or Athena's
//! `sfnwmrda00ID_session_1_rest_1_ATLAS_TCs.1D`, and phenotypic tables.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::image_run::Parcellation;
use super::plan::{Reading, SourceFile};
use super::recipe::Recipe;
use super::remarks::Remarks;
use super::repetition::RepetitionTime;
use super::sources::Sources;
use super::table_run::TableCompanions;
use super::{Format, IngestError, IngestOptions, IngestPlan, UNSTEADY_VOLUMES, columns, files, series_folder};
use crate::cohort::Rejection;
use crate::participants::{ColumnNote, Participants};
use crate::problem::Problem;
use crate::region::Region;
use crate::scan::ScanId;

/// Spelling of a missing value in the phenotypic tables.
const MISSING: [&str; 6] = ["-9999", "-9999.0", "-999", "-999.0", "no_filename", "pending"];
/// Names of the phenotypic table.
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
    let regions = regions(source, &scans, &first.atlas, options)?;
    let mut warnings = vec![];
    let own = |path: &Path| {
        let Some(named) = Named::of(path) else { return ScanId::of_subject(files::stem(path)) };
        let row = row_of_file(&people, &named.file_id);
        let subject = row.and_then(|r| people.subjects().nth(r));
        let subject = subject.map_or_else(|| bare_number(&named.file_id), str::to_owned);
        ScanId { subject, session: named.session, task: None, run: named.run }
    };
    let mut planned = vec![];
    for chosen in sources.one_per_scan(&scans, own, &mut warnings) {
        let name = files::relative(source, &chosen.path);
        let file_id = Named::of(&chosen.path).map(|n| n.file_id).unwrap_or_default();
        let row = row_of_file(&people, &file_id);
        let of_name = || file_id.rsplit_once('_').map(|(site, _)| site.to_uppercase());
        let site = row.and_then(|r| people.get(r, "site")).map(str::to_owned).or_else(of_name);
        let tr_seconds = match chosen.problem {
            Some(problem) => Err(Rejection::of(&name, problem)),
            None => repetition_time(&people, row, &chosen.path, &name, options.tr_seconds),
        };
        let reading = Reading::Table(TableCompanions::default());
        planned.push(SourceFile { path: chosen.path, name, id: chosen.id, site, tr_seconds, reading });
    }
    let nobody = planned.iter().filter(|f| people.row_of(&f.id.subject).is_none()).count();
    if nobody > 0 {
        warnings.push(format!("{nobody} of {} scans are of people without a row in a phenotypic table", planned.len()));
    }
    let dropped = if first.athena { 0 } else { UNSTEADY_VOLUMES };
    Ok(IngestPlan {
        format: Format::AbidePcp,
        atlas_name: first.atlas,
        regions,
        files: planned,
        participants: people,
        parcellation: Parcellation::Done,
        recipe: Recipe::of(options.drop_volumes.unwrap_or(dropped), &options.wishes),
        assume_affine: false,
        source_dataset: None,
        tr_seconds: None,
        rejected: vec![],
        warnings,
        remarks: Remarks::default(),
    })
}

/// The phenotypic tables: the one given, one with a usual name, or, as ADHD-200 has one for each site, all there are.
fn people(sources: &Sources, options: &IngestOptions, athena: bool) -> Result<Participants, IngestError> {
    let usual = options.participants.clone().or_else(|| files::beside(&sources.root, &TABLES));
    let mut tables: Vec<PathBuf> = usual.into_iter().collect();
    if tables.is_empty() {
        let is_one = |f: &&PathBuf| {
            files::name(f).to_lowercase().contains("phenotypic") && ["csv", "tsv"].contains(&files::ending(f).as_str())
        };
        tables.extend(sources.files.iter().filter(is_one).cloned());
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

/// From the phenotypic table, a sidecar or `--tr`.
fn repetition_time(
    people: &Participants,
    row: Option<usize>,
    path: &Path,
    name: &str,
    given: Option<f64>,
) -> Result<RepetitionTime, Rejection> {
    let reject = |expected: &str, found: &str| Rejection::of(name, Problem::new("repetition time", expected, found));
    let beside = series_folder::stated_time(path, name, given)?;
    match row.and_then(|r| people.get(r, "TR")) {
        Some(text) => match text.parse::<f64>() {
            Ok(tr) => Ok(RepetitionTime { stated: Some(tr), ..beside }),
            Err(_) if given.is_some() => Ok(beside),
            Err(_) => Err(reject("a number of seconds in the phenotypic table", text)),
        },
        None if beside.stated.is_none() && given.is_none() => {
            Err(reject("TR in the phenotypic table, --tr, or a --manifest", "none of them"))
        }
        None => Ok(beside),
    }
}

/// Adds columns with the names and spellings other datasets use, computed from the coded ones, which stay.
fn add_plain_labels(people: &mut Participants) {
    let note = |description: &str, units: Option<&str>, levels: &[(&str, &str)]| ColumnNote {
        description: Some(description.to_owned()),
        units: units.map(str::to_owned),
        levels: levels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<BTreeMap<_, _>>(),
    };
    let number = |people: &Participants, row: usize, column: &str| people.get(row, column)?.parse::<f64>().ok();
    let code = |people: &Participants, row: usize, column: &str, names: [&str; 2]| {
        let value = number(people, row, column)?;
        [1.0, 2.0].iter().position(|c| *c == value).map(|i| names[i].to_owned())
    };
    let copy =
        |column: &'static str| move |people: &Participants, row: usize| people.get(row, column).map(str::to_owned);
    let has = |people: &Participants, column: &str| people.columns().iter().any(|c| c == column);
    if has(people, "SITE_ID") {
        people.derive("site", note("Acquisition site, from SITE_ID", None, &[]), copy("SITE_ID"));
    }
    if has(people, "AGE_AT_SCAN") {
        people.derive("age", note("Age at the scan, from AGE_AT_SCAN", Some("years"), &[]), copy("AGE_AT_SCAN"));
    }
    if has(people, "SEX") {
        let levels = [("F", "female"), ("M", "male")];
        people.derive("sex", note("Sex, from SEX", None, &levels), |p, r| code(p, r, "SEX", ["M", "F"]));
    }
    if has(people, "DX_GROUP") {
        let levels = [("autism", "autism spectrum disorder"), ("control", "typically developing")];
        people.derive("diagnosis", note("Diagnosis, from DX_GROUP", None, &levels), |p, r| {
            code(p, r, "DX_GROUP", ["autism", "control"])
        });
    }
    // ADHD-200 codes sex and diagnosis from 0.
    if has(people, "Age") {
        people.derive("age", note("Age, from Age", Some("years"), &[]), copy("Age"));
    }
    if has(people, "Gender") {
        let levels = [("F", "female"), ("M", "male")];
        people.derive("sex", note("Sex, from Gender", None, &levels), |p, r| {
            let value = number(p, r, "Gender")?;
            [0.0, 1.0].iter().position(|c| *c == value).map(|i| ["F", "M"][i].to_owned())
        });
    }
    if has(people, "DX") {
        let levels = [("adhd", "attention deficit hyperactivity disorder"), ("control", "typically developing")];
        people.derive("diagnosis", note("Diagnosis, from DX", None, &levels), |p, r| {
            let value = number(p, r, "DX")?;
            (0.0..=3.0).contains(&value).then(|| if value == 0.0 { "control" } else { "adhd" }.to_owned())
        });
    }
    if has(people, "Site") {
        people.derive("site", note("Acquisition site, from Site", None, &[]), copy("Site"));
    }
    if has(people, "func_mean_fd") {
        people.derive(
            "mean_fd",
            note("Mean framewise displacement, from func_mean_fd", Some("mm"), &[]),
            copy("func_mean_fd"),
        );
    }
}
