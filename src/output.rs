//! Writes results to standard output or to files, and messages to standard error.
//!
//! A regular file, whether new or existing, gets either the complete result or nothing. The result
//! is written to a temporary file in the same folder, which is then renamed. If renaming would
//! change the owner or the hard links of an existing file, the file is written in place. An
//! existing file keeps its mode, owner and hard links. A new file has the mode that the umask
//! allows. Symbolic links are kept, and their targets are written. Devices, FIFOs and similar files
//! are opened and written directly.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use fathom_report::{CsvRows, Dataset, Kind, RowWriter};
use indicatif::{MultiProgress, ProgressBar};
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::Failure;

/// Name of an option that takes a file, with the file if the option is given.
pub(crate) type FileOption<'a> = (&'static str, Option<&'a Path>);

/// Destination of a command's text. It is standard error if a file is written to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    Stdout,
    Stderr,
}

impl Text {
    pub(crate) fn print(self, text: &str) -> Result<(), Failure> {
        match self {
            Self::Stdout => print(text),
            Self::Stderr => {
                draw(&lines(text));
                Ok(())
            }
        }
    }
}

/// Checks files before the work for them begins. Returns the destination of the text.
///
/// # Errors
/// Returns an error if a file cannot be written, or if two options name the same file.
pub(crate) fn check(files: &[FileOption<'_>]) -> Result<Text, Failure> {
    let mut taken: Vec<(&str, Target)> = Vec::new();
    for (option, path) in files {
        let Some(path) = path else { continue };
        let target = target(path).map_err(|e| cannot(path, &e))?;
        target.check(path)?;
        if let Some((other, _)) = taken.iter().find(|(_, other)| other.clashes(&target)) {
            return Err(Failure::input(match target {
                Target::Stdout => {
                    format!(
                        "{other} and {option} are both '-', but standard output takes only one; \
                         name a file for the other"
                    )
                }
                _ => format!("{other} and {option} name the same file; name two different files"),
            }));
        }
        taken.push((option, target));
    }
    let stdout = taken.iter().any(|(_, target)| matches!(target, Target::Stdout));
    Ok(if stdout { Text::Stderr } else { Text::Stdout })
}

/// File that a path names.
#[derive(Debug)]
enum Target {
    /// Standard output: `-`, or one of its names in `/dev` or `/proc`.
    Stdout,
    /// Neither a regular file nor a directory: a device, a FIFO, a shell's `>(...)`, or a
    /// descriptor that is already open.
    Special { socket: bool },
    /// A regular file, or a file that does not exist yet, after all symbolic links.
    File { at: PathBuf, is: Option<Metadata> },
}

impl Target {
    fn clashes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Stdout, Self::Stdout) => true,
            (Self::File { at: a, .. }, Self::File { at: b, .. }) => {
                let real =
                    |at: &Path| Some(fs::canonicalize(folder(at)).ok()?.join(at.file_name()?));
                a == b || real(a).is_some_and(|a| Some(a) == real(b))
            }
            _ => false,
        }
    }

    fn check(&self, path: &Path) -> Result<(), Failure> {
        let tried = match self {
            Self::Stdout | Self::Special { socket: false } => Ok(()),
            Self::Special { socket: true } => Err(io::Error::other("it is a socket")),
            Self::File { at, is: Some(_) } => File::options().write(true).open(at).map(drop),
            Self::File { at, is: None } => beside(at, None).map(drop),
        };
        tried.map_err(|e| cannot(path, &e))
    }
}

fn target(path: &Path) -> io::Result<Target> {
    if ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"]
        .iter()
        .any(|name| path == Path::new(name))
    {
        return Ok(Target::Stdout);
    }
    let is = match fs::metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Ok(Target::File { at: follow(path)?, is: None });
        }
        is => is?,
    };
    if is.is_dir() {
        return Err(io::Error::other("it is a directory"));
    }
    // Descriptors that are already open are written rather than replaced.
    let open = ["/dev/fd", "/dev/stderr", "/proc"].iter().any(|name| path.starts_with(name));
    if open || !is.is_file() {
        return Ok(Target::Special { socket: is_socket(&is) });
    }
    Ok(Target::File { at: fs::canonicalize(path)?, is: Some(is) })
}

/// Returns the target of a symbolic link whose target does not exist yet.
fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut at = path.to_owned();
    // Linux also follows at most 40 links.
    for _ in 0..40 {
        match fs::read_link(&at) {
            Ok(target) => at = folder(&at).join(target),
            Err(_) => return Ok(at),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    }
}

