//! What is wrong with a value or a file: what was looked at, what was expected, what was found.

use std::path::{Path, PathBuf};

use crate::durable::FileError;

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
