//! Served files, with a limit on open descriptors.
//!
//! A file stays open while it is sent, as long as few files are open. Beyond that number, a file is
//! opened and closed for each piece. Clients that do not read their responses then hold no
//! descriptors, and other clients are still served.

use std::fs::{File, Metadata};
use std::future::Future;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use rustix::io::Errno;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::conditional::{Representation, Validators};
use crate::descriptors::Descriptors;
use crate::regular_file;

/// Bytes per read.
const PIECE: u64 = 64 << 10;
/// Time limit for getting a descriptor for a read. A longer wait means that the disk is stalled.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time limit for a read. A longer read means that the disk is stalled. A disk that only has to
/// spin up takes about 10 s.
const STALLED: Duration = Duration::from_secs(30);

/// The descriptors of all served files.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    /// Permits for files that stay open.
    kept: Arc<Semaphore>,
    /// Permits for files that are open only during a read.
    reads: Arc<Semaphore>,
}

impl Files {
    pub(crate) fn new(descriptors: Descriptors) -> Self {
        Self {
            kept: Arc::new(Semaphore::new(descriptors.files)),
            reads: Arc::new(Semaphore::new(descriptors.reads)),
        }
    }

    /// Opens the file `inside` a canonical root and reads the first piece of the bytes that
    /// `select` chooses. If the piece holds all of these bytes, the file is closed. Returns the
    /// file and the second result of `select`, or `None` if the path is hidden or is not a file.
    ///
    /// # Errors
    /// Returns an error if the file does not exist ([`is_missing`]) or cannot be read now.
    pub(crate) async fn open<T: Send + 'static>(
        &self,
        root: &Path,
        inside: PathBuf,
        select: impl FnOnce(&Representation) -> (T, Range<u64>) + Send + 'static,
    ) -> io::Result<Option<(ServedFile, Representation, T)>> {
        let permit = self.read().await?;
        let (root, files) = (root.to_owned(), self.clone());
        blocking(move || {
            let Some((path, mut file, meta)) = find(&root, &inside)? else { return Ok(None) };
            let representation = representation(&meta);
            let (selected, Range { start, end }) = select(&representation);
            let (path, wanted) = (Arc::from(path), end.saturating_sub(start));
            if start > 0 && wanted > 0 {
                file.seek(SeekFrom::Start(start))?;
            }
            let first =
                if wanted > 0 { piece(&mut file, wanted.min(PIECE))? } else { Bytes::new() };
            let at = start + first.len() as u64;
            let more = at < end;
            let kept = more.then(|| Arc::clone(&files.kept).try_acquire_owned().ok()).flatten();
            let source = Source {
                path: Arc::clone(&path),
                id: id(&meta),
                kept: kept.map(|permit| (file, permit)),
            };
            // Hold the permit until the file is closed or gets another permit.
            drop(permit);
            let file = ServedFile {
                path,
                length: wanted,
                at,
                end,
                piece: first,
                files,
                state: State::Idle(source),
            };
            Ok(Some((file, representation, selected)))
        })
        .await
    }

    async fn read(&self) -> io::Result<OwnedSemaphorePermit> {
        let permit = tokio::time::timeout(PATIENCE, Arc::clone(&self.reads).acquire_owned()).await;
        permit.map_err(|_| io::ErrorKind::TimedOut)?.map_err(io::Error::other)
    }
}

/// Runs `work` on a blocking thread. Work that takes longer than [`STALLED`] is abandoned: it
/// continues in the background and keeps its own permit.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::time::timeout(STALLED, tokio::task::spawn_blocking(work)).await;
    done.map_err(|_| io::ErrorKind::TimedOut)?.map_err(io::Error::other)?
}

/// Returns whether the file is permanently missing. Other errors may be temporary: too many open
/// files, a failing disk, no memory.
pub(crate) fn is_missing(e: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, IsADirectory, NotADirectory, NotFound, PermissionDenied};
    matches!(e.kind(), NotFound | PermissionDenied | NotADirectory | IsADirectory | InvalidFilename)
        || e.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

