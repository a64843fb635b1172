//! A file to which a separate thread appends lines. The file counts the lines that were written and
//! those that were lost because the disk is full.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::OFlags;
use tokio::time::Instant;

use crate::metrics::AccessLogMetrics;

/// Number of bytes after which buffered lines are written together.
const TOGETHER: usize = 8 << 10;
/// Shortest interval between attempts to reopen a file that cannot be written, and between warnings
/// to the operator about this file.
const ATTEMPTS: Duration = Duration::from_secs(1);
const WARNINGS: Duration = Duration::from_secs(60);

/// Destination of the lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessLogTarget {
    /// Standard output.
    Stdout,
    /// The end of this file, or a pipe with a reader.
    File(PathBuf),
}

impl AccessLogTarget {
    /// Opens the target without waiting. A pipe without a reader is an error.
    fn open(&self) -> io::Result<File> {
        let path = match self {
            Self::Stdout => return Ok(io::stdout().as_fd().try_clone_to_owned()?.into()),
            Self::File(path) => path,
        };
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options()
            .append(true)
            .create(true)
            .custom_flags(nonblocking)
            .open(path)
            .map_err(|e| {
            let unread = e.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error());
            if unread {
                io::Error::other("the file is a pipe without a reader; start the reader first")
            } else {
                e
            }
        })?;
        // Remove the non-blocking flag, because the writing thread may wait.
        let flags = rustix::fs::fcntl_getfl(&file)?;
        rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
        Ok(file)
    }
}

/// A file to which lines are appended.
pub(crate) struct LineFile<W = File> {
    target: AccessLogTarget,
    out: W,
    waiting: Vec<u8>,
    /// Whether the last line was written only in part.
    torn: bool,
    metrics: AccessLogMetrics,
    opened: Instant,
    warned: Option<Instant>,
}

impl LineFile {
    /// Opens the end of `target`.
    ///
    /// # Errors
    /// Returns an error if the target cannot be opened.
    pub(crate) fn open(target: AccessLogTarget, metrics: AccessLogMetrics) -> io::Result<Self> {
        let out = target.open()?;
        Ok(Self::on(target, out, metrics))
    }

    /// Reopens the file by its name.
    pub(crate) fn reopen(&mut self) {
        self.flush();
        match self.target.open() {
            Ok(out) => (self.out, self.torn) = (out, false),
            Err(e) => tracing::warn!(
                "the access log cannot be reopened, so the open file stays in use: {e}"
            ),
        }
    }

    /// Writes the buffered lines.
    pub(crate) fn flush(&mut self) {
        if self.write_waiting().is_err() && self.opened.elapsed() >= ATTEMPTS {
            self.opened = Instant::now();
            if let Ok(out) = self.target.open() {
                self.out = out;
            }
        }
    }

    /// Adds a line. Lines are buffered and written together.
    pub(crate) fn push(&mut self, line: &str) {
        self.waiting.extend_from_slice(line.as_bytes());
        if self.waiting.len() >= TOGETHER {
            self.flush();
        }
    }
}

impl<W: Write> LineFile<W> {
    fn on(target: AccessLogTarget, out: W, metrics: AccessLogMetrics) -> Self {
        let opened = Instant::now();
        Self { target, out, waiting: Vec::new(), torn: false, metrics, opened, warned: None }
    }

    /// Writes the buffered lines. A line that was not written completely is lost.
    fn write_waiting(&mut self) -> Result<(), ()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let lines = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        // Terminate a line that was cut, so that it does not run into the next line.
        let (mut written, mut result) =
            (0, if self.torn { self.out.write_all(b"\n") } else { Ok(()) });
        self.torn &= result.is_err();
        while result.is_ok() && written < self.waiting.len() {
            match self.out.write(&self.waiting[written..]) {
                Ok(0) => result = Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => written += bytes,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => result = Err(e),
            }
        }
        let result = result.and_then(|()| self.out.flush());
        let (whole, lost) = self.waiting.split_at(written);
        self.metrics.written(lines(whole));
        self.metrics.dropped(lines(lost));
        self.torn |= !whole.is_empty() && !whole.ends_with(b"\n");
        self.waiting.clear();
        result.map_err(|e| {
            if self.warned.is_none_or(|warned| warned.elapsed() >= WARNINGS) {
                self.warned = Some(Instant::now());
                tracing::warn!("the access log cannot be written, and lines are lost: {e}; free disk space, or send SIGUSR1 after moving the file");
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::metrics::Metrics;

    /// A disk with room for this many bytes.
    struct Disk {
        bytes: Vec<u8>,
        room: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.room);
            if taken == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.bytes.extend_from_slice(&bytes[..taken]);
            self.room -= taken;
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn counts(metrics: &Metrics) -> (u64, u64) {
        let text = metrics.text();
        let of = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap()
        };
        (of("fathom_access_log_lines_total"), of("fathom_access_log_dropped_total"))
    }

    #[test]
    fn lines_lost_on_a_full_disk_are_counted_once() {
        let metrics = Metrics::new();
        let disk = Disk { bytes: Vec::new(), room: 25 };
        let mut file = LineFile::on(AccessLogTarget::Stdout, disk, metrics.access_log());
        let line = |file: &mut LineFile<Disk>, n: usize| {
            file.waiting.extend_from_slice(format!("line {n:04}\n").as_bytes())
        };
        (0..4).for_each(|n| line(&mut file, n));
        assert!(file.write_waiting().is_err());
        assert_eq!(counts(&metrics), (2, 2), "two whole lines, one in part");
        (4..6).for_each(|n| line(&mut file, n));
        assert!(file.write_waiting().is_err());
        assert_eq!(counts(&metrics), (2, 4));
        file.out.room = 1_000;
        line(&mut file, 6);
        assert!(file.write_waiting().is_ok());
        assert_eq!(counts(&metrics), (3, 4));
        let text = String::from_utf8(file.out.bytes.clone()).unwrap();
        assert_eq!(text, "line 0000\nline 0001\nline \nline 0006\n");
    }

    #[test]
    fn access_log_pipe_without_a_reader_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        let error = AccessLogTarget::File(pipe).open().unwrap_err().to_string();
        assert!(error.contains("a pipe without a reader"), "{error}");
    }
}
