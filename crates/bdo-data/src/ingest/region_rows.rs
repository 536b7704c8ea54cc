//! Tables with one row a region, as the UK Biobank connectome resource gives them: a column of names, then one column a frame.

use super::series_file::SeriesTable;
use super::series_text;
use crate::problem::{Problem, ensure};
use crate::row::cells;

/// Headers of the column of names.
const NAME_HEADERS: [&str; 4] = ["label_name", "region_name", "roi_name", "parcel_name"];

/// Turns such a table into frames down and regions across; `None` for tables of another form.
pub(super) fn parse(text: &str) -> Option<Result<SeriesTable, Problem>> {
    let mut lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty());
    let (_, header) = lines.next()?;
    let delimiter = [',', '\t'].into_iter().find(|d| header.contains(*d))?;
    let header: Vec<&str> = cells(header, Some(delimiter)).collect();
    if !NAME_HEADERS.contains(&header.first()?.to_lowercase().as_str()) {
        return None;
    }
    Some(transposed(lines, delimiter, header.len() - 1))
}

fn transposed<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    delimiter: char,
    frames: usize,
) -> Result<SeriesTable, Problem> {
    let (mut names, mut rows) = (vec![], vec![]);
    for (number, line) in lines {
        let mut cells = cells(line, Some(delimiter));
        names.push(cells.next().unwrap_or_default().to_owned());
        let before = rows.len();
        for cell in cells {
            rows.push(series_text::number(cell, number)?);
        }
        let expected = format_args!("a name and {frames} frames");
        ensure(rows.len() - before == frames, format_args!("line {}", number + 1), expected, rows.len() - before)?;
    }
    let columns = names.len();
    let values = (0..frames).flat_map(|t| (0..columns).map(move |c| (c, t))).map(|(c, t)| rows[c * frames + t]);
    Ok(SeriesTable { names: Some(names), frames, columns, values: values.collect(), ..SeriesTable::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_regions_become_columns() {
        let table = parse("label_name,t0,t1,t2\n\"LH, a\",1,2,3\nRH_a,4,,6\n").unwrap().unwrap();
        assert_eq!(table.names.unwrap(), ["LH, a", "RH_a"]);
        assert_eq!((table.frames, table.columns), (3, 2));
        assert_eq!(table.values[..3], [1.0, 4.0, 2.0]);
        assert!(table.values[3].is_nan());
        assert!(parse("a,b\n1,2\n").is_none());
        let short = parse("label_name,t0,t1\nLH,1\n").unwrap().unwrap_err();
        assert_eq!(short.expected, "a name and 2 frames");
    }
}
