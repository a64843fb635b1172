//! One CSV line per request, written during the run.

use std::io::{self, BufWriter, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use http::Uri;

use super::request::{Failure, Request};

/// Names of the columns. Times are in seconds; `intended` and `start` count from the start of the
/// run.
pub const COLUMNS: &str =
    "intended,start,connect,first_byte,service,response,bytes,result,connection,path";
/// Maximum number of rows that wait for the disk. Further rows are lost and counted, so that the
/// disk does not delay the start of requests.
const WAITING: usize = 65_536;

struct Row {
    intended: Duration,
    start: Duration,
    connect: Option<Duration>,
    first_byte: Option<Duration>,
    service: Duration,
    response: Duration,
    bytes: u64,
    result: Result<u16, &'static str>,
    connection: u64,
    url: Uri,
}

/// Writer of rows on a separate thread.
pub(super) struct RequestCsv {
    rows: SyncSender<Row>,
    thread: JoinHandle<io::Result<()>>,
    lost: u64,
}

impl RequestCsv {
    pub(super) fn to(out: Box<dyn Write + Send>) -> Self {
        let (rows, waiting) = sync_channel(WAITING);
        Self { rows, thread: std::thread::spawn(move || write(out, &waiting)), lost: 0 }
    }

    pub(super) fn add(
        &mut self,
        began: Instant,
        ended: Instant,
        request: &Request,
        result: Result<u16, &Failure>,
    ) {
        let since = |from: Instant, to: Instant| to.saturating_duration_since(from);
        let row = Row {
            intended: since(began, request.intended),
            start: since(began, request.start),
            connect: request.connect,
            first_byte: request.progress.first_byte.map(|at| since(request.start, at)),
            service: since(request.start, ended),
            response: since(request.intended, ended),
            bytes: request.progress.bytes,
            result: result.map_err(|failure| failure.kind().into()),
            connection: request.connection,
            url: request.url.clone(),
        };
        // A thread that has ended could not write. It reports the error at the end of the run.
        if let Err(TrySendError::Full(_)) = self.rows.try_send(row) {
            self.lost += 1;
        }
    }

    /// Waits until all rows are written. Returns the number of lost rows.
    pub(super) fn finish(self) -> io::Result<u64> {
        drop(self.rows);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the writer ended")))?;
        Ok(self.lost)
    }
}

fn write(out: Box<dyn Write + Send>, rows: &Receiver<Row>) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    writeln!(out, "{COLUMNS}")?;
    let seconds = |time: Option<Duration>| {
        time.map(|t| format!("{:.6}", t.as_secs_f64())).unwrap_or_default()
    };
    for row in rows {
        let (intended, start) = (row.intended.as_secs_f64(), row.start.as_secs_f64());
        let (service, response) = (row.service.as_secs_f64(), row.response.as_secs_f64());
        let (connect, first_byte) = (seconds(row.connect), seconds(row.first_byte));
        write!(
            out,
            "{intended:.6},{start:.6},{connect},{first_byte},{service:.6},{response:.6},{},",
            row.bytes
        )?;
        match row.result {
            Ok(status) => write!(out, "{status}")?,
            Err(kind) => write!(out, "{kind}")?,
        }
        let path = row.url.path_and_query().map_or("/", |path| path.as_str());
        writeln!(out, ",{},{}", row.connection, quoted(path))?;
    }
    out.flush()
}

/// Returns a field of CSV (RFC 4180 §2), quoted if necessary.
fn quoted(field: &str) -> std::borrow::Cow<'_, str> {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")).into(),
        false => field.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_fields_are_quoted_when_needed() {
        assert_eq!(
            (quoted("/a?b=1"), quoted("/a,\"b\"")),
            ("/a?b=1".into(), "\"/a,\"\"b\"\"\"".into())
        );
    }
}
