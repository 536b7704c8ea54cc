//! Tables of labels: which number in the image is which region.

use std::path::{Path, PathBuf};

use crate::problem::{InContent, Problem, ReadError, read_at_most, utf8};
use crate::region::{Region, ensure_different};
use crate::row;

/// Largest table read; real ones have some tens of KiB.
const MOST_BYTES: u64 = 16 << 20;

/// Reads a BIDS table (`index` and `name` columns), FSL-style pairs of a name line and an `id r g b a` line, or lines of
/// `id name r g b a`, into labels and their regions. Label 0 is the background and no region.
pub(super) fn read_table(path: &Path) -> Result<Vec<(u32, Region)>, ReadError> {
    let problem =
        |expected: &str, found: String| ReadError::content(path, Problem::new("label table", expected, found));
    let bytes = read_at_most(path, MOST_BYTES)?;
    let lines = lines_of(utf8("label table", &bytes).in_content(path)?);
    let rows = columns(&lines).or_else(|| colour_pairs(&lines)).or_else(|| colour_lines(&lines));
    let mut rows =
        rows.ok_or_else(|| problem("columns index and name, or pairs of a name and `id r g b a`", "others".into()))?;
    rows.retain(|(id, _)| *id != 0);
    if let Some((id, region)) = rows.iter().find(|(_, r)| r.name.is_empty() || r.name.chars().any(char::is_control)) {
        return Err(problem("a name for every label", format!("{:?} for {id}", region.name)));
    }
    ensure_different("label table", rows.iter().map(|(_, r)| r.name.as_str())).in_content(path)?;
    let mut ids: Vec<u32> = rows.iter().map(|(id, _)| *id).collect();
    ids.sort_unstable();
    if let Some([twice, _]) = ids.array_windows().find(|[a, b]| a == b) {
        return Err(problem("different labels", format!("{twice} twice")));
    }
    Ok(rows)
}

/// The table that belongs to an image: the same name with another ending, or the one in its folder whose name the image's
/// name starts with.
pub(super) fn find_table(image: &Path) -> Option<PathBuf> {
    let stem = |path: &Path| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        Some(name.split('.').next().unwrap_or_default().to_owned())
    };
    let own = stem(image)?;
    let folder = crate::durable::parent(image);
    for ending in ["tsv", "txt", "csv"] {
        let beside = folder.join(format!("{own}.{ending}"));
        if beside.is_file() {
            return Some(beside);
        }
    }
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder).ok()?.flatten().map(|e| e.path()).collect();
    found.retain(|path| {
        let is_table = path.extension().is_some_and(|e| e == "tsv" || e == "txt");
        let base = stem(path)
            .and_then(|s| ["_labels", "_label", "_dseg"].iter().find_map(|end| s.strip_suffix(end)).map(str::to_owned));
        is_table && base.is_some_and(|base| !base.is_empty() && own.starts_with(&base))
    });
    found.sort();
    found.into_iter().next()
}

fn columns(lines: &[&str]) -> Option<Vec<(u32, Region)>> {
    let (header, rows) = lines.split_first()?;
    let delimiter = Some(row::delimiter_of(header)?);
    let cells = |line: &str| -> Vec<String> { row::cells(line, delimiter).map(str::to_owned).collect() };
    let header: Vec<String> = cells(header).iter().map(|c| c.to_lowercase()).collect();
    let position = |names: &[&str]| names.iter().find_map(|n| header.iter().position(|h| h == n));
    let (id, name) = (position(&["index", "id", "label_id"])?, position(&["name", "label", "region"])?);
    let network = position(&["network_label", "network", "network_7"]);
    let hemisphere = position(&["hemisphere", "hemi"]);
    let known = |cell: &&String| !cell.is_empty() && *cell != "n/a";
    let side = |cell: &String| match cell.to_lowercase().as_str() {
        "l" | "lh" | "left" => Some("L".to_owned()),
        "r" | "rh" | "right" => Some("R".to_owned()),
        _ => None,
    };
    let row = |line: &&str| {
        let row = cells(line);
        let region = Region {
            network: network.and_then(|i| row.get(i)).filter(known).cloned(),
            hemisphere: hemisphere.and_then(|i| row.get(i)).and_then(side),
            ..Region::named(row.get(name)?)
        };
        Some((row.get(id)?.parse().ok()?, region))
    };
    rows.iter().map(row).collect()
}

