//! Whose scan a file is: by its name, by the folders it lies in, or both.

use std::path::Path;

use super::files;
use crate::bids::{self, BidsName};
use crate::scan::ScanId;

/// Folders that say what is in them, not whose it is.
const PLAIN_FOLDERS: &str =
    "func fmri bold rest resting nifti nii preproc preprocessed derivatives results images rfmri stats reg data";

/// UK Biobank names files or folders after person, field, instance and array: `1000011_20227_2_0`.
pub(super) fn of_biobank(path: &Path) -> Option<ScanId> {
    let stem = files::stem_of_table(path);
    let folders =
        path.ancestors().skip(1).take(4).filter_map(|f| f.file_name()).map(|n| n.to_string_lossy().into_owned());
    std::iter::once(stem).chain(folders).find_map(|name| {
        let parts: Vec<&str> = name.split('_').collect();
        let [person, field, instance, array] = parts[..] else { return None };
        let digits = |s: &str, n: usize| s.len() == n && s.bytes().all(|b| b.is_ascii_digit());
        let is_one = digits(person, 7) && digits(field, 5) && digits(instance, 1) && digits(array, 1);
        is_one.then(|| ScanId { session: Some(instance.to_owned()), ..ScanId::of_subject(person) })
    })
}

/// The person and the run's folder in `100307/MNINonLinear/Results/rfMRI_REST1_LR/`.
pub(super) fn of_connectome_project(path: &Path) -> Option<(ScanId, String)> {
    let absolute = std::path::absolute(path).ok()?;
    let parts: Vec<String> = absolute.iter().map(|p| p.to_string_lossy().into_owned()).collect();
    let i = parts.iter().rposition(|p| p == "MNINonLinear").filter(|i| *i > 1)?;
    let folder = parts.get(i + 2).filter(|_| parts[i + 1] == "Results" && parts.len() == i + 4);
    let folder = folder.cloned().unwrap_or_else(|| files::stem_of_image(path));
    let mut words = folder.split('_').skip(1).map(str::to_owned);
    let task = words.next();
    let run: Vec<String> = words.collect();
    let run = (!run.is_empty()).then(|| run.join("+"));
    let (subject, session) = person_and_visit(&parts[i - 1]);
    Some((ScanId { subject, session, task, run }, folder))
}

/// Whether a file lies in a folder inside the folder of a run, `MNINonLinear/Results/RUN/FOLDER/`.
pub(super) fn is_inside_run(path: &Path) -> bool {
    let parts: Vec<_> = path.iter().collect();
    parts.windows(2).rposition(|w| w[0] == "MNINonLinear" && w[1] == "Results").is_some_and(|i| parts.len() > i + 4)
}

/// The Lifespan and disease studies of the project name a folder after person and visit: `HCA6002236_V1_MR`.
fn person_and_visit(folder: &str) -> (String, Option<String>) {
    match folder.strip_suffix("_MR").and_then(|f| f.rsplit_once('_')) {
        Some((person, visit)) => (person.to_owned(), Some(visit.to_owned())),
        None => (folder.to_owned(), None),
    }
}

pub(super) fn feat_folder(path: &Path) -> Option<&Path> {
    path.parent().filter(|f| is_feat_folder(f))
}

fn is_feat_folder(folder: &Path) -> bool {
    ["feat", "ica"].contains(&files::ending(folder).as_str())
}

/// Whether a file lies in a folder inside such a folder (`reg`, `stats`), where no series are.
pub(super) fn is_inside_feat(source: &Path, path: &Path) -> bool {
    let below = path.strip_prefix(source.parent().unwrap_or(source)).unwrap_or(path);
    feat_folder(path).is_none() && below.ancestors().skip(2).any(is_feat_folder)
}

/// Whose image it is by its own name; else by the whole name.
pub(super) fn of_image(path: &Path) -> ScanId {
    let named = BidsName::parse(&files::name(path)).and_then(|n| bids::scan_id(&|key| n.get(key).map(str::to_owned)));
    named
        .or_else(|| of_connectome_project(path).map(|(id, _)| id))
        .or_else(|| of_biobank(path))
        .unwrap_or_else(|| ScanId::of_subject(files::stem_of_image(path)))
}