/// Creates a temporary file that can be renamed to `at`. It is in the same folder and has the mode
/// of `is`, or the mode that the umask allows.
fn beside(at: &Path, is: Option<&Metadata>) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".fathom-").suffix(".tmp");
    #[cfg(unix)]
    let new = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666);
    #[cfg(unix)]
    builder.permissions(is.map_or(new, Metadata::permissions));
    // Errors would otherwise name the temporary file, which means nothing to users.
    let plain = |e: io::Error| e.raw_os_error().map_or(e, io::Error::from_raw_os_error);
    let file = builder.tempfile_in(folder(at)).map_err(plain)?;
    if let Some(is) = is {
        // The umask does not apply to the mode of an existing file.
        file.as_file().set_permissions(is.permissions())?;
    }
    Ok(file)
}

/// Returns whether renaming `new` over the existing file would change only its contents. This is
/// the case if the file has no other hard link and both files have the same owner and group.
#[cfg(unix)]
fn replaces(new: &NamedTempFile, is: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    let same = |new: Metadata| (new.uid(), new.gid()) == (is.uid(), is.gid());
    is.nlink() == 1 && new.as_file().metadata().is_ok_and(same)
}

#[cfg(not(unix))]
fn replaces(_: &NamedTempFile, _: &Metadata) -> bool {
    true
}

#[cfg(unix)]
fn is_socket(is: &Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_socket(&is.file_type())
}

#[cfg(not(unix))]
fn is_socket(_: &Metadata) -> bool {
    false
}

/// Writes `text` to `path`; `-` is standard output.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    write_with(path, |file| file.write_all(text.as_bytes()).map_err(|e| unwritten(path, &e)))
}

/// Writes `of` as JSON, if a path is given.
pub(crate) fn write_json(path: Option<&Path>, of: &impl Serialize) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(of).map_err(Failure::run)?;
    write(path, &(text + "\n"))
}

/// Writes a table for programs as CSV if a path is given.
pub(crate) fn write_csv(path: Option<&Path>, of: impl FnOnce() -> Dataset) -> Result<(), Failure> {
    path.map_or(Ok(()), |path| write(path, &of().csv()))
}

/// Writes a table for programs as Parquet if a path is given.
pub(crate) fn write_parquet(
    path: Option<&Path>,
    of: impl FnOnce() -> Dataset,
) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    #[cfg(feature = "parquet")]
    {
        let bytes = fathom_parquet::encode(&of()).map_err(|e| unwritten(path, &e))?;
        write_with(path, |file| file.write_all(&bytes).map_err(|e| unwritten(path, &e)))
    }
    #[cfg(not(feature = "parquet"))]
    {
        let _ = of;
        Err(unwritten(path, &io::Error::other(NO_PARQUET)))
    }
}

/// Error of a build without the feature `parquet`.
#[cfg(not(feature = "parquet"))]
const NO_PARQUET: &str =
    "this build lacks Parquet; name a file that ends in .csv, or build with --features parquet";

/// Writes a table for programs if a path is given. The format is Parquet if the file's name ends in
/// `.parquet`, and CSV otherwise.
pub(crate) fn write_dataset(
    path: Option<&Path>,
    of: impl FnOnce() -> Dataset,
) -> Result<(), Failure> {
    match path {
        Some(path) if is_parquet(path) => write_parquet(Some(path), of),
        path => write_csv(path, of),
    }
}

/// Returns whether the name of a data file means Parquet. All other names mean CSV.
fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|ext| ext == "parquet")
}

/// Function that opens a writer of rows with these columns.
type OpenRows<'w> = Box<dyn FnOnce(&[(&str, Kind)]) -> io::Result<Box<dyn RowWriter + 'w>> + 'w>;

/// Makes `write` write rows to the file one by one, if a path is given. The format is Parquet if
/// the file's name ends in `.parquet`, and CSV otherwise.
pub(crate) fn write_rows(
    path: Option<&Path>,
    write: impl FnOnce(OpenRows<'_>) -> io::Result<()>,
) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    write_with(path, |file| {
        let open: OpenRows<'_> =
            Box::new(|columns| rows(io::BufWriter::new(file), is_parquet(path), columns));
        write(open).map_err(|e| unwritten(path, &e))
    })
}

fn rows<'w>(
    to: impl Write + Send + 'w,
    parquet: bool,
    columns: &[(&str, Kind)],
) -> io::Result<Box<dyn RowWriter + 'w>> {
    match parquet {
        #[cfg(feature = "parquet")]
        true => Ok(Box::new(fathom_parquet::ParquetRows::new(to, columns)?)),
        #[cfg(not(feature = "parquet"))]
        true => Err(io::Error::other(NO_PARQUET)),
        false => Ok(Box::new(CsvRows::new(to, columns)?)),
    }
}

/// Writes a report if a path is given, and prints the path unless it is `-`.
pub(crate) fn write_report(
    path: Option<&Path>,
    html: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    write(path, &html())?;
    if path != Path::new("-") {
        say(format!("report: {}", path.display()));
    }
    Ok(())
}

