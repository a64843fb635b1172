//! Writes results to standard output or to files, and messages to standard error.
//!
//! A path that names a regular file, or nothing yet, gets all of a result or nothing: it is written beside it and renamed. Symbolic links
//! stay and their target is written. An existing file keeps its mode, owner and hard links: where renaming would change owner or links, it
//! is written in place. New files have the mode that the umask leaves. Devices, FIFOs and the like are opened and written as they are.

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

/// An option that names a file, and the file.
pub(crate) type FileOption<'a> = (&'static str, Option<&'a Path>);

/// Where a command's text goes: to standard error where a file took standard output.
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

/// Refuses files that cannot be written, or that two options name, before any work is done for them; where the text goes then.
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
                        "{other} and {option} are both '-': standard output takes one; name a file for the other"
                    )
                }
                _ => format!("{other} and {option} name the same file; give each its own"),
            }));
        }
        taken.push((option, target));
    }
    let stdout = taken.iter().any(|(_, target)| matches!(target, Target::Stdout));
    Ok(if stdout { Text::Stderr } else { Text::Stdout })
}

/// What a path names.
#[derive(Debug)]
enum Target {
    /// `-`, or standard output by its name.
    Stdout,
    /// Neither regular file nor directory: a device, a FIFO, what a shell's `>(...)` is.
    Special { socket: bool },
    /// A regular file, or none yet, behind all symbolic links.
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
    // What is open already, by its number: to be written, not replaced.
    let open = ["/dev/fd", "/dev/stderr", "/proc"].iter().any(|name| path.starts_with(name));
    if open || !is.is_file() {
        return Ok(Target::Special { socket: is_socket(&is) });
    }
    Ok(Target::File { at: fs::canonicalize(path)?, is: Some(is) })
}

/// Where a symbolic link that leads nowhere yet leads to.
fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut at = path.to_owned();
    // As many as Linux follows.
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

/// A temporary file that can become `at`: in its folder, with the mode of `is` or the one that the umask leaves.
fn beside(at: &Path, is: Option<&Metadata>) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".fathom-").suffix(".tmp");
    #[cfg(unix)]
    let new = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666);
    #[cfg(unix)]
    builder.permissions(is.map_or(new, Metadata::permissions));
    // Its errors name the temporary file, which is nobody's business.
    let plain = |e: io::Error| e.raw_os_error().map_or(e, io::Error::from_raw_os_error);
    let file = builder.tempfile_in(folder(at)).map_err(plain)?;
    if let Some(is) = is {
        // The umask does not hold for what is there.
        file.as_file().set_permissions(is.permissions())?;
    }
    Ok(file)
}

/// Renaming `new` to what `is` is changes nothing but the contents.
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

/// Writes `text` to `path`, `-` being standard output.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    write_with(path, |file| file.write_all(text.as_bytes()).map_err(|e| unwritten(path, &e)))
}

/// Writes this as JSON, where a path is given.
pub(crate) fn write_json(path: Option<&Path>, of: &impl Serialize) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(of).map_err(Failure::run)?;
    write(path, &(text + "\n"))
}

/// Writes a table for programs as CSV, where a path is given.
pub(crate) fn write_csv(path: Option<&Path>, of: impl FnOnce() -> Dataset) -> Result<(), Failure> {
    path.map_or(Ok(()), |path| write(path, &of().csv()))
}

/// Writes it as Parquet, where a path is given.
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

/// The error of a build without the feature.
#[cfg(not(feature = "parquet"))]
const NO_PARQUET: &str =
    "this build lacks Parquet; name a file that ends in .csv, or build with --features parquet";

/// Writes it as what the name of the file says, `.parquet` or else CSV, where a path is given.
pub(crate) fn write_dataset(
    path: Option<&Path>,
    of: impl FnOnce() -> Dataset,
) -> Result<(), Failure> {
    match path {
        Some(path) if is_parquet(path) => write_parquet(Some(path), of),
        path => write_csv(path, of),
    }
}

