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

use std::io::{self, BufRead};

use crate::Observation;

/// Maximum bytes of a line, and maximum number of rows.
const LINE: u64 = 1 << 14;
const ROWS: usize = 1 << 20;

/// Returns whether a table with this header is a table of connections.
pub(crate) fn is_of_connections(head: &str) -> bool {
    columns(head).any(|column| column == "rtt_ms")
}

fn columns(head: &str) -> impl Iterator<Item = &str> {
    head.trim_start_matches('\u{feff}')
        .trim_end()
        .split(',')
        .map(|cell| cell.trim().trim_matches('"'))
}

/// Reads a table of connections. The second value says whether there were more rows than are kept.
/// An error is in words that follow the table's name.
pub(crate) fn read(from: &mut impl BufRead) -> Result<(Vec<Observation>, bool), String> {
    let head = line(from)?.ok_or("is empty")?;
    let names: Vec<&str> = columns(&head).collect();
    let place = |name: &str| names.iter().position(|column| *column == name);
    let rtt = place("rtt_ms").ok_or("has no column 'rtt_ms'; write one (docs/advise.md)")?;
    let optional = ["rate_bps", "seen_bps", "loss", "bytes", "requests"].map(place);
    let (mut all, mut number) = (Vec::new(), 1);
    while let Some(text) = line(from)? {
        number += 1;
        if text.trim().is_empty() {
            continue;
        }
        if all.len() == ROWS {
            return Ok((all, true));
        }
        let cells: Vec<&str> = text.split(',').map(|cell| cell.trim().trim_matches('"')).collect();
        let value = |at: usize, most: f64| -> Result<Option<f64>, String> {
            let Some(cell) = cells.get(at).filter(|cell| !cell.is_empty()) else { return Ok(None) };
            let inside = cell.parse().ok().filter(|n: &f64| (0.0..=most).contains(n));
            inside.map(Some).ok_or_else(|| {
                format!(
                    "line {number}: {} '{}' is no number from 0 to {most}",
                    names[at],
                    cell.escape_debug()
                )
            })
        };
        let get = |at: Option<usize>, most: f64| at.map_or(Ok(None), |at| value(at, most));
        let [rate, seen, loss, bytes, requests] = optional;
        let Some(rtt_ms) = value(rtt, 1e6)?.filter(|rtt| *rtt > 0.0) else {
            return Err(format!(
                "line {number}: it has no rtt_ms; leave the row out, or write one"
            ));
        };
        let bytes = get(bytes, 1e18)?.unwrap_or(0.0) as u64;
        let requests = get(requests, 1e6)?.unwrap_or(1.0).max(1.0) as u64;
        let positive = |rate: Option<f64>| rate.filter(|rate| *rate > 0.0);
        all.push(Observation {
            rtt_ms: Some(rtt_ms),
            rate_bps: positive(get(rate, 1e13)?),
            seen_bps: positive(get(seen, 1e13)?),
            random_loss: get(loss, 1.0)?,
            bytes,
            responses: match bytes / requests {
                0 => Vec::new(),
                each => vec![each; requests.min(100) as usize],
            },
            ..Observation::default()
        });
    }
    Ok((all, false))
}

fn line(from: &mut impl BufRead) -> Result<Option<String>, String> {
    let mut text = Vec::new();
    let limited = io::Read::take(&mut *from, LINE).read_until(b'\n', &mut text);
    let n = limited.map_err(|e| format!("cannot be read: {e}"))?;
    if n as u64 == LINE {
        return Err("has a line that is too long for a table".into());
    }
    Ok((n > 0).then(|| String::from_utf8_lossy(&text).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_by_the_names_of_their_columns() {
        let text =
            "requests,rtt_ms,rate_bps,loss,bytes,other\n2,41.5,9800000,0.001,100000,x\n,20,,,,\n";
        let (all, full) = read(&mut text.as_bytes()).unwrap();
        let [first, second] = &all[..] else { panic!("{all:?}") };
        assert!(!full && is_of_connections(text.lines().next().unwrap()));
        assert_eq!(
            (first.rtt_ms, first.rate_bps, first.random_loss),
            (Some(41.5), Some(9.8e6), Some(0.001))
        );
        assert_eq!((&first.responses[..], first.bytes), (&[50_000, 50_000][..], 100_000));
        assert_eq!((second.rtt_ms, second.rate_bps, second.responses.len()), (Some(20.0), None, 0));
    }

    #[test]
    fn wrong_tables_are_named_by_line() {
        for (text, says) in [
            ("", "empty"),
            ("bytes\n1\n", "no column 'rtt_ms'"),
            ("rtt_ms\n1\nfast\n", "line 3: rtt_ms 'fast'"),
            ("rtt_ms,loss\n1,2\n", "line 2: loss '2' is no number from 0 to 1"),
            ("rtt_ms,loss\n,0\n", "line 2: it has no rtt_ms"),
        ] {
            assert!(read(&mut text.as_bytes()).unwrap_err().contains(says), "{text}");
        }
        let long = format!("rtt_ms\n{}", "1".repeat(1 << 15));
        assert!(read(&mut long.as_bytes()).unwrap_err().contains("too long"));
    }
}
