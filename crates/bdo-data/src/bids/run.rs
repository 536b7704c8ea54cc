//! Which files of a tree make up a scan.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::{BidsFile, Tree};
use crate::problem::Problem;
use crate::scan::ScanId;

/// What scans are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Preprocessed volumes.
    Images,
    /// CIFTI series of grayordinates or parcels.
    Surfaces,
    /// Tables of region series.
    Tables,
}

/// A space, and perhaps a resolution, as fMRIPrep spells them: `MNI152NLin6Asym:res-2`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceWish {
    /// The template.
    pub space: String,
    /// The `res-` entity.
    pub resolution: Option<String>,
}

impl SpaceWish {
    /// Reads `NAME` or `NAME:res-R`.
    pub fn parse(text: &str) -> Self {
        match text.split_once(":res-") {
            Some((space, res)) => Self { space: space.to_owned(), resolution: Some(res.to_owned()) },
            None => Self { space: text.to_owned(), resolution: None },
        }
    }
}

/// Which scans are wanted.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// What to read.
    pub kind: Kind,
    /// People, with or without `sub-`; empty means all.
    pub participants: Vec<String>,
    /// Sessions, with or without `ses-`; empty means all.
    pub sessions: Vec<String>,
    /// Tasks; empty means all.
    pub tasks: Vec<String>,
    /// The space, where a scan is there in several.
    pub space: Option<SpaceWish>,
    /// The parcellation of the tables.
    pub atlas: Option<String>,
    /// Whether the images must be those ICA-AROMA has cleaned.
    pub aroma: bool,
}

/// One scan and the files that belong to it.
#[derive(Debug, Clone)]
pub struct Run {
    /// Person, session, task, run.
    pub id: ScanId,
    /// The series or image.
    pub file: BidsFile,
    /// Its space, where the name says one.
    pub space: Option<String>,
    /// The brain mask of the same space.
    pub mask: Option<PathBuf>,
    /// fMRIPrep's confounds.
    pub confounds: Option<PathBuf>,
    /// XCP-D's table of censored frames.
    pub outliers: Option<PathBuf>,
    /// XCP-D's table of coverage.
    pub coverage: Option<PathBuf>,
    /// XCP-D's table of motion.
    pub motion: Option<PathBuf>,
    /// Why it cannot be read: what was checked, expected and found.
    pub problem: Option<Problem>,
}

/// The parcellations the tables of a tree are in.
pub fn atlases(tree: &Tree) -> BTreeSet<&str> {
    tree.files().iter().filter(|f| is_table(f)).filter_map(|f| f.name.atlas()).collect()
}

/// The scans of a tree, in canonical order, one file each. A scan that is there only in other spaces has a problem.
pub fn runs(tree: &Tree, wanted: &Wanted) -> Vec<Run> {
    let mut candidates: BTreeMap<ScanId, Vec<&BidsFile>> = BTreeMap::new();
    for file in tree.files().iter().filter(|f| is_wanted(f, wanted)) {
        if let Some(id) = scan_id(file) {
            candidates.entry(id).or_default().push(file);
        }
    }
    candidates.into_iter().map(|(id, files)| run(tree, id, &files, wanted)).collect()
}

fn run(tree: &Tree, id: ScanId, files: &[&BidsFile], wanted: &Wanted) -> Run {
    let (file, problem) = choose(files, wanted.space.as_ref());
    let beside = |is: &dyn Fn(&BidsFile) -> bool, leaving_out: &[&str]| {
        let fits = |f: &&BidsFile| is(f) && f.name.get("sub").is_some() && f.name.applies_to(&file.name, leaving_out);
        tree.beside(file).filter(fits).max_by_key(|f| f.name.len()).map(|f| f.path.clone())
    };
    let tsv = |f: &BidsFile| f.name.ending == ".tsv";
    let is_mask = |f: &BidsFile| {
        let brain = f.name.get("desc") == Some("brain") || f.name.get("label") == Some("brain");
        let same = |key: &str| f.name.get(key) == file.name.get(key);
        f.name.suffix == "mask" && brain && f.name.ending.starts_with(".nii") && same("space") && same("res")
    };
    let is_confounds = |f: &BidsFile| {
        let suffix = ["timeseries", "regressors"].contains(&f.name.suffix.as_str());
        suffix && tsv(f) && f.name.get("desc") == Some("confounds")
    };
    let is_coverage = |f: &BidsFile| {
        let stated = f.name.get("stat") == Some("coverage") || f.name.suffix == "coverage";
        stated && tsv(f) && f.name.atlas() == file.name.atlas()
    };
    Run {
        space: file.name.get("space").map(str::to_owned),
        mask: beside(&is_mask, &["desc", "label"]),
        confounds: beside(&is_confounds, &["desc"]),
        outliers: beside(&|f| f.name.suffix == "outliers" && tsv(f), &["desc"]),
        coverage: beside(&is_coverage, &["desc", "stat", "seg", "atlas"]),
        motion: beside(&|f| f.name.suffix == "motion" && tsv(f), &["desc"]),
        id,
        file: file.clone(),
        problem,
    }
}

