//! Which files of a tree make up a scan.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::{BidsFile, Tree};
use crate::pattern::Pattern;
use crate::problem::Problem;
use crate::scan::ScanId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    #[default]
    Images,
    /// CIFTI series of grayordinates or parcels.
    Surfaces,
    Tables,
}

/// A space, and perhaps a resolution, as fMRIPrep spells them: `MNI152NLin6Asym:res-2`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceWish {
    pub space: String,
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

/// Which scans are meant: people, sessions and tasks, with or without `sub-`, `ses-` and `task-` (empty means all), and which
/// of their versions.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    pub participants: Vec<String>,
    pub sessions: Vec<String>,
    pub tasks: Vec<String>,
    /// The `desc-` entity of BIDS derivatives.
    pub desc: Option<String>,
    pub pattern: Option<Pattern>,
}

/// A part of a scan's name that can be asked for, and the labels that are.
pub(crate) struct Asked<'a> {
    pub(crate) flag: &'static str,
    prefix: &'static str,
    pub(crate) labels: &'a [String],
    part: fn(&ScanId) -> Option<&str>,
}

impl Selection {
    pub(crate) fn asked(&self) -> [Asked<'_>; 3] {
        let (people, sessions, tasks) = (&self.participants, &self.sessions, &self.tasks);
        [
            Asked { flag: "--participant-label", prefix: "sub-", labels: people, part: |id| Some(&id.subject) },
            Asked { flag: "--session-label", prefix: "ses-", labels: sessions, part: |id| id.session.as_deref() },
            Asked { flag: "--task-id", prefix: "task-", labels: tasks, part: |id| id.task.as_deref() },
        ]
    }
}

impl Asked<'_> {
    pub(crate) fn is(&self, id: &ScanId, label: &str) -> bool {
        let bare = |label: &str| label.strip_prefix(self.prefix).unwrap_or(label).to_owned();
        (self.part)(id).is_some_and(|part| bare(part) == bare(label))
    }

    pub(crate) fn takes(&self, id: &ScanId) -> bool {
        self.labels.is_empty() || self.labels.iter().any(|label| self.is(id, label))
    }
}

#[derive(Debug, Clone, Default)]
pub struct Wanted {
    pub kind: Kind,
    pub selection: Selection,
    /// The space, where a scan is there in several.
    pub space: Option<SpaceWish>,
    pub atlas: Option<String>,
    /// Whether the images must be those ICA-AROMA has cleaned.
    pub aroma: bool,
    /// Whether surfaces are dense or parcellated.
    pub dense: bool,
}

/// The files beside a scan that decide its content too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Companions {
    pub mask: Option<PathBuf>,
    pub confounds: Option<PathBuf>,
    /// XCP-D's table of censored frames: one row a frame of the run, 1 where it is.
    pub outliers: Option<PathBuf>,
    /// Share of each region inside the image: one row, one column a region, or one row a region.
    pub coverage: Option<PathBuf>,
    pub motion: Option<PathBuf>,
}

/// One scan and the files that belong to it.
#[derive(Debug, Clone)]
pub struct Run {
    pub id: ScanId,
    pub file: BidsFile,
    pub space: Option<String>,
    pub beside: Companions,
    pub problem: Option<Problem>,
    /// Where other versions of the scan were passed over: the `desc-` that was taken, and the others.
    pub passed_over: Option<(String, String)>,
}

/// Images that can be read without being asked for by `desc-`: fMRIPrep's, and those XCP-D has denoised.
const PREPARED: [&str; 3] = ["preproc", "denoised", "denoisedSmoothed"];

/// The parcellations the tables, or the parcellated surfaces, of a tree are in.
pub fn atlases(tree: &Tree, kind: Kind) -> BTreeSet<&str> {
    let holds = |f: &&BidsFile| match kind {
        Kind::Images => false,
        Kind::Surfaces => is_surface(f, false),
        Kind::Tables => is_table(f),
    };
    tree.files.iter().filter(holds).filter_map(|f| f.name.atlas()).collect()
}

