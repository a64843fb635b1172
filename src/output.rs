//! Writing results: to standard output, or to a file that is either complete or not there.

use std::io::{self, Write};
use std::path::Path;

use crate::Failure;

/// Refuses a file that cannot be written before any work is done for it.
pub(crate) fn check_writable(path: &Path) -> Result<(), Failure> {
    if path == Path::new("-") {
        return Ok(());
    }
    if path.is_dir() {
        return Err(Failure::input(format!("'{}' is a directory; name a file", path.display())));
    }
    tempfile::NamedTempFile::new_in(folder(path)).map(drop).map_err(|e| cannot(path, &e))
}

/// Writes `text` to `path`, `-` being standard output. A reader never sees half a file.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if path == Path::new("-") {
        return print(text);
    }
    write_with(path, |file| file.write_all(text.as_bytes()).map_err(|e| cannot(path, &e)))
}

/// Writes to `path` what `write` writes. A reader never sees half a file.
pub(crate) fn write_with<T>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut file = tempfile::NamedTempFile::new_in(folder(path)).map_err(|e| cannot(path, &e))?;
    let written = write(&mut file)?;
    open_to_all(file.as_file()).map_err(|e| cannot(path, &e))?;
    file.persist(path).map_err(|e| cannot(path, &e.error))?;
    Ok(written)
}

/// Says a line on standard error. That nobody reads it any more is no reason to end: `eprintln!` would panic.
pub(crate) fn say(line: impl std::fmt::Display) {
    // In one piece: lines of several threads do not mix.
    draw(&format!("{line}\n"));
}

/// A text that came from elsewhere, fit for a terminal: one line, nothing that moves the cursor.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// As [`say`], without the end of the line: for what is drawn anew on terminals.
pub(crate) fn draw(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints to standard output; a reader that went away (`| head`) is not an error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::run(format!("cannot write to standard output: {e}")))
        }
        _ => Ok(()),
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    }
}

fn cannot(path: &Path, e: &io::Error) -> Failure {
    Failure::input(format!("cannot write '{}': {e}; name a file in a folder you can write to", path.display()))
}

/// Temporary files are private; a report is for others too.
#[cfg(unix)]
fn open_to_all(file: &std::fs::File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn open_to_all(_: &std::fs::File) -> io::Result<()> {
    Ok(())
}
