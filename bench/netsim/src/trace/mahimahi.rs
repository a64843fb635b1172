//! Rate traces in Mahimahi's format. Each line stands for a delivery opportunity of 1,500 bytes and
//! gives its time in milliseconds.
//!
//! A trace repeats after its end. Its last millisecond is its length. Several equal lines stand for
//! several opportunities. If a packet does not use all bytes of an opportunity, the next packet
//! gets the rest, provided that it is already queued. An opportunity at an empty queue is lost.
//!
//! Source: R. Netravali et al., "Mahimahi: accurate record-and-replay for HTTP", USENIX ATC 2015,
//! and mm-link(1).
//!
//! Departure: opportunities carry 1,500 bytes of IP packet. mm-link counts 1,504 bytes, including
//! the header of its tunnel.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use fathom_units::{Rate, Time};

use super::formats;
use crate::hash::StableHash;

/// Bytes of one delivery opportunity.
pub(super) const OPPORTUNITY_BYTES: u32 = 1_500;
/// Largest number of lines of a trace, which is enough for more than an hour at 100 Mbps.
const MOST: usize = 40_000_000;
/// Length of the longest trace in milliseconds (`LONGEST`), and lowest mean rate in bits per
/// second.
const LONGEST: u32 = 86_400_000;
const SLOWEST: u64 = 10_000;
const MS: u64 = 1_000_000;

/// Reason why a text or a list of milliseconds is not a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// There is no opportunity.
    #[error("the trace has no lines; write one time in milliseconds per line")]
    Empty,
    /// All opportunities are at time zero.
    #[error(
        "all lines of the trace are 0; the last line must be the length of the trace in \
        milliseconds"
    )]
    NoLength,
    /// The trace is longer than a day.
    #[error("the trace is longer than a day; shorten it")]
    TooLong,
    /// The mean rate is below 10 kbps.
    #[error(
        "the trace carries less than 10 kbps on average; add lines, each of which delivers 1500 \
         bytes"
    )]
    TooSlow,
    /// There are too many opportunities.
    #[error("the trace has more than {MOST} lines; shorten it")]
    TooManyLines,
    /// The opportunities are not in order.
    #[error("line {line}: the trace goes back in time; sort its lines")]
    BackInTime {
        /// Number of the first line whose time is earlier than that of the previous line, counted
        /// from 1.
        line: usize,
    },
    /// A line is not a whole number of milliseconds.
    #[error("line {line}: '{}' is not a number of milliseconds; {format}", text.escape_debug())]
    NotAMillisecond {
        /// Number of the line, counted from 1.
        line: usize,
        /// Text of the line, shortened to 40 characters.
        text: String,
        /// Format that the text seems to have, and how to convert it.
        format: String,
    },
}

/// Times at which a link may send packets.
#[derive(Clone, PartialEq, Eq)]
pub struct Trace {
    /// Times of the delivery opportunities in milliseconds, in order.
    opportunities: Arc<[u32]>,
    /// Time in milliseconds after which the trace repeats.
    length: u32,
}

impl std::fmt::Debug for Trace {
    /// Writes the length, the number of opportunities and a hash instead of millions of lines. This
    /// text identifies stored results of studies, so its words must not change.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut hash = StableHash::default();
        self.opportunities.iter().for_each(|ms| hash.add(u64::from(*ms)));
        write!(
            f,
            "Trace({} ms, {} chances, {:016x})",
            self.length,
            self.opportunities.len(),
            hash.value()
        )
    }
}

impl Trace {
    /// Creates a trace from these times in milliseconds, which must be in order.
    ///
    /// # Errors
    /// Returns an error that says what is wrong with the trace.
    pub fn new(opportunities: Vec<u32>) -> Result<Self, TraceError> {
        let length = *opportunities.last().ok_or(TraceError::Empty)?;
        if length == 0 {
            return Err(TraceError::NoLength);
        }
        if length > LONGEST {
            return Err(TraceError::TooLong);
        }
        if opportunities.len() as u64 * u64::from(OPPORTUNITY_BYTES) * 8 * 1_000 / u64::from(length)
            < SLOWEST
        {
            return Err(TraceError::TooSlow);
        }
        if opportunities.len() > MOST {
            return Err(TraceError::TooManyLines);
        }
        if let Some(place) = opportunities.windows(2).position(|w| w[0] > w[1]) {
            return Err(TraceError::BackInTime { line: place + 2 });
        }
        Ok(Self { opportunities: opportunities.into(), length })
    }

