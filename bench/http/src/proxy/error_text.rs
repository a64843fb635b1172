//! The text of an error.

/// Returns an error and its causes in one line.
pub(super) fn one_line(e: &(dyn std::error::Error + 'static)) -> String {
    let mut text = e.to_string();
    let mut cause = e.source();
    while let Some(e) = cause {
        text = format!("{text}: {e}");
        cause = e.source();
    }
    text.replace('\n', "; ")
}
