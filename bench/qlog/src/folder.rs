//! A folder of logs: one file per connection, all written by one thread.
//!
//! Logging puts an event into a bounded queue and returns. If the disk is too slow, the queue
//! fills, and events are dropped and counted. The last record of an incomplete log reports this.
//! Only [`LogFolder::finish`] waits for the disk. In addition to the events, the queue has room for
//! the begin and end messages of every log that may be open.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use crate::event::{Event, TraceHeader};
use crate::folder_state::{FolderState, LogLimits};
use crate::writer::{Create, Message, Writer, create};

/// Maximum number of events in the queue, which take 4 MB.
const QUEUE: usize = 1 << 14;

/// Reason why logs cannot be written, in one line with a hint.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder cannot be created or written to.
    #[error("cannot write logs in '{0}': {1}; name a folder you can write to")]
    Unwritable(PathBuf, io::Error),
    /// The writer thread cannot be started.
    #[error("cannot start a thread for the logs: {0}")]
    Thread(io::Error),
}

/// Totals of the logs so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Files started.
    pub files: u64,
    /// Bytes written to the files.
    pub bytes: u64,
    /// Events written.
    pub events: u64,
    /// Events dropped because the queue was full, or because a file or the folder had reached its
    /// maximum size.
    pub dropped: u64,
    /// Logs not started because a limit was reached.
    pub refused: u64,
    /// Files that could not be created or written.
    pub failed: u64,
}

/// A folder of logs.
#[derive(Debug)]
pub struct LogFolder {
    queue: SyncSender<Message>,
    next: AtomicU64,
    state: Arc<FolderState>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl LogFolder {
    /// Opens a folder for logs with the default limits, and creates the folder if it does not
    /// exist.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created or written to.
    pub fn open(folder: &Path) -> Result<Self, FolderError> {
        Self::open_bounded(folder, LogLimits::default())
    }

    /// Opens a folder for logs with these limits, and creates the folder if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created or written to.
    pub fn open_bounded(folder: &Path, bounds: LogLimits) -> Result<Self, FolderError> {
        let unwritable = |e| FolderError::Unwritable(folder.to_owned(), e);
        std::fs::create_dir_all(folder).map_err(unwritable)?;
        // Detect an unwritable folder now rather than at the first connection.
        let probe = folder.join(format!(".fathom-{}", std::process::id()));
        File::create(&probe).and_then(|_| std::fs::remove_file(&probe)).map_err(unwritable)?;
        let folder = folder.to_owned();
        Self::with(bounds, move |header| Ok(Box::new(create(&folder, header)?)))
    }

    /// Writes logs to the destinations that `create` returns, on the writer thread. `create` and
    /// its destinations may block, but callers that log are never blocked.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn with(
        bounds: LogLimits,
        create: impl FnMut(&TraceHeader) -> io::Result<Box<dyn Write + Send>> + Send + 'static,
    ) -> Result<Self, FolderError> {
        // Each open log needs room for one begin message and one end message. One further message
        // stops the thread.
        let (queue, messages) =
            sync_channel(QUEUE.saturating_add(bounds.open.saturating_mul(2)).saturating_add(1));
        let state = Arc::new(FolderState { bounds, ..FolderState::default() });
        let mut writer = Writer::new(Box::new(create) as Create, Arc::clone(&state));
        let thread =
            std::thread::Builder::new().name("qlog".into()).spawn(move || writer.run(&messages));
        let thread = thread.map_err(FolderError::Thread)?;
        Ok(Self { queue, next: AtomicU64::new(0), state, writer: Mutex::new(Some(thread)) })
    }

