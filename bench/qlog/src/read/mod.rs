//! Reads a log of any QUIC stack, event by event, in bounded memory.
//!
//! | file | contents |
//! |---|---|
//! | `sequence.rs` | JSON text sequences (RFC 7464) and one JSON object per line |
//! | `contained.rs` | one JSON document with traces |
//! | `not_qlog.rs` | identification of other files |
//! | `out.rs` | delivery of events in the order of their times |
//! | `units.rs` | checks of a trace's declared units |
//! | `clues.rs` | round trips derived from events |
//! | `trace.rs` | settings of a trace; fields of an event |
//!
//! Formats are distinguished by the first bytes of a file rather than by its name. Unreadable
//! records are counted and skipped, as RFC 7464 §2.3 demands. A file without a single event is an
//! error.

mod clues;
mod contained;
mod not_qlog;
mod out;
mod sequence;
mod trace;
mod units;

use std::io::{self, Read};
use std::path::Path;

use serde_json::Value;

use crate::input::{Input, InputReader};
use crate::logged_event::LoggedEvent;
use out::Out;

pub use not_qlog::by_bytes as foreign;

/// Maximum bytes of one record of a sequence.
const RECORD: usize = 16 << 20;
/// Maximum size in bytes of a file that is one JSON document. A single event may be as large as the
/// whole document.
const DOCUMENT: u64 = 2 << 30;

/// Callback that gets the number of bytes read since the last call.
pub type ReadProgress<'a> = &'a mut dyn FnMut(u64);

/// Callback that gets every event.
type Sink<'a> = &'a mut dyn FnMut(&LoggedEvent<'_>);

/// Unreadable records: their number and the first of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Number of unreadable records.
    pub records: u64,
    /// Number of the first unreadable record, from 1. In a sequence, this is the number of the
    /// record. In other files, it is the number of the line or event.
    pub first: u64,
    /// Error of the first unreadable record.
    pub why: String,
}

/// Summary of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Events read.
    pub events: u64,
    /// Number of connections distinguished.
    pub connections: usize,
    /// Title of the file, if it has one.
    pub title: Option<String>,
    /// Records skipped.
    pub malformed: Option<Malformed>,
    /// Position at which the file is cut off; `None` if its writer finished it.
    pub cut_off: Option<String>,
    /// Conversions and contradictions, as words that follow the file's name. Reports show them
    /// first.
    pub warnings: Vec<String>,
}

/// Reason why a file cannot be read, in one line.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The first byte cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The file does not begin as a log does.
    #[error("is not a qlog file: {0}")]
    Foreign(String),
    /// The document is too large.
    #[error(
        "is one JSON document of {0} bytes, above the limit of {DOCUMENT} bytes; record JSON text \
         sequences (.sqlog), which may have any size"
    )]
    TooLarge(u64),
    /// The file begins as a log does but contains no event.
    #[error("has no event that could be read{0}")]
    Empty(String),
}

/// Reads a file, plain or compressed, or a pipe. Calls `sink` with every event and `bytes` with the
/// progress.
///
/// # Errors
/// Returns a [`ReadError`] if the input is not a readable log.
pub fn read(path: &Path, bytes: ReadProgress<'_>, sink: Sink<'_>) -> Result<Summary, ReadError> {
    read_input(&Input::open(path)?, bytes, sink)
}

/// Reads an input that is already open, like [`read`].
///
/// # Errors
/// Returns a [`ReadError`] if the input is not a readable log.
pub fn read_input(
    input: &Input,
    bytes: ReadProgress<'_>,
    sink: Sink<'_>,
) -> Result<Summary, ReadError> {
    let form = Form::of(input.begins())?;
    let mut out = Out::new(sink);
    let broken_off = match form {
        Form::Empty => {
            let broken_off = input.reader(&mut |_| {})?.broken_off();
            return Err(ReadError::Empty(format!(
                "; {}",
                broken_off.as_deref().unwrap_or("it is empty")
            )));
        }
        Form::Sequence(separator) => {
            let mut text = input.reader(bytes)?;
            sequence::read(&mut text, separator, &mut out)?;
            text.broken_off()
        }
        Form::Document => {
            if let Some(size) = input.plain_size().filter(|size| *size > DOCUMENT) {
                return Err(ReadError::TooLarge(size));
            }
            // The settings of a trace may follow its events.
            let settings =
                contained::settings(Document { from: input.reader(&mut |_| {})?, left: DOCUMENT });
            if settings.traces.is_empty()
                && let Some(what) = not_qlog::by_keys(&settings.keys)
            {
                return Err(ReadError::Foreign(what.into()));
            }
            let mut text = Document { from: input.reader(bytes)?, left: DOCUMENT };
            contained::read(&mut text, settings.traces, &mut out)?;
            text.from.broken_off()
        }
    };
    out.summary.cut_off = broken_off.or(out.summary.cut_off);
    out.finish()
}

/// Layout of a file.
#[derive(Debug, PartialEq, Eq)]
enum Form {
    /// A file that contains only white space.
    Empty,
    /// Records that begin with this byte, or lines that end with it.
    Sequence(u8),
    Document,
}

impl Form {
    fn of(begins: &[u8]) -> Result<Self, ReadError> {
        let foreign = |why: &str| Err(ReadError::Foreign(why.into()));
        let begins = begins.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begins);
        let start = begins.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(begins.len());
        match &begins[start..] {
            [] => Ok(Self::Empty),
            [0x1e, ..] => Ok(Self::Sequence(0x1e)),
            [b'{', ..] => {
                let text = &begins[start..];
                let line = &text[..text.iter().position(|b| *b == b'\n').unwrap_or(text.len())];
                // If the first line is a complete header or event, the file has one object on each
                // line.
                let alone = serde_json::from_slice::<Value>(line).ok().filter(sequence::is_record);
                Ok(alone.map_or(Self::Document, |_| Self::Sequence(b'\n')))
            }
            text => foreign(
                not_qlog::by_bytes(text)
                    .unwrap_or("the file begins neither with a record separator nor with '{'"),
            ),
        }
    }
}

/// A document whose number of readable bytes is limited.
struct Document<'a> {
    from: InputReader<'a>,
    left: u64,
}

impl Read for Document<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(to)?;
        self.left = self.left.checked_sub(n as u64).ok_or_else(|| {
            io::Error::other(format!(
                "the file is one JSON document of more than {DOCUMENT} bytes; record .sqlog, which \
                 may have any size"
            ))
        })?;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_formats_are_detected_by_their_first_bytes() {
        let of = |text: &str| Form::of(text.as_bytes()).map_err(|e| e.to_string());
        assert_eq!(of("\u{1e}{}"), Ok(Form::Sequence(0x1e)));
        assert_eq!(of("{\"qlog_version\":\"0.3\"}\n{}"), Ok(Form::Sequence(b'\n')));
        assert_eq!(of("{\"qlog_version\":\"0.3\",\"traces\":[]}"), Ok(Form::Document));
        assert_eq!(of("\u{feff} {\n\"traces\": []}"), Ok(Form::Document));
        assert_eq!((of(""), of("\u{feff} \n")), (Ok(Form::Empty), Ok(Form::Empty)));
        assert_eq!(of("{\"constants\":{},\"events\":[]}\n"), Ok(Form::Document));
        assert!(of("time,rtt\n1,2").unwrap_err().contains("begins neither"));
    }
}
