//! Region series from a CIFTI file.

use std::path::Path;

use super::file::CiftiFile;
use super::labels::CiftiLabels;
use super::xml::Axis;
use crate::nifti::Limits;
use crate::parcellate::{MaskerOptions, NonFinite, RoiSeries};
use crate::problem::{InContent, Problem, ReadError, ensure};
use crate::region::{Region, repeated_name};

#[derive(Debug, Clone, PartialEq)]
pub struct CiftiSeries {
    pub regions: Vec<Region>,
    pub series: RoiSeries,
}

/// Reads a parcellated series as it is, or a dense one as parcel means of `atlas`. The axes may be in either order.
pub fn read_series(
    path: &Path,
    atlas: Option<&CiftiLabels>,
    options: &MaskerOptions,
    limits: &Limits,
) -> Result<CiftiSeries, ReadError> {
    let file = CiftiFile::open(path, limits)?;
    let axes = file.axes().clone();
    let kinds = format!("{} and {}", axes[0].kind(), axes[1].kind());
    let (frames, step, start, across, time_first) = match axes {
        [Axis::Series { points, step_seconds, start }, other] => (points as usize, step_seconds, start, other, true),
        [other, Axis::Series { points, step_seconds, start }] => (points as usize, step_seconds, start, other, false),
        _ => return Err(file.problem(Problem::new("axes", "a series and brain models or parcels", kinds))),
    };
    let (columns, regions, total): (Vec<u32>, Vec<Region>, Option<Vec<u32>>) = match (&across, atlas) {
        (Axis::Parcels(names), _) => {
            if let Some(twice) = repeated_name(names.iter().map(String::as_str)) {
                return Err(file.problem(Problem::new("parcels", "different names", format!("{twice:?} twice"))));
            }
            let columns = (1..=names.len()).map(|i| i as u32).collect();
            (columns, names.iter().map(Region::named).collect(), None)
        }
        (Axis::BrainModels { models, volume }, Some(atlas)) => {
            let columns = atlas.columns_of(models, volume.as_ref()).map_err(|p| file.problem(p))?;
            (columns.into_iter().map(u32::from).collect(), atlas.map.regions.clone(), Some(atlas.map.points.clone()))
        }
        (Axis::BrainModels { .. }, None) => {
            let expected = "parcels (.ptseries.nii), or a .dlabel.nii atlas to make them";
            return Err(file.problem(Problem::new("axes", expected, kinds)));
        }
        _ => return Err(file.problem(Problem::new("axes", "a series and brain models or parcels", kinds))),
    };
    let wanted = (frames as u64).saturating_mul(regions.len() as u64).saturating_mul(8);
    let expected = format_args!("at most {} bytes of region series", limits.volume_bytes);
    ensure(wanted <= limits.volume_bytes, "size", expected, wanted).in_content(path)?;
    let mut sums = Sums::new(frames, regions.len());
    let blake3 = sums.read(file, &columns, time_first)?;
    let mut series = sums.means(blake3, step, total.as_deref(), &regions, options);
    if start != 0.0 {
        series.warnings.push(format!("the series starts at {start} s; times are counted from its first frame"));
    }
    Ok(CiftiSeries { regions, series })
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
    fn new(frames: usize, regions: usize) -> Self {
        let size = frames * regions;
        Self { frames, values: vec![0.0; size], bad: vec![0; size], points: vec![0; regions], dead: vec![0; regions] }
    }

    /// Adds up the whole file; `columns` are those of the axis across time, counted from 1. Returns the file's BLAKE3.
    fn read(&mut self, mut file: CiftiFile, columns: &[u32], time_first: bool) -> Result<String, ReadError> {
        let mut row = vec![];
        let mut index = 0;
        let mut zero = vec![true; columns.len()];
        while file.next_row(&mut row)? {
            if time_first {
                // One point of the brain over all frames.
                zero[index] = row.iter().all(|x| *x == 0.0);
                if let Some(region) = columns[index].checked_sub(1) {
                    let start = region as usize * self.frames;
                    for (frame, x) in row.iter().enumerate() {
                        self.add(start + frame, *x);
                    }
                }
            } else {
                // One frame over all points.
                for ((column, x), zero) in columns.iter().zip(&row).zip(&mut zero) {
                    *zero &= *x == 0.0;
                    if let Some(region) = column.checked_sub(1) {
                        self.add(region as usize * self.frames + index, *x);
                    }
                }
            }
            index += 1;
        }
        for (column, zero) in columns.iter().zip(zero) {
            if let Some(region) = column.checked_sub(1) {
                self.points[region as usize] += 1;
                self.dead[region as usize] += u32::from(zero);
            }
        }
        file.finish()
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

    fn means(
        self,
        blake3: String,
        tr_seconds: Option<f64>,
        total: Option<&[u32]>,
        regions: &[Region],
        options: &MaskerOptions,
    ) -> RoiSeries {
        let coverage: Option<Vec<f32>> = total.map(|total| {
            (0..regions.len()).map(|r| self.points_with_signal(r) as f32 / total[r].max(1) as f32).collect()
        });
        let kept = |region: usize| match &coverage {
            Some(coverage) => self.points[region] > 0 && f64::from(coverage[region]) >= options.least_coverage,
            // A parcel that is NaN throughout is one its writer could not fill.
            None => (0..self.frames).any(|t| self.bad[region * self.frames + t] == 0),
        };
        let kept: Vec<bool> = (0..regions.len()).map(kept).collect();
        let mut series = vec![f32::NAN; self.values.len()];
        for (region, _) in kept.iter().enumerate().filter(|(_, kept)| **kept) {
            let points = self.points[region];
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
        let missing: Vec<&str> =
            regions.iter().zip(&kept).filter(|(_, kept)| !**kept).map(|(r, _)| r.name.as_str()).collect();
        if !missing.is_empty() {
            let shown = missing[..missing.len().min(5)].join(", ");
            warnings.push(format!("{} of {} regions are missing: {shown}", missing.len(), regions.len()));
        }
        let non_finite: u64 = self.bad.iter().map(|n| u64::from(*n)).sum();
        if non_finite > 0 {
            warnings.push(format!("{non_finite} values are NaN or infinite"));
        }
        RoiSeries {
            frames: self.frames,
            regions: regions.len(),
            series,
            coverage,
            tr_seconds,
            tr_has_unit: true,
            blake3,
            non_finite,
            warnings,
        }
    }
}
