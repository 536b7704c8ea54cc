//! What is fuzzed, one function per target: any bytes are read to the end or refused. The fuzzer calls these functions, and so
//! does an ordinary test (`crates/bdo-data/tests/fuzz`) that replays the corpus.

use std::path::{Path, PathBuf};

use bdo_data::bids::{self, Kind, SpaceWish, Tree, Wanted};
use bdo_data::clean::{Cleaning, clean};
use bdo_data::confound::{AromaKind, ConfoundTable, Expansion, Preset, Strategy, load};
use bdo_data::ingest::{read_region_names, read_series};
use bdo_data::nifti::NiftiReader;
use bdo_data::participants::Participants;

/// A target by its name, which is that of its corpus.
pub type Target = (&'static str, fn(&[u8]));

/// Every target of this file.
pub const TARGETS: [Target; 7] = [
    ("nifti", nifti),
    ("cifti_xml", cifti_xml),
    ("tables", tables),
    ("npy", npy),
    ("mat", mat),
    ("confounds", confounds),
    ("bids_names", bids_names),
];

/// Calls `read` with a file of these bytes; one file per thread and ending is used again and again.
fn with_file(ending: &str, bytes: &[u8], read: impl FnOnce(&Path)) {
    thread_local! {
        static SCRATCH: Option<tempfile::TempDir> = tempfile::tempdir().ok();
    }
    SCRATCH.with(|scratch| {
        let Some(scratch) = scratch else { return };
        let path = scratch.path().join(format!("input{ending}"));
        if std::fs::write(&path, bytes).is_ok() {
            read(&path);
        }
    });
}

/// An image: header, extensions, every volume, the checksum at the end.
pub fn nifti(bytes: &[u8]) {
    with_file(".nii", bytes, |path| {
        let Ok(mut reader) = NiftiReader::open(path) else { return };
        // A claim that is believed costs time, and finds nothing.
        if reader.header.voxels() > 4 << 20 || reader.header.data_bytes() > 64 << 20 {
            return;
        }
        let mut volume = vec![0.0; reader.header.voxels()];
        while matches!(reader.next_volume(&mut volume), Ok(true)) {}
        let _ = reader.finish();
    });
}

/// The XML of a CIFTI file.
pub fn cifti_xml(bytes: &[u8]) {
    let _ = bdo_data::cifti::parse_axes(bytes);
}

/// Series as text or .npz, a table of people, a table of region names; the first byte chooses.
pub fn tables(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    match first % 7 {
        5 => drop(Participants::parse("people.tsv", rest, &["-9999"])),
        6 => with_file(".labels.txt", rest, |path| drop(read_region_names(path))),
        ending => {
            let ending = [".tsv", ".csv", ".1D", ".npz", ".tsv.gz"][usize::from(ending)];
            with_file(ending, rest, |path| drop(read_series(path)));
        }
    }
}

/// A .npy array.
pub fn npy(bytes: &[u8]) {
    with_file(".npy", bytes, |path| drop(read_series(path)));
}

/// MATLAB files of version 5 and 7.3, and other HDF5 files.
pub fn mat(bytes: &[u8]) {
    let ending = if bytes.starts_with(b"MATLAB") { ".mat" } else { ".h5" };
    with_file(ending, bytes, |path| drop(read_series(path)));
}

/// A confound table and, after a zero byte, its JSON; every preset is selected from it and regressed out of a series.
pub fn confounds(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |b| *b == 0);
    let (tsv, json) = (parts.next().unwrap_or_default(), parts.next());
    let Ok(table) = ConfoundTable::parse("confounds.tsv", tsv, json) else { return };
    let _ = table.framewise_displacement_mm();
    let columns: Vec<String> = table.names.iter().take(2).cloned().chain(["c*".to_owned()]).collect();
    let with_own = |strategy: Strategy| Strategy {
        global_signal: Some(Expansion::Full),
        n_compcor: Some(2),
        columns: columns.clone(),
        ..strategy
    };
    let aroma = Strategy { ica_aroma: Some(AromaKind::Basic), ..Strategy::nothing() };
    let presets = || Preset::ALL.into_iter().map(Preset::strategy);
    let own = presets().chain([Strategy::nothing()]).map(with_own);
    for strategy in presets().chain(own).chain([aroma]) {
        let Ok(confounds) = load(&table, &strategy) else { continue };
        if confounds.frames > 200 {
            continue;
        }
        let series: Vec<f32> = (0..confounds.frames).map(|t| (t * t % 17) as f32).collect();
        let _ = clean(&series, 1, 2.0, Some(&confounds), &Cleaning { detrend: true, band_pass: None });
    }
}

/// File names of a tree, one per line: which scans it holds, in every kind.
pub fn bids_names(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let root = Path::new("/nowhere");
    let found: Vec<PathBuf> = text.lines().take(64).map(|line| root.join(line.trim_start_matches('/'))).collect();
    let tree = Tree::of(root, &found);
    let atlas = bids::atlases(&tree, Kind::Tables).into_iter().next().map(str::to_owned);
    for kind in [Kind::Images, Kind::Surfaces, Kind::Tables] {
        let wanted = Wanted {
            kind,
            space: text.lines().last().map(SpaceWish::parse),
            atlas: atlas.clone(),
            dense: text.len().is_multiple_of(2),
            ..Wanted::default()
        };
        for run in bids::runs(&tree, &wanted) {
            let _ = tree.metadata(&run.file);
        }
    }
}
