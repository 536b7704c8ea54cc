//! An atlas as an image of labels, with its table of names.

use std::path::{Path, PathBuf};

use super::label_table::{LabelRow, find_table, read_table};
use super::schaefer400_tian3;
use super::side::space_of_name;
use super::side::{check_sides, side_of_name};
use crate::nifti::{AffineSource, Grid, Limits, NiftiReader, Volume};
use crate::problem::{InContent, Problem, ReadError, ensure};
use crate::region::Region;

/// Most regions of an atlas: columns are kept in sixteen bits.
const MOST_REGIONS: usize = 60_000;
/// Largest label that survives being read as a 32-bit float.
const LARGEST_LABEL: f32 = 16_777_216.0;

/// A label image with names: which region every voxel belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct AtlasImage {
    pub path: PathBuf,
    /// The space its name states.
    pub space: Option<String>,
    /// The regions in the order of the table: the columns of every series.
    pub regions: Vec<Region>,
    /// The label of each region in the image.
    pub ids: Vec<u32>,
    /// Column of every voxel, counted from 1; 0 is no region. x fastest.
    pub columns: Vec<u16>,
    pub voxels: Vec<u32>,
    pub grid: Grid,
    pub affine_source: AffineSource,
    pub blake3: String,
    pub warnings: Vec<String>,
}

impl AtlasImage {
    /// Reads a label image and its table; without one given, a table beside the image is used, and without that the labels
    /// are numbered. Sides in names are checked against world x.
    pub fn read(image: &Path, table: Option<&Path>, limits: &Limits) -> Result<Self, ReadError> {
        let volume = NiftiReader::read_single(image, limits)?;
        let table = table.map(Path::to_path_buf).or_else(|| find_table(image));
        let rows = table.map(|t| read_table(&t)).transpose()?;
        Self::new(image, volume, rows)
    }

    fn new(path: &Path, volume: Volume, rows: Option<Vec<LabelRow>>) -> Result<Self, ReadError> {
        let problem = |p: Problem| ReadError::content(path, p);
        let mut warnings = volume.warnings;
        let mut labels: Vec<u32> = Vec::with_capacity(volume.values.len());
        for value in &volume.values {
            // A voxel without a number has no region, as in nilearn.
            let value = if value.is_finite() { *value } else { 0.0 };
            if value < 0.0 || value.fract() != 0.0 || value > LARGEST_LABEL {
                return Err(problem(Problem::new("label", "whole numbers from 0", value)));
            }
            labels.push(value as u32);
        }
        let rows = rows.unwrap_or_else(|| {
            warnings.push("there is no table of names beside the atlas image: regions are named by their label".into());
            numbered(&labels)
        });
        let expected = format_args!("1 to {MOST_REGIONS} regions");
        ensure((1..=MOST_REGIONS).contains(&rows.len()), "label table", expected, rows.len()).in_content(path)?;
        let column_of: std::collections::HashMap<u32, u16> =
            rows.iter().enumerate().map(|(i, row)| (row.id, i as u16 + 1)).collect();
        let mut unnamed = std::collections::BTreeSet::new();
        let mut column = |label: u32| {
            let found = column_of.get(&label).copied().unwrap_or(0);
            if found == 0 && label != 0 {
                unnamed.insert(label);
            }
            found
        };
        let columns: Vec<u16> = labels.into_iter().map(&mut column).collect();
        if !unnamed.is_empty() {
            let shown: Vec<String> = unnamed.iter().take(5).map(ToString::to_string).collect();
            warnings.push(format!("{} labels have no name and no column: {}", unnamed.len(), shown.join(", ")));
        }
        let grid = Grid { shape: volume.shape, affine: volume.affine };
        let (voxels, centres) = centres(&columns, &grid, rows.len());
        let empty: Vec<&str> =
            rows.iter().zip(&voxels).filter(|(_, n)| **n == 0).map(|(r, _)| r.name.as_str()).collect();
        if !empty.is_empty() {
            let shown = empty[..empty.len().min(5)].join(", ");
            warnings.push(format!("{} regions of the table have no voxel: {shown}", empty.len()));
        }
        if volume.affine_source != AffineSource::Assumed {
            check_sides(path, &volume.affine, rows.iter().map(|r| r.name.as_str()).zip(centres.iter().copied()))?;
        }
        let regions = rows.iter().zip(&centres).map(|(row, centre)| region(row, centre.map(|c| grid.affine.apply(c))));
        Ok(Self {
            path: path.to_path_buf(),
            space: space_of_name(path),
            regions: regions.collect(),
            ids: rows.iter().map(|r| r.id).collect(),
            columns,
            voxels,
            grid,
            affine_source: volume.affine_source,
            blake3: volume.blake3,
            warnings,
        })
    }
}

fn centres(columns: &[u16], grid: &Grid, regions: usize) -> (Vec<u32>, Vec<Option<[f64; 3]>>) {
    let mut counts = vec![0_u32; regions];
    let mut sums = vec![[0.0_f64; 3]; regions];
    let [nx, ny, _] = grid.shape;
    for (i, column) in columns.iter().enumerate() {
        let Some(region) = column.checked_sub(1).map(usize::from) else { continue };
        counts[region] += 1;
        for (sum, x) in sums[region].iter_mut().zip([i % nx, i / nx % ny, i / nx / ny]) {
            *sum += x as f64;
        }
    }
    let mean = |(sum, n): (&[f64; 3], &u32)| (*n > 0).then(|| sum.map(|s| s / f64::from(*n)));
    let centres = sums.iter().zip(&counts).map(mean).collect();
    (counts, centres)
}

/// What is known about a region: a known name brings its network and published centre, so that cohorts of the same atlas in
/// two spaces describe the same regions.
fn region(row: &LabelRow, centroid_mm: Option<[f64; 3]>) -> Region {
    if let Some(known) = schaefer400_tian3().iter().find(|r| r.name == row.name) {
        return known.into();
    }
    Region {
        name: row.name.clone(),
        network: row.network.clone(),
        hemisphere: row.hemisphere.or_else(|| side_of_name(&row.name)).map(|h| h.to_string()),
        centroid_mm: centroid_mm.map(|c| c.map(|x| (x * 10.0).round() / 10.0)),
    }
}

fn numbered(labels: &[u32]) -> Vec<LabelRow> {
    let ids: std::collections::BTreeSet<u32> = labels.iter().copied().filter(|l| *l != 0).collect();
    ids.into_iter().map(|id| LabelRow { id, name: format!("label-{id}"), network: None, hemisphere: None }).collect()
}