    /// Parses Mahimahi's format: one whole number of milliseconds per line.
    ///
    /// # Errors
    /// Returns an error that names the first wrong line.
    pub fn read(text: &str) -> Result<Self, TraceError> {
        let mut opportunities = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            if opportunities.len() >= MOST {
                return Err(TraceError::TooManyLines);
            }
            opportunities.push(line.parse().map_err(|_| TraceError::NotAMillisecond {
                line: number + 1,
                text: line.chars().take(40).collect(),
                format: formats::explain(text),
            })?);
        }
        Self::new(opportunities)
    }

    /// Returns the trace in Mahimahi's format.
    pub fn to_text(&self) -> String {
        self.opportunities.iter().fold(String::new(), |mut text, ms| {
            let _ = writeln!(text, "{ms}");
            text
        })
    }

    /// Returns the mean rate.
    pub fn mean_rate(&self) -> Rate {
        let bits = self.opportunities.len() as u64 * u64::from(OPPORTUNITY_BYTES) * 8;
        Rate::from_bits_per_sec((u128::from(bits) * 1_000 / u128::from(self.length)) as u64)
    }

    /// Returns the time in milliseconds after which the trace repeats.
    pub const fn length_ms(&self) -> u32 {
        self.length
    }

    /// Returns the time of an opportunity. Opportunities are numbered consecutively over all
    /// repetitions.
    fn at(&self, number: u64) -> Time {
        let (round, place) = (
            number / self.opportunities.len() as u64,
            (number % self.opportunities.len() as u64) as usize,
        );
        Time::from_millis(round * u64::from(self.length) + u64::from(self.opportunities[place]))
    }

    /// Returns the number of the first opportunity at or after `time`.
    fn first_at(&self, time: Time) -> u64 {
        // The last opportunity of a repetition is at the time at which the next repetition begins.
        let ms = time.as_nanos().div_ceil(MS);
        let round = ms.saturating_sub(1) / u64::from(self.length);
        let within = (ms - round * u64::from(self.length)) as u32;
        round * self.opportunities.len() as u64
            + self.opportunities.partition_point(|opportunity| *opportunity < within) as u64
    }
}

/// Position in a trace: the delivery opportunity in use, and the number of its unused bytes.
#[derive(Clone, Debug)]
pub(crate) struct TraceCursor {
    trace: Trace,
    opportunity: u64,
    left: u32,
}

impl TraceCursor {
    pub(crate) const fn new(trace: Trace) -> Self {
        Self { trace, opportunity: 0, left: OPPORTUNITY_BYTES }
    }

    /// Returns the total bytes of the opportunities up to and including `until`.
    pub(crate) fn bytes_until(&self, until: Time) -> u64 {
        let after = until + Duration::from_nanos(1);
        self.trace.first_at(after).saturating_mul(u64::from(OPPORTUNITY_BYTES))
    }

