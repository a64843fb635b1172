//! The writer thread of a folder of logs.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::event::{
    Event, Metrics, TraceHeader, VantagePoint, write_event, write_gap, write_header,
};
use crate::folder_state::FolderState;

/// Bytes buffered per file.
const BUFFER: usize = 8 << 10;
/// Maximum size of a file in bytes. Logging to a file ends at this size.
const LARGEST: u64 = 1 << 30;
/// Time without messages after which buffers are flushed.
const QUIET: Duration = Duration::from_millis(500);
/// Maximum number of files with the same connection ID. A client chooses the ID and may use it
/// repeatedly.
const NAMESAKES: u32 = 100;

/// Function that creates the file of a log.
pub(crate) type Create = Box<dyn FnMut(&TraceHeader) -> io::Result<Box<dyn Write + Send>> + Send>;

// Nearly all messages are events, and boxing them would allocate on the packet path.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Message {
    Begin(u64, Box<TraceHeader>, Arc<AtomicU64>),
    Event(u64, Duration, Event),
    End(u64),
    Stop,
}

/// The writer thread's part of a folder.
pub(crate) struct Writer {
    create: Create,
    open: HashMap<u64, Open>,
    state: Arc<FolderState>,
    /// Whether a warning about dropped events was logged.
    warned: bool,
}

struct Open {
    file: Counting<BufWriter<Box<dyn Write + Send>>>,
    last: Metrics,
    at: Duration,
    dropped: Arc<AtomicU64>,
    /// Reason why nothing more is written; `None` while logs are written.
    full: Option<&'static str>,
}

/// Writer that counts the bytes written.
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
    pub(crate) fn new(create: Create, state: Arc<FolderState>) -> Self {
        Self { create, open: HashMap::new(), state, warned: false }
    }

    pub(crate) fn run(&mut self, messages: &Receiver<Message>) {
        loop {
            match messages.recv_timeout(QUIET) {
                Ok(Message::Begin(number, header, dropped)) => self.begin(number, &header, dropped),
                Ok(Message::Event(number, at, event)) => {
                    self.state.waiting.fetch_sub(1, Ordering::Relaxed);
                    self.event(number, at, event);
                }
                Ok(Message::End(number)) => {
                    self.end(number);
                    self.state.open.fetch_sub(1, Ordering::Relaxed);
                }
                Err(RecvTimeoutError::Timeout) => self.flush(),
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            }
            if !self.warned && self.state.dropped.load(Ordering::Relaxed) > 0 {
                self.warned = true;
                tracing::warn!(
                    "qlog: the disk is too slow or a limit is reached; events are dropped, and \
                     incomplete logs are marked as such"
                );
            }
        }
        let left: Vec<u64> = self.open.keys().copied().collect();
        left.into_iter().for_each(|number| self.end(number));
    }

    fn begin(&mut self, number: u64, header: &TraceHeader, dropped: Arc<AtomicU64>) {
        let made = (self.create)(header).and_then(|file| {
            let mut file = Counting { to: BufWriter::with_capacity(BUFFER, file), bytes: 0 };
            write_header(&mut file, header)?;
            Ok(Open { file, last: Metrics::default(), at: Duration::ZERO, dropped, full: None })
        });
        match made {
            Ok(open) => {
                self.state.files.fetch_add(1, Ordering::Relaxed);
                self.state.bytes.fetch_add(open.file.bytes, Ordering::Relaxed);
                self.open.insert(number, open);
            }
            Err(e) => self.failed(&e),
        }
    }

    fn failed(&self, e: &io::Error) {
        // Warn only once, because thousands of warnings would say no more.
        if self.state.failed.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!("a qlog file cannot be written: {e}; its connection is not logged");
        }
    }

    fn event(&mut self, number: u64, at: Duration, event: Event) {
        let Some(open) = self.open.get_mut(&number) else {
            self.state.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        open.at = at;
        if open.file.bytes >= LARGEST {
            open.full = Some("file_size");
        } else if self.state.bytes.load(Ordering::Relaxed) >= self.state.bounds.bytes {
            open.full = Some("folder_size");
        }
        if open.full.is_some() {
            open.dropped.fetch_add(1, Ordering::Relaxed);
            self.state.dropped.fetch_add(1, Ordering::Relaxed);
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
        let before = open.file.bytes;
        let written = write_event(&mut open.file, at, &event);
        self.state.bytes.fetch_add(open.file.bytes - before, Ordering::Relaxed);
        match written {
            Ok(()) => {
                self.state.events.fetch_add(1, Ordering::Relaxed);
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
            _ => write_gap(&mut open.file, open.at, open.full.unwrap_or("queue_full"), dropped),
        };
        if let Err(e) = gap.and_then(|()| open.file.flush()) {
            self.failed(&e);
        }
    }

    fn flush(&mut self) {
        // Data that cannot be written now cannot be written later either. The failure is counted
        // then.
        self.open.values_mut().for_each(|open| drop(open.file.flush()));
    }
}

/// Creates the file of a connection: `ID_server.sqlog`, or `ID-2_server.sqlog` if this name is
/// taken.
pub(crate) fn create(folder: &Path, header: &TraceHeader) -> io::Result<File> {
    let id: String =
        header.id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(64).collect();
    let id = if id.is_empty() { "connection".to_owned() } else { id };
    let end = match header.vantage {
        VantagePoint::Client => "client",
        VantagePoint::Server => "server",
    };
    let mut taken = None;
    for n in 1..=NAMESAKES {
        let name =
            if n == 1 { format!("{id}_{end}.sqlog") } else { format!("{id}-{n}_{end}.sqlog") };
        match OpenOptions::new().write(true).create_new(true).open(folder.join(name)) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => taken = Some(e),
            other => return other,
        }
    }
    Err(taken.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
}
