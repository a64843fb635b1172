//! Response times from stream bytes in a log, or from a table of `fathom load`.

use std::collections::HashMap;
use std::io::BufRead;

use fathom_qlog::{Direction, ResponseEnd, StreamData, VantagePoint};
use serde::Serialize;

use super::kept::Kept;
use super::table::{Row, TableError, TableReader};

/// Maximum number of streams followed per connection; other streams have no response times.
const STREAMS: usize = 1 << 16;

/// Duration and size of a response.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ResponseTime {
    /// Bytes of the response.
    pub bytes: u64,
    /// Milliseconds from the request's first byte, or from the intended start, to the last byte of
    /// the response.
    pub ms: f64,
    /// Milliseconds from the same start to the first byte of the response, if known.
    pub first_byte_ms: Option<f64>,
    /// Start in milliseconds of the log or table, if known.
    pub began_ms: Option<f64>,
}

/// A class of responses by size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Class {
    /// Name of the class.
    pub name: &'static str,
    /// Smallest size in bytes.
    pub from: u64,
    /// Size in bytes that all responses of the class stay below.
    pub below: u64,
}

impl Class {
    /// All classes: first the class of all responses, then those of one range of sizes.
    pub const ALL: [Self; 5] = [
        Self { name: "all", from: 0, below: u64::MAX },
        Self { name: "below 10 kB", from: 0, below: 10_000 },
        Self { name: "10 to 100 kB", from: 10_000, below: 100_000 },
        Self { name: "100 kB to 1 MB", from: 100_000, below: 1_000_000 },
        Self { name: "1 MB and more", from: 1_000_000, below: u64::MAX },
    ];

    /// Returns whether a response belongs to the class.
    pub const fn has(&self, r: &ResponseTime) -> bool {
        self.from <= r.bytes && r.bytes < self.below
    }
}

/// Requests and responses on client-initiated bidirectional streams.
#[derive(Debug, Default)]
pub(super) struct Streams {
    open: HashMap<u64, Stream>,
    vantage: Option<VantagePoint>,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    began: f64,
    sent: Way,
    received: Way,
}

/// One direction of a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    first: Option<f64>,
    last: f64,
    end: u64,
    /// End point for the newest bytes. If a log reports the same bytes twice, the later end point
    /// counts.
    until: Option<ResponseEnd>,
}

impl Way {
    fn moved(&mut self, at: f64, bytes: StreamData, until: ResponseEnd) {
        self.until = self.until.max(Some(until));
        let end = bytes.offset.saturating_add(bytes.length);
        // Retransmitted bytes arrived earlier or fill a gap; offsets alone cannot distinguish the
        // two, so all bytes count.
        self.first.get_or_insert(at);
        self.last = at;
        self.end = self.end.max(end);
    }
}

impl Streams {
    pub(super) fn moved(
        &mut self,
        at: f64,
        way: Direction,
        bytes: StreamData,
        until: ResponseEnd,
        vantage: Option<VantagePoint>,
    ) {
        self.vantage = vantage.or(self.vantage);
        // RFC 9000 §2.1: the two lowest bits are zero.
        if !bytes.stream.is_multiple_of(4)
            || (self.open.len() >= STREAMS && !self.open.contains_key(&bytes.stream))
        {
            return;
        }
        let fresh = Stream { began: at, sent: Way::default(), received: Way::default() };
        let stream = self.open.entry(bytes.stream).or_insert(fresh);
        match way {
            Direction::Sent => stream.sent.moved(at, bytes, until),
            Direction::Received => stream.received.moved(at, bytes, until),
        }
    }

