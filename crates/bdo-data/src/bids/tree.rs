//! The files of a tree, and what the sidecars say about each.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::BidsName;
use crate::durable::{self, FileError};

/// A file with a BIDS name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BidsFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its name, taken apart.
    pub name: BidsName,
}

/// All files with BIDS names below a folder.
#[derive(Debug, Clone)]
pub struct Tree {
    root: PathBuf,
    files: Vec<BidsFile>,
    by_folder: HashMap<PathBuf, Vec<usize>>,
}

/// What sidecars say about a file.
pub(super) type Metadata = serde_json::Map<String, serde_json::Value>;

impl Tree {
    /// Sorts out a listing of the files below `root`.
    pub fn of(root: &Path, found: &[PathBuf]) -> Self {
        let name = |path: &PathBuf| {
            let name = BidsName::parse(&path.file_name()?.to_string_lossy())?;
            Some(BidsFile { path: path.clone(), name })
        };
        let files: Vec<BidsFile> = found.iter().filter_map(name).collect();
        let mut by_folder: HashMap<PathBuf, Vec<usize>> = HashMap::new();
        for (i, file) in files.iter().enumerate() {
            by_folder.entry(durable::parent(&file.path).to_path_buf()).or_default().push(i);
        }
        Self { root: root.to_path_buf(), files, by_folder }
    }

    /// Every file.
    pub fn files(&self) -> &[BidsFile] {
        &self.files
    }

    /// The folder everything lies below.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The files of the folder a file is in.
    pub fn beside(&self, file: &BidsFile) -> impl Iterator<Item = &BidsFile> {
        self.in_folder(durable::parent(&file.path))
    }

    fn in_folder(&self, folder: &Path) -> impl Iterator<Item = &BidsFile> {
        self.by_folder.get(folder).into_iter().flatten().map(|i| &self.files[*i])
    }

    /// What the sidecars say: those nearer to the file, and with more entities, have the last word.
    pub fn metadata(&self, file: &BidsFile) -> Result<Metadata, FileError> {
        let mut folders = vec![];
        let mut folder = Some(durable::parent(&file.path));
        while let Some(f) = folder.filter(|f| f.starts_with(&self.root)) {
            folders.push(f);
            folder = f.parent();
        }
        let mut all = Metadata::new();
        for folder in folders.into_iter().rev() {
            let applies = |f: &&BidsFile| {
                f.name.ending == ".json" && f.name.suffix == file.name.suffix && f.name.applies_to(&file.name, &[])
            };
            let mut sidecars: Vec<&BidsFile> = self.in_folder(folder).filter(applies).collect();
            sidecars.sort_by_key(|f| (f.name.len(), &f.path));
            for sidecar in sidecars {
                let bytes = durable::read(&sidecar.path)?;
                let parsed = serde_json::from_slice::<Metadata>(&bytes)
                    .map_err(|e| FileError::new("understand", &sidecar.path, e.into()))?;
                all.extend(parsed);
            }
        }
        Ok(all)
    }
}
