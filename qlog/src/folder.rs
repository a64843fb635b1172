//! A folder of logs: one file per connection, all written by one thread.
//!
//! Whoever logs hands an event to a bounded queue and goes on. When the disk is too slow the queue fills and events are dropped and
//! counted: a log with holes says so in its last record. Only beginning and ending a log wait for a place in the queue.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::event::{Event, Header, Metrics, Vantage, write_event, write_gap, write_header};

/// Events that wait at most; 4 MB of them.
const QUEUE: usize = 1 << 14;
/// Bytes of a file that wait in memory.
const BUFFER: usize = 8 << 10;
/// A file that would grow larger ends.
const LARGEST: u64 = 1 << 30;
/// What waits in memory is written after this silence.
const QUIET: Duration = Duration::from_millis(500);
/// Files of one connection ID: a client chooses it and may choose it again.
const NAMESAKES: u32 = 100;

/// Why there can be no logs. One line that names the mend.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder cannot be made, or nothing can be written in it.
    #[error("cannot write logs in '{0}': {1}; name a folder you can write to")]
    Unwritable(PathBuf, io::Error),
    /// No thread.
    #[error("cannot start a thread for the logs: {0}")]
    Thread(io::Error),
}

/// What became of the logs so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files begun.
    pub files: u64,
    /// Events written.
    pub events: u64,
    /// Events dropped because the queue was full or the file at its largest.
    pub dropped: u64,
    /// Files that could not be made or written.
    pub failed: u64,
}

#[derive(Debug, Default)]
struct Shared {
    files: AtomicU64,
    events: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

// Events are nearly all of them, and boxing them would allocate on the packet path.
#[allow(clippy::large_enum_variant)]
enum Message {
    Begin(u64, Box<Header>, Arc<AtomicU64>),
    Event(u64, Duration, Event),
    End(u64),
    Stop,
}

/// A folder of logs.
#[derive(Debug)]
pub struct Folder {
    queue: SyncSender<Message>,
    next: AtomicU64,
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Folder {
    /// Logs go to this folder, which is made if it is not there.
    ///
    /// # Errors
    /// Nothing can be written there.
    pub fn open(folder: &Path) -> Result<Self, FolderError> {
        let unwritable = |e| FolderError::Unwritable(folder.to_owned(), e);
        std::fs::create_dir_all(folder).map_err(unwritable)?;
        // To learn it now and not with the first connection.
        let probe = folder.join(format!(".fathom-{}", std::process::id()));
        File::create(&probe).and_then(|_| std::fs::remove_file(&probe)).map_err(unwritable)?;
        let (queue, messages) = sync_channel(QUEUE);
        let shared = Arc::new(Shared::default());
        let mut writer = Writer { folder: folder.to_owned(), open: HashMap::new(), shared: Arc::clone(&shared) };
        let thread = std::thread::Builder::new().name("qlog".into()).spawn(move || writer.run(&messages));
        let thread = thread.map_err(FolderError::Thread)?;
        Ok(Self { queue, next: AtomicU64::new(0), shared, writer: Mutex::new(Some(thread)) })
    }

    /// Begins a connection's log. Its file is named after its connection ID and is never one that is there already.
    pub fn begin(&self, header: Header) -> Log {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let dropped = Arc::new(AtomicU64::new(0));
        // Fails only once the folder is finished.
        let _ = self.queue.send(Message::Begin(number, Box::new(header), Arc::clone(&dropped)));
        let end = End { queue: self.queue.clone(), number, dropped, shared: Arc::clone(&self.shared) };
        Log(Arc::new(end))
    }

    /// What became of the logs so far.
    pub fn counts(&self) -> Counts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let s = &self.shared;
        Counts { files: of(&s.files), events: of(&s.events), dropped: of(&s.dropped), failed: of(&s.failed) }
    }

    /// Writes what waits and closes all files; what is logged afterwards is dropped.
    pub fn finish(&self) -> Counts {
        let thread = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = self.queue.send(Message::Stop);
            let _ = thread.join();
        }
        self.counts()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.finish();
    }
}

