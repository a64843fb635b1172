//! A line for each request, in Combined Log Format or as JSON. A separate thread writes the lines.
//! If this thread cannot keep up because a disk or a pipe stalls, lines are lost, but no connection
//! waits.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{REFERER, USER_AGENT};
use http::{HeaderMap, HeaderName, Method, Version};
use parking_lot::Mutex;
use serde::Serialize;

pub use crate::line_file::AccessLogTarget;
use crate::line_file::LineFile;
use crate::metrics::{AccessLogMetrics, ControllerLabels};
use crate::request::SiteRequest;

/// Maximum number of lines that wait to be written.
const WAITING: usize = 8_192;
/// Maximum number of bytes that a line keeps of a target (`TARGET`) and of any other field.
const TARGET: usize = 2_048;
const FIELD: usize = 512;
/// Interval at which the writer checks for a reopen request while no lines arrive.
const LOOK: Duration = Duration::from_millis(200);
/// Time limit for writing the remaining lines when the log is closed. Lines that are left after
/// this time are lost.
const FINISH: Duration = Duration::from_secs(2);

/// Format of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum AccessLogFormat {
    /// Combined Log Format, as written by Apache and nginx, with four more fields.
    #[default]
    Combined,
    /// One JSON object per line.
    Json,
}

/// A request and the outcome of its response.
#[derive(Debug)]
pub struct AccessRecord {
    time: SystemTime,
    client: IpAddr,
    method: Method,
    target: String,
    version: Version,
    host: Option<String>,
    referer: Option<String>,
    user_agent: Option<String>,
    label: ControllerLabels,
    status: u16,
    bytes: u64,
    duration: Duration,
    complete: bool,
}

/// Returns the part of a text that fits in a line.
fn cut(text: &str, most: usize) -> String {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

fn field(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).map(|value| cut(&String::from_utf8_lossy(value.as_bytes()), FIELD))
}

impl AccessRecord {
    /// Returns the record of a request that arrived now, on a connection with this label.
    // A log needs the time of day.
    #[allow(clippy::disallowed_methods)]
    pub fn new(request: &SiteRequest, label: &ControllerLabels) -> Self {
        let target = request.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        Self {
            time: SystemTime::now(),
            client: request.client.ip().to_canonical(),
            method: request.method.clone(),
            target: cut(target, TARGET),
            version: request.version,
            host: request.authority().map(|host| cut(host, FIELD)),
            referer: field(&request.headers, &REFERER),
            user_agent: field(&request.headers, &USER_AGENT),
            label: label.clone(),
            status: 0,
            bytes: 0,
            duration: Duration::ZERO,
            complete: false,
        }
    }

    /// Returns the record with its outcome: `complete` if the client has acknowledged the whole
    /// response.
    #[must_use]
    pub fn with_outcome(self, status: u16, bytes: u64, duration: Duration, complete: bool) -> Self {
        Self { status, bytes, duration, complete, ..self }
    }

    fn combined(&self, line: &mut String, date: &mut Date) {
        use std::fmt::Write;
        let Self { client, status, bytes, duration, label, complete, .. } = self;
        // Writing to a string does not fail.
        let _ = write!(line, "{client} - - [{}] \"{} ", date.of(self.time), self.method);
        escaped(&self.target, line);
        let _ = write!(line, " {:?}\" {status} {bytes} \"", self.version);
        escaped(self.referer.as_deref().unwrap_or("-"), line);
        line.push_str("\" \"");
        escaped(self.user_agent.as_deref().unwrap_or("-"), line);
        let (seconds, end) =
            (duration.as_secs_f64(), if *complete { "complete" } else { "aborted" });
        let _ = writeln!(line, "\" {seconds:.6} {} \"{}\" {end}", label.stack, label.controller);
    }