fn find(root: &Path, inside: &Path) -> io::Result<Option<(PathBuf, File, Metadata)>> {
    // Links may lead out of the root or to hidden files, so their targets are checked.
    let canonical = |path: PathBuf| {
        Ok::<_, io::Error>(Some(path.canonicalize()?).filter(|found| is_visible(root, found)))
    };
    let Some(mut found) = canonical(root.join(inside))? else { return Ok(None) };
    let mut meta = found.metadata()?;
    if meta.is_dir() {
        let Some(index) = canonical(found.join("index.html"))? else { return Ok(None) };
        found = index;
        meta = found.metadata()?;
    }
    // Pipes and devices have no end. Opening a pipe would also wait for a writer.
    if !meta.is_file() {
        return Ok(None);
    }
    let file = regular_file::open(&found)?;
    let meta = file.metadata()?;
    Ok(Some((found, file, meta)))
}

/// Returns whether a path lies below the root and none of its names begins with a dot.
fn is_visible(root: &Path, found: &Path) -> bool {
    found.strip_prefix(root).is_ok_and(|inside| inside.components().all(is_shown))
}

/// Returns whether a path component is a name that does not begin with a dot.
pub(crate) fn is_shown(part: Component<'_>) -> bool {
    matches!(part, Component::Normal(name) if !name.to_string_lossy().starts_with('.'))
}

/// Reads this many bytes from the file's position, or all bytes up to the end of the file.
fn piece(file: &mut File, length: u64) -> io::Result<Bytes> {
    let mut piece = Vec::with_capacity(length as usize);
    file.take(length).read_to_end(&mut piece)?;
    Ok(piece.into())
}

/// Returns the length and the validators of a file.
fn representation(meta: &Metadata) -> Representation {
    let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
    let modified = ns(meta.mtime(), meta.mtime_nsec());
    let validators =
        Validators::new(meta.ino(), meta.len(), modified, ns(meta.ctime(), meta.ctime_nsec()));
    Representation { length: meta.len(), validators: Some(validators) }
}

/// Returns an identity of the file. It stays the same while the file is written to, and changes if
/// another file takes the file's name.
fn id(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

struct Source {
    path: Arc<Path>,
    id: (u64, u64),
    /// The open file, positioned at the next piece, with its permit.
    kept: Option<(File, OwnedSemaphorePermit)>,
}

impl Source {
    fn read(&mut self, at: u64, length: u64) -> io::Result<Bytes> {
        if let Some((file, _)) = &mut self.kept {
            return piece(file, length);
        }
        let mut file = regular_file::open(&self.path)?;
        if id(&file.metadata()?) != self.id {
            return Err(io::Error::other("the file was replaced while it was sent"));
        }
        file.seek(SeekFrom::Start(at))?;
        piece(&mut file, length)
    }
}

type Reading = Pin<Box<dyn Future<Output = io::Result<(Source, Bytes)>> + Send>>;

enum State {
    Idle(Source),
    Reading(Reading),
    /// A read failed.
    Failed,
}

/// A file that is being sent to a client.
pub struct ServedFile {
    path: Arc<Path>,
    /// Number of selected bytes.
    length: u64,
    /// Offset at which the next read begins, and offset at which the last read ends.
    at: u64,
    end: u64,
    /// Bytes that were read but not yet handed over.
    piece: Bytes,
    files: Files,
    state: State,
}

impl ServedFile {
    /// Returns the file's path with links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of bytes to send.
    pub const fn length(&self) -> u64 {
        self.length
    }

    fn next(&self, mut source: Source) -> Reading {
        let (files, at, length) = (self.files.clone(), self.at, PIECE.min(self.end - self.at));
        Box::pin(async move {
            let permit = if source.kept.is_none() { Some(files.read().await?) } else { None };
            blocking(move || {
                let piece = source.read(at, length)?;
                drop(permit);
                Ok((source, piece))
            })
            .await
        })
    }
}

impl AsyncRead for ServedFile {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if !this.piece.is_empty() {
                let n = this.piece.len().min(buf.remaining());
                buf.put_slice(&this.piece[..n]);
                this.piece.advance(n);
                return Poll::Ready(Ok(()));
            }
            if this.at >= this.end {
                return Poll::Ready(Ok(()));
            }
            match std::mem::replace(&mut this.state, State::Failed) {
                State::Idle(source) => this.state = State::Reading(this.next(source)),
                State::Reading(mut reading) => {
                    let Poll::Ready(read) = reading.as_mut().poll(cx) else {
                        this.state = State::Reading(reading);
                        return Poll::Pending;
                    };
                    let (source, piece) = read?;
                    this.state = State::Idle(source);
                    if piece.is_empty() {
                        // The file has become shorter.
                        return Poll::Ready(Ok(()));
                    }
                    this.at += piece.len() as u64;
                    this.piece = piece;
                }
                State::Failed => {
                    return Poll::Ready(Err(io::Error::other("reading the file failed")));
                }
            }
        }
    }
}