/// One of the files of a scan: the wanted space and resolution, or the only one there is.
fn choose<'a>(files: &[&'a BidsFile], wish: Option<&SpaceWish>) -> (&'a BidsFile, Option<Problem>) {
    let space = |f: &BidsFile| f.name.get("space").unwrap_or("none").to_owned();
    let resolution = |f: &BidsFile| f.name.get("res").unwrap_or("none").to_owned();
    let listed = |of: &dyn Fn(&BidsFile) -> String, files: &[&BidsFile]| {
        files.iter().map(|f| of(f)).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
    };
    let mut left: Vec<&BidsFile> = files.to_vec();
    if let Some(wish) = wish {
        left.retain(|f| f.name.get("space").is_none_or(|s| s.eq_ignore_ascii_case(&wish.space)));
        if left.is_empty() {
            return (files[0], Some(Problem::new("space", &wish.space, listed(&space, files))));
        }
        if let Some(res) = &wish.resolution {
            let before = left.clone();
            left.retain(|f| f.name.get("res") == Some(res));
            if left.is_empty() {
                return (
                    files[0],
                    Some(Problem::new("resolution", format!("res-{res}"), listed(&resolution, &before))),
                );
            }
        }
    }
    match left.as_slice() {
        [one] => (one, None),
        [first, ..] if left.iter().any(|f| f.name.get("space") != first.name.get("space")) => {
            (first, Some(Problem::new("space", "one space, or --space NAME", listed(&space, &left))))
        }
        [first, ..] if left.iter().any(|f| f.name.get("res") != first.name.get("res")) => (
            first,
            Some(Problem::new("resolution", "one resolution, or --space NAME:res-R", listed(&resolution, &left))),
        ),
        [first, second, ..] => {
            let name = |f: &BidsFile| f.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            (
                first,
                Some(Problem::new(
                    "duplicate scan",
                    "one file a scan",
                    format!("{} and {}", name(first), name(second)),
                )),
            )
        }
        [] => (files[0], Some(Problem::new("file", "at least one", "none"))),
    }
}

fn is_wanted(file: &BidsFile, wanted: &Wanted) -> bool {
    let name = &file.name;
    let listed = |list: &[String], prefix: &str, value: Option<&str>| {
        let bare = |label: &String| label.strip_prefix(prefix).unwrap_or(label).to_owned();
        list.is_empty() || value.is_some_and(|v| list.iter().any(|label| bare(label) == v))
    };
    let kind = match wanted.kind {
        Kind::Images => {
            let desc = if wanted.aroma { "smoothAROMAnonaggr" } else { "preproc" };
            name.suffix == "bold"
                && [".nii", ".nii.gz"].contains(&name.ending.as_str())
                && name.get("desc") == Some(desc)
        }
        Kind::Surfaces => is_surface(file),
        Kind::Tables => is_table(file) && wanted.atlas.as_deref().is_none_or(|a| name.atlas() == Some(a)),
    };
    kind && listed(&wanted.participants, "sub-", name.get("sub"))
        && listed(&wanted.sessions, "ses-", name.get("ses"))
        && listed(&wanted.tasks, "task-", name.get("task"))
}

fn is_surface(file: &BidsFile) -> bool {
    let ending = [".dtseries.nii", ".ptseries.nii"].contains(&file.name.ending.as_str());
    ending && ["bold", "timeseries"].contains(&file.name.suffix.as_str())
}

/// A table of region means: not of coverage or variance, not a correlation matrix.
fn is_table(file: &BidsFile) -> bool {
    let name = &file.name;
    let mean = name.get("stat").is_none_or(|s| s == "mean");
    name.suffix == "timeseries" && name.ending == ".tsv" && name.atlas().is_some() && mean
}

/// Entities beyond run that tell scans apart (phase encoding, acquisition) become part of the run's label.
fn scan_id(file: &BidsFile) -> Option<ScanId> {
    let get = |key: &str| file.name.get(key).map(str::to_owned);
    let further = ["acq", "ce", "rec", "dir", "echo"].iter().filter_map(|k| Some(format!("{k}-{}", get(k)?)));
    let parts: Vec<String> = get("run").into_iter().chain(further).collect();
    let run = (!parts.is_empty()).then(|| parts.join("+"));
    Some(ScanId { subject: format!("sub-{}", get("sub")?), session: get("ses"), task: get("task"), run })
}