    fn json(&self, line: &mut String) {
        #[derive(Serialize)]
        struct Line<'a> {
            time: f64,
            client: IpAddr,
            method: &'a str,
            target: &'a str,
            version: String,
            host: Option<&'a str>,
            status: u16,
            body_bytes: u64,
            duration_seconds: f64,
            complete: bool,
            stack: &'a str,
            controller: &'a str,
            referer: Option<&'a str>,
            user_agent: Option<&'a str>,
        }
        let milliseconds = self.time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let written = serde_json::to_string(&Line {
            time: milliseconds as f64 / 1_000.0,
            client: self.client,
            method: self.method.as_str(),
            target: &self.target,
            version: format!("{:?}", self.version),
            host: self.host.as_deref(),
            status: self.status,
            body_bytes: self.bytes,
            duration_seconds: self.duration.as_secs_f64(),
            complete: self.complete,
            stack: self.label.stack,
            controller: &self.label.controller,
            referer: self.referer.as_deref(),
            user_agent: self.user_agent.as_deref(),
        });
        line.push_str(&written.unwrap_or_default());
        line.push('\n');
    }
}

/// Appends a text, escaping bytes that could end a field or a line or move a terminal's cursor, as
/// nginx does.
fn escaped(text: &str, line: &mut String) {
    use std::fmt::Write;
    for byte in text.bytes() {
        if byte == b'"' || byte == b'\\' || !(b' '..=b'~').contains(&byte) {
            let _ = write!(line, "\\x{byte:02X}");
        } else {
            line.push(char::from(byte));
        }
    }
}

/// The date in Combined Log Format, updated once a second.
#[derive(Default)]
struct Date {
    second: u64,
    text: String,
}

impl Date {
    fn of(&mut self, time: SystemTime) -> &str {
        let second = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if self.text.is_empty() || second != self.second {
            // Take the parts from `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7).
            let date = httpdate::fmt_http_date(time);
            let mut parts = date.split(' ').skip(1);
            let mut part = || parts.next().unwrap_or("-");
            let (day, month, year, clock) = (part(), part(), part(), part());
            self.text = format!("{day}/{month}/{year}:{clock} +0000");
            self.second = second;
        }
        &self.text
    }
}

/// A log of requests.
#[derive(Debug)]
pub struct AccessLog {
    sender: Mutex<Option<SyncSender<AccessRecord>>>,
    metrics: AccessLogMetrics,
    reopen: Arc<AtomicBool>,
    /// Whether the warning about lost lines was logged.
    behind: AtomicBool,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl AccessLog {
    /// Starts a log at the end of `target`.
    ///
    /// # Errors
    /// Returns an error if the target cannot be opened.
    pub fn open(
        target: AccessLogTarget,
        format: AccessLogFormat,
        metrics: AccessLogMetrics,
    ) -> io::Result<Arc<Self>> {
        let (sender, receiver) = sync_channel(WAITING);
        let reopen = Arc::new(AtomicBool::new(false));
        let out = LineFile::open(target, metrics.clone())?;
        let writer = Writer { out, format, reopen: Arc::clone(&reopen), date: Date::default() };
        let writer = std::thread::Builder::new()
            .name("access-log".into())
            .spawn(move || writer.run(&receiver))?;
        let (sender, writer) = (Mutex::new(Some(sender)), Mutex::new(Some(writer)));
        Ok(Arc::new(Self { sender, metrics, reopen, behind: AtomicBool::new(false), writer }))
    }

    /// Queues a line. Drops the line if the queue is full, so this function never waits.
    pub fn write(&self, record: AccessRecord) {
        let sent =
            self.sender.lock().as_ref().is_some_and(|sender| sender.try_send(record).is_ok());
        if !sent {
            self.metrics.dropped(1);
            if !self.behind.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    "the access log cannot keep up, and lines are lost \
                     (fathom_access_log_dropped_total counts the lost lines)"
                );
            }
        }
    }

    /// Reopens the file by its name. After a rename, this creates a new file for the following
    /// lines.
    pub fn reopen(&self) {
        self.reopen.store(true, Ordering::Relaxed);
    }

    /// Writes the remaining lines, for at most two seconds.
    pub fn finish(&self) {
        drop(self.sender.lock().take());
        let Some(writer) = self.writer.lock().take() else { return };
        let step = Duration::from_millis(10);
        for _ in 0..FINISH.as_millis() / step.as_millis() {
            if writer.is_finished() {
                break;
            }
            std::thread::sleep(step);
        }
    }
}

struct Writer {
    out: LineFile,
    format: AccessLogFormat,
    reopen: Arc<AtomicBool>,
    date: Date,
}

