//! A folder of series files, one a scan, with or without names, tables and sidecars beside them.

use std::path::{Path, PathBuf};

use super::image_run::Parcellation;
use super::plan::{Reading, SourceFile};
use super::recipe::Recipe;
use super::repetition::RepetitionTime;
use super::table_run::TableCompanions;
use super::{Format, IngestError, IngestOptions, IngestPlan, files, read_region_names, read_series};
use crate::cohort::Rejection;
use crate::durable;
use crate::participants::Participants;
use crate::problem::Problem;
use crate::region::{Region, repeated_name};
use crate::scan::ScanId;

/// Endings of series files.
const ENDINGS: [&str; 7] = ["tsv", "csv", "1d", "txt", "npy", "npz", "mat"];
/// Taken where a table has no repetition time anywhere: only the order of frames is known then.
const ASSUMED_TR_SECONDS: f64 = 1.0;
/// Files beside the scans that are tables of something else.
const NOT_SCANS: [&str; 8] =
    ["participants", "phenotypic", "region_names", "labels", "readme", "rejected", "sessions", "dataset_description"];
/// Names under which region names are found without being asked for.
const NAME_FILES: [&str; 4] = ["region_names.txt", "labels.txt", "region_names.tsv", "labels.tsv"];

pub(super) fn is_scan(path: &Path) -> bool {
    let stem = files::stem_of_table(path).to_lowercase();
    let side =
        ["_confounds", "-confounds", "_outliers", "_motion", "_coverage", "-coverage", "_scans", "_events", "_dseg"];
    let side_table = side.iter().any(|s| stem.contains(s));
    let ending = files::ending(path);
    let gzipped = ending == "gz" && [".tsv.gz", ".csv.gz", ".txt.gz"].iter().any(|e| files::name(path).ends_with(e));
    (gzipped || ENDINGS.contains(&ending.as_str())) && !NOT_SCANS.contains(&stem.as_str()) && !side_table
}

pub(super) fn plan(source: &Path, found: &[PathBuf], options: &IngestOptions) -> Result<IngestPlan, IngestError> {
    let given = [options.labels.as_ref(), options.participants.as_ref()];
    let is_given = |f: &Path| given.iter().flatten().any(|g| g.canonicalize().ok() == f.canonicalize().ok());
    let scans: Vec<&PathBuf> = found.iter().filter(|f| is_scan(f) && !is_given(f)).collect();
    let Some(first) = scans.first() else {
        return Err(IngestError::source(
            source,
            "region series (.tsv, .csv, .1D, .txt or .npy), one file a scan",
            "none",
        ));
    };
    let mut warnings = vec![];
    let (atlas_name, regions) = regions(source, &scans, options, &mut warnings)?;
    let mut files_planned: Vec<SourceFile> = vec![];
    for path in &scans {
        let name = path.strip_prefix(source).unwrap_or(path).to_string_lossy().into_owned();
        let tr_seconds = stated_time(path, &name, options.tr_seconds)
            .map(|tr| RepetitionTime { assumed: Some(ASSUMED_TR_SECONDS), ..tr });
        let reading = Reading::Table(TableCompanions::default());
        let id = scan_id(path);
        files_planned.push(SourceFile { path: (*path).clone(), name, id, site: None, tr_seconds, reading });
    }
    let silent = |f: &&SourceFile| f.tr_seconds.as_ref().is_ok_and(|tr| tr.stated.is_none() && tr.given.is_none());
    let without_tr = files_planned.iter().filter(silent).count();
    if without_tr > 0 {
        warnings.push(format!(
            "{without_tr} of {} scans have no repetition time (neither --tr nor RepetitionTime in {}): 1 s is assumed",
            scans.len(),
            first.with_extension("json").display()
        ));
    }
    let participants = people(source, options)?;
    site_from_table(&mut files_planned, &participants);
    let nobody = files_planned.iter().filter(|f| participants.row_of(&f.id.subject).is_none()).count();
    if nobody > 0 && !participants.is_empty() {
        warnings
            .push(format!("{nobody} of {} scans are of people without a row in the participants table", scans.len()));
    }
    Ok(IngestPlan {
        format: Format::Series,
        atlas_name,
        parcellation: Parcellation::Done,
        regions,
        files: files_planned,
        participants,
        recipe: Recipe::of(options.drop_volumes.unwrap_or(0), &options.wishes),
        assume_affine: false,
        source_dataset: None,
        warnings,
    })
}

/// The people's table, given or beside the scans; empty where there is none.
pub(super) fn people(source: &Path, options: &IngestOptions) -> Result<Participants, IngestError> {
    let table =
        options.participants.clone().or_else(|| files::beside(source, &["participants.tsv", "participants.csv"]));
    Ok(table.map(|t| Participants::read(&t, &[])).transpose()?.unwrap_or_default())
}

