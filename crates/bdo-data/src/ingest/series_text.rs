//! A table of numbers as text: with names above, numbers above or nothing above, with or without a column that only counts the
//! rows or says their times.

use std::borrow::Cow;

use super::series_file::SeriesTable;
use super::table_header;
use crate::problem::{Problem, ensure, utf8};
use crate::row::{cells, delimiter_of};

/// Names of a column that counts rows; it is left out if that is what it does.
const INDEX_NAMES: &str = ",unnamed: 0,index,idx,row,frame,frames,volume,vol,timepoint,timepoints,tr,scan,sample";
const TIME_NAMES: [&str; 10] =
    ["time", "times", "t", "time_s", "time_sec", "time_seconds", "time (s)", "seconds", "time_ms", "time (ms)"];
/// Headers of the column of names in a table with one row a region, as the UK Biobank connectome resource gives them.
const REGION_HEADERS: [&str; 4] = ["label_name", "region_name", "roi_name", "parcel_name"];
/// A column without a name that counts at least this many rows is no region.
const COUNTED_ROWS: usize = 10;

type Line<'a> = (usize, &'a str);
/// Names, lines below them, delimiter.
type Parts<'a> = (Option<Vec<String>>, &'a [Line<'a>], Option<char>);

/// Reads a table, frames down.
pub(super) fn parse(bytes: &[u8]) -> Result<SeriesTable, Problem> {
    let text = text_of(bytes)?;
    let mut lines: Vec<Line> = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()).collect();
    if let Some(table) = region_rows(&lines) {
        return table;
    }
    strip_ends(&mut lines);
    let (names, body, delimiter) = above_and_body(&lines)?;
    let mut table = SeriesTable::of_lines(names, body, delimiter)?;
    table.take_times(body, delimiter)?;
    table.drop_counters()?;
    Ok(table)
}

/// A table with one row a region, a column of names and then one column a frame; `None` for tables of another form.
fn region_rows(lines: &[Line]) -> Option<Result<SeriesTable, Problem>> {
    let ((_, header), rows) = lines.split_first()?;
    let delimiter = [',', '\t'].into_iter().find(|d| header.contains(*d))?;
    let header: Vec<&str> = cells(header, Some(delimiter)).collect();
    let is_one = REGION_HEADERS.contains(&header.first()?.to_lowercase().as_str());
    is_one.then(|| transposed(rows, delimiter, header.len() - 1))
}

fn transposed(lines: &[Line], delimiter: char, frames: usize) -> Result<SeriesTable, Problem> {
    let (mut names, mut values) = (vec![], vec![]);
    for (line_number, line) in lines {
        let mut cells = cells(line, Some(delimiter));
        names.push(cells.next().unwrap_or_default().to_owned());
        let before = values.len();
        for cell in cells {
            values.push(number(cell, *line_number)?);
        }
        let (expected, found) = (format_args!("a name and {frames} frames"), values.len() - before);
        ensure(found == frames, format_args!("line {}", line_number + 1), expected, found)?;
    }
    let table = SeriesTable::of_numbers(frames, names.len(), values, true);
    Ok(SeriesTable { names: Some(names), ..table })
}

fn text_of(bytes: &[u8]) -> Result<Cow<'_, str>, Problem> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(Problem::new("text", "UTF-8", "UTF-16"));
    }
    let text = utf8("text", bytes)?;
    ensure(!text.contains('\0'), "text", "UTF-8", "zero bytes, which UTF-16 and binary files have")?;
    Ok(if text.contains('\n') { text.into() } else { text.replace('\r', "\n").into() })
}

/// Takes the delimiter off the end of lines where it only ends them. Where it is followed by a value that is missing, the columns
/// of header and rows are as many without that.
fn strip_ends(lines: &mut [Line]) {
    fn bare_of(line: &str, delimiter: char) -> Option<&str> {
        line.trim_end_matches(['\r', ' ']).strip_suffix(delimiter)
    }
    let comments = lines.iter().take_while(|(_, l)| l.trim_start().starts_with('#')).count();
    let (above, rows) = lines.split_at_mut(comments.max(1).min(lines.len()));
    let (Some((_, head)), Some((_, first))) = (above.last_mut(), rows.first()) else { return };
    let Some(delimiter) = delimiter_of(first) else { return };
    let count = |line: &str| cells(line, Some(delimiter)).count();
    let number = |row: Option<&Line>| cells(row?.1, Some(delimiter)).next()?.parse::<usize>().ok();
    // A column that counts rows needs no header, so that a shorter header does not tell.
    let counted = number(rows.first()).is_some_and(|n| n < 2 && number(rows.get(1)) == Some(n + 1));
    let (above, below) = (count(head), count(first));
    let rows_end = rows.iter().all(|(_, l)| bare_of(l, delimiter).is_some());
    let both = bare_of(head, delimiter).is_some() && above == below;
    let of_rows = rows_end && (both || (above + 1 == below && !counted));
    if of_rows {
        rows.iter_mut().for_each(|(_, l)| *l = bare_of(l, delimiter).unwrap_or(l));
    }
    if (of_rows && both) || above == below + 1 {
        *head = bare_of(head, delimiter).unwrap_or(head);
    }
}