impl Writer {
    fn run(mut self, records: &Receiver<AccessRecord>) {
        let mut line = String::new();
        loop {
            // Write consecutive lines together.
            let record = match records.try_recv() {
                Ok(record) => record,
                Err(_) => {
                    self.out.flush();
                    match records.recv_timeout(LOOK) {
                        Ok(record) => record,
                        Err(RecvTimeoutError::Timeout) => {
                            self.reopen_if_asked();
                            continue;
                        }
                        Err(RecvTimeoutError::Disconnected) => return,
                    }
                }
            };
            self.reopen_if_asked();
            line.clear();
            match self.format {
                AccessLogFormat::Combined => record.combined(&mut line, &mut self.date),
                AccessLogFormat::Json => record.json(&mut line),
            }
            self.out.push(&line);
        }
    }

    fn reopen_if_asked(&mut self) {
        if self.reopen.swap(false, Ordering::Relaxed) {
            self.out.reopen();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::metrics::Metrics;

    fn record(target: &str, agent: &str) -> AccessRecord {
        let mut request = SiteRequest::new(
            Method::GET,
            target.parse().unwrap(),
            "192.0.2.1:4000".parse().unwrap(),
        );
        request.headers.insert(USER_AGENT, agent.parse().unwrap());
        let label = ControllerLabels { stack: "quinn", controller: "sync:signal=either".into() };
        let record = AccessRecord::new(&request, &label);
        let record =
            AccessRecord { time: UNIX_EPOCH + Duration::from_millis(784_111_777_500), ..record };
        record.with_outcome(200, 1234, Duration::from_micros(12_345), true)
    }

    #[test]
    fn access_log_lines_match_the_combined_and_json_formats() {
        let (mut line, mut date) = (String::new(), Date::default());
        record("https://example.org/a?b=1", "x \"y\\ \u{e9}").combined(&mut line, &mut date);
        assert_eq!(
            line,
            "192.0.2.1 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b=1 HTTP/3.0\" 200 1234 \"-\" \"x \\x22y\\x5C \\xC3\\xA9\" 0.012345 quinn \"sync:signal=either\" complete\n"
        );
        line.clear();
        record("https://example.org/a", "x \"y").json(&mut line);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["time"], 784_111_777.5);
        assert_eq!(
            (value["host"].as_str(), value["user_agent"].as_str()),
            (Some("example.org"), Some("x \"y"))
        );
        assert_eq!(
            (value["status"].as_u64(), value["duration_seconds"].as_f64()),
            (Some(200), Some(0.012_345))
        );
    }

    #[test]
    fn renamed_access_log_continues_in_a_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let metrics = Metrics::new();
        let log = AccessLog::open(
            AccessLogTarget::File(path.clone()),
            AccessLogFormat::Combined,
            metrics.access_log(),
        )
        .unwrap();
        let lines = |path: &std::path::Path| {
            std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
        };
        let until = |holds: &dyn Fn() -> bool| {
            for _ in 0..12_000 {
                if holds() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            panic!("not within two minutes");
        };
        log.write(record("/a", "b"));
        until(&|| lines(&path) == 1);
        let old = folder.path().join("access.log.1");
        std::fs::rename(&path, &old).unwrap();
        log.write(record("/a", "b"));
        until(&|| lines(&old) == 2);
        log.reopen();
        until(&|| path.exists());
        log.write(record("/a", "b"));
        log.finish();
        assert_eq!((lines(&old), lines(&path)), (2, 1));
        log.write(record("/a", "b"));
        assert!(metrics.text().contains("fathom_access_log_dropped_total 1\n"));
    }

    #[test]
    fn stalled_access_log_reader_loses_lines_but_blocks_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        // The reader opens the pipe but reads nothing.
        let reader = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
        let metrics = Metrics::new();
        let log = AccessLog::open(
            AccessLogTarget::File(pipe),
            AccessLogFormat::Json,
            metrics.access_log(),
        )
        .unwrap();
        for _ in 0..2 * WAITING {
            log.write(record("/a", "b"));
        }
        let text = metrics.text();
        let dropped =
            text.lines().find_map(|line| line.strip_prefix("fathom_access_log_dropped_total "));
        assert!(dropped.unwrap().parse::<usize>().unwrap() > WAITING / 2, "{text}");
        drop(reader);
    }
}
