//! ABIDE and ADHD-200 as the Preprocessed Connectomes Project gives them: `SITE_00ID_rois_ATLAS.1D` and a phenotypic table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::image_run::Parcellation;
use super::plan::{Reading, SourceFile};
use super::recipe::Recipe;
use super::repetition::RepetitionTime;
use super::table_run::TableCompanions;
use super::{Format, IngestError, IngestOptions, IngestPlan, UNSTEADY_VOLUMES, files, read_series};
use crate::cohort::Rejection;
use crate::participants::{ColumnNote, Participants};
use crate::problem::Problem;
use crate::region::Region;
use crate::scan::ScanId;

/// Spelling of a missing value in the phenotypic tables.
const MISSING: [&str; 3] = ["-9999", "-9999.0", "no_filename"];
/// Names of the phenotypic table.
const TABLES: [&str; 5] = [
    "phenotypic.tsv",
    "phenotypic.csv",
    "Phenotypic_V1_0b_preprocessed1.csv",
    "Phenotypic_V1_0b_preprocessed.csv",
    "participants.tsv",
];

pub(super) fn is_scan(path: &Path) -> bool {
    files::ending(path) == "1d" && files::stem(path).contains("_rois_")
}

/// `Pitt_0050003_rois_cc200` gives the file identifier `Pitt_0050003` and the atlas `cc200`.
fn name_parts(path: &Path) -> Option<(String, String)> {
    files::stem(path).split_once("_rois_").map(|(id, atlas)| (id.to_owned(), atlas.to_owned()))
}

pub(super) fn plan(source: &Path, found: &[PathBuf], options: &IngestOptions) -> Result<IngestPlan, IngestError> {
    let scans: Vec<&PathBuf> = found.iter().filter(|f| is_scan(f)).collect();
    let Some((first, (_, atlas_name))) = scans.first().and_then(|f| Some((*f, name_parts(f)?))) else {
        return Err(IngestError::source(source, "files named SITE_00ID_rois_ATLAS.1D", "none"));
    };
    if let Some(other) = scans.iter().find(|f| name_parts(f).is_none_or(|(_, atlas)| atlas != atlas_name)) {
        return Err(IngestError::source(other, format!("one atlas in a cohort, {atlas_name}"), "another"));
    }
    let table = options.participants.clone().or_else(|| files::beside(source, &TABLES));
    let table = table.ok_or_else(|| {
        IngestError::source(source, format!("the phenotypic table ({}), or --participants", TABLES[0]), "none")
    })?;
    let mut people = Participants::read(&table, &MISSING)?;
    add_plain_labels(&mut people);
    let regions = regions(source, first, &atlas_name, options)?;
    let mut planned = vec![];
    for path in &scans {
        let name = path.strip_prefix(source).unwrap_or(path).to_string_lossy().into_owned();
        let (file_id, _) = name_parts(path).expect("checked above");
        let row = row_of_file(&people, &file_id);
        let subject = row.and_then(|r| people.subjects().nth(r)).map_or_else(|| bare_number(&file_id), str::to_owned);
        let site = row
            .and_then(|r| people.get(r, "site"))
            .map(str::to_owned)
            .or_else(|| file_id.rsplit_once('_').map(|(s, _)| s.to_uppercase()));
        let tr_seconds = repetition_time(&people, row, &name, options.tr_seconds);
        planned.push(SourceFile {
            path: (*path).clone(),
            name,
            id: ScanId::of_subject(subject),
            site,
            tr_seconds: tr_seconds.map(RepetitionTime::of),
            reading: Reading::Table(TableCompanions::default()),
        });
    }
    let mut warnings = vec![];
    let nobody = planned.iter().filter(|f| people.row_of(&f.id.subject).is_none()).count();
    if nobody > 0 {
        warnings.push(format!(
            "{nobody} of {} scans are of people without a row in {}",
            planned.len(),
            table.display()
        ));
    }
    let recipe = Recipe::of(options.drop_volumes.unwrap_or(UNSTEADY_VOLUMES), &options.wishes);
    Ok(IngestPlan {
        format: Format::AbidePcp,
        atlas_name,
        regions,
        files: planned,
        participants: people,
        parcellation: Parcellation::Done,
        recipe,
        assume_affine: false,
        source_dataset: None,
        warnings,
    })
}

/// Names from the first file's header, prefixed by the atlas, since the header has bare numbers.
fn regions(source: &Path, first: &Path, atlas: &str, options: &IngestOptions) -> Result<Vec<Region>, IngestError> {
    if let Some(labels) = &options.labels {
        return Ok(super::read_region_names(labels)?.into_iter().map(Region::named).collect());
    }
    let names = read_series(first)?.names;
    let names = names.ok_or_else(|| IngestError::source(first, "a header line of region labels", "numbers"))?;
    if let Some(twice) = crate::region::repeated_name(names.iter().map(String::as_str)) {
        return Err(IngestError::source(source, "different region labels", format!("{twice:?} twice")));
    }
    Ok(names.into_iter().map(|n| Region::named(format!("{atlas}-{n}"))).collect())
}

/// The table's row of a file: by `FILE_ID`, else by the person's number at the end of the name.
fn row_of_file(people: &Participants, file_id: &str) -> Option<usize> {
    let by_file = (0..people.len()).find(|r| people.get(*r, "FILE_ID") == Some(file_id));
    by_file.or_else(|| people.row_of(&bare_number(file_id)))
}

/// `Pitt_0050003` to `50003`, as `SUB_ID` spells it.
fn bare_number(file_id: &str) -> String {
    let digits = file_id.rsplit('_').next().unwrap_or(file_id);
    digits.parse::<u64>().map_or_else(|_| file_id.to_owned(), |n| n.to_string())
}

fn repetition_time(
    people: &Participants,
    row: Option<usize>,
    name: &str,
    given: Option<f64>,
) -> Result<f64, Rejection> {
    let reject = |expected: &str, found: &str| Rejection::of(name, Problem::new("repetition time", expected, found));
    let stated = row.and_then(|r| people.get(r, "TR"));
    let Some(stated) = stated else {
        return given.ok_or_else(|| reject("TR in the phenotypic table, or --tr", "neither"));
    };
    match (stated.parse::<f64>().ok().filter(|tr| tr.is_finite() && *tr > 0.0), given) {
        (None, _) => Err(reject("a positive number of seconds", stated)),
        (Some(tr), Some(given)) if (tr - given).abs() > 1e-6 * given => {
            Err(reject(&format!("{given} s as given by --tr"), &format!("{tr} s in the phenotypic table")))
        }
        (Some(tr), _) => Ok(tr),
    }
}

/// Adds columns with the names and spellings other datasets use, computed from the coded ones, which stay.
fn add_plain_labels(people: &mut Participants) {
    let note = |description: &str, units: Option<&str>, levels: &[(&str, &str)]| ColumnNote {
        description: Some(description.to_owned()),
        units: units.map(str::to_owned),
        levels: levels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<BTreeMap<_, _>>(),
    };
    let code = |people: &Participants, row: usize, column: &str, names: [&str; 2]| {
        let value: f64 = people.get(row, column)?.parse().ok()?;
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
    if has(people, "func_mean_fd") {
        people.derive(
            "mean_fd",
            note("Mean framewise displacement, from func_mean_fd", Some("mm"), &[]),
            copy("func_mean_fd"),
        );
    }
}
