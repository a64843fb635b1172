//! SEARCH (draft-chung-ccwg-search, version 3.1): leaves slow start when the bytes delivered per
//! round trip no longer double.
//!
//! SEARCH is an option (`search=on`) of every controller that has a slow start, and it is part of
//! [`crate::aimd::Aimd`]. It watches only the first slow start of a path. While the path is not
//! full, slow start delivers twice as many bytes in a window of 3.5 round trips as in the window one
//! round trip earlier. If it delivers 35 % less than that, slow start ends.
//!
//! Departures:
//! - **Exit**: the window stays, as is the default of the authors' code for Linux. By the draft, a
//!   sender may take away what it sent since the path was full.
//! - **RTT**: the sample of the newest packet of each ACK frame.

use std::time::Duration;

use crate::event::AckEvent;
use crate::options::option_values;
use crate::units::Time;

/// Bins of a window (SEARCH §3.2: W).
pub const BINS: u64 = 10;
/// Bins that are kept besides a window, so that windows of earlier round trips can be computed
/// (SEARCH §3.2: EXTRA_BINS).
pub const EXTRA_BINS: u64 = 15;
/// Length of a window in tenths of the first RTT (SEARCH §3.2: WINDOW_SIZE_FACTOR).
pub const WINDOW_TENTHS: u32 = 35;
/// Share of the expected bytes that may be missing, in percent (SEARCH §3.2: THRESH).
pub const THRESHOLD_PERCENT: u64 = 35;
/// Number of bins in a row without an ACK frame after which SEARCH starts over (the authors' code
/// for Linux).
pub const MISSED_BINS: u64 = 2;

/// Number of stored bins, one more than the bins of the longest difference.
const STORED: usize = (BINS + EXTRA_BINS + 1) as usize;

option_values! {
    /// Use of SEARCH on the first slow start.
    pub enum Use {
        /// SEARCH does not end slow start.
        Off = "off",
        /// SEARCH may end slow start.
        On = "on",
    }
}

/// The state of SEARCH during one slow start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Search {
    /// Length of a bin; `None` before the first ACK frame.
    bin: Option<Duration>,
    /// End of the current bin.
    end: Time,
    /// Number of completed bins.
    completed: u64,
    /// Bytes delivered until the end of each of the last bins. Bin `n` is at position `n % STORED`.
    delivered_until: [u64; STORED],
    /// Bytes delivered since SEARCH began.
    delivered: u64,
}

impl Search {
    /// Processes an ACK frame. Returns whether slow start is over.
    pub fn on_ack(&mut self, acks: &AckEvent<'_>) -> bool {
        let Some(bin) = self.bin.filter(|_| !acks.app_limited) else {
            *self = Self::starting(acks);
            return false;
        };
        self.delivered = self.delivered.saturating_add(acks.bytes());
        if acks.now < self.end {
            return false;
        }
        let passed = units(acks.now.since(self.end), bin) + 1;
        if passed > MISSED_BINS {
            *self = Self::starting(acks);
            return false;
        }
        for _ in 0..passed {
            self.delivered_until[position(self.completed)] = self.delivered;
            self.completed += 1;
            self.end += bin;
        }
        self.is_over(acks.rtt.latest, bin)
    }

    /// Returns the state after the first ACK frame, whose RTT gives the length of the bins.
    fn starting(acks: &AckEvent<'_>) -> Self {
        let window = acks.rtt.latest.saturating_mul(WINDOW_TENTHS) / 10;
        let bin = (window / BINS as u32).max(Duration::from_micros(1));
        Self { bin: Some(bin), end: acks.now + bin, ..Self::default() }
    }

    /// Returns whether the last window delivered too little compared with the window one round trip
    /// earlier.
    fn is_over(&self, rtt: Duration, bin: Duration) -> bool {
        let Some(current) = self.completed.checked_sub(1) else { return false };
        let back = units(rtt, bin);
        // One more bin before is needed for the interpolation.
        if back >= EXTRA_BINS || current < back + BINS + 1 {
            return false;
        }
        let earlier = current - back;
        // The round trip ends within the bin before `earlier`, after this part of a bin.
        let part = (rtt.as_nanos() % bin.as_nanos()) as f64 / bin.as_nanos() as f64;
        let before =
            self.window(earlier) as f64 * (1.0 - part) + self.window(earlier - 1) as f64 * part;
        let expected = 2.0 * before;
        let missing = expected - self.window(current) as f64;
        before > 0.0 && missing * 100.0 >= THRESHOLD_PERCENT as f64 * expected
    }

    /// Returns the bytes delivered in the window that ends with bin `last`.
    fn window(&self, last: u64) -> u64 {
        let until = |bin: u64| self.delivered_until[position(bin)];
        until(last).saturating_sub(until(last - BINS))
    }
}

fn position(bin: u64) -> usize {
    (bin % STORED as u64) as usize
}

/// Returns how many whole bins a duration takes.
fn units(duration: Duration, bin: Duration) -> u64 {
    u64::try_from(duration.as_nanos() / bin.as_nanos().max(1)).unwrap_or(u64::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Acked, Rtt};

    /// Feeds frames at intervals of 5 ms with an RTT of 100 ms. `bytes` gives the bytes that a frame
    /// at this time in ms acknowledges. Returns the time at which slow start is over, in ms.
    fn over(length: u64, bytes: impl Fn(u64) -> u64) -> Option<u64> {
        let mut search = Search::default();
        (0..length).step_by(5).find(|at| {
            search.on_ack(&AckEvent {
                now: Time::from_millis(*at),
                packets: &[Acked { sent: Time::ZERO, bytes: bytes(*at) }],
                in_flight: 0,
                rtt: Rtt::first(Duration::from_millis(100)),
                one_way: None,
                ecn: None,
                app_limited: false,
            })
        })
    }

    #[test]
    fn slow_start_continues_while_deliveries_double() {
        assert_eq!(over(2_000, |at| (1_000.0 * 2_f64.powf(at as f64 / 100.0)) as u64), None);
    }

    #[test]
    fn slow_start_ends_about_two_round_trips_after_the_link_is_full() {
        let full = 700;
        let rate = |at: u64| (1_000.0 * 2_f64.powf(at.min(full) as f64 / 100.0)) as u64;
        let at = over(2_000, rate).expect("an end");
        assert!((full + 100..full + 300).contains(&at), "{at} ms");
    }

    #[test]
    fn pauses_and_application_limits_start_search_over() {
        let mut search = Search::default();
        let mut ack = |ms: u64, app_limited: bool| {
            let over = search.on_ack(&AckEvent {
                now: Time::from_millis(ms),
                packets: &[Acked { sent: Time::ZERO, bytes: 1_200 }],
                in_flight: 0,
                rtt: Rtt::first(Duration::from_millis(100)),
                one_way: None,
                ecn: None,
                app_limited,
            });
            assert!(!over);
            search.completed
        };
        assert_eq!(ack(0, false), 0);
        // A bin has 35 ms.
        assert_eq!([ack(34, false), ack(35, false), ack(104, false)], [0, 1, 2]);
        assert_eq!(ack(105 + 70, false), 0, "three bins without a frame");
        assert_eq!([ack(210, false), ack(211, true)], [1, 0]);
    }
}
