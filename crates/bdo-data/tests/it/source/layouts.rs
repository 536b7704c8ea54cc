//! Public BIDS trees: which scans are found, with which files.

use std::path::{Path, PathBuf};
use std::process::Command;

use bdo_data::bids::{Kind, Selection, SpaceWish, Tree, Wanted, runs};

use super::golden::real_data;

fn unpacked(dir: &Path) -> Option<PathBuf> {
    let archive = real_data("bids/bids_layouts.tar.xz")?;
    let done = Command::new("tar").arg("-xJf").arg(&archive).arg("-C").arg(dir).status();
    if !done.is_ok_and(|s| s.success()) {
        eprintln!("SKIPPED: tar cannot unpack {}", archive.display());
        return None;
    }
    Some(dir.to_path_buf())
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

fn tree(root: &Path) -> Tree {
    let mut found = vec![];
    files(root, &mut found);
    found.sort();
    Tree::of(root, &found)
}

fn images(space: Option<&str>) -> Wanted {
    Wanted { kind: Kind::Images, space: space.map(SpaceWish::parse), ..Wanted::default() }
}

#[test]
fn fmriprep_derivatives_pair_images_masks_confounds_and_sidecars() {
    let dir = tempfile::tempdir().unwrap();
    let Some(root) = unpacked(dir.path()) else { return };
    let tree = tree(&root.join("ds000001-fmriprep"));
    let found = runs(&tree, &images(None));
    assert!(found.len() >= 6, "{}", found.len());
    for run in &found {
        assert_eq!(run.problem, None);
        assert_eq!(run.space.as_deref(), Some("MNI152NLin2009cAsym"));
        let run_entity = format!("_run-{}_", run.id.run.as_deref().unwrap());
        for companion in [run.beside.mask.as_ref(), run.beside.confounds.as_ref()] {
            let name = companion.unwrap().file_name().unwrap().to_string_lossy().into_owned();
            assert!(name.starts_with(&run.id.subject) && name.contains(&run_entity), "{name} for {}", run.id);
        }
        assert_eq!(tree.metadata(&run.file).unwrap()["RepetitionTime"], 2.0);
    }
    assert!(runs(&tree, &images(Some("MNI152NLin6Asym"))).iter().all(|r| r.problem.is_some()));
    let aroma = Wanted { aroma: true, ..images(None) };
    assert!(runs(&tree, &aroma).iter().all(|r| r.space.as_deref() == Some("MNI152NLin6Asym")));
    let finer = runs(&tree, &images(Some("MNI152NLin2009cAsym:res-1")));
    assert!(finer.iter().all(|r| r.problem.as_ref().is_some_and(|p| p.what == "resolution")));
}

#[test]
fn sidecars_of_the_raw_dataset_are_inherited_by_its_derivatives() {
    let dir = tempfile::tempdir().unwrap();
    let Some(root) = unpacked(dir.path()) else { return };
    let tree = tree(&root.join("synthetic"));
    // Five people, two sessions, a resting run and two of a task, each in two spaces.
    let undecided = runs(&tree, &images(None));
    assert_eq!(undecided.len(), 30);
    assert!(undecided.iter().all(|r| r.problem.as_ref().is_some_and(|p| p.what == "space")));
    let decided = runs(&tree, &images(Some("MNI152NLin2009cAsym")));
    assert!(decided.iter().all(|r| r.problem.is_none() && r.beside.mask.is_some()));
    for run in &decided {
        assert_eq!(tree.metadata(&run.file).unwrap()["RepetitionTime"], 2.5, "{}", run.id);
    }
    let selection = Selection {
        participants: vec!["sub-02".into(), "03".into()],
        sessions: vec!["01".into()],
        tasks: vec!["rest".into()],
        ..Selection::default()
    };
    let some = Wanted { selection, ..images(Some("T1w")) };
    let ids: Vec<String> = runs(&tree, &some).iter().map(|r| r.id.to_string()).collect();
    assert_eq!(ids, ["sub-02_ses-01_task-rest", "sub-03_ses-01_task-rest"]);
}