    /// Returns the streams with any response bytes, in the order of streams, and the end point that
    /// applies to all of them.
    pub(super) fn finish(self) -> (Vec<ResponseTime>, Option<ResponseEnd>) {
        let mut open: Vec<(u64, Stream)> = self.open.into_iter().collect();
        open.sort_unstable_by_key(|(id, _)| *id);
        let response = |s: &Stream| match self.vantage {
            Some(VantagePoint::Server) => s.sent,
            Some(VantagePoint::Client) => s.received,
            // The larger direction is the response.
            None if s.sent.end > s.received.end => s.sent,
            None => s.received,
        };
        let time = |(_, s): (u64, Stream)| {
            let way = response(&s);
            let first = way.first?;
            let (ms, first_byte_ms) = (way.last - s.began, Some(first - s.began));
            Some(ResponseTime { bytes: way.end, ms, first_byte_ms, began_ms: Some(s.began) })
        };
        let until = open.iter().filter_map(|(_, s)| response(s).until).min();
        (open.into_iter().filter_map(time).collect(), until)
    }
}

/// Responses of a table, and the number of rows without a response.
#[derive(Debug, Default)]
pub(super) struct ResponseTable {
    pub(super) responses: Vec<ResponseTime>,
    pub(super) failed: u64,
}

/// Reads a table of `fathom load` (`intended`, `start`, `first_byte`, `response` in seconds,
/// `result`), or any table with the columns `bytes` and `total_ms` and optionally `intended_s`,
/// `start_s`, `first_byte_ms` and `status`.
///
/// Times count from the intended start (open loop), because a client that falls behind makes its
/// users wait as well.
pub(super) fn table(from: impl BufRead, kept: &mut Kept) -> Result<ResponseTable, TableError> {
    let mut rows = TableReader::new(from)?;
    let columns = Columns::of(&rows)?;
    let mut table = ResponseTable::default();
    while let Some(row) = rows.next_row()? {
        match columns.response(&row)? {
            Some(response) if kept.response() => table.responses.push(response),
            Some(_) => {}
            None => table.failed += 1,
        }
    }
    Ok(table)
}

/// Positions of the columns of a table of responses.
struct Columns {
    size: usize,
    total: usize,
    /// Whether times are in seconds, and the total counts from the intended start. Otherwise they
    /// are in milliseconds, and the total counts from the start.
    is_of_load: bool,
    intended: Option<usize>,
    start: Option<usize>,
    first_byte: Option<usize>,
    status: Option<usize>,
}

impl Columns {
    fn of<R: BufRead>(rows: &TableReader<R>) -> Result<Self, TableError> {
        let either = |names: [&str; 2]| names.into_iter().find_map(|name| rows.column(name));
        let is_of_load = rows.column("response").is_some();
        Ok(Self {
            size: rows.column("bytes").ok_or(TableError::NoResponses)?,
            total: either(["response", "total_ms"]).ok_or(TableError::NoResponses)?,
            is_of_load,
            intended: either(["intended", "intended_s"]),
            start: either(["start", "start_s"]),
            first_byte: rows.column(if is_of_load { "first_byte" } else { "first_byte_ms" }),
            status: either(["result", "status"]),
        })
    }

