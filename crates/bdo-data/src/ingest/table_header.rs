//! Whether the first row of a table is a header, also where it is made of numbers.
//!
//! Writers that know no region names number their columns: `0,1,2`, `1,2,3`, `0.0,1.0` or the numbers of an atlas. Read as
//! values they would be a false first frame, so a row of different whole numbers above measured values is taken as a header, and
//! where both readings are possible the table is refused.

use super::series_text::{bare, number};
use crate::problem::Problem;
use crate::row::cells;

/// Rows below that are looked at.
const LOOKED_AT: usize = 20;
/// From so many columns on, whole numbers that increase from left to right are no frame.
const COLUMNS_THAT_DECIDE: usize = 8;

pub(super) fn is_numeric(line: &str, delimiter: Option<char>) -> bool {
    cells(line, delimiter).all(|c| number(c, 0).is_ok())
}

/// The names in the first line; `None` where it is the first frame already.
pub(super) fn above(lines: &[(usize, &str)], delimiter: Option<char>) -> Result<Option<Vec<String>>, Problem> {
    let Some(((_, first), below)) = lines.split_first() else { return Ok(None) };
    // Numbers in quotes above numbers without are names.
    let quoted = first.contains('"') && below.first().is_some_and(|(_, next)| !next.contains('"'));
    if quoted || !is_numeric(first, delimiter) {
        return Ok(Some(cells(first, delimiter).map(bare).collect()));
    }
    let row: Vec<&str> = cells(first, delimiter).collect();
    // A corner without a name stands above the row numbers.
    let corner = row.len() > 1 && row[0].is_empty() && !row[1..].iter().any(|c| c.is_empty());
    let counted = if corner { &row[1..] } else { &row[..] };
    let Some(numbers) = different_whole_numbers(counted) else { return Ok(None) };
    let names = corner.then(String::new).into_iter().chain(numbers.iter().map(ToString::to_string)).collect();
    if corner {
        return Ok(Some(names));
    }
    let columns = numbers.len();
    if columns < 2 || below.is_empty() {
        return Ok(None);
    }
    let counts_up = (0..2).any(|from| numbers.iter().enumerate().all(|(i, n)| *n == i as u64 + from));
    let plain = counted.iter().all(|c| c.bytes().all(|b| b.is_ascii_digit()));
    if measured(below, delimiter) {
        return Ok((counts_up || (plain && columns > 2)).then_some(names));
    }
    // Whole numbers below too: stored as integers, or rounded.
    let next: Vec<&str> = below.first().map(|(_, l)| cells(l, delimiter).collect()).unwrap_or_default();
    let next_increases = different_whole_numbers(&next).is_some_and(|n| n.len() == columns && increasing(&n));
    if counts_up && next_increases {
        let shown = counted[..2].join(", ");
        let found = format!("{shown}, ... above other whole numbers, which may be names or values");
        return Err(Problem::new("first row", "names of the columns, or values of the first frame", found));
    }
    let decides = increasing(&numbers) && columns >= COLUMNS_THAT_DECIDE && plain && !next_increases;
    Ok((counts_up || decides).then_some(names))
}

fn increasing(numbers: &[u64]) -> bool {
    numbers.windows(2).all(|w| w[0] < w[1])
}

/// The numbers of a row if all are whole, not negative and different.
fn different_whole_numbers(row: &[&str]) -> Option<Vec<u64>> {
    let whole = |cell: &&str| {
        let x: f64 = cell.parse().ok()?;
        (x >= 0.0 && x.fract() == 0.0 && x < 1e9).then_some(x as u64)
    };
    let numbers: Vec<u64> = row.iter().map(whole).collect::<Option<_>>()?;
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    sorted.windows(2).all(|w| w[0] != w[1]).then_some(numbers)
}

/// Whether at least half of the cells below have a fraction, as measured values do.
fn measured(below: &[(usize, &str)], delimiter: Option<char>) -> bool {
    let (mut fractions, mut all) = (0, 0);
    for (_, line) in below.iter().take(LOOKED_AT) {
        for cell in cells(line, delimiter).filter_map(|c| c.parse::<f64>().ok()) {
            all += 1;
            fractions += usize::from(cell.fract() != 0.0);
        }
    }
    2 * fractions >= all.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(text: &str) -> Result<Option<Vec<String>>, Problem> {
        let lines: Vec<(usize, &str)> = text.lines().enumerate().collect();
        above(&lines, Some(','))
    }

    #[test]
    fn numeric_headers_of_every_kind_are_headers() {
        assert_eq!(decide("0,1,2\n0.5,-1.5,3.25\n").unwrap().unwrap(), ["0", "1", "2"]);
        assert_eq!(decide("1,2,3\n0.5,-1.5,3.25\n").unwrap().unwrap(), ["1", "2", "3"]);
        assert_eq!(decide("0.0,1.0\n0.5,-1.5\n").unwrap().unwrap(), ["0", "1"]);
        assert_eq!(decide("2001,2002,2101\n0.5,-1.5,3.25\n").unwrap().unwrap(), ["2001", "2002", "2101"]);
        assert_eq!(decide("\"17\",\"4\"\n0.5,-1.5\n").unwrap().unwrap(), ["17", "4"]);
        assert_eq!(decide("17,4,9\n0.5,-1.5,3.25\n").unwrap().unwrap(), ["17", "4", "9"]);
        assert_eq!(decide("0,1,2\n812,796,905\n").unwrap().unwrap(), ["0", "1", "2"]);
        assert_eq!(decide(",0,1\n0,0.5,0.25\n").unwrap().unwrap(), ["", "0", "1"]);
        assert_eq!(
            decide("10,20,30,40,50,60,70,80\n5,4,3,9,1,2,8,7\n").unwrap().unwrap(),
            ["10", "20", "30", "40", "50", "60", "70", "80"]
        );
    }

    #[test]
    fn first_frames_stay_frames() {
        for text in
            ["0.5,1.5\n2.5,3.5\n", "812,796\n800,801\n", "0,0\n0.5,0.25\n", "3,5\n2.5,3.5\n", "1.50,2.00\n1.5,2.5\n"]
        {
            assert_eq!(decide(text), Ok(None), "{text:?}");
        }
        assert!(decide("0,1,2\n3,4,5\n").unwrap_err().found.contains("names or values"));
    }
}