    /// Returns the time at which the last bit of a packet of `bytes` leaves. The packet may begin
    /// at `start`, which must not be earlier than the departure of the previous packet.
    pub(crate) fn transmission_ends(&mut self, start: Time, bytes: u32) -> Time {
        if self.trace.at(self.opportunity) < start {
            let first = self.trace.first_at(start);
            if first > self.opportunity {
                (self.opportunity, self.left) = (first, OPPORTUNITY_BYTES);
            }
        }
        let mut needs = bytes;
        loop {
            if self.left == 0 {
                (self.opportunity, self.left) = (self.opportunity + 1, OPPORTUNITY_BYTES);
            }
            let taken = needs.min(self.left);
            needs -= taken;
            self.left -= taken;
            if needs == 0 {
                return self.trace.at(self.opportunity).max(start);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn traces_round_trip_through_text() {
        let text = "0\n1\n1\n5\n";
        let trace = Trace::read(text).unwrap();
        assert_eq!(
            (trace.to_text(), trace.length_ms(), trace.opportunities.len()),
            (text.to_owned(), 5, 4)
        );
        // 4 x 1500 bytes in 5 ms.
        assert_eq!(trace.mean_rate(), Rate::from_bits_per_sec(9_600_000));
        for (text, says) in [
            ("", "no line"),
            ("0\n", "the length of the trace"),
            ("5\n3\n", "line 2"),
            ("1\nx\n", "line 2: 'x'"),
            ("-1\n", "line 1"),
        ] {
            assert!(Trace::read(text).unwrap_err().to_string().contains(says), "{text}");
        }
    }

    #[test]
    fn packets_leave_at_trace_opportunities_and_the_trace_repeats() {
        let mut cursor = TraceCursor::new(Trace::read("2\n4\n4\n10\n").unwrap());
        let ends = |cursor: &mut TraceCursor, start: u64, bytes| {
            cursor.transmission_ends(Time::from_millis(start), bytes).as_nanos() / MS
        };
        assert_eq!(ends(&mut cursor, 0, 1_500), 2);
        assert_eq!(ends(&mut cursor, 2, 1_500), 4);
        // Half of an opportunity is left for the next packet, which then needs half of another one.
        assert_eq!(ends(&mut cursor, 4, 750), 4);
        assert_eq!(ends(&mut cursor, 4, 1_500), 10);
        assert_eq!(ends(&mut cursor, 10, 750), 10);
        // The opportunities of the next round are at 12, 14, 14 and 20. The rest of the opportunity
        // at 12 is lost because the queue is empty.
        assert_eq!(ends(&mut cursor, 11, 100), 12);
        assert_eq!(ends(&mut cursor, 15, 1_500), 20);
        assert_eq!(ends(&mut cursor, 1_000_003, 1_500), 1_000_004);
    }

    proptest! {
        /// A link that always has packets carries the trace's mean rate.
        #[test]
        fn busy_trace_link_carries_the_mean_rate_of_its_trace(
            gaps in prop::collection::vec(0u32..20, 2..200), size in 40u32..1_500,
        ) {
            let mut at = 1;
            let opportunities: Vec<u32> = gaps.iter().map(|gap| { at += gap; at }).collect();
            let trace = Trace::new(opportunities).unwrap();
            let mut cursor = TraceCursor::new(trace.clone());
            let (mut free, mut bytes) = (Time::ZERO, 0u64);
            for _ in 0..5_000 {
                let end = cursor.transmission_ends(free, size);
                prop_assert!(end >= free);
                (free, bytes) = (end, bytes + u64::from(size));
            }
            let carried = bytes as f64 * 8.0 / free.as_secs_f64();
            let round = f64::from(trace.length_ms()) / (free.as_secs_f64() * 1e3);
            let mean = trace.mean_rate().bits_per_sec() as f64;
            prop_assert!((carried / mean - 1.0).abs() <= round + 0.01, "{carried} of {mean}");
        }

        /// No packet leaves before its transmission may start, and each packet leaves within 5 ms
        /// of this start.
        #[test]
        fn trace_link_with_little_traffic_never_sends_early(packets in prop::collection::vec((0u64..30, 40u32..1_500), 1..300)) {
            let trace = Trace::new((1..50).filter(|ms| ms % 3 != 0).collect()).unwrap();
            let mut cursor = TraceCursor::new(trace);
            let (mut now, mut free) = (Time::ZERO, Time::ZERO);
            for (gap, bytes) in packets {
                now += Duration::from_millis(gap);
                let start = free.max(now);
                free = cursor.transmission_ends(start, bytes);
                prop_assert!(free >= start && free <= start + Duration::from_millis(5));
            }
        }
    }
}
