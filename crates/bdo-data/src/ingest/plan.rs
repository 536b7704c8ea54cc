//! A source worked out into scans to read, and the reading of one of them.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::image_run::{self, Parcellation};
use super::recipe::Recipe;
use super::remarks::Remarks;
use super::repetition::RepetitionTime;
use super::{Format, IngestError, IngestOptions, files, table_run};
use crate::bids::{Companions, Kind};
use crate::cohort::{self, Item, Rejection};
use crate::durable::InFile;
use crate::participants::Participants;
use crate::problem::{Problem, ReadError};
use crate::region::Region;
use crate::scan::{Scan, ScanId, Source};
use crate::shard::Shard;

#[derive(Debug, Clone)]
pub struct SourceFile {
    pub path: PathBuf,
    /// Its path below the source, for messages and provenance.
    pub name: String,
    pub id: ScanId,
    pub site: Option<String>,
    /// What is known of the repetition time, or why the scan cannot be read at all.
    pub tr_seconds: Result<RepetitionTime, Rejection>,
    /// Which decides how it is read.
    pub kind: Kind,
    pub beside: Companions,
    /// The space the name of an image states.
    pub space: Option<String>,
    /// Frames that the maker of a table has dropped from the start.
    pub dropped_before: usize,
}

/// All that is known before the first series is read.
#[derive(Debug, Clone, Default)]
pub struct IngestPlan {
    pub format: Format,
    pub atlas_name: String,
    pub parcellation: Parcellation,
    /// The regions a scan must have.
    pub regions: Vec<Region>,
    pub files: Vec<SourceFile>,
    /// The people's table, as found.
    pub participants: Participants,
    pub recipe: Recipe,
    pub assume_affine: bool,
    /// What the source says about itself, for provenance.
    pub source_dataset: Option<serde_json::Value>,
    /// The repetition time that was given for all scans.
    pub tr_seconds: Option<f64>,
    /// What could not even be looked at.
    pub rejected: Vec<Rejection>,
    pub warnings: Vec<String>,
    pub remarks: Remarks,
}

impl SourceFile {
    /// The files beside the scan that decide its content too.
    pub(super) fn companions(&self) -> Vec<&Path> {
        let Companions { mask, confounds, outliers, coverage, motion } = &self.beside;
        [mask, confounds, outliers, coverage, motion].into_iter().flatten().map(PathBuf::as_path).collect()
    }

    /// The first of the scan's files that has a name but no content.
    pub(super) fn missing(&self) -> Option<Problem> {
        let of_companion = |path: &Path| {
            let problem = files::unfetched(path)?;
            Some(Problem { found: format!("{}: {}", files::name(path), problem.found), ..problem })
        };
        files::unfetched(&self.path).or_else(|| self.companions().into_iter().find_map(of_companion))
    }

    /// BLAKE3 of the file or, where others belong to it, of all their BLAKE3 in order.
    pub(super) fn blake3(&self) -> Result<String, IngestError> {
        self.blake3_with(hash_file(&self.path)?)
    }

    fn blake3_with(&self, of_file: String) -> Result<String, IngestError> {
        let companions = self.companions();
        if companions.is_empty() {
            return Ok(of_file);
        }
        let mut all = of_file;
        for path in companions {
            all += &hash_file(path)?;
        }
        Ok(blake3::hash(all.as_bytes()).to_hex().to_string())
    }
}

impl IngestPlan {
    /// A plan without scans yet, that drops the usual number of volumes unless the user says otherwise.
    pub(super) fn new(participants: Participants, usual_drop: usize, options: &IngestOptions) -> Self {
        Self {
            participants,
            recipe: Recipe { drop_volumes: options.drop_volumes.unwrap_or(usual_drop), ..options.recipe.clone() },
            tr_seconds: options.tr_seconds,
            assume_affine: options.assume_affine,
            ..Self::default()
        }
    }

    /// Regions and their names are those of the atlas.
    pub(super) fn take(&mut self, parcellation: Parcellation) {
        if let Some(map) = parcellation.map() {
            self.atlas_name = files::stem_of_image(&map.path);
            self.regions.clone_from(&map.regions);
            self.warnings.extend(map.warnings.iter().cloned());
        }
        self.parcellation = parcellation;
    }

    pub(super) fn keep_shard(&mut self, shard: Option<Shard>) {
        if let Some(Shard { part, of }) = shard {
            let files = std::mem::take(&mut self.files);
            self.files = files.into_iter().skip(part.saturating_sub(1)).step_by(of.max(1)).collect();
        }
    }

    /// What decides every scan's content, whatever the list of files.
    pub(super) fn settings(&self) -> serde_json::Value {
        let mut settings = json!(self.recipe);
        settings["format"] = self.format.name().into();
        settings["atlas"] = self.atlas_name.as_str().into();
        settings["atlas_blake3"] = self.parcellation.map().map(|map| map.blake3.as_str()).into();
        let names = self.regions.iter().map(|r| r.name.as_str());
        settings["regions_blake3"] = cohort::Atlas::of_names("", names).names_blake3.into();
        settings["tr_seconds"] = self.tr_seconds.into();
        settings["assume_affine"] = self.assume_affine.into();
        settings
    }

    /// Reads one scan; everything wrong with it becomes a rejection.
    pub(super) fn read(&self, file: &SourceFile) -> Item {
        let rejected = |problem| Rejection::of(&file.name, problem);
        let repetition = file.tr_seconds.clone()?;
        let raw = match file.kind {
            Kind::Tables => table_run::read(self, file).map_err(ReadError::from),
            Kind::Images => image_run::read_volume(self, file),
            Kind::Surfaces => image_run::read_surface(self, file),
        };
        let mut raw = raw.map_err(|e| rejected(e.into_problem()))?;
        let (tr_seconds, remarks) = repetition.resolve(raw.header_time).map_err(rejected)?;
        remarks.into_iter().for_each(|remark| self.remarks.add(remark, &file.name));
        let mut confounds = None;
        if file.kind != Kind::Tables {
            let table = file.beside.confounds.as_deref();
            confounds = image_run::take_confounds(self.recipe.denoise.as_ref(), table, &mut raw).map_err(rejected)?;
        }
        let blake3 =
            file.blake3_with(raw.blake3.clone()).map_err(|e| rejected(Problem::new("file", "to be readable", e)))?;
        let (clean, freedom) = self.recipe.apply(raw, tr_seconds, confounds).map_err(rejected)?;
        if let Some(left) = freedom {
            self.remarks.add_freedom(left, &file.name);
        }
        Ok(Scan {
            id: file.id.clone(),
            site: file.site.clone(),
            tr_seconds,
            frame_times_seconds: clean.frame_numbers.iter().map(|i| *i as f64 * tr_seconds).collect(),
            series: clean.values,
            framewise_displacement_mm: clean.framewise_displacement_mm,
            coverage: clean.coverage,
            source: Source { name: file.name.clone(), blake3, dropped_volumes: self.recipe.drop_volumes as u32 },
        })
    }
}

fn hash_file(path: &Path) -> Result<String, IngestError> {
    let mut hasher = blake3::Hasher::new();
    std::fs::File::open(path).and_then(|f| hasher.update_reader(f).map(|_| ())).in_file("read", path)?;
    Ok(hasher.finalize().to_hex().to_string())
}
