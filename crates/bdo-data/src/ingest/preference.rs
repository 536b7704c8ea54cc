//! One file for every scan, where a source has several: by a stated order of preference, and said.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{files, identity};
use crate::problem::Problem;
use crate::scan::ScanId;

/// Images in the folders of FEAT and MELODIC that are series, the preferred one first.
const FEAT_SERIES: [&str; 4] =
    ["filtered_func_data_clean_stand", "denoised_func_data_nonaggr", "filtered_func_data_clean", "filtered_func_data"];

/// A file and the scan it is of.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    pub(super) path: PathBuf,
    pub(super) id: ScanId,
    /// Why none of several could be taken.
    pub(super) problem: Option<Problem>,
}

/// Whether a file in a folder of the Connectome Project or of FEAT is one of its series; true for files elsewhere.
pub(super) fn is_series(path: &Path) -> bool {
    let stem = files::stem_of_image(path);
    if identity::feat_folder(path).is_some() {
        return FEAT_SERIES.contains(&stem.as_str());
    }
    match identity::of_connectome_project(path) {
        // Runs lie in folders of their own; what is further inside belongs to the pipelines.
        Some(_) if identity::is_inside_run(path) => false,
        Some((_, folder)) => connectome_rank(&stem, &folder).is_some(),
        None => true,
    }
}

/// How far the cleaning of a series has gone, the furthest first; `None` for files that are no series of the run.
fn connectome_rank(stem: &str, folder: &str) -> Option<(u8, u8)> {
    let rest = stem.strip_prefix(folder)?;
    if ["_SBRef", "_vn", "_mean", "_demean", "_bias", "_stats", "_Jacobian"].iter().any(|n| rest.contains(n)) {
        return None;
    }
    let words: Vec<&str> = rest.split('_').filter(|w| !w.is_empty()).collect();
    let known =
        |w: &&str| ["Atlas", "clean", "rclean", "tclean"].contains(w) || w.starts_with("hp") || w.starts_with("MSM");
    if !words.iter().all(known) {
        return None;
    }
    let has = |word: &str| words.contains(&word);
    let cleaned = match (has("tclean"), has("rclean"), has("clean")) {
        (true, ..) => 0,
        (_, true, _) => 1,
        (_, _, true) => 2,
        _ => 3,
    };
    let registered = if has("MSMAll") { 0 } else { u8::from(!words.iter().any(|w| w.starts_with("MSM"))) + 1 };
    Some((cleaned, registered))
}

fn rank(path: &Path) -> (u8, u8) {
    let stem = files::stem_of_image(path);
    if identity::feat_folder(path).is_some() {
        let place = FEAT_SERIES.iter().position(|s| *s == stem).unwrap_or(FEAT_SERIES.len());
        return (place as u8, 0);
    }
    if let Some((_, folder)) = identity::of_connectome_project(path) {
        return connectome_rank(&stem, &folder).unwrap_or((9, 0));
    }
    // Athena's ADHD-200: without its band-pass first, since nothing is filtered here unless asked for.
    if let Some(place) = ["snwmrda", "sfnwmrda"].iter().position(|p| stem.starts_with(p)) {
        return (place as u8, 0);
    }
    (u8::from(!stem.contains("timeseries")), 0)
}

/// One file for each scan. Names that several folders share are told apart by the folders.
pub(super) fn one_per_scan(
    source: &Path,
    paths: &[&PathBuf],
    own: impl Fn(&Path) -> ScanId,
    notes: &mut Vec<String>,
) -> Vec<Chosen> {
    let mut stems: BTreeMap<String, BTreeSet<&Path>> = BTreeMap::new();
    for path in paths {
        stems.entry(files::name(path)).or_default().extend(path.parent());
    }
    let shared = |path: &Path| stems.get(&files::name(path)).is_some_and(|folders| folders.len() > 1);
    let id = |path: &Path| {
        let own = own(path);
        let by_whole_name = own == ScanId::of_subject(files::stem_of_table(path));
        let in_feat = identity::feat_folder(path).is_some() && identity::of_biobank(path).is_none();
        if in_feat || (by_whole_name && shared(path)) { identity::of_folders(source, path) } else { own }
    };
    let mut of_scan: BTreeMap<ScanId, Vec<&PathBuf>> = BTreeMap::new();
    for path in paths {
        of_scan.entry(id(path)).or_default().push(path);
    }
    leave_out_concatenations(&mut of_scan, notes);
    let mut passed_over = vec![];
    let mut choose = |(id, files): (ScanId, Vec<&PathBuf>)| {
        let best = files.iter().map(|f| rank(f)).min().unwrap_or((0, 0));
        let (left, others): (Vec<&PathBuf>, Vec<&PathBuf>) = files.iter().copied().partition(|f| rank(f) == best);
        let problem = (left.len() > 1).then(|| {
            let found = left.iter().take(3).map(|f| files::relative(source, f)).collect::<Vec<_>>().join(" and ");
            Problem::new("duplicate scan", "one file a scan, or --pattern to choose", format!("{found}, all {id}"))
        });
        passed_over.extend(others.iter().map(|other| (variant(left[0]), variant(other))));
        Chosen { path: left[0].clone(), id, problem }
    };
    let chosen = of_scan.into_iter().map(&mut choose).collect();
    notes.extend(said_once(passed_over, "--pattern"));
    chosen
}

