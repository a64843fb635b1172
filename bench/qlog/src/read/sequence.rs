//! JSON text sequences (RFC 7464), and files with one JSON object per line.

use std::io::{self, BufRead};

use serde_json::Value;

use super::trace::Trace;
use super::{Out, RECORD};

/// Reads records that follow `separator`, or lines that end with it.
pub(super) fn read(from: &mut impl BufRead, separator: u8, out: &mut Out<'_>) -> io::Result<()> {
    let mut traces = 0;
    let mut trace = Trace::default();
    let mut record = Vec::new();
    let mut number = 0;
    loop {
        let piece = next(from, separator, &mut record)?;
        let text = record.trim_ascii();
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        if !text.is_empty() || piece.skipped {
            number += 1;
            match serde_json::from_slice::<Value>(text) {
                _ if piece.skipped => {
                    out.malformed(number, format!("the record is longer than {RECORD} bytes"))
                }
                // Some stacks write their settings in a second header.
                Ok(header)
                    if is_header(&header)
                        && trace.goes_on(&header)
                        && out.has_no_event_of_trace() =>
                {
                    trace.add_header(&header);
                    out.summary.title = out.summary.title.take().or_else(|| trace.title.clone());
                }
                Ok(header) if is_header(&header) => {
                    // A file may contain several logs in sequence.
                    out.end_trace(traces, &trace);
                    traces += 1;
                    trace = Trace::default();
                    trace.add_header(&header);
                    out.summary.title = out.summary.title.take().or_else(|| trace.title.clone());
                }
                Ok(event) => out.event(traces, &mut trace, event, number),
                Err(e) if piece.last && e.is_eof() => {
                    out.summary.cut_off = Some(format!("record {number} is not complete"));
                }
                Err(e) => out.malformed(number, e),
            }
        }
        if piece.last {
            out.end_trace(traces, &trace);
            return Ok(());
        }
    }
}

/// Keys of a header that begins a log. `GOES_ON` has the keys of a header that continues a log.
const BEGINS: [&str; 4] = ["qlog_version", "qlog_format", "file_schema", "trace"];
const GOES_ON: [&str; 5] =
    ["vantage_point", "common_fields", "configuration", "event_fields", "event_schemas"];

fn is_header(record: &Value) -> bool {
    let has = |key: &&str| record.get(*key).is_some();
    let is_event = ["name", "time", "data"].iter().any(has);
    !is_event && BEGINS.iter().chain(&GOES_ON).any(has)
}

/// Returns whether a value is part of a sequence: a header, or an object with the time or name of
/// an event, but not a complete document.
pub(super) fn is_record(value: &Value) -> bool {
    let has = |key: &&str| value.get(*key).is_some();
    let is_document = has(&"traces") || has(&"events");
    !is_document && (is_header(value) || ["time", "relative_time", "name"].iter().any(has))
}

impl Trace {
    /// Returns whether a header belongs to this trace: it has settings, but no key that begins a
    /// new log.
    fn goes_on(&self, header: &Value) -> bool {
        BEGINS.iter().all(|key| header.get(*key).is_none())
    }
}

struct Piece {
    last: bool,
    /// Whether the record was too long to be kept.
    skipped: bool,
}

/// Reads up to the next separator or the end of the file.
fn next(from: &mut impl BufRead, separator: u8, record: &mut Vec<u8>) -> io::Result<Piece> {
    record.clear();
    let mut skipped = false;
    loop {
        let there = match from.fill_buf() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            there => there?,
        };
        if there.is_empty() {
            return Ok(Piece { last: true, skipped });
        }
        let end = there.iter().position(|b| *b == separator);
        let part = &there[..end.unwrap_or(there.len())];
        if record.len() + part.len() > RECORD {
            skipped = true;
            record.clear();
        }
        if !skipped {
            record.extend_from_slice(part);
        }
        let used = part.len() + usize::from(end.is_some());
        from.consume(used);
        if end.is_some() {
            return Ok(Piece { last: false, skipped });
        }
    }
}
