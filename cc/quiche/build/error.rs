//! Reasons why the derived crate cannot be assembled.

use std::io;
use std::path::{Path, PathBuf};

use super::locate::VERSION;

/// Reason why the build stops.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder cannot be read or written.
    #[error("{0}: {1}")]
    Io(PathBuf, io::Error),
    /// `FATHOM_QUICHE_SOURCE` names a folder that is not stock quiche.
    #[error(
        "FATHOM_QUICHE_SOURCE={0} is not quiche {VERSION}; unset the variable, or set it to the \
         unpacked sources of this version"
    )]
    NotStock(PathBuf),
    /// Neither Cargo's registry, if its folder is known, nor Cargo itself has the sources.
    #[error(
        "the sources of quiche {VERSION} are not in {}, and Cargo does not find them ({why}); run \
         `cargo fetch` with network access, or set FATHOM_QUICHE_SOURCE to the sources",
        .registry.as_deref().unwrap_or(Path::new("Cargo's registry")).display()
    )]
    NotFound { registry: Option<PathBuf>, why: CargoError },
    /// The path of a source is not UTF-8.
    #[error("{0}: the path is not UTF-8")]
    NotUtf8(PathBuf),
    /// The sources in this folder are not those that were published.
    #[error(
        "{stock} is not quiche {VERSION} as published: its sources have SHA-256 {found}, not \
         {published}; delete that folder and run `cargo fetch`, or set FATHOM_QUICHE_SOURCE to \
         unchanged ones"
    )]
    Changed { stock: PathBuf, found: String, published: &'static str },
    /// The sources contain a text more or less often than expected.
    #[error("quiche's sources contain `{text}` {found} times, not {expected}")]
    Count { text: &'static str, found: usize, expected: usize },
    /// A patch file has no diff.
    #[error("patch/{patch}: the file has no diff")]
    NoDiff { patch: String },
    /// A diff cannot be read.
    #[error("patch/{patch}: {file}: {why}")]
    BadDiff { patch: String, file: String, why: diffy::ParsePatchError },
    /// A diff of a file that stock does not have.
    #[error("patch/{patch}: stock quiche has no file src/{file}")]
    NoFile { patch: String, file: String },
    /// A diff does not apply.
    #[error("patch/{patch} does not fit src/{file}: {why}; the patch is for quiche {VERSION}")]
    DoesNotFit { patch: String, file: String, why: diffy::ApplyError },
    /// `src/lib.rs` does not begin with attributes and `extern crate log`.
    #[error("src/lib.rs does not begin as expected")]
    Beginning,
}

/// Reason why Cargo does not name the folder of stock quiche.
#[derive(Debug, thiserror::Error)]
pub enum CargoError {
    /// The package that depends on quiche cannot be written.
    #[error("{0}: {1}")]
    Io(PathBuf, io::Error),
    /// Cargo cannot be run.
    #[error("cargo metadata: {0}")]
    Run(io::Error),
    /// Cargo failed, with this first line of errors.
    #[error("cargo metadata: {0}")]
    Failed(String),
    /// Cargo knows no such package.
    #[error("cargo metadata names no quiche {VERSION}")]
    Unknown,
}

impl Error {
    /// Returns a function that adds the path to an I/O error.
    pub fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |e| Self::Io(path.to_owned(), e)
    }
}