/// The header's names, the lines below and the delimiter. Lines of comments above the table are passed over.
fn above_and_body<'a>(lines: &'a [Line<'a>]) -> Result<Parts<'a>, Problem> {
    let comments = lines.iter().take_while(|(_, l)| l.trim_start().starts_with('#')).count();
    let first = lines.get(comments).map_or("", |(_, l)| *l);
    if comments > 0 && table_header::is_numeric(first, delimiter_of(first)) {
        // The last comment is a header if it has a name for every column.
        let last = lines[comments - 1].1.trim_start().trim_start_matches('#');
        for delimiter in [delimiter_of(last), delimiter_of(first)] {
            let names: Vec<String> = cells(last, delimiter).map(bare).collect();
            if names.len() == cells(first, delimiter_of(first)).count() {
                return Ok((Some(names), &lines[comments..], delimiter_of(first)));
            }
        }
        return Ok((None, &lines[comments..], delimiter_of(first)));
    }
    let first = lines.first().map_or("", |(_, l)| *l);
    let delimiter = delimiter_of(first);
    let names = table_header::above(lines, delimiter)?;
    let body = if names.is_some() { &lines[1..] } else { lines };
    Ok((names, body, delimiter))
}

pub(super) fn bare(cell: &str) -> String {
    let name = cell.trim_start_matches('#').trim().trim_matches('"').trim_start_matches('#').trim();
    // XCP-D may mark every column with a hash of its settings.
    name.rfind("_hash-").map_or(name, |at| &name[..at]).to_owned()
}

/// The number in a cell of a line, counted from 0; NaN for a missing value.
pub(super) fn number(cell: &str, line: usize) -> Result<f32, Problem> {
    match cell {
        "n/a" | "N/A" | "NA" | "nan" | "NaN" | "" => Ok(f32::NAN),
        _ => cell.parse().map_err(|_| {
            let shown: String = cell.chars().take(40).collect();
            let comma = cell.contains(',') && cell.bytes().all(|b| b.is_ascii_digit() || b",.-+eE".contains(&b));
            let expected = if comma { "numbers with a decimal point" } else { "numbers" };
            Problem::new(format!("line {}", line + 1), expected, format!("{shown:?}"))
        }),
    }
}

impl SeriesTable {
    fn of_lines(mut names: Option<Vec<String>>, body: &[Line], delimiter: Option<char>) -> Result<Self, Problem> {
        // AFNI's 3dROIstats puts a file name and a volume such as `0[?]` before the numbers.
        let of_afni = |n: &[String]| n.len() > 2 && n[0] == "File" && n[1] == "Sub-brick";
        let skipped = if names.as_deref().is_some_and(of_afni) { 2 } else { 0 };
        if skipped > 0 {
            let mean = |n: &String| n.strip_prefix("Mean_").unwrap_or(n).to_owned();
            names = names.map(|n| n[skipped..].iter().map(mean).collect());
        }
        // R leaves the column of row names without a header.
        let first = body.first().map_or(0, |(_, line)| cells(line, delimiter).count().saturating_sub(skipped));
        if let Some(names) = names.as_mut().filter(|n| n.len() + 1 == first) {
            names.insert(0, String::new());
        }
        let mut columns = names.as_ref().map(Vec::len);
        let mut values = Vec::with_capacity(columns.unwrap_or(first) * body.len());
        for (number_of_line, line) in body {
            let before = values.len();
            for cell in cells(line, delimiter).skip(skipped) {
                values.push(number(cell, *number_of_line)?);
            }
            let found = values.len() - before;
            let expected = *columns.get_or_insert(found);
            let line = format_args!("line {}", number_of_line + 1);
            ensure(found == expected, line, format_args!("{expected} columns"), found)?;
        }
        Ok(Self { names, columns: columns.unwrap_or(0), frames: body.len(), values, ..Self::default() })
    }

    pub(super) fn column(&self, c: usize) -> impl Iterator<Item = f32> + '_ {
        self.values.iter().skip(c).step_by(self.columns.max(1)).copied()
    }

    /// Whether a column holds nothing but 0, 1, 2... or 1, 2, 3...
    fn counts_rows(&self, c: usize) -> bool {
        let counts_from = |start: usize| self.column(c).enumerate().all(|(t, x)| x == (t + start) as f32);
        self.frames > 0 && (counts_from(0) || counts_from(1))
    }

    fn remove(&mut self, c: usize) {
        let columns = self.columns;
        let mut at = 0;
        self.values.retain(|_| {
            at += 1;
            (at - 1) % columns != c
        });
        self.columns -= 1;
        if let Some(names) = &mut self.names {
            names.remove(c);
        }
    }

    /// Takes out a column of times, in seconds. One that only counts is left for [`SeriesTable::drop_counters`].
    fn take_times(&mut self, body: &[Line], delimiter: Option<char>) -> Result<(), Problem> {
        let is_time = |n: &String| TIME_NAMES.contains(&n.to_lowercase().as_str());
        let time = self.names.as_ref().and_then(|n| n.iter().position(is_time));
        let Some(c) = time.filter(|_| self.columns > 1) else { return Ok(()) };
        if self.counts_rows(c) {
            self.remove(c);
            return Ok(());
        }
        let name = self.names.as_ref().map(|n| n[c].clone()).unwrap_or_default();
        // Once more from the text: single precision is too coarse for long scans.
        let exact = |(_, line): &Line| cells(line, delimiter).nth(c).and_then(|cell| cell.parse::<f64>().ok());
        let times: Option<Vec<f64>> = body.iter().map(exact).collect();
        let increasing = |t: &Vec<f64>| t.iter().all(|x| x.is_finite()) && t.windows(2).all(|w| w[0] < w[1]);
        let times = times.filter(increasing).ok_or_else(|| {
            let expected = "increasing times, or another name for a region";
            Problem::new(format!("column {name:?}"), expected, "other values")
        })?;
        self.remove(c);
        let scale = if name.to_lowercase().contains("ms") { 1e-3 } else { 1.0 };
        self.times_seconds = Some(times.into_iter().map(|t| t * scale).collect());
        Ok(())
    }

    /// Takes out a column that counts rows under a name of such columns. Without a name it is refused: it may be meant.
    fn drop_counters(&mut self) -> Result<(), Problem> {
        if self.columns < 2 {
            return Ok(());
        }
        match self.names.as_ref().map(|names| names[0].to_lowercase()) {
            Some(name) if INDEX_NAMES.split(',').any(|known| known == name) && self.counts_rows(0) => self.remove(0),
            Some(name) if name.is_empty() => {
                let expected = "a name above every column, or row numbers where there is none";
                return Err(Problem::new("column 1", expected, "other values without a name"));
            }
            None if self.frames >= COUNTED_ROWS && self.counts_rows(0) => {
                let found = "the numbers of the rows; take the column out, or name it index in a header line";
                return Err(Problem::new("column 1", "values of a region", found));
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(from: usize, to: usize, lead: impl Fn(usize) -> String) -> String {
        (from..to).fold(String::new(), |s, t| s + &format!("{}{}.5,{}.25\n", lead(t), t * 7 % 5, t * 3 % 11))
    }

    #[test]
    fn a_pandas_index_column_is_no_region() {
        for head in [",a,b", "Unnamed: 0,a,b", "index,a,b", "\"\",\"a\",\"b\"", ",0,1"] {
            let table = parse(format!("{head}\n{}", rows(0, 12, |t| format!("{t},"))).as_bytes()).unwrap();
            assert_eq!((table.columns, table.frames, table.values[0]), (2, 12, 0.5), "{head}");
            assert_eq!(table.names.unwrap().len(), 2);
        }
        // R: the row names have no header.
        let table = parse(format!("\"a\",\"b\"\n{}", rows(1, 13, |t| format!("\"{t}\","))).as_bytes()).unwrap();
        assert_eq!((table.columns, table.names.unwrap()), (2, vec!["a".to_owned(), "b".to_owned()]));
        let refused = parse(rows(0, 12, |t| format!("{t},")).as_bytes()).unwrap_err();
        assert!(refused.found.starts_with("the numbers of the rows"), "{refused}");
    }

    #[test]
    fn a_time_column_gives_times_and_is_no_region() {
        let table =
            parse(format!("time,a,b\n{}", rows(0, 12, |t| format!("{},", t as f64 * 0.72))).as_bytes()).unwrap();
        assert_eq!((table.columns, table.times_seconds.unwrap()[11]), (2, 11.0 * 0.72));
        let table = parse(format!("time_ms,a,b\n{}", rows(0, 12, |t| format!("{},", t * 720))).as_bytes()).unwrap();
        assert_eq!(table.times_seconds.unwrap()[1], 0.72);
        let refused = parse(format!("time,a,b\n{}", rows(0, 12, |_| "3,".into())).as_bytes()).unwrap_err();
        assert_eq!(refused.what, "column \"time\"");
    }

    #[test]
    fn a_last_region_without_values_is_missing_and_a_delimiter_at_the_end_is_none() {
        let missing = parse(b"a,b,c\n0.5,1.5,\n2.5,3.5,\n").unwrap();
        assert_eq!((missing.columns, missing.values[1], missing.values[2].is_nan()), (3, 1.5, true));
        for text in ["a,b,\n0.5,1.5,\n2.5,3.5,\n", "a,b\n0.5,1.5,\n2.5,3.5,\n", "a,b,\n0.5,1.5\n2.5,3.5\n"] {
            let table = parse(text.as_bytes()).unwrap();
            assert_eq!((table.columns, &table.values[..]), (2, &[0.5, 1.5, 2.5, 3.5][..]), "{text:?}");
        }
        // Row numbers without a header, and a last region without values.
        let counted = parse(b"a,b\n1,0.5,\n2,2.5,\n").unwrap();
        assert_eq!((counted.values[0], counted.values[1].is_nan(), counted.values[2]), (0.5, true, 2.5));
    }

    #[test]
    fn quotes_semicolons_and_old_line_ends() {
        let quoted = parse(b"\"Gyrus, pars opercularis\",\"b\"\n\"0.5\",\"1.5\"\n").unwrap();
        assert_eq!(quoted.names.unwrap(), ["Gyrus, pars opercularis", "b"]);
        assert_eq!(quoted.values, [0.5, 1.5]);
        let of_r = parse(b"\"left hand\" \"b\"\n\"1\" 0.5 1.5\n\"2\" 2.5 3.5\n").unwrap();
        assert_eq!(
            (of_r.names.unwrap(), of_r.values),
            (vec!["left hand".into(), "b".into()], vec![0.5, 1.5, 2.5, 3.5])
        );
        assert_eq!(parse(b"\"0.5\",\"1.5\"\n\"2.5\",\"3.5\"\n").unwrap().frames, 2, "quoted numbers are no names");
        assert_eq!(parse(b"a;b\n0.5;1.5\n").unwrap().values, [0.5, 1.5]);
        assert_eq!(parse(b"a,b\r0.5,1.5\r2.5,3.5\r").unwrap().frames, 2);
        for text in [&b"a;b\n0,5;1,5\n"[..], b"a\tb\n0,5\t1,5\n", b"0,5;1,5\n2,5;3,5\n"] {
            assert_eq!(parse(text).unwrap_err().expected, "numbers with a decimal point");
        }
        let utf16: Vec<u8> = "a,b\n0.5,1.5\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(parse(&utf16).unwrap_err().found.starts_with("zero bytes"));
        assert_eq!(parse(&[&[0xff, 0xfe], &utf16[..]].concat()).unwrap_err().found, "UTF-16");
    }

    #[test]
    fn tables_of_3droistats_lose_file_and_volume() {
        let text = "File\tSub-brick\tMean_1 \tMean_12 \nx.nii.gz\t0[?]\t0.5\t1.5\nx.nii.gz\t1[?]\t2.5\t3.5\n";
        let table = parse(text.as_bytes()).unwrap();
        assert_eq!(table.names.unwrap(), ["1", "12"]);
        assert_eq!(table.values, [0.5, 1.5, 2.5, 3.5]);
    }

    #[test]
    fn comments_above_are_a_header_if_they_fit() {
        let named = parse(b"# made by x\n# a b\n1.5 2.5\n3.5 4.5\n").unwrap();
        assert_eq!((named.names.unwrap(), named.frames), (vec!["a".to_owned(), "b".to_owned()], 2));
        let bare = parse(b"# made by somebody yesterday\n1.5 2.5\n3.5 4.5\n").unwrap();
        assert_eq!((bare.names, bare.frames), (None, 2));
    }

    #[test]
    fn rows_of_regions_become_columns() {
        let table = parse(b"label_name,t0,t1,t2\n\"LH, a\",1,2,3\nRH_a,4,,6\n").unwrap();
        assert_eq!(table.names.unwrap(), ["LH, a", "RH_a"]);
        assert_eq!((table.frames, table.columns), (3, 2));
        assert_eq!(table.values[..3], [1.0, 4.0, 2.0]);
        assert!(table.values[3].is_nan());
        assert_eq!(parse(b"a,b\n1.5,2.5\n").unwrap().names.unwrap(), ["a", "b"]);
        let short = parse(b"label_name,t0,t1\nLH,1\n").unwrap_err();
        assert_eq!(short.expected, "a name and 2 frames");
    }
}