/// Whose table it is by its own name, in which only some parts need be entities; else by the whole name.
pub(super) fn of_table(path: &Path) -> ScanId {
    let stem = files::stem_of_table(path);
    let entity = |key: &str| stem.split('_').find_map(|e| e.strip_prefix(key)?.strip_prefix('-')).map(str::to_owned);
    of_biobank(path).or_else(|| bids::scan_id(&entity)).unwrap_or_else(|| ScanId::of_subject(stem.as_str()))
}

/// Whose scan it is by the folders below the source, for names that every scan shares (`filtered_func_data`).
pub(super) fn of_folders(source: &Path, path: &Path) -> ScanId {
    let below = path.parent().and_then(|p| p.strip_prefix(source).ok()).unwrap_or(Path::new(""));
    let mut folders: Vec<String> = below.iter().map(|p| p.to_string_lossy().into_owned()).collect();
    if folders.is_empty() {
        // The source is the scan's own folder.
        let own = std::path::absolute(path).ok().and_then(|p| Some(files::name(p.parent()?)));
        folders.extend(own);
    }
    let mut id = ScanId::of_subject("");
    let mut people: Vec<String> = vec![];
    for folder in &folders {
        let lower = folder.to_lowercase();
        let of_feat = [".feat", ".ica"]
            .iter()
            .find_map(|e| lower.ends_with(e).then(|| folder[..folder.len() - e.len()].to_owned()));
        let after = |keys: &[&str]| {
            let rest = keys.iter().find_map(|k| lower.strip_prefix(k)).map(|rest| rest.trim_start_matches(['-', '_']));
            rest.filter(|r| !r.is_empty()).map(|r| folder[folder.len() - r.len()..].to_owned())
        };
        if let Some(session) = after(&["ses-", "session", "visit"]) {
            id.session = Some(session);
        } else if let Some(run) = after(&["run-", "run_", "rest_"]) {
            id.run = Some(run);
        } else if let Some(stem) = of_feat {
            if people.is_empty() && id.subject.is_empty() {
                people.push(stem);
            } else {
                id.run = Some(stem);
            }
        } else if lower.starts_with("sub-") {
            folder.clone_into(&mut id.subject);
        } else if !PLAIN_FOLDERS.split(' ').any(|plain| plain == lower) {
            people.push(folder.clone());
        }
    }
    if id.subject.is_empty() {
        // The innermost folder that can be a person: sites and studies are further out.
        id.subject = people.pop().unwrap_or_else(|| files::stem_of_table(path));
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_from_file_names() {
        let id = |name: &str| of_table(Path::new(name)).to_string();
        assert_eq!(id("100307.tsv"), "100307");
        assert_eq!(id("x/sub-01_ses-a_task-rest_run-2_atlas-4S456_timeseries.tsv"), "sub-01_ses-a_task-rest_run-2");
        assert_eq!(id("1000011_20227_2_0.csv"), "1000011_ses-2");
    }

    #[test]
    fn people_from_folders() {
        let id = |name: &str| of_folders(Path::new("s"), &Path::new("s").join(name)).to_string();
        assert_eq!(id("101.feat/filtered_func_data.nii.gz"), "101");
        assert_eq!(id("101/rest1.feat/filtered_func_data.nii.gz"), "101_run-rest1");
        assert_eq!(id("site/101/func/rest.nii.gz"), "101");
        assert_eq!(id("0010042/session_1/rest_1/rest.nii.gz"), "0010042_ses-1_run-1");
        assert_eq!(id("sub-7/ses-b/func/data.tsv"), "sub-7_ses-b");
    }

    #[test]
    fn people_of_the_connectome_project() {
        let path =
            "/d/100307/MNINonLinear/Results/rfMRI_REST1_LR/rfMRI_REST1_LR_Atlas_MSMAll_hp2000_clean.dtseries.nii";
        let (id, folder) = of_connectome_project(Path::new(path)).unwrap();
        assert_eq!((id.to_string().as_str(), folder.as_str()), ("100307_task-REST1_run-LR", "rfMRI_REST1_LR"));
        let whole = "/d/HCA1_V1_MR/MNINonLinear/Results/rfMRI_REST/rfMRI_REST_Atlas_hp0_clean.dtseries.nii";
        assert_eq!(of_image(Path::new(whole)).to_string(), "HCA1_ses-V1_task-REST");
    }
}
