//! Reading one table of region series, with the tables of censored frames, motion and coverage that may lie beside it.

use std::collections::HashMap;
use std::path::Path;

use super::raw::RawSeries;
use super::repetition::HeaderTime;
use super::{IngestPlan, SeriesTable, SourceFile, files, read_series};
use crate::problem::{Problem, ReadError, ensure, listed};
use crate::region::Region;

/// How far a time may be from a multiple of the step between frames.
const UNEVEN: f64 = 0.01;

pub(super) fn read(plan: &IngestPlan, file: &SourceFile) -> Result<RawSeries, Problem> {
    let table = read_table(&file.path)?;
    let order = column_order(plan, &table)?;
    let values = table.values.chunks_exact(table.columns).flat_map(|row| order.iter().map(|i| row[*i])).collect();
    let (frame_numbers, header_time) = match &table.times_seconds {
        Some(times) => numbers_of_times(times)?,
        None => ((0..table.frames).map(|t| t + file.dropped_before).collect(), None),
    };
    let coverage = file.beside.coverage.as_ref().map(|path| coverage(plan, path)).transpose()?;
    let regions = plan.regions.len();
    let blake3 = table.blake3;
    RawSeries { regions, values, frame_numbers, framewise_displacement_mm: None, coverage, header_time, blake3 }
        .without_censored(&file.beside)
}

/// Numbers of frames at these times, and the step between them.
fn numbers_of_times(times: &[f64]) -> Result<(Vec<usize>, Option<HeaderTime>), Problem> {
    let step = times.windows(2).map(|w| w[1] - w[0]).fold(f64::INFINITY, f64::min);
    if !step.is_finite() {
        return Ok(((0..times.len()).collect(), None));
    }
    // A scan whose clock does not start on a frame starts at its first time.
    let even = |t: f64| (t / step - (t / step).round()).abs() <= UNEVEN;
    let start = if times[0] >= 0.0 && even(times[0]) { 0.0 } else { times[0] };
    if let Some(t) = times.iter().find(|t| !even(**t - start) || (**t - start) / step > 1e7) {
        return Err(Problem::new("column of times", format_args!("multiples of the smallest step, {step}"), t));
    }
    let numbers = times.iter().map(|t| ((t - start) / step).round() as usize).collect();
    Ok((numbers, Some(HeaderTime { value: step, has_unit: false })))
}

pub(super) fn read_table(path: &Path) -> Result<SeriesTable, Problem> {
    read_series(path).map_err(|e| match e {
        ReadError::File(e) => Problem::new("file", format!("{} to be readable", files::name(path)), e.system),
        other => other.into_problem(),
    })
}

pub(super) fn column(table: &SeriesTable, name: &str) -> Option<Vec<f32>> {
    let c = table.names.as_ref()?.iter().position(|n| n == name)?;
    Some(table.column(c).collect())
}

/// Coverage in the order of the regions: a table of a name and a share a row, under a header `Node`, or of one row.
fn coverage(plan: &IngestPlan, path: &Path) -> Result<Vec<f32>, Problem> {
    let in_table = |problem: Problem| problem.of("coverage table");
    let text = std::fs::read_to_string(path).map_err(|e| Problem::new("coverage table", "to be readable", e))?;
    if text.lines().next().is_some_and(|header| header.starts_with("Node\t")) {
        let mut shares: HashMap<&str, f32> = HashMap::new();
        for (i, line) in text.lines().enumerate().skip(1).filter(|(_, l)| !l.trim().is_empty()) {
            let (node, share) = line.split_once('\t').unwrap_or((line, ""));
            let share = super::series_text::number(share.trim(), i).map_err(in_table)?;
            shares.insert(node.trim(), share);
        }
        let share = |r: &Region| {
            let name = bare_name(plan, r);
            shares.get(name).copied().ok_or_else(|| Problem::new("coverage table", format!("a row for {name}"), "none"))
        };
        return plan.regions.iter().map(share).collect();
    }
    let table = read_table(path).map_err(in_table)?;
    let order = column_order(plan, &table).map_err(in_table)?;
    ensure(table.frames == 1, "coverage table", "one row", table.frames)?;
    Ok(order.iter().map(|i| table.values[*i]).collect())
}

/// Which column of the table holds each region: by name where the table has names, else the count must fit.
pub(super) fn column_order(plan: &IngestPlan, table: &SeriesTable) -> Result<Vec<usize>, Problem> {
    let regions = &plan.regions;
    let Some(names) = table.names.as_ref().filter(|n| names_match_kind(plan, n)) else {
        let numbers: Vec<u64> = table.names.iter().flatten().filter_map(|n| n.parse().ok()).collect();
        let expected = "names of the regions, or numbers that increase, above the columns";
        ensure(numbers.windows(2).all(|w| w[0] < w[1]), "regions", expected, "numbers in another order")?;
        let transposed = " (it looks transposed: frames must go down, regions across)";
        let found = format!("{}{}", table.columns, if table.frames == regions.len() { transposed } else { "" });
        let expected = format_args!("{} columns", regions.len());
        return ensure(table.columns == regions.len(), "regions", expected, found)
            .map(|()| (0..table.columns).collect());
    };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    order_by_name(regions, |r| bare_name(plan, r), &names, "named columns")
}

/// Which of the columns found in a file holds each region of the cohort.
pub(super) fn order_by_name<'a>(
    regions: &'a [Region],
    name_of: impl Fn(&'a Region) -> &'a str,
    found: &[&str],
    what: &str,
) -> Result<Vec<usize>, Problem> {
    let position: HashMap<&str, usize> = found.iter().enumerate().map(|(i, name)| (*name, i)).collect();
    let missing: Vec<&str> = regions.iter().map(&name_of).filter(|name| !position.contains_key(name)).collect();
    if !missing.is_empty() || position.len() != found.len() || found.len() != regions.len() {
        let all = found.len();
        let without = if missing.is_empty() { String::new() } else { format!(" without {}", listed(missing.iter())) };
        let expected = format_args!("the {} regions of the cohort", regions.len());
        return Err(Problem::new("regions", expected, format_args!("{all} {what}{without}")));
    }
    Ok(regions.iter().map(|r| position[name_of(r)]).collect())
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
