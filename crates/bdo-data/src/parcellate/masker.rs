//! An atlas on the grid of an image.

use std::path::Path;

use super::extract::{Run, runs_of};
use crate::atlas::image::{AtlasImage, points_of};
use crate::nifti::{AffineSource, Grid, NiftiReader, Volume, resample_nearest};
use crate::problem::{Problem, ReadError, listed};

/// What becomes of voxels that are NaN or infinite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NonFinite {
    /// They count as zero, which is what nilearn does; they are reported.
    #[default]
    AsZero,
    LeftOut,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MaskerOptions {
    /// A region with a smaller share of its voxels inside mask and field of view, with a finite signal, becomes NaN.
    pub least_coverage: f64,
    /// The least share of the whole atlas that must lie inside the mask.
    pub least_mask_overlap: f64,
    /// Take an image whose header gives no affine as centred on the origin.
    pub assume_affine: bool,
    pub non_finite: NonFinite,
}

impl Default for MaskerOptions {
    fn default() -> Self {
        Self { least_coverage: 0.5, least_mask_overlap: 0.8, assume_affine: false, non_finite: NonFinite::AsZero }
    }
}

/// The voxels of every region on one grid. Images of the same grid share one.
#[derive(Debug, Clone)]
pub struct LabelsMasker {
    pub(super) grid: Grid,
    pub(super) pieces: Vec<Vec<Run>>,
    /// Voxels of every region on this grid.
    pub voxels: Vec<u32>,
    /// Share of every region's atlas voxels inside mask and field of view.
    pub coverage: Vec<f32>,
    pub(super) options: MaskerOptions,
    pub(super) names: Vec<String>,
    pub warnings: Vec<String>,
}

impl LabelsMasker {
    pub fn new(
        atlas: &AtlasImage,
        image: &NiftiReader,
        mask: Option<&Volume>,
        options: &MaskerOptions,
    ) -> Result<Self, ReadError> {
        let grid = image.grid;
        check_affine(image.path(), &grid, image.affine_source, options)?;
        check_affine(&atlas.map.path, &atlas.grid, atlas.affine_source, options)?;
        let mut columns = resample_nearest(&atlas.map.columns, &atlas.grid, &grid)
            .ok_or_else(|| singular(&atlas.map.path, &atlas.grid))?;
        let inside = mask.map(|mask| {
            check_affine(&mask.path, &mask.grid, mask.affine_source, options)?;
            let inside: Vec<bool> = mask.values.iter().map(|x| x.is_finite() && *x != 0.0).collect();
            resample_nearest(&inside, &mask.grid, &grid).ok_or_else(|| singular(&mask.path, &mask.grid))
        });
        let inside = inside.transpose()?;
        for (column, _) in columns.iter_mut().zip(inside.iter().flatten()).filter(|(_, inside)| !**inside) {
            *column = 0;
        }
        let covered = covered(atlas, &grid, inside.as_deref()).ok_or_else(|| singular(image.path(), &grid))?;
        let mut masker = Self::of_columns(atlas, grid, &columns, &covered, options);
        masker.check_overlap(atlas, &covered, inside.is_some())?;
        Ok(masker)
    }

    fn of_columns(atlas: &AtlasImage, grid: Grid, columns: &[u16], covered: &[u32], options: &MaskerOptions) -> Self {
        let voxels = points_of(columns, atlas.map.regions.len());
        let share =
            |i: usize| if atlas.map.points[i] == 0 { 0.0 } else { covered[i] as f32 / atlas.map.points[i] as f32 };
        let coverage: Vec<f32> = (0..voxels.len()).map(share).collect();
        let names: Vec<String> = atlas.map.regions.iter().map(|r| r.name.clone()).collect();
        let (pieces, options, warnings) = (runs_of(columns), *options, vec![]);
        let mut masker = Self { grid, pieces, voxels, coverage, options, names, warnings };
        let poor: Vec<usize> = (0..masker.regions()).filter(|i| !masker.keeps(*i, masker.coverage[*i])).collect();
        if !poor.is_empty() {
            let shown = |i: &usize| format!("{} ({:.0} %)", masker.names[*i], 100.0 * masker.coverage[*i]);
            let (n, all, shown) = (poor.len(), masker.regions(), listed(poor.iter().map(shown)));
            let least = 100.0 * options.least_coverage;
            masker.warnings.push(format!(
                "{n} of {all} regions have less than {least:.0} % of their voxels in the image and are missing: {shown}"
            ));
        }
        masker
    }

