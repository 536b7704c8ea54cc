//! The layout of BIDS trees: names, sidecars, and which files make up a scan. Nothing here reads an image or a series.
//!
//! Derivatives of fMRIPrep (images, surfaces and confounds), XCP-D and `giga_connectome` (tables) are known; so are both spellings
//! of a parcellation in a name, `atlas-` and `seg-`.

mod run;
mod tree;

pub use run::{Companions, Kind, Run, Selection, SpaceWish, Wanted, atlases, runs, scan_id};
pub use tree::{BidsFile, BidsName, Metadata, Tree, parse_sidecar};
