//! What both programs say of arguments that they do not take.

/// Help and version as clap prints them: `None`. An error in one line that says where the help of `program` is.
pub fn usage(e: &clap::Error, program: &str) -> Option<String> {
    if !e.use_stderr() {
        let _ = e.print();
        return None;
    }
    let text = e.render().to_string();
    let line = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    Some(format!("{line}; see '{program} --help'"))
}
