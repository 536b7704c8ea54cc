//! What is wrong with a value or a file: what was looked at, what was expected, what was found.

use std::path::{Path, PathBuf};

use crate::durable::{self, FileError, InFile};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: expected {expected}, found {found}")]
pub struct Problem {
    pub what: String,
    pub expected: String,
    pub found: String,
}

impl Problem {
    pub fn new(what: impl ToString, expected: impl ToString, found: impl ToString) -> Self {
        Self { what: what.to_string(), expected: expected.to_string(), found: found.to_string() }
    }

    /// The same problem, of a thing that is part of `whole`.
    pub(crate) fn of(self, whole: &str) -> Self {
        Self { what: format!("{whole}: {}", self.what), ..self }
    }
}

/// So that readers of bytes can say what is wrong with them.
impl From<Problem> for std::io::Error {
    fn from(problem: Problem) -> Self {
        Self::new(std::io::ErrorKind::InvalidData, problem)
    }
}

/// A problem unless `holds`; with `format_args!` nothing is formatted where it does.
pub(crate) fn ensure(
    holds: bool,
    what: impl ToString,
    expected: impl ToString,
    found: impl ToString,
) -> Result<(), Problem> {
    if holds { Ok(()) } else { Err(Problem::new(what, expected, found)) }
}

/// A problem where there are more bytes than anything sound has.
pub(crate) fn at_most(what: impl ToString, bytes: u64, most: u64) -> Result<(), Problem> {
    ensure(bytes <= most, what, format_args!("at most {most} bytes"), bytes)
}

/// Bytes of a file as text, without the mark that Windows puts in front.
pub(crate) fn utf8<'a>(what: &str, bytes: &'a [u8]) -> Result<&'a str, Problem> {
    std::str::from_utf8(bytes)
        .map(|text| text.trim_start_matches('\u{feff}'))
        .map_err(|e| Problem::new(what, "UTF-8", format_args!("other bytes at offset {}", e.valid_up_to())))
}

/// The first few of many.
pub(crate) fn listed(items: impl ExactSizeIterator<Item: ToString>) -> String {
    let more = items.len().saturating_sub(5);
    let shown: Vec<String> = items.take(5).map(|item| item.to_string()).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}: {problem}", .path.display())]
    Content { path: PathBuf, problem: Problem },
    #[error(transparent)]
    Misfit(#[from] Problem),
}

/// Ties a problem to its file.
pub(crate) trait InContent<T> {
    fn in_content(self, path: &Path) -> Result<T, ReadError>;
}

impl<T> InContent<T> for Result<T, Problem> {
    fn in_content(self, path: &Path) -> Result<T, ReadError> {
        self.map_err(|problem| ReadError::content(path, problem))
    }
}

impl ReadError {
    pub(crate) fn content(path: &Path, problem: Problem) -> Self {
        Self::Content { path: path.to_path_buf(), problem }
    }

    /// The problem alone, for a table that names the file itself.
    pub(crate) fn into_problem(self) -> Problem {
        match self {
            Self::Content { problem, .. } | Self::Misfit(problem) => problem,
            Self::File(e) => Problem::new("file", "to be readable", e.system),
        }
    }
}

/// The content of a file of a sensible size.
pub(crate) fn read_at_most(path: &Path, most: u64) -> Result<Vec<u8>, ReadError> {
    let size = std::fs::metadata(path).in_file("read", path)?.len();
    at_most("size", size, most).in_content(path)?;
    Ok(durable::read(path)?)
}
