//! The cells of one line of a table.

/// What stands between the cells of a line; `None` for blanks.
pub(crate) fn delimiter_of(line: &str) -> Option<char> {
    ['\t', ';', ','].into_iter().find(|d| cells(line, Some(*d)).nth(1).is_some())
}

/// The cells of a line, without quotes around them. A delimiter in quotes separates nothing.
pub(crate) fn cells(line: &str, delimiter: Option<char>) -> Box<dyn Iterator<Item = &str> + '_> {
    fn unquoted(cell: &str) -> &str {
        let cell = cell.trim();
        cell.strip_prefix('"').and_then(|c| c.strip_suffix('"')).unwrap_or(cell)
    }
    if !line.contains('"') {
        return match delimiter {
            Some(d) => Box::new(line.split(d).map(str::trim)),
            None => Box::new(line.split_whitespace()),
        };
    }
    let mut quoted = false;
    let mut ends = move |c: char, is_delimiter: bool| {
        quoted ^= c == '"';
        is_delimiter && !quoted
    };
    match delimiter {
        Some(d) => Box::new(line.split(move |c| ends(c, c == d)).map(unquoted)),
        None => Box::new(line.split(move |c| ends(c, c.is_whitespace())).filter(|c| !c.is_empty()).map(unquoted)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_delimiters_together() {
        let all = |line: &str| cells(line, delimiter_of(line)).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(all("1,\"Gyrus, pars opercularis\" ,x"), ["1", "Gyrus, pars opercularis", "x"]);
        assert_eq!(all("\"a b\" c  d"), ["a b", "c", "d"]);
        assert_eq!(all("a;b, c"), ["a", "b, c"]);
        assert_eq!(all("a\t\t\"\""), ["a", "", ""]);
    }
}
