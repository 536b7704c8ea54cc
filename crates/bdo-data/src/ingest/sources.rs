//! The files a plan is made of: found below a folder, or named by a manifest.

use std::path::{Path, PathBuf};

use super::files::{self, Found};
use super::listing::{Listed, Listing};
use super::preference::{self, Chosen};
use super::{IngestError, IngestOptions, identity};
use crate::cohort::Rejection;
use crate::pattern::Pattern;
use crate::scan::ScanId;

/// What there is to read.
#[derive(Debug)]
pub(super) struct Sources {
    pub(super) root: PathBuf,
    /// All files, sorted.
    pub(super) files: Vec<PathBuf>,
    /// What could not be looked at.
    pub(super) rejected: Vec<Rejection>,
    pub(super) notes: Vec<String>,
    listing: Option<Listing>,
    pattern: Option<Pattern>,
}

impl Sources {
    /// Looks through the source folder, or takes the files of the manifest.
    pub(super) fn of(root: &Path, options: &IngestOptions) -> Result<Self, IngestError> {
        let listing = options.manifest.as_ref().map(|m| Listing::read(m, root)).transpose()?;
        let Found { files, rejected, notes } = match &listing {
            Some(listing) => Found {
                files: listing.files.keys().cloned().collect(),
                rejected: listing.rejected.clone(),
                notes: vec![],
            },
            None => files::below(root)?,
        };
        Ok(Self { root: root.to_path_buf(), files, rejected, notes, listing, pattern: options.pattern.clone() })
    }

    /// True where a manifest says what each file is.
    pub(super) fn is_listed(&self) -> bool {
        self.listing.is_some()
    }

    /// What the manifest says about a file.
    pub(super) fn listed(&self, path: &Path) -> Option<&Listed> {
        self.listing.as_ref()?.files.get(path)
    }

    /// The files that can be scans; with a manifest, all it names.
    pub(super) fn scans(&self, is_scan: impl Fn(&Path) -> bool) -> Vec<&PathBuf> {
        let meant = |f: &Path| self.pattern.as_ref().is_none_or(|p| p.means(&files::relative(&self.root, f)));
        let series = |f: &Path| preference::is_series(f) && !identity::is_inside_feat(&self.root, f);
        let is_one = |f: &&PathBuf| meant(f) && (self.is_listed() || (is_scan(f) && series(f)));
        self.files.iter().filter(is_one).collect()
    }

    /// One file for each scan, with the manifest's or its own name.
    pub(super) fn one_per_scan(
        &self,
        paths: &[&PathBuf],
        own: impl Fn(&Path) -> ScanId,
        notes: &mut Vec<String>,
    ) -> Vec<Chosen> {
        if !self.is_listed() {
            return preference::one_per_scan(&self.root, paths, own, notes);
        }
        let chosen = |path: &&PathBuf| {
            let id = self.listed(path).map_or_else(|| own(path), |l| l.id.clone());
            Chosen { path: (*path).clone(), id, problem: None }
        };
        paths.iter().map(chosen).collect()
    }
}
