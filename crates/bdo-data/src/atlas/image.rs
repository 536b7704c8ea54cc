//! An atlas as an image of labels, with its table of names.

use std::path::{Path, PathBuf};

use super::label_table::{find_table, read_table};
use super::schaefer400_tian3;
use super::side::{check_sides, side_of_name, space_of_name};
use crate::nifti::{AffineSource, Grid, NiftiReader, Volume};
use crate::problem::{InContent, Problem, ReadError, ensure, listed};
use crate::region::Region;

/// Largest label that survives being read as a 32-bit float.
const LARGEST_LABEL: f32 = 16_777_216.0;

/// Which region every point of an atlas belongs to: the voxels of an image, x fastest, or points of grey matter.
#[derive(Debug, Clone, PartialEq)]
pub struct RegionMap {
    pub path: PathBuf,
    pub blake3: String,
    /// In the order of the table: the columns of every series.
    pub regions: Vec<Region>,
    /// The label of each region.
    pub ids: Vec<u32>,
    /// Column of every point, counted from 1; 0 is no region.
    pub columns: Vec<u16>,
    /// Points of each region.
    pub points: Vec<u32>,
    /// What was odd but harmless.
    pub warnings: Vec<String>,
}

/// Columns are kept in sixteen bits.
pub(crate) fn check_count(regions: usize) -> Result<(), Problem> {
    const MOST_REGIONS: usize = 60_000;
    let expected = format_args!("1 to {MOST_REGIONS} regions");
    ensure((1..=MOST_REGIONS).contains(&regions), "label table", expected, regions)
}

/// How many points each column has.
pub(crate) fn points_of(columns: &[u16], regions: usize) -> Vec<u32> {
    let mut points = vec![0; regions];
    for column in columns.iter().filter_map(|c| c.checked_sub(1)) {
        points[usize::from(column)] += 1;
    }
    points
}

/// A label image with names.
#[derive(Debug, Clone, PartialEq)]
pub struct AtlasImage {
    pub map: RegionMap,
    /// The space its name states.
    pub space: Option<String>,
    pub grid: Grid,
    pub affine_source: AffineSource,
}

impl AtlasImage {
    /// Reads a label image and its table; without one given, a table beside the image is used, and without that the labels
    /// are numbered. Sides in names are checked against world x.
    pub fn read(image: &Path, table: Option<&Path>) -> Result<Self, ReadError> {
        let volume = NiftiReader::read_single(image)?;
        let table = table.map(Path::to_path_buf).or_else(|| find_table(image));
        let rows = table.map(|t| read_table(&t)).transpose()?;
        Self::new(volume, rows)
    }

    fn new(volume: Volume, rows: Option<Vec<(u32, Region)>>) -> Result<Self, ReadError> {
        let Volume { path, grid, affine_source, values, blake3, mut warnings } = volume;
        let mut labels: Vec<u32> = Vec::with_capacity(values.len());
        for value in values {
            // A voxel without a number has no region, as in nilearn.
            let value = if value.is_finite() { value } else { 0.0 };
            let is_label = value >= 0.0 && value.fract() == 0.0 && value <= LARGEST_LABEL;
            ensure(is_label, "label", "whole numbers from 0", value).in_content(&path)?;
            labels.push(value as u32);
        }
        let rows = rows.unwrap_or_else(|| {
            warnings.push("there is no table of names beside the atlas image: regions are named by their label".into());
            numbered(&labels)
        });
        check_count(rows.len()).in_content(&path)?;
        let column_of: std::collections::HashMap<u32, u16> =
            rows.iter().enumerate().map(|(i, (id, _))| (*id, i as u16 + 1)).collect();
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
            let shown = listed(unnamed.iter());
            warnings.push(format!("{} labels have no name and no column: {shown}", unnamed.len()));
        }
        let points = points_of(&columns, rows.len());
        let centres = centres(&columns, &grid, &points);
        let names = || rows.iter().map(|(_, region)| region.name.as_str());
        let empty: Vec<&str> = names().zip(&points).filter(|(_, n)| **n == 0).map(|(name, _)| name).collect();
        if !empty.is_empty() {
            let shown = listed(empty.iter());
            warnings.push(format!("{} regions of the table have no voxel: {shown}", empty.len()));
        }
        if affine_source != AffineSource::Assumed {
            check_sides(&path, &grid.affine, names().zip(centres.iter().copied()))?;
        }
        let ids = rows.iter().map(|(id, _)| *id).collect();
        let place =
            |(row, centre): ((u32, Region), Option<[f64; 3]>)| placed(row.1, centre.map(|c| grid.affine.apply(c)));
        let regions = rows.into_iter().zip(centres).map(place).collect();
        let space = space_of_name(&path);
        let map = RegionMap { path, blake3, regions, ids, columns, points, warnings };
        Ok(Self { map, space, grid, affine_source })
    }
}

/// The mean voxel of every region that has any.
fn centres(columns: &[u16], grid: &Grid, points: &[u32]) -> Vec<Option<[f64; 3]>> {
    let mut sums = vec![[0.0_f64; 3]; points.len()];
    let [nx, ny, _] = grid.shape;
    for (i, column) in columns.iter().enumerate() {
        let Some(region) = column.checked_sub(1).map(usize::from) else { continue };
        for (sum, x) in sums[region].iter_mut().zip([i % nx, i / nx % ny, i / nx / ny]) {
            *sum += x as f64;
        }
    }
    let mean = |(sum, n): (&[f64; 3], &u32)| (*n > 0).then(|| sum.map(|s| s / f64::from(*n)));
    sums.iter().zip(points).map(mean).collect()
}

/// A region with a known name, which brings its network and published centre, so that cohorts of the same atlas in two spaces
/// describe the same regions.
pub(crate) fn known_region(name: &str) -> Option<Region> {
    schaefer400_tian3().iter().find(|r| r.name == name).map(Into::into)
}

/// A region of a table with what its name and its voxels say.
fn placed(row: Region, centroid_mm: Option<[f64; 3]>) -> Region {
    known_region(&row.name).unwrap_or_else(|| Region {
        hemisphere: row.hemisphere.or_else(|| side_of_name(&row.name).map(|h| h.to_string())),
        centroid_mm: centroid_mm.map(|c| c.map(|x| (x * 10.0).round() / 10.0)),
        ..row
    })
}

fn numbered(labels: &[u32]) -> Vec<(u32, Region)> {
    let ids: std::collections::BTreeSet<u32> = labels.iter().copied().filter(|l| *l != 0).collect();
    ids.into_iter().map(|id| (id, Region::named(format!("label-{id}")))).collect()
}
