//! Reads a log of any QUIC stack, event by event, in bounded memory.
//!
//! | file | what is in it |
//! |---|---|
//! | `sequence.rs` | JSON text sequences (RFC 7464) and one JSON object per line |
//! | `contained.rs` | one JSON document with traces |
//! | `trace.rs` | how a trace writes times and events, and what one says |
//!
//! Files are distinguished by how they begin, not by their names. A record that cannot be read is counted and left out (RFC 7464 §2.3 asks
//! for that); a file without a single event is an error.

mod contained;
mod sequence;
mod trace;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use serde_json::Value;

use crate::event::VantagePoint;
use trace::Trace;

pub(crate) use trace::number;

/// Most bytes of one record of a sequence.
const RECORD: usize = 16 << 20;
/// Largest file that is one JSON document: one event of it may be as large as the whole.
const DOCUMENT: u64 = 2 << 30;
/// Most connections distinguished in a file; events of more belong to the last one.
const CONNECTIONS: usize = 100_000;

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
    /// Milliseconds since the first event of its trace. Negative where events are out of order.
    pub at: f64,
    /// Time of day of the trace's reference time, in milliseconds since 1970, where the file says so.
    pub reference: Option<f64>,
    /// First part of its name, such as `recovery`, in lower case; empty where there is none.
    pub category: &'a str,
    /// Last part of its name, such as `metrics_updated`, in lower case.
    pub name: &'a str,
    /// What it says.
    pub data: &'a Value,
    /// Milliseconds per unit of time in its data: 1, or 0.001 where a trace counts microseconds.
    pub unit: f64,
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

/// Reads a file and tells `sink` of every event, and `bytes` how far it is.
///
/// # Errors
/// See [`ReadError`].
pub fn read(path: &Path, bytes: ReadProgress<'_>, sink: Sink<'_>) -> Result<Summary, ReadError> {
    let open = || File::open(path).map(|file| BufReader::with_capacity(1 << 16, file));
    let mut first = open()?;
    let form = Form::of(first.fill_buf()?)?;
    let mut reader = Reader { bytes, out: Out::new(sink) };
    match form {
        Form::Sequence(separator) => sequence::read(&mut first, separator, &mut reader)?,
        Form::Document => {
            let size = first.get_ref().metadata()?.len();
            if size > DOCUMENT {
                return Err(ReadError::TooLarge(size));
            }
            // How a trace writes its events may stand behind them.
            let traces = contained::traces(first);
            contained::read(open()?, traces, &mut reader)?;
        }
    }
    reader.out.finish()
}

/// How a file is laid out.
#[derive(Debug, PartialEq, Eq)]
enum Form {
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
            [] => foreign("it is empty"),
            [0x1e, ..] => Ok(Self::Sequence(0x1e)),
            [b'{', ..] => {
                let text = &begins[start..];
                let line = &text[..text.iter().position(|b| *b == b'\n').unwrap_or(text.len())];
                // A first line that is an object by itself, but has no traces, is the first of many.
                let alone = serde_json::from_slice::<Value>(line).ok().filter(|v| v.get("traces").is_none());
                Ok(alone.map_or(Self::Document, |_| Self::Sequence(b'\n')))
            }
            [0x1f, 0x8b, ..] => foreign("it is compressed; decompress it first, for example with gunzip"),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => foreign("it is compressed; decompress it first, for example with unzstd"),
            _ => foreign("it begins neither with a record separator nor with '{'"),
        }
    }
}

/// Where what is read goes.
struct Reader<'a> {
    bytes: ReadProgress<'a>,
    out: Out<'a>,
}

/// Events on their way to the sink.
struct Out<'a> {
    sink: Sink<'a>,
    summary: Summary,
    /// Numbers of connections by trace and group.
    numbers: HashMap<(usize, Option<String>), usize>,
    /// Trace, group and number of the event before: nearly always the next one's too.
    last: Option<(usize, Option<String>, usize)>,
}

impl<'a> Out<'a> {
    fn new(sink: Sink<'a>) -> Self {
        Self { sink, summary: Summary::default(), numbers: HashMap::new(), last: None }
    }

    fn malformed(&mut self, number: u64, why: impl ToString) {
        match &mut self.summary.malformed {
            Some(m) => m.records += 1,
            none => *none = Some(Malformed { records: 1, first: number, why: why.to_string() }),
        }
    }

    /// Reads a record that is an event.
    fn event(&mut self, index: usize, trace: &mut Trace, record: &Value, number: u64) {
        let said = match trace.event(record) {
            Ok(said) => said,
            Err(why) => return self.malformed(number, why),
        };
        let group = said.group.or(trace.group.as_deref());
        let connection = match &self.last {
            Some((trace, name, number)) if *trace == index && name.as_deref() == group => *number,
            _ => self.number(index, group),
        };
        self.summary.events += 1;
        let vantage = trace.vantage;
        (self.sink)(&LoggedEvent {
            connection,
            group,
            vantage,
            title: trace.title.as_deref(),
            at: said.at,
            reference: trace.reference,
            category: &said.category,
            name: &said.name,
            data: said.data,
            unit: trace.unit,
        });
    }

    /// The number of a connection.
    fn number(&mut self, trace: usize, group: Option<&str>) -> usize {
        let known = self.numbers.len();
        let place = (trace, group.map(str::to_owned));
        let number = match self.numbers.get(&place) {
            Some(number) => *number,
            None if known >= CONNECTIONS => known - 1,
            None => {
                self.numbers.insert(place.clone(), known);
                self.summary.connections = known + 1;
                known
            }
        };
        self.last = Some((place.0, place.1, number));
        number
    }

    fn finish(self) -> Result<Summary, ReadError> {
        let s = self.summary;
        if s.events > 0 {
            return Ok(s);
        }
        let why = match (&s.malformed, &s.cut_off) {
            (Some(m), _) => format!("; record {}: {}", m.first, m.why),
            (None, Some(at)) => format!("; {at}"),
            (None, None) => String::new(),
        };
        Err(ReadError::Empty(why))
    }
}

/// Tells how many bytes went through.
struct Counted<'a, 'b, R> {
    from: R,
    bytes: &'a mut ReadProgress<'b>,
}

impl<R: Read> Read for Counted<'_, '_, R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(to)?;
        (self.bytes)(n as u64);
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
        for (text, says) in [("", "empty"), ("time,rtt\n1,2", "begins neither")] {
            assert!(of(text).unwrap_err().contains(says), "{text}");
        }
        assert!(Form::of(&[0x1f, 0x8b, 8]).unwrap_err().to_string().contains("gunzip"));
    }
}
