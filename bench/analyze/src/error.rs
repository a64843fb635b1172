//! Reasons why a file gives no result.

/// Reason why a file gives no result, in one line with the file's name.
#[derive(Debug, thiserror::Error)]
pub enum AnalyzeError {
    /// The file cannot be read.
    #[error("'{0}' {1}")]
    File(String, String),
    /// The log has no events, as for a connection that was never established.
    #[error("'{0}' {1}")]
    Empty(String, String),
    /// The file has nothing for this analysis.
    #[error("{0}")]
    Nothing(String),
}
