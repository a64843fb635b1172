//! Reads a log of any QUIC stack, event by event, in bounded memory.
//!
//! | file | what is in it |
//! |---|---|
//! | `sequence.rs` | JSON text sequences (RFC 7464) and one JSON object per line |
//! | `contained.rs` | one JSON document with traces |
//! | `foreign.rs` | what other files are |
//! | `out.rs` | events in the order of their times |
//! | `units.rs` | whether a trace's units are what it says |
//! | `clues.rs` | round trips as events show them |
//! | `trace.rs` | how a trace writes times and events, and what one says |
//!
//! Files are distinguished by how they begin, not by their names. A record that cannot be read is counted and left out (RFC 7464 §2.3 asks
//! for that); a file without a single event is an error.

mod clues;
mod contained;
mod foreign;
mod out;
mod sequence;
mod trace;
mod units;

use std::io::{self, Read};
use std::path::Path;

use serde_json::Value;

use crate::event::VantagePoint;
use crate::input::{Input, InputReader};
use out::Out;

pub use foreign::by_bytes as foreign;
pub(crate) use trace::number;

/// Most bytes of one record of a sequence.
const RECORD: usize = 16 << 20;
/// Largest file that is one JSON document: one event of it may be as large as the whole.
const DOCUMENT: u64 = 2 << 30;

/// Callback with the number of bytes read since the last call.
pub type ReadProgress<'a> = &'a mut dyn FnMut(u64);

/// Callback for every event.
type Sink<'a> = &'a mut dyn FnMut(&LoggedEvent<'_>);

/// An event of a log.
#[derive(Clone, Copy, Debug)]
pub struct LoggedEvent<'a> {
    /// Number of its connection in the file, from 0 in the order of appearance.
    pub connection: usize,
    /// Name of that connection, where the file has one.
    pub group: Option<&'a str>,
    /// Which end logged it, where the file says so.
    pub vantage: Option<VantagePoint>,
    /// Title of its trace, where the file has one.
    pub title: Option<&'a str>,
    /// Milliseconds since the first event of its trace. Negative where events are far out of order.
    pub at: f64,
    /// Time of day of the trace's reference time, in milliseconds since 1970, where the file says so.
    pub reference: Option<f64>,
    /// First part of its name, such as `recovery`, in lower case; empty where there is none.
    pub category: &'a str,
    /// Last part of its name, such as `metrics_updated`, in lower case.
    pub name: &'a str,
    /// What it says.
    pub data: &'a Value,
    /// The network path that it is of, where the log tells several apart (multipath, migration).
    pub path: Option<&'a Value>,
    /// Milliseconds per unit of time in its data: 1, or 0.001 where a trace counts microseconds, 1,000 where it counts seconds. It is what
    /// the trace's own packets and acknowledgements show, whatever the trace declares.
    pub unit: f64,
    /// Bytes per unit of congestion windows: 1, or a packet's bytes where a trace counts packets.
    pub window_unit: f64,
    /// The same of bytes in flight.
    pub flight_unit: f64,
}

/// The first record that could not be read, and how many there were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// How many records.
    pub records: u64,
    /// Number of the first, from 1: of records in a sequence, of lines or events elsewhere.
    pub first: u64,
    /// What is wrong with it.
    pub why: String,
}

/// Summary of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Events read.
    pub events: u64,
    /// Connections distinguished.
    pub connections: usize,
    /// Its title, where it has one.
    pub title: Option<String>,
    /// Records left out.
    pub malformed: Option<Malformed>,
    /// The file ends in the middle of something, and where: its writer did not finish.
    pub cut_off: Option<String>,
    /// What was converted, or contradicts itself, in words that follow the file's name: a reader hears of it first.
    pub warnings: Vec<String>,
}

/// Why a file cannot be read: one line.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not even a byte.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// No log begins like this.
    #[error("is not a qlog file: {0}")]
    Foreign(String),
    /// A document is too large.
    #[error(
        "is one JSON document of {0} bytes, and at most {DOCUMENT} are read; record JSON text sequences (.sqlog), which may be of any size"
    )]
    TooLarge(u64),
    /// It begins like a log, but nothing in it is an event.
    #[error("has no event that could be read{0}")]
    Empty(String),
}

/// Reads a file, plain or compressed, or a pipe, and tells `sink` of every event, and `bytes` how far it is.
///
/// # Errors
/// See [`ReadError`].
pub fn read(path: &Path, bytes: ReadProgress<'_>, sink: Sink<'_>) -> Result<Summary, ReadError> {
    read_input(&Input::open(path)?, bytes, sink)
}

/// As [`read`], of what was opened before.
///
/// # Errors
/// See [`ReadError`].
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
            // How a trace writes its events may stand behind them.
            let settings =
                contained::settings(Document { from: input.reader(&mut |_| {})?, left: DOCUMENT });
            if settings.traces.is_empty()
                && let Some(what) = foreign::by_keys(&settings.keys)
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

/// How a file is laid out.
#[derive(Debug, PartialEq, Eq)]
enum Form {
    /// Nothing but white space.
    Empty,
    /// Records after, or lines before, this byte.
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
                // A first line that is a header or an event by itself is the first of many.
                let alone = serde_json::from_slice::<Value>(line).ok().filter(sequence::is_record);
                Ok(alone.map_or(Self::Document, |_| Self::Sequence(b'\n')))
            }
            text => foreign(
                foreign::by_bytes(text)
                    .unwrap_or("it begins neither with a record separator nor with '{'"),
            ),
        }
    }
}

/// A document, of which no more is read than fits.
struct Document<'a> {
    from: InputReader<'a>,
    left: u64,
}

impl Read for Document<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(to)?;
        self.left = self.left.checked_sub(n as u64).ok_or_else(|| {
            io::Error::other(format!(
                "it is one JSON document of more than {DOCUMENT} bytes; record .sqlog, which may be of any size"
            ))
        })?;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_formats_are_detected_by_their_first_bytes() {
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