/// The versions of scans that were taken and passed over, each said once.
pub(super) fn said_once(versions: Vec<(String, String)>, flag: &str) -> impl Iterator<Item = String> {
    let mut scans: BTreeMap<(String, String), usize> = BTreeMap::new();
    versions.into_iter().for_each(|version| *scans.entry(version).or_default() += 1);
    scans.into_iter().map(move |((taken, other), n)| {
        format!("{n} scans are there in several versions: {taken} is taken, not {other}; {flag} chooses another")
    })
}

/// What tells the versions of a scan apart: the name without what names the scan.
fn variant(path: &Path) -> String {
    let name = files::name(path);
    // Athena writes the person right after what was done to the series.
    if let Some(done) = ["snwmrda", "sfnwmrda"].iter().find(|p| name.starts_with(**p)) {
        return format!("{done}*");
    }
    let folder = identity::of_connectome_project(path).map(|(_, folder)| folder);
    folder.and_then(|f| name.strip_prefix(&f).map(|rest| format!("*{rest}"))).unwrap_or(name)
}

/// Runs of the Connectome Project joined into one (`rfMRI_REST` beside `rfMRI_REST1_AP`) would be there twice.
fn leave_out_concatenations(of_scan: &mut BTreeMap<ScanId, Vec<&PathBuf>>, notes: &mut Vec<String>) {
    let folder = |files: &Vec<&PathBuf>| identity::of_connectome_project(files[0]).map(|(_, folder)| folder);
    let runs: BTreeSet<(String, String)> =
        of_scan.iter().filter_map(|(id, files)| Some((id.subject.clone(), folder(files)?))).collect();
    let before = of_scan.len();
    of_scan.retain(|id, files| {
        let Some(own) = folder(files) else { return true };
        let longer = |(person, other): &(String, String)| {
            *person == id.subject && other.len() > own.len() && (other.starts_with(&own) || own.contains("CONCAT"))
        };
        !runs.iter().any(longer)
    });
    let left_out = before - of_scan.len();
    if left_out > 0 {
        notes.push(format!("{left_out} series that join several runs are left out: the runs are there themselves"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cleaned_series_of_a_connectome_folder_is_taken() {
        let folder = "/d/100307/MNINonLinear/Results/rfMRI_REST1_LR";
        let names = [
            "_Atlas",
            "_Atlas_MSMAll",
            "_Atlas_MSMAll_hp2000_clean",
            "_Atlas_hp2000_clean",
            "_Atlas_MSMAll_hp2000_clean_vn",
        ];
        let paths: Vec<PathBuf> =
            names.iter().map(|n| PathBuf::from(format!("{folder}/rfMRI_REST1_LR{n}.dtseries.nii"))).collect();
        let scans: Vec<&PathBuf> = paths.iter().filter(|p| is_series(p)).collect();
        assert_eq!(scans.len(), 4);
        let inside = format!("{folder}/RibbonVolumeToSurfaceMapping/goodvoxels.nii.gz");
        assert!(!is_series(Path::new(&inside)));
        let mut notes = vec![];
        let chosen = one_per_scan(Path::new("/d"), &scans, identity::of_image, &mut notes);
        assert_eq!(chosen.len(), 1);
        assert!(files::name(&chosen[0].path).ends_with("LR_Atlas_MSMAll_hp2000_clean.dtseries.nii"));
        assert!(notes[0].contains("*_Atlas_MSMAll_hp2000_clean.dtseries.nii is taken"), "{notes:?}");
    }

    #[test]
    fn joined_runs_are_left_out_and_equals_are_not_chosen_between() {
        let base = "/d/p/MNINonLinear/Results";
        let paths: Vec<PathBuf> = ["rfMRI_REST", "rfMRI_REST1_AP", "rfMRI_REST1_PA"]
            .iter()
            .map(|run| PathBuf::from(format!("{base}/{run}/{run}_Atlas_hp0_clean.dtseries.nii")))
            .collect();
        let mut notes = vec![];
        let chosen = one_per_scan(Path::new("/d"), &paths.iter().collect::<Vec<_>>(), identity::of_image, &mut notes);
        assert_eq!(chosen.len(), 2, "{chosen:?}");
        let paths = [PathBuf::from("/d/x/101.nii"), PathBuf::from("/d/x/101.nii.gz")];
        let chosen = one_per_scan(Path::new("/d"), &paths.iter().collect::<Vec<_>>(), identity::of_image, &mut notes);
        assert_eq!(chosen[0].problem.as_ref().unwrap().what, "duplicate scan");
    }
}