/// The scans of a tree, in canonical order, one file each. A scan that is there only in other spaces has a problem.
pub fn runs(tree: &Tree, wanted: &Wanted) -> Vec<Run> {
    let mut candidates: BTreeMap<ScanId, Vec<&BidsFile>> = BTreeMap::new();
    for file in tree.files.iter().filter(|f| is_wanted(tree, f, wanted)) {
        let id = scan_id(&|key| file.name.get(key).map(str::to_owned));
        if let Some(id) = id.filter(|id| wanted.selection.asked().iter().all(|asked| asked.takes(id))) {
            candidates.entry(id).or_default().push(file);
        }
    }
    if tree.joins_runs {
        // XCP-D leaves the runs of a task, joined and standardised, beside them under a name without run and direction.
        let runs = candidates.keys().filter(|id| id.run.is_some());
        let joined: BTreeSet<ScanId> = runs.map(|id| ScanId { run: None, ..id.clone() }).collect();
        candidates.retain(|id, _| !joined.contains(id));
    }
    candidates.into_iter().map(|(id, files)| run(tree, id, &files, wanted)).collect()
}

fn run(tree: &Tree, id: ScanId, files: &[&BidsFile], wanted: &Wanted) -> Run {
    let preferred = preferred(files, wanted);
    let (file, problem) = choose(preferred.as_ref().map_or(files, |(left, _)| left), wanted.space.as_ref());
    let beside = |is: &dyn Fn(&BidsFile) -> bool, leaving_out: &[&str]| {
        let fits = |f: &&BidsFile| is(f) && f.name.get("sub").is_some() && f.name.applies_to(&file.name, leaving_out);
        tree.beside(file).filter(fits).max_by_key(|f| f.name.len()).map(|f| f.path.clone())
    };
    let tsv = |f: &BidsFile| f.name.ending == ".tsv";
    let is_mask =
        |f: &BidsFile| f.is_brain_mask() && ["space", "res"].iter().all(|key| f.name.get(key) == file.name.get(key));
    let is_confounds = |f: &BidsFile| {
        let suffix = ["timeseries", "regressors"].contains(&f.name.suffix.as_str());
        suffix && tsv(f) && f.name.get("desc") == Some("confounds")
    };
    let is_coverage = |f: &BidsFile| {
        let stated = f.name.get("stat") == Some("coverage") || f.name.suffix == "coverage";
        stated && tsv(f) && f.name.atlas() == file.name.atlas()
    };
    let mask = beside(&is_mask, &["desc", "label"]);
    let problem = problem.or_else(|| {
        let masked = wanted.kind == Kind::Images && mask.is_none() && tree.has_masks(file.name.get("space"));
        let expected = "a desc-brain_mask beside the image as other runs have, or --mask";
        masked.then(|| Problem::new("brain mask", expected, "none"))
    });
    let beside = Companions {
        mask,
        confounds: beside(&is_confounds, &["desc", "hash"]),
        outliers: beside(&|f| f.name.suffix == "outliers" && tsv(f), &["desc", "hash"]),
        coverage: beside(&is_coverage, &["desc", "stat", "seg", "atlas", "hash"]),
        motion: beside(&|f| f.name.suffix == "motion" && tsv(f), &["desc", "hash"]),
    };
    Run {
        space: file.name.get("space").map(str::to_owned),
        beside,
        id,
        file: file.clone(),
        problem,
        passed_over: preferred.map(|(left, others)| (description(left[0]), others.join(", "))),
    }
}

impl Run {
    /// Whether its maker has regressed out confounds already, as XCP-D does.
    pub fn is_denoised(&self) -> bool {
        self.file.name.get("desc").is_some_and(|d| d.starts_with("denoised"))
    }
}

fn description(file: &BidsFile) -> String {
    file.name.get("desc").map_or_else(|| "no desc".to_owned(), |d| format!("desc-{d}"))
}

/// Where a scan is there in several versions and none was asked for: unsmoothed before smoothed. The versions passed over are named.
fn preferred<'a>(files: &[&'a BidsFile], wanted: &Wanted) -> Option<(Vec<&'a BidsFile>, Vec<String>)> {
    let smoothed = |f: &&BidsFile| f.name.get("desc").is_some_and(|d| d.to_lowercase().contains("smooth"));
    if wanted.selection.desc.is_some() || wanted.aroma {
        return None;
    }
    let (others, left): (Vec<&BidsFile>, Vec<&BidsFile>) = files.iter().copied().partition(|f| smoothed(f));
    let named: BTreeSet<String> = others.into_iter().map(description).collect();
    (!left.is_empty() && !named.is_empty()).then(|| (left, named.into_iter().collect()))
}