    /// Whether a region with this share of its voxels is a column with values.
    pub(super) fn keeps(&self, region: usize, coverage: f32) -> bool {
        self.voxels[region] > 0 && f64::from(coverage) >= self.options.least_coverage
    }

    fn check_overlap(&mut self, atlas: &AtlasImage, covered: &[u32], masked: bool) -> Result<(), ReadError> {
        let usual = self.options.least_mask_overlap;
        let sum = |counts: &[u32]| counts.iter().map(|n| u64::from(*n)).sum::<u64>();
        let share = sum(covered) as f64 / sum(&atlas.map.points).max(1) as f64;
        let within = if masked { "mask" } else { "field of view" };
        // A small field of view is an acquisition, not a mistake; nothing at all in it is one.
        let least = if masked { usual } else { f64::MIN_POSITIVE };
        if share < least {
            let least_percent = if masked { 100.0 * least } else { 1.0 };
            let expected = format!("at least {least_percent:.0} % of the atlas inside the {within}");
            return Err(Problem::new("overlap", expected, format!("{:.1} %", 100.0 * share)).into());
        }
        if share < usual {
            self.warnings.push(format!("only {:.1} % of the atlas lies inside the {within}", 100.0 * share));
        }
        Ok(())
    }

    pub fn fits(&self, image: &NiftiReader) -> bool {
        self.grid == image.grid
    }

    /// Number of columns: the regions of the atlas, whatever the image covers.
    pub fn regions(&self) -> usize {
        self.voxels.len()
    }
}

fn check_affine(path: &Path, grid: &Grid, source: AffineSource, options: &MaskerOptions) -> Result<(), ReadError> {
    if source == AffineSource::Assumed && !options.assume_affine {
        let expected = "an sform or qform in the header, or --assume-affine";
        return Err(ReadError::content(path, Problem::new("affine", expected, "neither")));
    }
    if grid.affine.inverse().is_none() {
        return Err(singular(path, grid));
    }
    Ok(())
}

fn singular(path: &Path, grid: &Grid) -> ReadError {
    ReadError::content(path, Problem::new("affine", "an invertible matrix", format!("{:?}", grid.affine.0)))
}

/// How many of each region's atlas voxels fall into the image and its mask.
fn covered(atlas: &AtlasImage, grid: &Grid, inside: Option<&[bool]>) -> Option<Vec<u32>> {
    let mut covered = vec![0; atlas.map.regions.len()];
    let same = grid.is_same_as(&atlas.grid);
    let to_image = grid.affine.inverse()?.after(&atlas.grid.affine);
    let [nx, ny, _] = atlas.grid.shape;
    for (i, column) in atlas.map.columns.iter().enumerate() {
        let Some(column) = column.checked_sub(1) else { continue };
        let voxel = [i % nx, i / nx % ny, i / nx / ny];
        let found = if same {
            Some(i)
        } else {
            let [x, y, z] = to_image.apply(voxel.map(|x| x as f64)).map(|x| (x + 0.5).floor());
            let within = |x: f64, size: usize| (x >= 0.0 && x < size as f64).then_some(x as usize);
            let [sx, sy, sz] = grid.shape;
            within(x, sx).zip(within(y, sy)).zip(within(z, sz)).map(|((x, y), z)| x + sx * (y + sy * z))
        };
        let is_covered = found.is_some_and(|i| inside.is_none_or(|inside| inside[i]));
        covered[usize::from(column)] += u32::from(is_covered);
    }
    Some(covered)
}
