//! A folder of series files, one a scan, with or without names, tables and sidecars beside them.

use std::path::{Path, PathBuf};

use super::sources::Sources;
use super::{IngestError, IngestOptions, IngestPlan, columns, files, identity, read_region_names};
use crate::bids::Kind;
use crate::participants::Participants;
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
    let scans = sources.scans_but(is_scan, &[&options.labels, &options.participants, &options.manifest]);
    if scans.is_empty() {
        let expected = "region series (.tsv, .csv, .1D, .txt, .npy, .npz, .mat or .h5), one file a scan";
        return Err(IngestError::source(source, expected, "none"));
    }
    let mut plan = IngestPlan::new(people(source, options)?, 0, options);
    (plan.atlas_name, plan.regions) = regions(source, &scans, options.labels.as_deref(), &mut plan.warnings)?;
    plan.files = sources.planned(&scans, Kind::Tables, identity::of_table, options, &mut plan.warnings);
    for tr in plan.files.iter_mut().filter_map(|file| file.tr_seconds.as_mut().ok()) {
        tr.assumed = Some(ASSUMED_TR_SECONDS);
    }
    Ok(plan)
}

/// The people's table, given or beside the scans; empty where there is none.
pub(super) fn people(source: &Path, options: &IngestOptions) -> Result<Participants, IngestError> {
    let beside = || files::beside(source, &["participants.tsv", "participants.csv"]);
    let table = options.participants.clone().or_else(beside);
    Ok(table.map(|t| Participants::read(&t, &[])).transpose()?.unwrap_or_default())
}

/// Names from `--labels`, a label file beside the scans, the header most scans have, or, with a warning, numbers.
pub(super) fn regions(
    source: &Path,
    scans: &[&PathBuf],
    labels: Option<&Path>,
    warnings: &mut Vec<String>,
) -> Result<(String, Vec<Region>), IngestError> {
    let named = |names: Vec<String>| names.into_iter().map(Region::named).collect();
    if let Some(labels) = labels.map(Path::to_path_buf).or_else(|| files::beside(source, &NAME_FILES)) {
        return Ok((files::stem(&labels), named(read_region_names(&labels)?)));
    }
    let (path, table) = columns::most_common_table(source, scans)?;
    let Some(names) = table.names else {
        warnings.push(format!("{} has no header and there is no --labels: regions are numbered", path.display()));
        return Ok(("numbered".into(), named((1..=table.columns).map(|i| format!("region-{i:04}")).collect())));
    };
    let numbered = names.iter().all(|n| n.parse::<u64>().is_ok());
    let atlas = match atlas_entity(&path) {
        Some(atlas) if numbered => {
            let file = files::name(&path);
            warnings
                .push(format!("the columns of {file} are only numbered: regions are {atlas}-N; --labels names them"));
            // Numbers alone would be those of any atlas.
            let names = names.iter().map(|n| format!("{atlas}-{n}")).collect();
            return Ok((atlas, named(names)));
        }
        atlas => atlas.unwrap_or_else(|| "header".into()),
    };
    let empty = names.iter().find(|n| n.is_empty()).map(String::as_str);
    if let Some(twice) = repeated_name(names.iter().map(String::as_str)).or(empty) {
        return Err(IngestError::source(&path, "a header of different region names", format!("{twice:?} twice")));
    }
    Ok((atlas, named(names)))
}

/// The parcellation as BIDS derivatives name it in the file name.
fn atlas_entity(path: &Path) -> Option<String> {
    let stem = files::stem(path);
    stem.split('_').find_map(|e| e.strip_prefix("atlas-").or_else(|| e.strip_prefix("seg-"))).map(str::to_owned)
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