    /// Starts a connection's log without blocking. The file is named after the connection ID and
    /// never replaces an existing file. If a limit is reached, nothing is logged.
    pub fn begin(&self, header: TraceHeader) -> Log {
        if let Err(why) = self.state.admit() {
            self.state.refuse(why);
            return Log(None);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let dropped = Arc::new(AtomicU64::new(0));
        // This fails only after the folder is finished.
        let _ = self.queue.try_send(Message::Begin(number, Box::new(header), Arc::clone(&dropped)));
        Log(Some(Arc::new(OpenLog {
            queue: self.queue.clone(),
            number,
            dropped,
            state: Arc::clone(&self.state),
        })))
    }

    /// Returns the totals of the logs so far.
    pub fn counts(&self) -> LogCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let s = &self.state;
        LogCounts {
            files: of(&s.files),
            bytes: of(&s.bytes),
            events: of(&s.events),
            dropped: of(&s.dropped),
            refused: of(&s.refused),
            failed: of(&s.failed),
        }
    }

    /// Writes all queued messages, closes all files and returns the totals. The call takes as long
    /// as the disk needs. Later events are dropped.
    pub fn finish(&self) -> LogCounts {
        let thread = self.writer.lock().take();
        if let Some(thread) = thread {
            let _ = self.queue.try_send(Message::Stop);
            let _ = thread.join();
        }
        self.counts()
    }
}

impl Drop for LogFolder {
    fn drop(&mut self) {
        self.finish();
    }
}

/// A connection's log. Clones share it, and the file ends when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Log(Option<Arc<OpenLog>>);

#[derive(Debug)]
struct OpenLog {
    queue: SyncSender<Message>,
    number: u64,
    dropped: Arc<AtomicU64>,
    state: Arc<FolderState>,
}

