//! Finding and opening the library.

use crate::announced::Launcher;
use libloading::Library;
use std::error::Error;
use std::path::PathBuf;

/// Names under which Open MPI installs its library, newest first; its number has been 40 since version 4.
const OPEN_MPI: [&str; 1] = ["libmpi.so.40"];
/// The same for MPICH; Intel MPI, MVAPICH and Cray MPICH have the same binary interface under the second name.
const MPICH: [&str; 3] = ["libmpich.so.12", "libmpi.so.12", "libmpi_cray.so.12"];
/// Whatever the compiler of a system links to.
const EITHER: [&str; 1] = ["libmpi.so"];

/// The variable that names the library.
pub const LIBRARY_VARIABLE: &str = "BDO_MPI_LIB";

/// MPI could not be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum MpiError {
    /// No library of that name can be opened.
    #[error(
        "expected a library of MPI, found none ({found}); hint: install Open MPI or MPICH on every node, or name the file in {LIBRARY_VARIABLE}"
    )]
    NoLibrary { found: String },
    /// The library lacks a function.
    #[error("{}: expected {function}, which MPI 3 has, found none", .library.display())]
    NoFunction { library: PathBuf, function: String },
    /// A call returned an error.
    #[error("{call} failed on rank {rank}: {message}")]
    Call { call: &'static str, rank: usize, message: String },
    /// Another rank does not answer.
    #[error(
        "rank {rank} waited {seconds} s in {call} for the other ranks: one of them hangs or its node is gone; hint: --rank-timeout sets the limit, --resume goes on from the last checkpoint"
    )]
    TimedOut { call: &'static str, rank: usize, seconds: u64 },
    /// The launcher and MPI do not belong together.
    #[error(
        "{variable} says that {announced} processes were started, but MPI ({version}) knows {found}; hint: start them with the mpirun of that library, or with srun --mpi=pmix or pmi2"
    )]
    OtherSize { variable: &'static str, announced: usize, found: usize, version: String },
    /// Calls from different threads are not possible.
    #[error("expected an MPI that can be called from one thread at a time, found level {found} ({version})")]
    Threads { found: i32, version: String },
}

/// Opens the library that belongs to a launcher, or the one that `named` names.
pub(crate) fn open(launcher: Launcher, named: Option<PathBuf>) -> Result<(Library, PathBuf), MpiError> {
    let names: Vec<PathBuf> = match (named, launcher) {
        (Some(named), _) => vec![named],
        (None, Launcher::OpenMpi) => paths(&[&OPEN_MPI, &EITHER]),
        (None, Launcher::Pmi) => paths(&[&MPICH, &EITHER]),
        (None, Launcher::Slurm) => paths(&[&EITHER, &OPEN_MPI, &MPICH]),
    };
    let mut found = Vec::new();
    for name in names {
        // SAFETY: opening a library runs its initialisers. That is what whoever installed MPI, or named this file, asks for.
        match unsafe { Library::new(&name) } {
            Ok(library) => return Ok((library, name)),
            // The cause names the file and says what is wrong with it.
            Err(error) => found.push(error.source().map_or_else(|| error.to_string(), ToString::to_string)),
        }
    }
    Err(MpiError::NoLibrary { found: found.join("; ") })
}

fn paths(names: &[&[&str]]) -> Vec<PathBuf> {
    names.iter().flat_map(|some| some.iter().map(PathBuf::from)).collect()
}