/// Names from `--labels`, a label file beside the scans, the first scan's header, or, with a warning, numbers.
pub(super) fn regions(
    source: &Path,
    scans: &[&PathBuf],
    options: &IngestOptions,
    warnings: &mut Vec<String>,
) -> Result<(String, Vec<Region>), IngestError> {
    let named = |names: Vec<String>| names.into_iter().map(Region::named).collect();
    if let Some(labels) = options.labels.clone().or_else(|| files::beside(source, &NAME_FILES)) {
        return Ok((files::stem(&labels), named(read_region_names(&labels)?)));
    }
    // The first file that can be read speaks for all; the others are compared with it when they are read.
    let mut first_error = None;
    let Some((path, table)) = scans.iter().find_map(|p| match read_series(p) {
        Ok(table) => Some((p, table)),
        Err(e) => {
            first_error.get_or_insert(e);
            None
        }
    }) else {
        return Err(
            first_error.map_or_else(|| IngestError::source(source, "a readable series", "none"), IngestError::from)
        );
    };
    match table.names {
        Some(names)
            if repeated_name(names.iter().map(String::as_str)).is_none() && !names.iter().any(String::is_empty) =>
        {
            Ok((atlas_entity(path).unwrap_or_else(|| "header".into()), named(names)))
        }
        Some(names) => {
            let twice = repeated_name(names.iter().map(String::as_str)).unwrap_or_default();
            Err(IngestError::source(path, "a header of different region names", format!("{twice:?} twice")))
        }
        None => {
            warnings.push(format!("{} has no header and there is no --labels: regions are numbered", path.display()));
            Ok(("numbered".into(), (1..=table.columns).map(|i| Region::named(format!("region-{i:04}"))).collect()))
        }
    }
}

/// The parcellation as BIDS derivatives name it in the file name.
fn atlas_entity(path: &Path) -> Option<String> {
    let stem = files::stem(path);
    stem.split('_').find_map(|e| e.strip_prefix("atlas-").or_else(|| e.strip_prefix("seg-"))).map(str::to_owned)
}

/// Person, session, task and run from BIDS entities in the file name; else the whole stem is the person.
pub(super) fn scan_id(path: &Path) -> ScanId {
    if let Some(id) = biobank_id(path) {
        return id;
    }
    let stem = files::stem_of_table(path);
    let entity = |key: &str| stem.split('_').find_map(|e| e.strip_prefix(key)).map(str::to_owned);
    match entity("sub-") {
        Some(subject) => ScanId {
            subject: format!("sub-{subject}"),
            session: entity("ses-"),
            task: entity("task-"),
            run: entity("run-"),
        },
        None => ScanId::of_subject(stem),
    }
}

/// UK Biobank names files or folders after person, field, instance and array: `1000011_20227_2_0`.
fn biobank_id(path: &Path) -> Option<ScanId> {
    let stem = files::stem_of_table(path);
    let folder = path.parent().and_then(|p| p.file_name()).map(|n| n.to_string_lossy().into_owned());
    [Some(stem), folder].into_iter().flatten().find_map(|name| {
        let parts: Vec<&str> = name.split('_').collect();
        let [person, field, instance, array] = parts[..] else { return None };
        let digits = |s: &str, n: usize| s.len() == n && s.bytes().all(|b| b.is_ascii_digit());
        let is_one = digits(person, 7) && digits(field, 5) && digits(instance, 1) && digits(array, 1);
        is_one.then(|| ScanId { session: Some(instance.to_owned()), ..ScanId::of_subject(person) })
    })
}

/// What the JSON beside the file and `--tr` say; both, but different, is a rejection.
pub(super) fn stated_time(path: &Path, name: &str, given: Option<f64>) -> Result<RepetitionTime, Rejection> {
    let sidecar = path.with_file_name(files::stem_of_table(path) + ".json");
    let reject = |expected: &str, found: String| Rejection::of(name, Problem::new("repetition time", expected, found));
    let json = durable::read(&sidecar).ok().and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok());
    let stated = json.as_ref().and_then(|json| json.get("RepetitionTime"));
    let stated = match stated.map(|v| v.as_f64().filter(|tr| tr.is_finite() && *tr > 0.0).ok_or(v)) {
        Some(Err(value)) => {
            return Err(reject("a positive number of seconds in the sidecar", value.to_string()));
        }
        Some(Ok(tr)) => Some(tr),
        None => None,
    };
    if let (Some(tr), Some(given)) = (stated, given)
        && (tr - given).abs() > 1e-6 * given
    {
        return Err(reject(&format!("{given} s as given by --tr"), format!("{tr} s in {}", sidecar.display())));
    }
    Ok(RepetitionTime { stated, given, assumed: None })
}

/// Sites from the participants table, where it has them.
pub(super) fn site_from_table(planned: &mut [SourceFile], participants: &Participants) {
    let column = participants
        .columns()
        .iter()
        .find(|c| ["site", "site_id", "scanner"].contains(&c.to_lowercase().as_str()))
        .cloned();
    for (file, column) in planned.iter_mut().zip(std::iter::repeat(column)) {
        let row = participants.row_of(&file.id.subject);
        file.site = column.and_then(|c| row.and_then(|r| participants.get(r, &c)).map(str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_from_file_names() {
        let id = |name: &str| scan_id(Path::new(name)).to_string();
        assert_eq!(id("100307.tsv"), "100307");
        assert_eq!(id("x/sub-01_ses-a_task-rest_run-2_atlas-4S456_timeseries.tsv"), "sub-01_ses-a_task-rest_run-2");
    }

    #[test]
    fn side_tables_are_no_scans() {
        assert!(is_scan(Path::new("100307.tsv")));
        for name in
            ["participants.tsv", "region_names.txt", "README.txt", "sub-01_desc-confounds_timeseries.tsv", "a.json"]
        {
            assert!(!is_scan(Path::new(name)), "{name}");
        }
    }
}
