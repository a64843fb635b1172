//! Reads plan and study files.

use std::path::Path;

use fathom_experiments::compare::Plan;

use crate::Failure;

/// Converts an error of a plan to a failure that names the file.
pub(crate) fn named(plan: &Path, e: impl std::fmt::Display) -> Failure {
    Failure::input(format!("plan '{}': {e}", plan.display()))
}

/// Reads the text of a plan.
///
/// # Errors
/// Returns an error if the file cannot be read, is not UTF-8 or is blank.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    read_or(path, "")
}

/// Reads the text of a plan like [`read`]. If the file cannot be read, the error also suggests
/// `else_name`.
pub(crate) fn read_or(path: &Path, else_name: &str) -> Result<String, Failure> {
    let bytes = std::fs::read(path)
        .map_err(|e| named(path, format!("{e}; name a TOML file you can read{else_name}")))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| named(path, "the file is not UTF-8 text; name a TOML file"))?;
    if Plan::is_blank(&text) {
        return Err(named(
            path,
            "the file is empty; write a study, as 'fathom compare --study FILE' does, or leave the \
             file out",
        ));
    }
    Ok(text)
}
