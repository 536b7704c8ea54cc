//! The files a plan is made of: found below a folder, or named by a manifest.

use std::path::{Path, PathBuf};

use super::files::{self, Found};
use super::listing::{Listed, Listing};
use super::plan::{Reading, SourceFile};
use super::preference::{self, Chosen};
use super::{IngestError, IngestOptions, identity, series_folder};
use crate::bids::Companions;
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

    /// [`Sources::scans`] without files that were given for something else.
    pub(super) fn scans_but<const N: usize>(
        &self,
        is_scan: impl Fn(&Path) -> bool,
        given: [Option<&PathBuf>; N],
    ) -> Vec<&PathBuf> {
        let is_given = |f: &Path| given.iter().flatten().any(|g| g.canonicalize().ok() == f.canonicalize().ok());
        self.scans(|f| is_scan(f) && !is_given(f))
    }

    /// The files that can be scans; with a manifest, all it names.
    pub(super) fn scans(&self, is_scan: impl Fn(&Path) -> bool) -> Vec<&PathBuf> {
        let meant = |f: &Path| self.pattern.as_ref().is_none_or(|p| p.means(&files::relative(&self.root, f)));
        let series = |f: &Path| preference::is_series(f) && !identity::is_inside_feat(&self.root, f);
        let is_one = |f: &&PathBuf| meant(f) && (self.is_listed() || (is_scan(f) && series(f)));
        self.files.iter().filter(is_one).collect()
    }

    /// One file for each scan, with the manifest's or its own name and the time that its sidecar states.
    pub(super) fn planned(
        &self,
        paths: &[&PathBuf],
        reading: Reading,
        own: impl Fn(&Path) -> ScanId,
        options: &IngestOptions,
        notes: &mut Vec<String>,
    ) -> Vec<SourceFile> {
        let listed = |path: &&PathBuf| {
            let id = self.listed(path).map_or_else(|| own(path), |l| l.id.clone());
            Chosen { path: (*path).clone(), id, problem: None }
        };
        let chosen = if self.is_listed() {
            paths.iter().map(listed).collect()
        } else {
            preference::one_per_scan(&self.root, paths, &own, notes)
        };
        let file = |Chosen { path, id, problem }| {
            let name = files::relative(&self.root, &path);
            let tr_seconds = match problem {
                Some(problem) => Err(Rejection::of(&name, problem)),
                None => series_folder::stated_time(&path, &name, options.tr_seconds),
            };
            let beside = Companions::default();
            SourceFile { path, name, id, site: None, tr_seconds, reading, beside, space: None, dropped_before: 0 }
        };
        chosen.into_iter().map(file).collect()
    }
}