    /// Returns the response of a row; `None` if the request failed.
    fn response(&self, row: &Row<'_>) -> Result<Option<ResponseTime>, TableError> {
        let number = |column| row.number(column, f64::NEG_INFINITY..=f64::INFINITY);
        let is_good = row
            .cell(self.status)
            .is_none_or(|s| s.parse::<u16>().is_ok_and(|s| (100..400).contains(&s)));
        let (start, intended) = (number(self.start)?, number(self.intended)?);
        let late = start.zip(intended).map_or(0.0, |(at, due)| (at - due).max(0.0) * 1e3);
        let measured = number(Some(self.total))?.zip(number(Some(self.size))?);
        let is_response = |(total, size): &(f64, f64)| is_good && *total >= 0.0 && *size >= 0.0;
        let Some((total, size)) = measured.filter(is_response) else { return Ok(None) };
        let unit = if self.is_of_load { 1e3 } else { 1.0 };
        Ok(Some(ResponseTime {
            bytes: size as u64,
            ms: total * unit + if self.is_of_load { 0.0 } else { late },
            first_byte_ms: number(self.first_byte)?.map(|took| took * unit + late),
            began_ms: intended.or(start).map(|began| began * 1e3),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ResponseTable, TableError> {
        table(text.as_bytes(), &mut Kept::default())
    }

    #[test]
    fn response_tables_are_read_by_column_name() {
        let text = "intended_s,start_s,connect_ms,first_byte_ms,total_ms,bytes,status,connection\n\
                    1.0,1.0,5,20,30.5,1000,200,1\n\
                    2.0,2.25,5,20,30,2000,200,1\n\
                    3.0,3.0,,,,0,,2\n\
                    4.0,4.0,5,20,30,100,503,2\n";
        let table = read(text).unwrap();
        let of = |began_ms, bytes, ms, first| ResponseTime {
            bytes,
            ms,
            first_byte_ms: Some(first),
            began_ms: Some(began_ms),
        };
        assert_eq!(table.responses, [of(1e3, 1_000, 30.5, 20.0), of(2e3, 2_000, 280.0, 270.0)]);
        assert_eq!(table.failed, 2);
        // The table has the format of `fathom load`, in seconds. `response` counts from the
        // intended start, but `first_byte` does not.
        let text = "intended,start,connect,first_byte,service,response,bytes,result,connection,path\n\
                    2.0,2.25,0.005,0.02,0.03,0.28,2000,200,1,\"/a,b\"\n3.0,3.0,,,1.0,1.0,0,timeout,2,/\n";
        let table = read(text).unwrap();
        assert_eq!((table.responses, table.failed), (vec![of(2e3, 2_000, 280.0, 270.0)], 1));
        // This table has another order, and only the required columns.
        let table = read("bytes,\"total_ms\"\n5,1\n").unwrap();
        assert_eq!(
            table.responses,
            [ResponseTime { bytes: 5, ms: 1.0, first_byte_ms: None, began_ms: None }]
        );
    }

    #[test]
    fn files_without_response_columns_are_refused() {
        for (text, says) in [
            ("", "empty"),
            ("a,b\n1,2\n", "total_ms"),
            ("total_ms,bytes\nx,1\n", "line 2: total_ms: 'x'"),
        ] {
            assert!(read(text).unwrap_err().to_string().contains(says), "{text}");
        }
        let long = format!("total_ms,bytes\n{}", "1".repeat(1 << 17));
        assert!(matches!(read(&long), Err(TableError::LongLine)));
    }

    #[test]
    fn client_and_server_logs_both_give_response_times() {
        let data = |stream, offset, length| StreamData { stream, offset, length };
        let until =
            |way| if way == Direction::Sent { ResponseEnd::Sent } else { ResponseEnd::Received };
        let run = |vantage, response, request| {
            let mut s = Streams::default();
            let mut moved = |at, way, bytes| s.moved(at, way, bytes, until(way), vantage);
            moved(10.0, request, data(4, 0, 50));
            moved(30.0, response, data(4, 0, 1_000));
            moved(45.0, response, data(4, 1_000, 500));
            moved(50.0, request, data(8, 0, 50));
            moved(50.0, response, data(3, 0, 50));
            let (responses, measured) = s.finish();
            assert!(vantage.is_none() || measured == Some(until(response)));
            responses
        };
        let wanted = [ResponseTime {
            bytes: 1_500,
            ms: 35.0,
            first_byte_ms: Some(20.0),
            began_ms: Some(10.0),
        }];
        assert_eq!(run(Some(VantagePoint::Server), Direction::Sent, Direction::Received), wanted);
        assert_eq!(run(Some(VantagePoint::Client), Direction::Received, Direction::Sent), wanted);
        assert_eq!(run(None, Direction::Received, Direction::Sent)[..1], wanted);
    }
}