/// A connection's log. Clones share it; its file ends with the last of them.
#[derive(Clone, Debug)]
pub struct Log(Arc<End>);

#[derive(Debug)]
struct End {
    queue: SyncSender<Message>,
    number: u64,
    dropped: Arc<AtomicU64>,
    shared: Arc<Shared>,
}

impl Log {
    /// Logs an event; `at` is the time since the log began. Never waits, never allocates.
    pub fn event(&self, at: Duration, event: Event) {
        if self.0.queue.try_send(Message::Event(self.0.number, at, event)).is_err() {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
            self.0.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.queue.send(Message::End(self.number));
    }
}

/// The thread's side.
struct Writer {
    folder: PathBuf,
    open: HashMap<u64, Open>,
    shared: Arc<Shared>,
}

struct Open {
    file: Counting<BufWriter<File>>,
    last: Metrics,
    at: Duration,
    dropped: Arc<AtomicU64>,
    full: bool,
}

/// Counts what is written.
struct Counting<W> {
    to: W,
    bytes: u64,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.to.write(bytes)?;
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Writer {
    fn run(&mut self, messages: &Receiver<Message>) {
        loop {
            match messages.recv_timeout(QUIET) {
                Ok(Message::Begin(number, header, dropped)) => self.begin(number, &header, dropped),
                Ok(Message::Event(number, at, event)) => self.event(number, at, event),
                Ok(Message::End(number)) => self.end(number),
                Err(RecvTimeoutError::Timeout) => self.flush(),
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let left: Vec<u64> = self.open.keys().copied().collect();
        left.into_iter().for_each(|number| self.end(number));
    }

    fn begin(&mut self, number: u64, header: &Header, dropped: Arc<AtomicU64>) {
        let made = create(&self.folder, header).and_then(|file| {
            let mut file = Counting { to: BufWriter::with_capacity(BUFFER, file), bytes: 0 };
            write_header(&mut file, header)?;
            Ok(Open { file, last: Metrics::default(), at: Duration::ZERO, dropped, full: false })
        });
        match made {
            Ok(open) => {
                self.shared.files.fetch_add(1, Ordering::Relaxed);
                self.open.insert(number, open);
            }
            Err(e) => self.failed(&e),
        }
    }

    fn failed(&self, e: &io::Error) {
        // The first says what is wrong; thousands would say no more.
        if self.shared.failed.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!("a log in '{}' cannot be written: {e}; connections go on without", self.folder.display());
        }
    }

    fn event(&mut self, number: u64, at: Duration, event: Event) {
        let Some(open) = self.open.get_mut(&number) else {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        open.at = at;
        if open.file.bytes >= LARGEST {
            open.full = true;
            open.dropped.fetch_add(1, Ordering::Relaxed);
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let event = match event {
            Event::Metrics(metrics) => {
                let news = metrics.since(&open.last);
                open.last = open.last.then(&news);
                if news == Metrics::default() {
                    return;
                }
                Event::Metrics(news)
            }
            other => other,
        };
        match write_event(&mut open.file, at, &event) {
            Ok(()) => {
                self.shared.events.fetch_add(1, Ordering::Relaxed);
            }
            Err(e) => {
                self.open.remove(&number);
                self.failed(&e);
            }
        }
    }

    fn end(&mut self, number: u64) {
        let Some(mut open) = self.open.remove(&number) else { return };
        let dropped = open.dropped.load(Ordering::Relaxed);
        let gap = match dropped {
            0 => Ok(()),
            _ if open.full => write_gap(&mut open.file, open.at, "file_size", dropped),
            _ => write_gap(&mut open.file, open.at, "queue_full", dropped),
        };
        if let Err(e) = gap.and_then(|()| open.file.flush()) {
            self.failed(&e);
        }
    }

    fn flush(&mut self) {
        // What cannot be written now cannot be written later either, and is counted then.
        self.open.values_mut().for_each(|open| drop(open.file.flush()));
    }
}

/// Makes the file of a connection, as `ID_server.sqlog`, or `ID-2_server.sqlog` where that is taken.
fn create(folder: &Path, header: &Header) -> io::Result<File> {
    let id: String = header.id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(64).collect();
    let id = if id.is_empty() { "connection".to_owned() } else { id };
    let end = match header.vantage {
        Vantage::Client => "client",
        Vantage::Server => "server",
    };
    let mut taken = None;
    for n in 1..=NAMESAKES {
        let name = if n == 1 { format!("{id}_{end}.sqlog") } else { format!("{id}-{n}_{end}.sqlog") };
        match OpenOptions::new().write(true).create_new(true).open(folder.join(name)) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => taken = Some(e),
            other => return other,
        }
    }
    Err(taken.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::event::State;

    fn header(id: &str) -> Header {
        Header { id: id.into(), vantage: Vantage::Server, title: "quinn, sync".into(), began: UNIX_EPOCH }
    }

    fn state(new: &'static str) -> Event {
        Event::State(State { old: None, new })
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn one_file_per_connection_and_none_is_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(&dir.path().join("logs")).unwrap();
        for id in ["aa01", "aa01", "../b\u{e9}", ""] {
            folder.begin(header(id)).event(Duration::from_millis(5), state("slow_start"));
        }
        let counts = folder.finish();
        assert_eq!(counts, Counts { files: 4, events: 4, dropped: 0, failed: 0 });
        let dir = dir.path().join("logs");
        assert_eq!(
            names(&dir),
            ["aa01-2_server.sqlog", "aa01_server.sqlog", "b_server.sqlog", "connection_server.sqlog"]
        );
        let text = std::fs::read_to_string(dir.join("aa01_server.sqlog")).unwrap();
        let records: Vec<&str> = text.split('\u{1e}').skip(1).collect();
        assert_eq!(records.len(), 2);
        assert!(records.iter().all(|r| r.ends_with("}\n") && serde_json::from_str::<serde_json::Value>(r).is_ok()));
        assert!(records[0].contains("\"group_id\":\"aa01\"") && records[0].contains("1970-01-01T00:00:00.000Z"));
    }

    #[test]
    fn a_slow_disk_drops_events_counts_them_and_says_so_in_the_file() {
        // The thread is this one: nothing is taken from the queue until all is in it.
        let dir = tempfile::tempdir().unwrap();
        let (queue, messages) = sync_channel(4);
        let shared = Arc::new(Shared::default());
        let dropped = Arc::new(AtomicU64::new(0));
        queue.send(Message::Begin(0, Box::new(header("cc")), Arc::clone(&dropped))).unwrap();
        let log = Log(Arc::new(End { queue: queue.clone(), number: 0, dropped, shared: Arc::clone(&shared) }));
        (0..10).for_each(|_| log.event(Duration::from_millis(1), state("recovery")));
        assert_eq!(shared.dropped.load(Ordering::Relaxed), 7);
        let folder = dir.path().to_owned();
        let writer = std::thread::spawn(move || {
            Writer { folder, open: HashMap::new(), shared }.run(&messages);
        });
        drop(log);
        queue.send(Message::Stop).unwrap();
        writer.join().unwrap();
        let text = std::fs::read_to_string(dir.path().join("cc_server.sqlog")).unwrap();
        assert_eq!(text.matches("congestion_state_updated").count(), 3);
        assert!(text.ends_with(
            "\"name\":\"fathom:log_incomplete\",\"data\":{\"reason\":\"queue_full\",\"events_dropped\":7}}\n"
        ));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_told_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let line = Folder::open(&file.join("logs")).unwrap_err().to_string();
        assert!(line.contains("name a folder") && !line.contains('\n'), "{line}");
    }

    #[test]
    fn after_the_end_nothing_is_logged_and_nothing_waits() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let log = folder.begin(header("dd"));
        folder.finish();
        log.event(Duration::ZERO, state("recovery"));
        drop(log);
        assert_eq!(folder.finish().dropped, 1);
    }
}
