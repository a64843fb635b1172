//! Connections as a table, which a server's own logging may write instead of qlog.
//!
//! | column | meaning |
//! |---|---|
//! | `rtt_ms` | smallest round trip of the connection in milliseconds; required |
//! | `rate_bps` | rate in bits per second while the path was full; empty if it never was |
//! | `seen_bps` | highest observed rate |
//! | `loss` | fraction of the packets lost while the queue was short, from 0 to 1 |
//! | `bytes` | bytes delivered |
//! | `requests` | number of requests |

use std::io::BufRead;

use fathom_analyze::{Row, TableError, TableReader};
use fathom_cc::Invalid;

use crate::Observation;

/// Maximum number of rows.
const ROWS: usize = 1 << 20;
/// Column that every table of connections has.
const RTT: &str = "rtt_ms";

/// Returns whether a table with this header is a table of connections.
pub(crate) fn is_of_connections(head: &[u8]) -> bool {
    TableReader::new(head).is_ok_and(|table| table.column(RTT).is_some())
}

/// Reads a table of connections. The second value says whether there were more rows than are kept.
pub(crate) fn read(from: impl BufRead) -> Result<(Vec<Observation>, bool), TableError> {
    let mut rows = TableReader::new(from)?;
    let columns = Columns {
        rtt: rows.column(RTT).ok_or(TableError::NoColumn(RTT))?,
        rate: rows.column("rate_bps"),
        seen: rows.column("seen_bps"),
        loss: rows.column("loss"),
        bytes: rows.column("bytes"),
        requests: rows.column("requests"),
    };
    let mut all = Vec::new();
    while let Some(row) = rows.next_row()? {
        if all.len() == ROWS {
            return Ok((all, true));
        }
        all.push(columns.observation(&row)?);
    }
    Ok((all, false))
}

/// Positions of the columns.
struct Columns {
    rtt: usize,
    rate: Option<usize>,
    seen: Option<usize>,
    loss: Option<usize>,
    bytes: Option<usize>,
    requests: Option<usize>,
}

impl Columns {
    fn observation(&self, row: &Row<'_>) -> Result<Observation, TableError> {
        let number = |column, most| row.number(column, 0.0..=most);
        let positive = |column, most| number(column, most).map(|n| n.filter(|n| *n > 0.0));
        let rtt_ms = positive(Some(self.rtt), 1e6)?.ok_or_else(|| {
            let problem = Invalid::because("a connection needs a round-trip time above 0");
            row.refuse(self.rtt, problem.hint("write the round-trip time, or leave the row out"))
        })?;
        let bytes = number(self.bytes, 1e18)?.unwrap_or(0.0) as u64;
        let requests = number(self.requests, 1e6)?.unwrap_or(1.0).max(1.0) as u64;
        Ok(Observation {
            rtt_ms: Some(rtt_ms),
            rate_bps: positive(self.rate, 1e13)?,
            seen_bps: positive(self.seen, 1e13)?,
            random_loss: number(self.loss, 1.0)?,
            bytes,
            responses: match bytes / requests {
                0 => Vec::new(),
                each => vec![each; requests.min(100) as usize],
            },
            ..Observation::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_table_columns_are_found_by_name() {
        let text =
            "requests,rtt_ms,rate_bps,loss,bytes,other\n2,41.5,9800000,0.001,100000,x\n,20,,,,\n";
        let (all, full) = read(text.as_bytes()).unwrap();
        let [first, second] = &all[..] else { panic!("{all:?}") };
        assert!(!full && is_of_connections(text.as_bytes()));
        assert_eq!(
            (first.rtt_ms, first.rate_bps, first.random_loss),
            (Some(41.5), Some(9.8e6), Some(0.001))
        );
        assert_eq!((&first.responses[..], first.bytes), (&[50_000, 50_000][..], 100_000));
        assert_eq!((second.rtt_ms, second.rate_bps, second.responses.len()), (Some(20.0), None, 0));
    }

    #[test]
    fn connection_table_errors_name_the_line() {
        for (text, says) in [
            ("", "empty"),
            ("bytes\n1\n", "no column 'rtt_ms'"),
            ("rtt_ms\n1\nfast\n", "line 3: rtt_ms: 'fast'"),
            ("rtt_ms,loss\n1,2\n", "line 2: loss: '2' is not a number; write a number from 0 to 1"),
            ("rtt_ms,loss\n,0\n", "line 2: rtt_ms: a connection needs"),
        ] {
            assert!(read(text.as_bytes()).unwrap_err().to_string().contains(says), "{text}");
        }
        let long = format!("rtt_ms\n{}", "1".repeat(1 << 17));
        assert!(matches!(read(long.as_bytes()), Err(TableError::LongLine)));
    }
}