pub(crate) fn lines_of(text: &str) -> Vec<&str> {
    text.lines().map(str::trim_end).filter(|l| !l.trim().is_empty()).collect()
}

/// The label of a line `id r g b a`.
fn coloured(line: &str) -> Option<u32> {
    let numbers: Option<Vec<u32>> = line.split_whitespace().map(|f| f.parse().ok()).collect();
    numbers.filter(|n| n.len() == 5).map(|n| n[0])
}

pub(crate) fn colour_pairs(lines: &[&str]) -> Option<Vec<(u32, Region)>> {
    let pair = |pair: &[&str]| match pair {
        [name, colour] if coloured(name).is_none() => Some((coloured(colour)?, Region::named(name.trim()))),
        _ => None,
    };
    lines.chunks(2).map(pair).collect()
}

fn colour_lines(lines: &[&str]) -> Option<Vec<(u32, Region)>> {
    let line = |line: &&str| {
        let mut fields = line.split_whitespace();
        let id = fields.next()?.parse().ok()?;
        let name = fields.next()?;
        let rest: Vec<&str> = fields.collect();
        let is_colour = rest.is_empty() || (rest.len() >= 3 && rest.iter().all(|f| f.parse::<u32>().is_ok()));
        is_colour.then(|| (id, Region::named(name)))
    };
    lines.iter().filter(|l| !l.starts_with('#')).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_of_table() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("labels.txt");
        for text in [
            "index\tname\themisphere\n0\tbackground\tn/a\n7\ta\tL\n2\tb c\tR\n",
            "a\n7 10 20 30 255\nb c\n2 10 20 30 255\n",
            "network,index,name\n\"x, y\",7,a\n\"x\",2,\"b c\"\n",
        ] {
            std::fs::write(&path, text).unwrap();
            let rows = read_table(&path).unwrap();
            let found: Vec<(u32, &str)> = rows.iter().map(|(id, r)| (*id, r.name.as_str())).collect();
            assert_eq!(found, [(7, "a"), (2, "b c")], "{text:?}");
        }
        std::fs::write(&path, "#No. Label\n1 a 1 2 3 0\n4 b 1 2 3 0\n").unwrap();
        assert_eq!(read_table(&path).unwrap()[1], (4, Region::named("b")));
        for (text, message) in [
            ("index\tname\n1\ta\n1\tb\n", "expected different labels, found 1 twice"),
            ("index\tname\n1\ta\n2\ta\n", "expected different names, found \"a\" twice"),
            ("hello\nworld\n", "expected columns index and name, or pairs of a name and `id r g b a`, found others"),
        ] {
            std::fs::write(&path, text).unwrap();
            let found = read_table(&path).unwrap_err().to_string();
            assert!(found.ends_with(message), "{found}");
        }
    }

    #[test]
    fn the_table_beside_an_image() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("Atlas_S3_label.txt"), "").unwrap();
        std::fs::write(at("Other_label.txt"), "").unwrap();
        assert_eq!(find_table(&at("Atlas_S3_MNI152NLin6Asym_2mm.nii.gz")), Some(at("Atlas_S3_label.txt")));
        std::fs::write(at("x_dseg.tsv"), "").unwrap();
        assert_eq!(find_table(&at("x_dseg.nii.gz")), Some(at("x_dseg.tsv")));
        assert_eq!(find_table(&at("unknown.nii.gz")), None);
    }
}
