//! Reading one table of region series, with the tables of censored frames, motion and coverage that may lie beside it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::raw::RawSeries;
use super::{IngestPlan, SeriesTable, read_series};
use crate::problem::{Problem, ReadError};
use crate::region::Region;

/// Columns of an outliers table that say which frames were taken out of, or interpolated in, the series, surest first.
const CENSORED: [&str; 3] = ["interpolation", "framewise_displacement", "denoising"];

/// Tables beside a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableCompanions {
    /// Which frames are censored: one row a frame of the run, 1 where it is.
    pub outliers: Option<PathBuf>,
    /// Share of each region inside the image: one row, one column a region.
    pub coverage: Option<PathBuf>,
    /// Motion per frame.
    pub motion: Option<PathBuf>,
}

pub(super) fn read(plan: &IngestPlan, path: &Path, beside: &TableCompanions) -> Result<RawSeries, Problem> {
    let table = read_table(path)?;
    let order = column_order(plan, &table)?;
    let values: Vec<f32> =
        table.values.chunks_exact(table.columns).flat_map(|row| order.iter().map(|i| row[*i])).collect();
    let mut raw = RawSeries {
        regions: plan.regions.len(),
        values,
        frame_numbers: (0..table.frames).collect(),
        framewise_displacement_mm: None,
        coverage: None,
        header_tr_seconds: None,
        blake3: table.blake3.clone(),
    };
    if let Some(path) = &beside.coverage {
        raw.coverage = Some(coverage(plan, &read_table(path)?)?);
    }
    let motion = beside.motion.as_deref().map(read_table).transpose()?;
    let motion = motion.and_then(|m| column(&m, "framewise_displacement"));
    let Some(outliers) = &beside.outliers else {
        raw.framewise_displacement_mm = motion.filter(|fd| fd.len() == table.frames).map(filled);
        return Ok(raw);
    };
    let kept = kept_frames(&read_table(outliers)?, table.frames)?;
    raw.framewise_displacement_mm = motion
        .filter(|fd| fd.len() == kept.frames_of_run)
        .map(|fd| filled(kept.frames.iter().map(|t| fd[*t]).collect()));
    if kept.series_is_whole {
        // Frames the producer has interpolated are no measurements: they are left out like censored ones.
        raw.values =
            kept.frames.iter().flat_map(|t| raw.values[t * raw.regions..(t + 1) * raw.regions].to_vec()).collect();
    }
    raw.frame_numbers = kept.frames;
    Ok(raw)
}

fn read_table(path: &Path) -> Result<SeriesTable, Problem> {
    let name = || path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    read_series(path).map_err(|e| match e {
        ReadError::File(e) => Problem::new("file", format!("{} to be readable", name()), e.system),
        other => other.into_problem(),
    })
}

fn column(table: &SeriesTable, name: &str) -> Option<Vec<f32>> {
    let c = table.names.as_ref()?.iter().position(|n| n == name)?;
    Some(table.values.iter().skip(c).step_by(table.columns).copied().collect())
}

fn filled(fd: Vec<f32>) -> Vec<f32> {
    fd.into_iter().map(|x| if x.is_nan() { 0.0 } else { x }).collect()
}

struct Kept {
    frames: Vec<usize>,
    frames_of_run: usize,
    series_is_whole: bool,
}

/// The frames of the run that are neither censored nor interpolated, and whether the series still has the others.
fn kept_frames(outliers: &SeriesTable, rows: usize) -> Result<Kept, Problem> {
    let frames_of_run = outliers.frames;
    let candidates: Vec<(&str, Vec<usize>)> = CENSORED
        .iter()
        .filter_map(|name| {
            let flags = column(outliers, name)?;
            Some((*name, (0..flags.len()).filter(|t| flags[*t] == 0.0).collect()))
        })
        .collect();
    let Some((_, first)) = candidates.first() else {
        let found = outliers.names.as_ref().map_or_else(|| "no header".into(), |n| n.join(", "));
        return Err(Problem::new("outliers table", format!("a column {}", CENSORED.join(" or ")), found));
    };
    if rows == frames_of_run {
        return Ok(Kept { frames: first.clone(), frames_of_run, series_is_whole: true });
    }
    let fitting: Vec<&Vec<usize>> = candidates.iter().map(|(_, kept)| kept).filter(|kept| kept.len() == rows).collect();
    match fitting.as_slice() {
        [] => {
            let expected = format!("{frames_of_run} frames of the run or {} that are not censored", first.len());
            Err(Problem::new("length", expected, rows))
        }
        [one, rest @ ..] if rest.iter().all(|other| other == one) => {
            Ok(Kept { frames: (*one).clone(), frames_of_run, series_is_whole: false })
        }
        _ => {
            Err(Problem::new("outliers table", "one column that tells which frames are left", "several that disagree"))
        }
    }
}

/// Coverage in the order of the regions; a table of one row, or of a name and a share a row.
fn coverage(plan: &IngestPlan, table: &SeriesTable) -> Result<Vec<f32>, Problem> {
    let order = column_order(plan, table).map_err(|problem| Problem { what: "coverage table".into(), ..problem })?;
    if table.frames != 1 {
        return Err(Problem::new("coverage table", "one row", table.frames));
    }
    Ok(order.iter().map(|i| table.values[*i]).collect())
}

/// Which column of the table holds each region: by name where the table has names, else the count must fit.
pub(super) fn column_order(plan: &IngestPlan, table: &SeriesTable) -> Result<Vec<usize>, Problem> {
    let regions = &plan.regions;
    let Some(names) = table.names.as_ref().filter(|n| names_match_kind(plan, n)) else {
        if table.columns == regions.len() {
            return Ok((0..table.columns).collect());
        }
        let hint = if table.frames == regions.len() {
            " (it looks transposed: frames must go down, regions across)"
        } else {
            ""
        };
        let found = format!("{}{hint}", table.columns);
        return Err(Problem::new("regions", format!("{} columns", regions.len()), found));
    };
    let position: HashMap<&str, usize> = names.iter().enumerate().map(|(i, n)| (n.as_str(), i)).collect();
    let missing: Vec<&str> = regions.iter().map(|r| bare_name(plan, r)).filter(|n| !position.contains_key(n)).collect();
    if !missing.is_empty() || position.len() != names.len() || names.len() != regions.len() {
        let missing = if missing.is_empty() {
            String::new()
        } else {
            format!(" without {}", missing[..missing.len().min(5)].join(", "))
        };
        let expected = format!("the {} regions of the cohort", regions.len());
        return Err(Problem::new("regions", expected, format!("{} named columns{missing}", names.len())));
    }
    Ok(regions.iter().map(|r| position[bare_name(plan, r)]).collect())
}

/// A header of plain numbers over named regions is a count, not names.
fn names_match_kind(plan: &IngestPlan, names: &[String]) -> bool {
    let counted = names.iter().all(|n| n.parse::<u32>().is_ok());
    !counted || plan.regions.iter().all(|r| bare_name(plan, r).parse::<u32>().is_ok())
}

/// The name as a source file spells it: without the atlas' own prefix.
fn bare_name<'a>(plan: &IngestPlan, region: &'a Region) -> &'a str {
    region.name.strip_prefix(&format!("{}-", plan.atlas_name)).unwrap_or(&region.name)
}
