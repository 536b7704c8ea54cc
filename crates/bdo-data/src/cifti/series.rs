//! Region series from a CIFTI file.

use std::path::Path;

use super::file::CiftiFile;
use super::labels::CiftiLabels;
use super::xml::Axis;
use crate::nifti::MOST_VOLUME_BYTES;
use crate::parcellate::{MaskerOptions, NonFinite, RoiSeries};
use crate::problem::{InContent, Problem, ReadError, ensure, listed};
use crate::region::{Region, ensure_different};

/// Reads a parcellated series as it is, or a dense one as parcel means of `atlas`. The axes may be in either order.
pub fn read_series(
    path: &Path,
    atlas: Option<&CiftiLabels>,
    options: &MaskerOptions,
) -> Result<(Vec<Region>, RoiSeries), ReadError> {
    let file = CiftiFile::open(path)?;
    let kinds = file.kinds();
    let refuse = |expected: &str| Err(ReadError::content(path, Problem::new("axes", expected, &kinds)));
    let time_first = matches!(file.axes[0], Axis::Series { .. });
    let (time, across) = if time_first { (0, 1) } else { (1, 0) };
    let Axis::Series { points: frames, step_seconds, start } = file.axes[time] else {
        return refuse("a series and brain models or parcels");
    };
    let (columns, regions, total): (Vec<u32>, Vec<Region>, Option<&[u32]>) = match (&file.axes[across], atlas) {
        (Axis::Parcels(names), _) => {
            ensure_different("parcels", names.iter().map(String::as_str)).in_content(path)?;
            ((1..=names.len() as u32).collect(), names.iter().map(Region::named).collect(), None)
        }
        (Axis::BrainModels { models, volume }, Some(atlas)) => {
            let columns = atlas.columns_of(models, volume.as_ref()).in_content(path)?;
            (columns.into_iter().map(u32::from).collect(), atlas.map.regions.clone(), Some(&atlas.map.points))
        }
        (Axis::BrainModels { .. }, None) => {
            return refuse("parcels (.ptseries.nii), or a .dlabel.nii atlas to make them");
        }
        _ => return refuse("a series and brain models or parcels"),
    };
    let wanted = frames.saturating_mul(regions.len() as u64).saturating_mul(8);
    let expected = format_args!("at most {MOST_VOLUME_BYTES} bytes of region series");
    ensure(wanted <= MOST_VOLUME_BYTES, "size", expected, wanted).in_content(path)?;
    let (sums, blake3) = Sums::read(file, frames as usize, regions.len(), &columns, time_first)?;
    let mut series = sums.means(blake3, step_seconds, total, &regions, options);
    if start != 0.0 {
        series.warnings.push(format!("the series starts at {start} s; times are counted from its first frame"));
    }
    Ok((regions, series))
}

/// Sums over the points of every region, frame by frame.
struct Sums {
    frames: usize,
    /// Row-major `[regions, frames]`.
    values: Vec<f64>,
    bad: Vec<u32>,
    points: Vec<u32>,
    /// Points of each region that are zero in every frame.
    dead: Vec<u32>,
}

impl Sums {
    /// Adds up the whole file; `columns` are those of the axis across time, counted from 1. Also returns the file's BLAKE3.
    fn read(
        mut file: CiftiFile,
        frames: usize,
        regions: usize,
        columns: &[u32],
        time_first: bool,
    ) -> Result<(Self, String), ReadError> {
        let (values, bad) = (vec![0.0; frames * regions], vec![0; frames * regions]);
        let mut sums = Self { frames, values, bad, points: vec![0; regions], dead: vec![0; regions] };
        let region_of = |column: u32| column.checked_sub(1).map(|region| region as usize);
        let mut row = vec![];
        let mut index = 0;
        let mut zero = vec![true; columns.len()];
        while file.next_row(&mut row)? {
            if time_first {
                // One point of the brain over all frames.
                zero[index] = row.iter().all(|x| *x == 0.0);
                if let Some(region) = region_of(columns[index]) {
                    for (frame, x) in row.iter().enumerate() {
                        sums.add(region * frames + frame, *x);
                    }
                }
            } else {
                // One frame over all points.
                for ((column, x), zero) in columns.iter().zip(&row).zip(&mut zero) {
                    *zero &= *x == 0.0;
                    if let Some(region) = region_of(*column) {
                        sums.add(region * frames + index, *x);
                    }
                }
            }
            index += 1;
        }
        for (column, zero) in columns.iter().zip(zero) {
            if let Some(region) = region_of(*column) {
                sums.points[region] += 1;
                sums.dead[region] += u32::from(zero);
            }
        }
        Ok((sums, file.finish()?))
    }

    /// Points of a region that are finite in every frame and not always zero.
    fn points_with_signal(&self, region: usize) -> u32 {
        let frames = region * self.frames..(region + 1) * self.frames;
        let worst = self.bad[frames].iter().copied().max().unwrap_or(0);
        self.points[region].saturating_sub(worst + self.dead[region])
    }

    fn add(&mut self, at: usize, x: f64) {
        if x.is_finite() {
            self.values[at] += x;
        } else {
            self.bad[at] += 1;
        }
    }

    /// The mean of every region; `total` is how many points each has in the atlas, where the file did not come parcellated.
    fn means(
        self,
        blake3: String,
        tr_seconds: Option<f64>,
        total: Option<&[u32]>,
        regions: &[Region],
        options: &MaskerOptions,
    ) -> RoiSeries {
        let share = |(r, total): (usize, &u32)| self.points_with_signal(r) as f32 / (*total).max(1) as f32;
        let coverage: Option<Vec<f32>> = total.map(|total| total.iter().enumerate().map(share).collect());
        let mut series = vec![f32::NAN; self.values.len()];
        let mut missing: Vec<&str> = vec![];
        for (region, Region { name, .. }) in regions.iter().enumerate() {
            let points = self.points[region];
            let is_kept = match &coverage {
                Some(coverage) => points > 0 && f64::from(coverage[region]) >= options.least_coverage,
                // A parcel that is NaN throughout is one its writer could not fill.
                None => (0..self.frames).any(|t| self.bad[region * self.frames + t] == 0),
            };
            if !is_kept {
                missing.push(name);
                continue;
            }
            for frame in 0..self.frames {
                let at = region * self.frames + frame;
                let counted = match options.non_finite {
                    NonFinite::AsZero if coverage.is_some() => points,
                    // A parcel without a value stays without one: 0 / 0 is NaN.
                    _ => points - self.bad[at],
                };
                series[frame * regions.len() + region] = (self.values[at] / f64::from(counted)) as f32;
            }
        }
        let mut warnings = vec![];
        if !missing.is_empty() {
            let (n, all) = (missing.len(), regions.len());
            warnings.push(format!("{n} of {all} regions are missing: {}", listed(missing.into_iter())));
        }
        let non_finite: u64 = self.bad.iter().map(|n| u64::from(*n)).sum();
        if non_finite > 0 {
            warnings.push(format!("{non_finite} values are NaN or infinite"));
        }
        let (frames, regions, tr_has_unit) = (self.frames, regions.len(), true);
        RoiSeries { frames, regions, series, coverage, tr_seconds, tr_has_unit, blake3, non_finite, warnings }
    }
}
