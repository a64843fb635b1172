//! Single responses of a run, kept in an unnamed file so that memory does not grow with the length
//! of the run.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::Duration;

use fathom_cc::Time;
use fathom_metrics::Completed;
use parking_lot::Mutex;

use crate::http::HttpError;

/// Kind of a response, by workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::FromRepr)]
#[strum(serialize_all = "lowercase")]
#[repr(u8)]
pub enum ResponseKind {
    /// A response of web traffic, or a download.
    Response,
    /// An upload, up to its response.
    Upload,
    /// A page view.
    Page,
    /// An object of a page.
    Object,
    /// A frame of live media.
    Frame,
}

/// Result of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::FromRepr)]
#[strum(serialize_all = "lowercase")]
#[repr(u8)]
pub enum ResponseResult {
    /// The whole response arrived.
    Completed,
    /// The request failed.
    Failed,
    /// The user gave up, or the client stopped waiting.
    Abandoned,
}

/// One response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseRow {
    /// Number of the group of traffic.
    pub group: u16,
    /// Kind of the response.
    pub kind: ResponseKind,
    /// Start of the response: the request, the navigation to a page, or the capture of a frame.
    pub start: Time,
    /// Result of the response.
    pub result: ResponseResult,
    /// Size and times of a completed response; `None` for any other result.
    pub completed: Option<Completed>,
}

/// Bytes of a row in the file: five words of 8 bytes.
const ROW: usize = 40;

impl ResponseRow {
    pub(super) fn new(
        group: u16,
        kind: ResponseKind,
        start: Time,
        outcome: Result<Completed, &HttpError>,
    ) -> Self {
        let result = match outcome {
            Ok(_) => ResponseResult::Completed,
            Err(HttpError::Abandoned) => ResponseResult::Abandoned,
            Err(_) => ResponseResult::Failed,
        };
        Self { group, kind, start, result, completed: outcome.ok() }
    }

    fn write(&self) -> [u8; ROW] {
        let Completed { bytes, took, first_byte } = self.completed.unwrap_or(Completed {
            bytes: 0,
            took: Duration::ZERO,
            first_byte: Duration::ZERO,
        });
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let what = u64::from(self.group) << 16
            | u64::from(self.kind as u8) << 8
            | u64::from(self.result as u8);
        let mut row = [0; ROW];
        let words = [what, self.start.as_nanos(), bytes, nanos(took), nanos(first_byte)];
        row.as_chunks_mut::<8>()
            .0
            .iter_mut()
            .zip(words)
            .for_each(|(place, word)| *place = word.to_le_bytes());
        row
    }

    fn read(row: &[u8; ROW]) -> Option<Self> {
        let mut words = [0; ROW / 8];
        row.as_chunks::<8>()
            .0
            .iter()
            .zip(&mut words)
            .for_each(|(bytes, word)| *word = u64::from_le_bytes(*bytes));
        let [what, start, bytes, took, first_byte] = words;
        let [result, kind, low, high, ..] = what.to_le_bytes();
        let result = ResponseResult::from_repr(result)?;
        let (took, first_byte) = (Duration::from_nanos(took), Duration::from_nanos(first_byte));
        Some(Self {
            group: u16::from_le_bytes([low, high]),
            kind: ResponseKind::from_repr(kind)?,
            start: Time::from_nanos(start),
            result,
            completed: (result == ResponseResult::Completed).then_some(Completed {
                bytes,
                took,
                first_byte,
            }),
        })
    }
}

/// Spool to which the tasks of a run add their responses.
pub(crate) type SharedSpool = Arc<Mutex<ResponseSpool>>;

/// Responses in the order in which they ended, in a temporary file.
#[derive(Debug)]
pub(crate) struct ResponseSpool {
    file: BufWriter<File>,
    rows: u64,
    /// Error of the first row that could not be written; reported by `append`.
    failed: Option<io::Error>,
}

impl ResponseSpool {
    /// Returns an empty spool in the folder of temporary files.
    ///
    /// # Errors
    /// Returns an error if the system cannot create the file.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { file: BufWriter::new(tempfile::tempfile()?), rows: 0, failed: None })
    }

    pub(super) fn add(&mut self, row: &ResponseRow) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(&row.write()).err();
            self.rows += 1;
        }
    }

    /// Appends the rows of `other`. Returns the position of the first appended row in this spool,
    /// and the number of appended rows.
    ///
    /// # Errors
    /// Returns an error if the system cannot copy the rows, or if adding a row to `other` failed.
    pub(crate) fn append(&mut self, other: &mut Self) -> io::Result<(u64, u64)> {
        if let Some(e) = other.failed.take() {
            return Err(e);
        }
        other.file.flush()?;
        let file = other.file.get_mut();
        file.seek(SeekFrom::Start(0))?;
        io::copy(file, &mut self.file)?;
        let first = self.rows;
        self.rows += other.rows;
        Ok((first, other.rows))
    }

    /// Calls `each` with each of `rows` rows, beginning with row `first`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or the error of `each`.
    pub(crate) fn read(
        &mut self,
        first: u64,
        rows: u64,
        mut each: impl FnMut(ResponseRow) -> io::Result<()>,
    ) -> io::Result<()> {
        self.file.flush()?;
        let file = self.file.get_mut();
        file.seek(SeekFrom::Start(first * ROW as u64))?;
        let mut file = BufReader::new(&mut *file);
        let mut row = [0; ROW];
        for _ in 0..rows {
            file.read_exact(&mut row)?;
            each(ResponseRow::read(&row).ok_or(io::ErrorKind::InvalidData)?)?;
        }
        drop(file);
        self.file.get_mut().seek(SeekFrom::End(0)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_responses_are_read_back_from_any_position() {
        let row = |n: u64| {
            let (took, first_byte) = (Duration::from_nanos(n + 2), Duration::from_nanos(n + 1));
            let outcome = match n % 3 {
                0 => Ok(Completed { bytes: n, took, first_byte }),
                1 => Err(&HttpError::Abandoned),
                _ => Err(&HttpError::Status(500)),
            };
            ResponseRow::new(
                n as u16,
                ResponseKind::from_repr((n % 5) as u8).unwrap(),
                Time::from_millis(n),
                outcome,
            )
        };
        let mut all = ResponseSpool::new().unwrap();
        let mut places = Vec::new();
        for run in [0..300, 300..300, 300..1_000] {
            let mut spool = ResponseSpool::new().unwrap();
            run.for_each(|n| spool.add(&row(n)));
            places.push(all.append(&mut spool).unwrap());
        }
        assert_eq!(places, [(0, 300), (300, 0), (300, 700)]);
        // The order does not matter, nor do rows after the ones that are read.
        for (first, rows) in [(300, 700), (0, 300)] {
            let mut n = first;
            let mut check = |read: ResponseRow| {
                assert_eq!(read, row(n));
                n += 1;
                Ok(())
            };
            all.read(first, rows, &mut check).unwrap();
            assert_eq!(n, first + rows);
        }
    }
}