/// One of the files of a scan: the wanted space and resolution, or the only one there is.
fn choose<'a>(files: &[&'a BidsFile], wish: Option<&SpaceWish>) -> (&'a BidsFile, Option<Problem>) {
    let listed = |key: &str, files: &[&BidsFile]| {
        let values: BTreeSet<&str> = files.iter().map(|f| f.name.get(key).unwrap_or("none")).collect();
        values.into_iter().collect::<Vec<_>>().join(", ")
    };
    let mut left: Vec<&BidsFile> = files.to_vec();
    if let Some(wish) = wish {
        left.retain(|f| f.name.get("space").is_none_or(|s| s.eq_ignore_ascii_case(&wish.space)));
        if left.is_empty() {
            return (files[0], Some(Problem::new("space", &wish.space, listed("space", files))));
        }
        if let Some(res) = &wish.resolution {
            let before = listed("res", &left);
            left.retain(|f| f.name.get("res") == Some(res));
            if left.is_empty() {
                return (files[0], Some(Problem::new("resolution", format!("res-{res}"), before)));
            }
        }
    }
    let first = left[0];
    let differ = |key: &str| left.iter().any(|f| f.name.get(key) != first.name.get(key));
    let problem = if differ("space") {
        Some(Problem::new("space", "one space, or --space NAME", listed("space", &left)))
    } else if differ("res") {
        Some(Problem::new("resolution", "one resolution, or --space NAME:res-R", listed("res", &left)))
    } else {
        left.get(1).map(|second| {
            let name = |f: &BidsFile| f.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let expected = "one file a scan, or --desc or --pattern to choose";
            Problem::new("duplicate scan", expected, format!("{} and {}", name(first), name(second)))
        })
    };
    (first, problem)
}

fn is_wanted(tree: &Tree, file: &BidsFile, wanted: &Wanted) -> bool {
    let name = &file.name;
    let below = file.path.strip_prefix(&tree.root).unwrap_or(&file.path).to_string_lossy();
    let is_meant = wanted.selection.pattern.as_ref().is_none_or(|p| p.means(&below))
        && wanted.selection.desc.as_deref().is_none_or(|d| name.get("desc") == Some(d));
    let of_atlas = || wanted.atlas.as_deref().is_none_or(|a| name.atlas() == Some(a));
    let kind = match wanted.kind {
        Kind::Images => {
            let known: &[&str] = if wanted.aroma { &["smoothAROMAnonaggr"] } else { &PREPARED };
            // Phase, and the parts of complex numbers, are no signal to take means of.
            let magnitude = name.get("part").is_none_or(|p| p == "mag");
            name.suffix == "bold"
                && magnitude
                && [".nii", ".nii.gz"].contains(&name.ending.as_str())
                && (wanted.selection.desc.is_some() || name.get("desc").is_some_and(|d| known.contains(&d)))
        }
        Kind::Surfaces => is_surface(file, wanted.dense) && of_atlas(),
        Kind::Tables => is_table(file) && of_atlas(),
    };
    is_meant && kind
}

fn is_surface(file: &BidsFile, dense: bool) -> bool {
    let ending = if dense { ".dtseries.nii" } else { ".ptseries.nii" };
    file.name.ending == ending && ["bold", "timeseries"].contains(&file.name.suffix.as_str())
}

/// A table of region means: not of coverage or variance, not a correlation matrix.
fn is_table(file: &BidsFile) -> bool {
    let name = &file.name;
    let mean = name.get("stat").is_none_or(|s| s == "mean");
    name.suffix == "timeseries" && name.ending == ".tsv" && name.atlas().is_some() && mean
}

/// The scan that entities name; those beyond run that tell scans apart (phase encoding, acquisition) become part of the run's
/// label. Nothing without a person.
pub fn scan_id(get: &impl Fn(&str) -> Option<String>) -> Option<ScanId> {
    let further = ["acq", "ce", "rec", "dir", "echo"].iter().filter_map(|k| Some(format!("{k}-{}", get(k)?)));
    let parts: Vec<String> = get("run").into_iter().chain(further).collect();
    let run = (!parts.is_empty()).then(|| parts.join("+"));
    Some(ScanId { subject: format!("sub-{}", get("sub")?), session: get("ses"), task: get("task"), run })
}