impl Log {
    /// Logs an event. `at` is the time since the log began. This call never blocks and never
    /// allocates.
    pub fn event(&self, at: Duration, event: Event) {
        let Some(log) = &self.0 else { return };
        // Events may not use the queue places reserved for begin and end messages.
        let room = log.state.waiting.fetch_add(1, Ordering::Relaxed) < QUEUE;
        let taken = room && log.queue.try_send(Message::Event(log.number, at, event)).is_ok();
        if !taken {
            log.state.waiting.fetch_sub(1, Ordering::Relaxed);
            log.dropped.fetch_add(1, Ordering::Relaxed);
            log.state.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for OpenLog {
    fn drop(&mut self) {
        // The queue has a reserved place for this message.
        let _ = self.queue.try_send(Message::End(self.number));
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::event::{CongestionStateChange, VantagePoint};

    fn header(id: &str) -> TraceHeader {
        TraceHeader {
            id: id.into(),
            vantage: VantagePoint::Server,
            title: "quinn, sync".into(),
            began: UNIX_EPOCH,
        }
    }

    fn state(new: &'static str) -> Event {
        Event::State(CongestionStateChange { old: None, new })
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = std::fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn each_connection_gets_a_new_log_file() {
        let dir = tempfile::tempdir().unwrap();
        let folder = LogFolder::open(&dir.path().join("logs")).unwrap();
        for id in ["aa01", "aa01", "../b\u{e9}", ""] {
            folder.begin(header(id)).event(Duration::from_millis(5), state("slow_start"));
        }
        let counts = folder.finish();
        let bytes = counts.bytes;
        assert_eq!(counts, LogCounts { files: 4, bytes, events: 4, ..LogCounts::default() });
        let dir = dir.path().join("logs");
        assert_eq!(
            names(&dir),
            [
                "aa01-2_server.sqlog",
                "aa01_server.sqlog",
                "b_server.sqlog",
                "connection_server.sqlog"
            ]
        );
        let text = std::fs::read_to_string(dir.join("aa01_server.sqlog")).unwrap();
        let records: Vec<&str> = text.split('\u{1e}').skip(1).collect();
        assert_eq!(records.len(), 2);
        assert!(records.iter().all(|r| r.ends_with("}\n") && serde_json::from_str::<serde_json::Value>(r).is_ok()));
        assert!(
            records[0].contains("\"group_id\":\"aa01\"")
                && records[0].contains("1970-01-01T00:00:00.000Z")
        );
    }

    /// A file in memory.
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns a folder whose writer thread waits for `release` before it creates its first file.
    fn held(bounds: LogLimits) -> (LogFolder, Memory, std::sync::mpsc::Sender<()>) {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let memory = Memory::default();
        let files = memory.clone();
        let folder = LogFolder::with(bounds, move |_| {
            let _ = released.recv();
            Ok(Box::new(files.clone()))
        });
        (folder.unwrap(), memory, release)
    }

    #[test]
    fn events_dropped_because_of_a_slow_disk_are_counted() {
        let (folder, memory, release) = held(LogLimits::default());
        let log = folder.begin(header("cc"));
        let more = 7;
        (0..QUEUE + more).for_each(|_| log.event(Duration::from_millis(1), state("recovery")));
        assert_eq!(folder.counts().dropped, more as u64);
        drop((log, release));
        assert_eq!(folder.finish().events, QUEUE as u64);
        let text = String::from_utf8(memory.0.lock().clone()).unwrap();
        assert_eq!(text.matches("congestion_state_updated").count(), QUEUE);
        assert!(text.ends_with(
            "\"name\":\"fathom:log_incomplete\",\"data\":{\"reason\":\"queue_full\",\"events_dropped\":7}}\n"
        ));
    }

    #[test]
    fn stalled_disk_blocks_no_logger() {
        let open = 50;
        let (folder, _, release) = held(LogLimits { open, ..LogLimits::default() });
        // More messages than fit the queue: a blocking call would never return, because nothing is
        // released before the end.
        for _ in 0..10 * open {
            let log = folder.begin(header("aa"));
            (0..1_000).for_each(|_| log.event(Duration::ZERO, state("recovery")));
        }
        let counts = folder.counts();
        assert_eq!((counts.files, counts.refused), (0, 9 * open as u64));
        drop(release);
        // All started logs have ended, so their places are free.
        assert_eq!(folder.finish().files, open as u64);
        assert_eq!(folder.state.open.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn files_and_bytes_of_a_log_folder_are_limited() {
        let dir = tempfile::tempdir().unwrap();
        let folder =
            LogFolder::open_bounded(dir.path(), LogLimits { files: 3, ..LogLimits::default() })
                .unwrap();
        (0..10).for_each(|_| drop(folder.begin(header("aa"))));
        let counts = folder.finish();
        assert_eq!((counts.files, counts.refused, names(dir.path()).len()), (3, 7, 3));

        let dir = tempfile::tempdir().unwrap();
        let bytes = 10_000;
        let folder =
            LogFolder::open_bounded(dir.path(), LogLimits { bytes, ..LogLimits::default() })
                .unwrap();
        let log = folder.begin(header("bb"));
        (0..1_000).for_each(|_| log.event(Duration::from_millis(1), state("recovery")));
        drop(log);
        let counts = folder.finish();
        assert!(counts.events > 0 && counts.events + counts.dropped == 1_000, "{counts:?}");
        let text = std::fs::read_to_string(dir.path().join("bb_server.sqlog")).unwrap();
        assert!(
            text.contains("\"reason\":\"folder_size\"") && text.len() < 10_500,
            "{} bytes",
            text.len()
        );
        assert_eq!(folder.begin(header("cc")).0.map(drop), None, "no log begins in a full folder");
    }

    #[test]
    fn unwritable_log_folder_is_reported_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let line = LogFolder::open(&file.join("logs")).unwrap_err().to_string();
        assert!(line.contains("name a folder") && !line.contains('\n'), "{line}");
    }

    #[test]
    fn logging_after_finish_has_no_effect() {
        let dir = tempfile::tempdir().unwrap();
        let folder = LogFolder::open(dir.path()).unwrap();
        let log = folder.begin(header("dd"));
        folder.finish();
        log.event(Duration::ZERO, state("recovery"));
        drop(log);
        assert_eq!(folder.finish().dropped, 1);
    }
}
