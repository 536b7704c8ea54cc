//! The files of a tree, their names taken apart, and what the sidecars say about each.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::durable::{self, FileError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BidsName {
    entities: Vec<(String, String)>,
    /// What kind of file it is: `bold`, `timeseries`.
    pub suffix: String,
    /// From the first dot on: `.nii.gz`.
    pub ending: String,
}

impl BidsName {
    /// Takes a file name apart; `None` for names of another form.
    pub fn parse(name: &str) -> Option<Self> {
        let (stem, ending) = name.split_at(name.find('.')?);
        let mut parts: Vec<&str> = stem.split('_').collect();
        let suffix = parts.pop().filter(|s| !s.is_empty() && !s.contains('-'))?;
        let entity = |part: &str| {
            let (key, value) = part.split_once('-')?;
            (!key.is_empty() && !value.is_empty()).then(|| (key.to_owned(), value.to_owned()))
        };
        let entities = parts.into_iter().map(entity).collect::<Option<Vec<_>>>()?;
        Some(Self { entities, suffix: suffix.to_owned(), ending: ending.to_owned() })
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.entities.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    pub(super) fn len(&self) -> usize {
        self.entities.len()
    }

    /// The parcellation, in either spelling.
    pub fn atlas(&self) -> Option<&str> {
        self.get("atlas").or_else(|| self.get("seg"))
    }

    /// Whether every entity of this name, but for those left out of the comparison, is one of the other's too.
    pub fn applies_to(&self, other: &Self, leaving_out: &[&str]) -> bool {
        let counted = |e: &&(String, String)| !leaving_out.contains(&e.0.as_str());
        self.entities.iter().filter(counted).all(|e| other.entities.contains(e))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BidsFile {
    pub path: PathBuf,
    pub name: BidsName,
}

impl BidsFile {
    pub(super) fn is_brain_mask(&self) -> bool {
        let brain = self.name.get("desc") == Some("brain") || self.name.get("label") == Some("brain");
        self.name.suffix == "mask" && brain && self.name.ending.starts_with(".nii")
    }
}

/// All files with BIDS names below a folder.
#[derive(Debug, Clone)]
pub struct Tree {
    pub root: PathBuf,
    pub files: Vec<BidsFile>,
    by_folder: HashMap<PathBuf, Vec<usize>>,
    /// Whether its maker may have left joined runs beside the runs, as XCP-D does.
    pub(super) joins_runs: bool,
}

pub type Metadata = serde_json::Map<String, serde_json::Value>;

impl Tree {
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
        let description = std::fs::read_to_string(root.join("dataset_description.json")).unwrap_or_default();
        let of_xcpd = description.to_lowercase().replace(['-', '_'], "").contains("xcpd");
        let joins_runs = of_xcpd || files.iter().any(|f| f.name.suffix == "outliers");
        Self { root: root.to_path_buf(), files, by_folder, joins_runs }
    }

    /// Whether images of a space have brain masks of their own in this tree.
    pub(super) fn has_masks(&self, space: Option<&str>) -> bool {
        let of_a_run = |f: &BidsFile| f.name.get("task").is_some() && f.name.get("space") == space;
        self.files.iter().any(|f| f.is_brain_mask() && of_a_run(f))
    }

    pub fn beside(&self, file: &BidsFile) -> impl Iterator<Item = &BidsFile> {
        self.in_folder(durable::parent(&file.path))
    }

    fn in_folder(&self, folder: &Path) -> impl Iterator<Item = &BidsFile> {
        self.by_folder.get(folder).into_iter().flatten().map(|i| &self.files[*i])
    }

    /// What the sidecars say: those nearer to the file, and with more entities, have the last word.
    pub fn metadata(&self, file: &BidsFile) -> Result<Metadata, FileError> {
        self.metadata_as(file, &file.name.suffix, &[])
    }

    /// What the sidecars of another suffix say about the same run, where entities that tell its derivatives apart are left out.
    pub fn metadata_as(&self, file: &BidsFile, suffix: &str, leaving_out: &[&str]) -> Result<Metadata, FileError> {
        let mut folders = vec![];
        let mut folder = Some(durable::parent(&file.path));
        while let Some(f) = folder.filter(|f| f.starts_with(&self.root)) {
            folders.push(f);
            folder = f.parent();
        }
        let mut all = Metadata::new();
        for folder in folders.into_iter().rev() {
            let applies = |f: &&BidsFile| {
                f.name.ending == ".json" && f.name.suffix == suffix && f.name.applies_to(&file.name, leaving_out)
            };
            let mut sidecars: Vec<&BidsFile> = self.in_folder(folder).filter(applies).collect();
            sidecars.sort_by_key(|f| (f.name.len(), &f.path));
            for sidecar in sidecars {
                let bytes = durable::read(&sidecar.path)?;
                let parsed = parse_sidecar(&bytes);
                all.extend(parsed.map_err(|e| FileError::new("understand", &sidecar.path, e.into()))?);
            }
        }
        Ok(all)
    }
}

/// What a sidecar says, also with the byte-order mark of Windows and the NaN of Python.
pub fn parse_sidecar(bytes: &[u8]) -> Result<Metadata, serde_json::Error> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    serde_json::from_slice(bytes).or_else(|e| serde_json::from_slice(&without_nan(bytes)).map_err(|_| e))
}

/// Python writes NaN and Infinity, which JSON does not know: outside of texts they become null.
fn without_nan(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let (mut in_text, mut escaped, mut at) = (false, false, 0);
    while at < json.len() {
        let word = [&b"-Infinity"[..], b"Infinity", b"NaN"].into_iter().find(|w| !in_text && json[at..].starts_with(w));
        if let Some(word) = word {
            out.extend_from_slice(b"null");
            at += word.len();
            continue;
        }
        let byte = json[at];
        in_text ^= byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        out.push(byte);
        at += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_python_writes_and_json_does_not_know() {
        let text = br#"{"a": NaN, "b": [-Infinity, Infinity, 1], "c": "NaN \" NaN"}"#;
        let read = parse_sidecar(text).unwrap();
        assert!(read["a"].is_null() && read["b"][1].is_null());
        assert_eq!(read["c"], "NaN \" NaN");
    }
}

#[cfg(test)]
mod name_tests {
    use super::*;

    #[test]
    fn names_come_apart() {
        let name = BidsName::parse("sub-01_ses-a_task-rest_space-MNI_desc-preproc_bold.nii.gz").unwrap();
        assert_eq!((name.get("sub"), name.get("desc"), name.get("run")), (Some("01"), Some("preproc"), None));
        assert_eq!((name.suffix.as_str(), name.ending.as_str()), ("bold", ".nii.gz"));
        assert!(BidsName::parse("task-rest_bold.json").unwrap().applies_to(&name, &[]));
        assert!(!BidsName::parse("task-nback_bold.json").unwrap().applies_to(&name, &[]));
        for other in ["rfMRI_REST1_LR.nii", "sub-01", "sub-_bold.nii", "bold", "sub-01_task-rest.nii"] {
            assert_eq!(BidsName::parse(other), None, "{other}");
        }
    }
}
