//! Reads plan and study files.

use std::path::Path;

use fathom_experiments::compare::Plan;

use crate::Failure;

/// What is wrong with a plan, as the user sees it.
pub(crate) fn named(plan: &Path, e: impl std::fmt::Display) -> Failure {
    Failure::input(format!("plan '{}': {e}", plan.display()))
}

/// The text of a plan, which says something.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    read_or(path, "")
}

/// As [`read`]; `else_name` says what else could have been named.
pub(crate) fn read_or(path: &Path, else_name: &str) -> Result<String, Failure> {
    let bytes = std::fs::read(path)
        .map_err(|e| named(path, format!("{e}; name a TOML file you can read{else_name}")))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| named(path, "it is no text in UTF-8; name a TOML file"))?;
    if Plan::is_blank(&text) {
        return Err(named(
            path,
            "it is empty; write at least one field, such as seed = 1, or leave the file out",
        ));
    }
    Ok(text)
}
