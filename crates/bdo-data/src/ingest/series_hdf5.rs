//! An HDF5 file (`.h5`, or `.mat` as MATLAB saves it with `-v7.3`) that holds one matrix of numbers.

use std::collections::HashSet;

use hdf5_reader::error::Error;
use hdf5_reader::group::Group;
use hdf5_reader::{Dataset, Datatype, Hdf5File, OpenOptions};

use super::series_file::{MOST_BYTES, SeriesTable, only, shown};
use crate::nifti::{self, ByteOrder, most_inflated};
use crate::problem::{Problem, ensure};

/// Groups of a file that are looked at, and how deep; real files have a handful.
const MOST_GROUPS: usize = 1000;
const DEEPEST: usize = 16;

/// Reads the one real matrix with more than one row and column, in whatever group it lies; texts, vectors and references beside
/// it are passed over. MATLAB keeps columns together, so a matrix of its making is turned round.
pub(super) fn parse(bytes: &[u8]) -> Result<SeriesTable, Problem> {
    let most = most_inflated(bytes.len() as u64).min(MOST_BYTES) as usize;
    let limits = OpenOptions::default()
        .with_chunk_cache_bytes(0)
        .with_max_chunk_bytes(most)
        .with_max_read_bytes(most)
        .with_max_object_header_bytes(1 << 20);
    let file = Hdf5File::from_bytes_with_options(bytes, limits).map_err(malformed)?;
    let mut found = vec![];
    let mut seen = HashSet::new();
    matrices(file.root_group().map_err(malformed)?, "", 0, &mut seen, &mut found)?;
    let (path, matrix) = only("datasets", found)?;
    matrix.read(&path, bytes.starts_with(b"MATLAB 7.3"))
}

fn malformed(error: Error) -> Problem {
    Problem::new("HDF5", "a whole, undamaged file", error)
}

struct Matrix {
    rows: usize,
    columns: usize,
    kind: nifti::Datatype,
    dataset: Dataset,
}

/// Collects the matrices of a group and of those inside. A group that was seen (links may form a ring) is not entered again.
fn matrices(
    group: Group,
    path: &str,
    depth: usize,
    seen: &mut HashSet<u64>,
    found: &mut Vec<(String, Matrix)>,
) -> Result<(), Problem> {
    if !seen.insert(group.address()) {
        return Ok(());
    }
    let few = depth <= DEEPEST && seen.len() <= MOST_GROUPS;
    ensure(few, "groups", format_args!("at most {MOST_GROUPS}, {DEEPEST} deep"), "more")?;
    let (groups, datasets) = group.members().map_err(malformed)?;
    let named = |name: &str| format!("{path}/{}", shown(name));
    for dataset in datasets {
        let path = named(dataset.name());
        found.extend(matrix(path, dataset)?);
    }
    // MATLAB keeps what cells and objects refer to in groups of such names; no variable can be called so.
    for group in groups.into_iter().filter(|g| !g.name().starts_with('#')) {
        let path = named(group.name());
        matrices(group, &path, depth + 1, seen, found)?;
    }
    Ok(())
}

/// A dataset of real numbers with more than one row and column.
fn matrix(path: String, dataset: Dataset) -> Result<Option<(String, Matrix)>, Problem> {
    let (letter, size) = match dataset.dtype() {
        Datatype::FloatingPoint { size, .. } => ('f', *size),
        Datatype::FixedPoint { size, signed: true, .. } => ('i', *size),
        Datatype::FixedPoint { size, .. } => ('u', *size),
        Datatype::Compound { fields, .. } if fields.iter().any(|f| f.name == "imag" || f.name == "i") => {
            return Err(Problem::new(path, "real numbers", "complex numbers"));
        }
        _ => return Ok(None),
    };
    let Some(kind) = nifti::Datatype::named(&format!("{letter}{size}")) else { return Ok(None) };
    let &[rows, columns] = dataset.shape() else { return Ok(None) };
    let class = dataset.attribute("MATLAB_class").ok().and_then(|a| a.read_string().ok());
    if class.is_some_and(|c| c == "char" || c == "logical") || rows < 2 || columns < 2 {
        return Ok(None);
    }
    let size = |n: u64| usize::try_from(n).map_err(|_| Problem::new(&path, "a size that fits into memory", n));
    let matrix = Matrix { rows: size(rows)?, columns: size(columns)?, kind, dataset };
    Ok(Some((path, matrix)))
}

impl Matrix {
    fn read(&self, path: &str, turned: bool) -> Result<SeriesTable, Problem> {
        let bytes = self.dataset.read_native_bytes().map_err(malformed)?;
        let order = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };
        let values = self.kind.values(order, &bytes);
        let (rows, columns) = (self.rows, self.columns);
        let whole = rows.checked_mul(columns) == Some(values.len());
        ensure(whole, path, format_args!("{rows} x {columns} numbers"), values.len())?;
        let (frames, columns) = if turned { (columns, rows) } else { (rows, columns) };
        Ok(SeriesTable::of_numbers(frames, columns, values, turned))
    }
}
