//! JSON text sequences (RFC 7464), and files with one JSON object per line.

use std::io::{self, BufRead};

use serde_json::Value;

use super::trace::Trace;
use super::{RECORD, Reader};

/// Reads records that follow `separator`, or lines that end with it.
pub(super) fn read(from: &mut impl BufRead, separator: u8, reader: &mut Reader<'_>) -> io::Result<()> {
    let mut traces = 0;
    let mut trace = Trace::default();
    let mut record = Vec::new();
    let mut number = 0;
    loop {
        let piece = next(from, separator, &mut record, reader)?;
        let text = record.trim_ascii();
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        if !text.is_empty() || piece.skipped {
            number += 1;
            match serde_json::from_slice::<Value>(text) {
                _ if piece.skipped => reader.out.malformed(number, format!("it is longer than {RECORD} bytes")),
                Ok(header) if is_header(&header) => {
                    // Logs may stand one behind the other.
                    traces += 1;
                    trace = Trace::of_header(&header);
                    reader.out.summary.title = reader.out.summary.title.take().or_else(|| trace.title.clone());
                }
                Ok(event) => reader.out.event(traces, &mut trace, &event, number),
                Err(e) if piece.last && e.is_eof() => {
                    reader.out.summary.cut_off = Some(format!("record {number} is not complete"));
                }
                Err(e) => reader.out.malformed(number, e),
            }
        }
        if piece.last {
            return Ok(());
        }
    }
}

fn is_header(record: &Value) -> bool {
    let known = ["qlog_version", "qlog_format", "file_schema", "trace"];
    record.get("name").is_none() && known.iter().any(|key| record.get(key).is_some())
}

struct Piece {
    last: bool,
    /// It was too long to be kept.
    skipped: bool,
}

/// Reads up to the next separator or the end.
fn next(from: &mut impl BufRead, separator: u8, record: &mut Vec<u8>, reader: &mut Reader<'_>) -> io::Result<Piece> {
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
        (reader.bytes)(used as u64);
        if end.is_some() {
            return Ok(Piece { last: false, skipped });
        }
    }
}
