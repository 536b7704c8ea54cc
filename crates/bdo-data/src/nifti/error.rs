//! Why an image was refused.

use std::path::{Path, PathBuf};

use crate::durable::FileError;

/// Why an image was refused: the file, what was looked at, what it should be and what it is.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The file could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The content is not what the format allows.
    #[error("{}: {what}: expected {expected}, found {found}", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What was looked at.
        what: String,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
}

impl ImageError {
    /// Ties a problem to its file.
    pub(crate) fn content(path: &Path, problem: Problem) -> Self {
        Self::Content { path: path.to_path_buf(), what: problem.what, expected: problem.expected, found: problem.found }
    }
}

/// A problem before it is known in which file: parsers of bytes return these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) what: String,
    pub(crate) expected: String,
    pub(crate) found: String,
}

impl Problem {
    /// Builds a problem from anything printable.
    // Taken by value so that callers can pass what they have at hand, a number or a text.
    #[allow(clippy::needless_pass_by_value)]
    pub(crate) fn new(what: impl ToString, expected: impl ToString, found: impl ToString) -> Self {
        Self { what: what.to_string(), expected: expected.to_string(), found: found.to_string() }
    }
}
