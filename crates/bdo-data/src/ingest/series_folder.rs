//! A folder of series files, one a scan, with or without names, tables and sidecars beside them.

use std::path::{Path, PathBuf};

use super::plan::Reading;
use super::recipe::Recipe;
use super::repetition::RepetitionTime;
use super::sources::Sources;
use super::{IngestError, IngestOptions, IngestPlan, columns, files, identity, read_region_names};
use crate::bids;
use crate::cohort::Rejection;
use crate::durable;
use crate::participants::Participants;
use crate::problem::Problem;
use crate::region::{Region, repeated_name};

const ENDINGS: [&str; 9] = ["tsv", "csv", "1d", "txt", "npy", "npz", "mat", "h5", "hdf5"];
/// Taken where a table has no repetition time anywhere: only the order of frames is known then.
const ASSUMED_TR_SECONDS: f64 = 1.0;
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
    let name = files::name(path).to_lowercase();
    let gzipped = ending == "gz" && [".tsv.gz", ".csv.gz", ".txt.gz", ".1d.gz"].iter().any(|e| name.ends_with(e));
    (gzipped || ENDINGS.contains(&ending.as_str())) && !NOT_SCANS.contains(&stem.as_str()) && !side_table
}

pub(super) fn plan(sources: &Sources, options: &IngestOptions) -> Result<IngestPlan, IngestError> {
    let source = &sources.root;
    let given = [options.labels.as_ref(), options.participants.as_ref(), options.manifest.as_ref()];
    let scans = sources.scans_but(is_scan, given);
    if scans.is_empty() {
        let expected = "region series (.tsv, .csv, .1D, .txt, .npy, .npz, .mat or .h5), one file a scan";
        return Err(IngestError::source(source, expected, "none"));
    }
    let mut plan = IngestPlan {
        recipe: Recipe::of(options.drop_volumes.unwrap_or(0), &options.wishes),
        participants: people(source, options)?,
        ..IngestPlan::default()
    };
    (plan.atlas_name, plan.regions) = regions(source, &scans, options, &mut plan.warnings)?;
    plan.files = sources.planned(&scans, Reading::Table, identity::of_table, options, &mut plan.warnings);
    for tr in plan.files.iter_mut().filter_map(|file| file.tr_seconds.as_mut().ok()) {
        tr.assumed = Some(ASSUMED_TR_SECONDS);
    }
    Ok(plan)
}

/// The people's table, given or beside the scans; empty where there is none.
pub(super) fn people(source: &Path, options: &IngestOptions) -> Result<Participants, IngestError> {
    let table =
        options.participants.clone().or_else(|| files::beside(source, &["participants.tsv", "participants.csv"]));
    Ok(table.map(|t| Participants::read(&t, &[])).transpose()?.unwrap_or_default())
}

/// Names from `--labels`, a label file beside the scans, the header most scans have, or, with a warning, numbers.
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
    let (path, table) = columns::most_common_table(source, scans)?;
    let atlas = atlas_entity(&path);
    match table.names {
        Some(names) if names.iter().all(|n| n.parse::<u64>().is_ok()) && atlas.is_some() => {
            let atlas = atlas.unwrap_or_default();
            warnings.push(format!(
                "the columns of {} are only numbered: regions are {atlas}-N; --labels names them",
                files::name(&path)
            ));
            // Numbers alone would be those of any atlas.
            Ok((atlas.clone(), names.iter().map(|n| Region::named(format!("{atlas}-{n}"))).collect()))
        }
        Some(names)
            if repeated_name(names.iter().map(String::as_str)).is_none() && !names.iter().any(String::is_empty) =>
        {
            Ok((atlas.unwrap_or_else(|| "header".into()), named(names)))
        }
        Some(names) => {
            let twice = repeated_name(names.iter().map(String::as_str)).unwrap_or_default();
            Err(IngestError::source(&path, "a header of different region names", format!("{twice:?} twice")))
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

/// What the JSON beside the file and `--tr` say.
pub(super) fn stated_time(path: &Path, name: &str, given: Option<f64>) -> Result<RepetitionTime, Rejection> {
    let sidecar = path.with_file_name(files::stem_of_table(path) + ".json");
    let reject = |expected: &str, found: String| Rejection::of(name, Problem::new("repetition time", expected, found));
    let json = match durable::read(&sidecar) {
        Ok(bytes) => bids::parse_sidecar(&bytes)
            .map(Some)
            .or_else(|e| if given.is_some() { Ok(None) } else { Err(reject("a sidecar of JSON", e.to_string())) })?,
        Err(e) if e.system.kind() == std::io::ErrorKind::NotFound => None,
        Err(e) => return Err(reject("a sidecar that can be read", e.to_string())),
    };
    let value = |key: &str| json.as_ref()?.get(key);
    let frequency = value("SamplingFrequency").and_then(as_number).map(|hz| 1.0 / hz);
    let stated = match value("RepetitionTime") {
        // What is given has the last word, whatever the sidecar holds.
        Some(value) => as_number(value)
            .map(Some)
            .or_else(|| given.map(|_| None))
            .ok_or_else(|| reject("a number of seconds in the sidecar", value.to_string()))?,
        None => frequency,
    };
    Ok(RepetitionTime { stated, given, assumed: None })
}

pub(super) fn as_number(value: &serde_json::Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn side_tables_are_no_scans() {
        for name in ["100307.tsv", "100307.1D.gz", "100307.CSV"] {
            assert!(is_scan(Path::new(name)), "{name}");
        }
        for name in
            ["participants.tsv", "region_names.txt", "README.txt", "sub-01_desc-confounds_timeseries.tsv", "a.json"]
        {
            assert!(!is_scan(Path::new(name)), "{name}");
        }
    }
}