/// What the name of a data file asks for: Parquet, or else CSV.
fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|ext| ext == "parquet")
}

/// Opens a writer of rows with these columns.
type OpenRows<'w> = Box<dyn FnOnce(&[(&str, Kind)]) -> io::Result<Box<dyn RowWriter + 'w>> + 'w>;

/// Has `write` write rows to the file as they come, as Parquet where its name ends in `.parquet`, where a path is given.
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

/// Writes a report, where a path is given, and says where it is.
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

/// Writes to `path` what `write` writes.
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
            // What cannot be replaced as it is keeps its place; it is not cut off before there is something to put there.
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

/// Opens `path` for what is written while a command works: in place, from the beginning.
pub(crate) fn stream(path: &Path) -> Result<Box<dyn Write + Send>, Failure> {
    if matches!(target(path).map_err(|e| cannot(path, &e))?, Target::Stdout) {
        return Ok(Box::new(Stdout));
    }
    let file = File::options().write(true).create(true).truncate(true).open(path);
    Ok(Box::new(file.map_err(|e| cannot(path, &e))?))
}

/// The first of several failures: one result that cannot be written does not keep the others back.
pub(crate) fn first_failure<const N: usize>(
    outcomes: [Result<(), Failure>; N],
) -> Result<(), Failure> {
    outcomes.into_iter().collect()
}

/// Standard output, whose reader may go away (`| head`): that is not an error, and nothing is left to do.
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

/// Prints lines for people to standard output, as [`plain`] shows them; a reader that went away is not an error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let printed = Stdout.write_all(lines(text).as_bytes()).and_then(|()| Stdout.flush());
    printed.map_err(|e| Failure::run(format!("cannot write to standard output: {e}")))
}

/// All progress bars: what is said meanwhile stands above them.
static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);
/// Something is drawn on the terminal's last line.
static DRAWN: AtomicBool = AtomicBool::new(false);

/// Draws a progress bar with the others, below what is said.
pub(crate) fn bar(bar: ProgressBar) -> ProgressBar {
    BARS.add(bar)
}

/// As [`bar`], above another.
pub(crate) fn bar_before(other: &ProgressBar, bar: ProgressBar) -> ProgressBar {
    BARS.insert_before(other, bar)
}

/// Says a line on standard error. That nobody reads it any more is no reason to end: `eprintln!` would panic.
pub(crate) fn say(line: impl std::fmt::Display) {
    let erase = if DRAWN.swap(false, Ordering::Relaxed) { ERASE } else { "" };
    // In one piece: lines of several threads do not mix.
    draw(&format!("{erase}{}\n", lines(&line.to_string())));
}

/// A text that came from elsewhere, fit for a terminal: one line, nothing that moves the cursor or turns the writing direction round.
pub(crate) fn plain(text: &str) -> String {
    fathom_report::plain(text).into_owned()
}

/// The same of each line of a text.
fn lines(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

/// Writes to standard error, above progress bars.
fn draw(text: &str) {
    BARS.suspend(|| {
        let _ = io::stderr().write_all(text.as_bytes());
    });
}

/// Erases the terminal's last line.
const ERASE: &str = "\r\x1b[K";

/// Draws a terminal's last line anew; without a line, erases it.
pub(crate) fn redraw(line: Option<&str>) {
    DRAWN.store(line.is_some(), Ordering::Relaxed);
    let _ = io::stderr().write_all(format!("{ERASE}{}", line.unwrap_or_default()).as_bytes());
}

/// A file that cannot be written, said before there is anything to write.
fn cannot(path: &Path, e: &io::Error) -> Failure {
    Failure::input(format!(
        "cannot write '{}': {e}; name a file in a folder you can write to",
        path.display()
    ))
}

/// A result that could not be written.
fn unwritten(path: &Path, e: &io::Error) -> Failure {
    let path = if path == Path::new("-") {
        "to standard output".to_owned()
    } else {
        format!("'{}'", path.display())
    };
    Failure::run(format!("cannot write {path}: {e}"))
}
