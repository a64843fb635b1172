//! Command-line errors of both programs.

/// Prints the help or the version, and returns `None`. For an error, returns one line that refers
/// to `program --help`.
pub fn usage(e: &clap::Error, program: &str) -> Option<String> {
    if !e.use_stderr() {
        let _ = e.print();
        return None;
    }
    let text = e.render().to_string();
    let line = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    Some(format!("{line}; see '{program} --help'"))
}
