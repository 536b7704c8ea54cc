//! Region names from the label files people have.

use std::path::Path;

use super::IngestError;
use crate::durable;
use crate::region::repeated_name;
use crate::row::{cells, delimiter_of};

/// Reads region names: one name a line; a table with a `name` or `label` column; or FSL-style pairs of a name line and an
/// `id r g b a` line.
pub fn read_region_names(path: &Path) -> Result<Vec<String>, IngestError> {
    let bytes = durable::read(path)?;
    let text = String::from_utf8(bytes).map_err(|_| IngestError::source(path, "UTF-8 text", "other bytes"))?;
    let lines: Vec<&str> =
        text.trim_start_matches('\u{feff}').lines().map(str::trim_end).filter(|l| !l.trim().is_empty()).collect();
    let names = table_column(&lines)
        .or_else(|| colour_pairs(&lines))
        .unwrap_or_else(|| lines.iter().map(|l| l.trim().to_owned()).collect());
    if names.is_empty() {
        return Err(IngestError::source(path, "region names", "an empty file"));
    }
    if let Some(twice) = repeated_name(names.iter().map(String::as_str)) {
        return Err(IngestError::source(path, "different region names", format!("{twice:?} twice")));
    }
    Ok(names)
}

fn table_column(lines: &[&str]) -> Option<Vec<String>> {
    let (header, rows) = lines.split_first()?;
    let delimiter = Some(delimiter_of(header)?);
    let cell = |line: &str, i: usize| cells(line, delimiter).nth(i).map(str::to_owned);
    let is_name = |h: &str| ["name", "label", "region", "roi_name"].contains(&h.to_lowercase().as_str());
    let column = cells(header, delimiter).position(is_name)?;
    rows.iter().map(|row| cell(row, column)).collect()
}

fn colour_pairs(lines: &[&str]) -> Option<Vec<String>> {
    let is_colour = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        fields.len() == 5 && fields.iter().all(|f| f.parse::<u32>().is_ok())
    };
    let pairs = lines.chunks(2).all(|pair| pair.len() == 2 && !is_colour(pair[0]) && is_colour(pair[1]));
    (pairs && !lines.is_empty()).then(|| lines.chunks(2).map(|pair| pair[0].trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_kinds_of_label_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("labels");
        for text in ["a\nb c\n", "index\tname\n1\ta\n2\tb c\n", "a\n1 10 20 30 255\nb c\n2 10 20 30 255\n"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read_region_names(&path).unwrap(), ["a", "b c"], "{text:?}");
        }
        std::fs::write(&path, "index,name\n1,\"Gyrus, pars opercularis\"\n2,b\n").unwrap();
        assert_eq!(read_region_names(&path).unwrap(), ["Gyrus, pars opercularis", "b"]);
        std::fs::write(&path, "a\na\n").unwrap();
        let message = read_region_names(&path).unwrap_err().to_string();
        assert!(message.ends_with("expected different region names, found \"a\" twice"), "{message}");
    }
}