/// Writes the output of `write` to `path`, as described in the documentation of this module.
pub(crate) fn write_with<T>(
    path: &Path,
    write: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let failed = |e: &io::Error| unwritten(path, e);
    match target(path).map_err(|e| failed(&e))? {
        Target::Stdout => {
            let written = write(&mut Stdout)?;
            Stdout.flush().map_err(|e| failed(&e))?;
            Ok(written)
        }
        Target::Special { .. } => {
            let mut file = File::options().write(true).open(path).map_err(|e| failed(&e))?;
            write(&mut file)
        }
        Target::File { at, is } => match (beside(&at, is.as_ref()), is) {
            (Ok(mut file), is) if is.as_ref().is_none_or(|is| replaces(&file, is)) => {
                let written = write(&mut file)?;
                file.persist(&at).map_err(|e| failed(&e.error))?;
                Ok(written)
            }
            // A file that cannot be replaced by renaming is written in place. It is truncated only
            // when the complete result is available.
            (_, Some(_)) => {
                let mut whole = Vec::new();
                let written = write(&mut whole)?;
                let file = File::options().write(true).truncate(true).open(&at);
                file.and_then(|mut file| file.write_all(&whole)).map_err(|e| failed(&e))?;
                Ok(written)
            }
            (Err(e), None) => Err(failed(&e)),
            (Ok(_), None) => unreachable!("a new file replaces nothing"),
        },
    }
}

/// Opens `path` for output during a run. Files are written in place, from the start.
pub(crate) fn stream(path: &Path) -> Result<Box<dyn Write + Send>, Failure> {
    if matches!(target(path).map_err(|e| cannot(path, &e))?, Target::Stdout) {
        return Ok(Box::new(Stdout));
    }
    let file = File::options().write(true).create(true).truncate(true).open(path);
    Ok(Box::new(file.map_err(|e| cannot(path, &e))?))
}

/// Returns the first of several failures. All results have already been written as far as possible,
/// so one failure does not prevent the others.
pub(crate) fn first_failure<const N: usize>(
    outcomes: [Result<(), Failure>; N],
) -> Result<(), Failure> {
    outcomes.into_iter().collect()
}

/// Standard output. If its reader no longer exists (`| head`), writes succeed and are discarded.
struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match io::stdout().write(bytes) {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match io::stdout().flush() {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            flushed => flushed,
        }
    }
}

/// Prints text to standard output. Each line is made safe by [`plain`]. A reader that no longer
/// exists is not an error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let printed = Stdout.write_all(lines(text).as_bytes()).and_then(|()| Stdout.flush());
    printed.map_err(|e| Failure::run(format!("cannot write to standard output: {e}")))
}

/// All progress bars. Messages are printed above them.
static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);
/// Whether something is drawn on the terminal's last line.
static DRAWN: AtomicBool = AtomicBool::new(false);

/// Adds a progress bar below all other bars and below messages.
pub(crate) fn bar(bar: ProgressBar) -> ProgressBar {
    BARS.add(bar)
}

/// Adds a progress bar like [`bar`], but directly above `other`.
pub(crate) fn bar_before(other: &ProgressBar, bar: ProgressBar) -> ProgressBar {
    BARS.insert_before(other, bar)
}

/// Prints a message on standard error. Ignores errors, whereas `eprintln!` would panic if the
/// reader no longer existed.
pub(crate) fn say(line: impl std::fmt::Display) {
    let erase = if DRAWN.swap(false, Ordering::Relaxed) { ERASE } else { "" };
    // Use a single write, so that lines of several threads do not mix.
    draw(&format!("{erase}{}\n", lines(&line.to_string())));
}

/// Returns text from an untrusted source in a form that is safe for a terminal. It is one line,
/// without characters that move the cursor or reverse the writing direction.
pub(crate) fn plain(text: &str) -> String {
    fathom_report::plain(text).into_owned()
}

/// Applies [`plain`] to each line of a text.
fn lines(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

/// Writes to standard error, above progress bars.
fn draw(text: &str) {
    BARS.suspend(|| {
        let _ = io::stderr().write_all(text.as_bytes());
    });
}

/// Control sequence that erases the terminal's last line.
const ERASE: &str = "\r\x1b[K";

/// Redraws the terminal's last line. If there is no line to draw, erases it.
pub(crate) fn redraw(line: Option<&str>) {
    DRAWN.store(line.is_some(), Ordering::Relaxed);
    let _ = io::stderr().write_all(format!("{ERASE}{}", line.unwrap_or_default()).as_bytes());
}

/// Returns the failure for a file that cannot be written, if this is found before there is a
/// result.
fn cannot(path: &Path, e: &io::Error) -> Failure {
    Failure::input(format!(
        "cannot write '{}': {e}; name a file in a folder you can write to",
        path.display()
    ))
}

/// Returns the failure for a result that could not be written.
fn unwritten(path: &Path, e: &io::Error) -> Failure {
    let path = if path == Path::new("-") {
        "to standard output".to_owned()
    } else {
        format!("'{}'", path.display())
    };
    Failure::run(format!("cannot write {path}: {e}"))
}
