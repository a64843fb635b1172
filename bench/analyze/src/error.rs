//! Reasons why a file gives no result.

use std::io;

use fathom_qlog::ReadError;

use crate::table::TableError;

/// Reason why a file gives no result, in one line with the file's name.
#[derive(Debug, thiserror::Error)]
pub enum AnalyzeError {
    /// The file cannot be used.
    #[error("'{0}' {1}")]
    File(String, FileError),
    /// The log has no events, as for a connection that was never established.
    #[error("'{0}' {1}")]
    Empty(String, ReadError),
    /// The file has nothing for this analysis.
    #[error("{0}")]
    Nothing(String),
}

/// Reason why a file or folder cannot be used, in words that follow its name.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file or folder cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The file is not a log that can be read.
    #[error(transparent)]
    Log(#[from] ReadError),
    /// The file is not a table that can be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The compressed data end early.
    #[error("ends in the middle: {0}")]
    Truncated(String),
    /// No file of the folder has the name of a log or table.
    #[error(
        "has no .sqlog, .qlog or .csv file{}; name such files",
        .0.as_ref().map_or_else(|| ": it is empty".to_owned(), |files| format!("; it contains \
            {files}"))
    )]
    NoLogs(Option<String>),
    /// No file of the folder has any data.
    #[error("has no log or table with data; it contains {0}")]
    NoData(String),
    /// No file has a connection; the text in parentheses may name files left out.
    #[error(
        "has no connection with usable data{0}; name logs of servers (.qlog, .sqlog) or tables (.csv)"
    )]
    NoConnections(String),
}