impl std::fmt::Debug for ServedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedFile")
            .field("length", &self.length)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    fn root() -> (tempfile::TempDir, PathBuf, Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(root.join("large"), &bytes).unwrap();
        (dir, root, bytes)
    }

    async fn part(files: &Files, root: &Path, range: Range<u64>) -> ServedFile {
        files.open(root, "large".into(), move |_| ((), range)).await.unwrap().unwrap().0
    }

    async fn whole(files: &Files, root: &Path) -> ServedFile {
        part(files, root, 0..1_000_000).await
    }

    #[tokio::test]
    async fn server_sends_the_requested_part_of_a_file() {
        let (_dir, root, bytes) = root();
        for kept in [0, 1] {
            let files =
                Files::new(Descriptors { files: kept, reads: 1, logs: 0, tcp: 0, upstream: 0 });
            for range in
                [0..0, 0..1, 5..70_000, 65_536..131_073, 999_999..1_000_000, 400_000..1_000_000]
            {
                let mut file = part(&files, &root, range.clone()).await;
                assert_eq!(file.length(), range.end - range.start);
                let mut all = Vec::new();
                file.read_to_end(&mut all).await.unwrap();
                assert!(all == bytes[range.start as usize..range.end as usize], "{range:?}");
            }
        }
    }

    #[tokio::test]
    async fn etag_changes_when_the_file_changes() {
        let (_dir, root, bytes) = root();
        let files = Files::new(Descriptors { files: 1, reads: 1, logs: 0, tcp: 0, upstream: 0 });
        let of = || async {
            files.open(&root, "large".into(), |_| ((), 0..0)).await.unwrap().unwrap().1
        };
        let (first, again) = (of().await, of().await);
        assert_eq!(first, again);
        // The new file has the same length and modification time.
        let old = std::fs::metadata(root.join("large")).unwrap().modified().unwrap();
        std::fs::write(root.join("new"), vec![7; bytes.len()]).unwrap();
        std::fs::File::options()
            .append(true)
            .open(root.join("new"))
            .unwrap()
            .set_modified(old)
            .unwrap();
        std::fs::rename(root.join("new"), root.join("large")).unwrap();
        assert_ne!(of().await, first);
    }

    #[tokio::test]
    async fn many_files_are_sent_with_few_descriptors() {
        let (_dir, root, bytes) = root();
        let files = Files::new(Descriptors { files: 2, reads: 1, logs: 0, tcp: 0, upstream: 0 });
        let mut open = Vec::new();
        for _ in 0..50 {
            open.push(whole(&files, &root).await);
        }
        assert_eq!((files.kept.available_permits(), files.reads.available_permits()), (0, 1));
        let mut reading = tokio::task::JoinSet::new();
        for mut file in open {
            reading.spawn(async move {
                let mut all = Vec::new();
                file.read_to_end(&mut all).await.unwrap();
                all
            });
        }
        while let Some(all) = reading.join_next().await {
            assert!(all.unwrap() == bytes);
        }
        assert_eq!((files.kept.available_permits(), files.reads.available_permits()), (2, 1));
    }

    #[tokio::test]
    async fn replacing_a_file_aborts_its_response() {
        let (_dir, root, _) = root();
        let files = Files::new(Descriptors { files: 0, reads: 1, logs: 0, tcp: 0, upstream: 0 });
        let mut file = whole(&files, &root).await;
        std::fs::write(root.join("new"), vec![7; 1_000_000]).unwrap();
        std::fs::rename(root.join("new"), root.join("large")).unwrap();
        let error = file.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert!(error.to_string().contains("replaced"), "{error}");
    }

    #[test]
    fn only_permanent_errors_make_a_file_count_as_missing() {
        let is = |errno: Errno| is_missing(&io::Error::from_raw_os_error(errno.raw_os_error()));
        assert!(
            [
                Errno::NOENT,
                Errno::ACCESS,
                Errno::PERM,
                Errno::NOTDIR,
                Errno::LOOP,
                Errno::NAMETOOLONG
            ]
            .map(is)
            .iter()
            .all(|is| *is)
        );
        assert!(
            ![Errno::MFILE, Errno::NFILE, Errno::IO, Errno::NOMEM, Errno::STALE]
                .map(is)
                .iter()
                .any(|is| *is)
        );
    }
}
