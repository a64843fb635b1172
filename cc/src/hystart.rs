//! HyStart++ (RFC 9406): leaves slow start when round-trip times grow, before a loss occurs.
//!
//! HyStart++ is an option (`hystart=on`) of every controller that has a slow start, and it is part
//! of [`crate::aimd::Aimd`]. It watches only the first slow start of a path, while there is no
//! threshold yet, as RFC 9406 §4.2 recommends.
//!
//! Departures:
//! - A round ends with the first acknowledgement of a packet sent since the round began.
//!   RFC 9406 §4.2 uses sequence numbers.
//! - Each ACK frame gives one RTT sample, from its newest packet, because QUIC stacks report no
//!   more.
//! - L is unbounded. RFC 9406 §4.3 limits L to 8 segments only for senders that do not pace. The
//!   stacks pace, but the laboratory's packet-level senders do not.
//! - The bytes of the frame that ends Conservative Slow Start count for avoidance. By
//!   RFC 9406 §4.2, these bytes still grow the window as in Conservative Slow Start.

use std::time::Duration;

use crate::event::AckEvent;
use crate::options::option_values;
use crate::units::Time;

/// MIN_RTT_THRESH and MAX_RTT_THRESH (RFC 9406 §4.3).
pub const RTT_THRESHOLD: (Duration, Duration) =
    (Duration::from_millis(4), Duration::from_millis(16));
/// MIN_RTT_DIVISOR (RFC 9406 §4.3).
pub const MIN_RTT_DIVISOR: u32 = 8;
/// N_RTT_SAMPLE (RFC 9406 §4.3).
pub const ROUND_SAMPLES: u32 = 8;
/// CSS_GROWTH_DIVISOR (RFC 9406 §4.3).
pub const CSS_GROWTH_DIVISOR: u64 = 4;
/// CSS_ROUNDS (RFC 9406 §4.3).
pub const CSS_ROUNDS: u32 = 5;

option_values! {
    /// Use of HyStart++ on the first slow start.
    pub enum Use {
        /// Only a loss or a mark ends slow start.
        Off = "off",
        /// HyStart++ may also end slow start.
        On = "on",
    }
}

/// Returns by how much a round's RTT must exceed the previous round's to count as an increase
/// (RFC 9406 §4.2).
pub fn rtt_threshold(last_min: Duration) -> Duration {
    (last_min / MIN_RTT_DIVISOR).clamp(RTT_THRESHOLD.0, RTT_THRESHOLD.1)
}

/// Use of the bytes that an ACK frame acknowledges in slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Growth by all of the bytes.
    Full,
    /// Conservative Slow Start: growth by a quarter of the bytes.
    Conservative,
    /// Slow start has ended.
    Over,
}

/// State of Conservative Slow Start.
#[derive(Clone, Copy, Debug)]
struct Conservative {
    /// Smallest RTT of the round in which Conservative Slow Start began.
    baseline: Duration,
    /// Number of rounds that have ended since Conservative Slow Start began.
    rounds: u32,
}

/// The state of HyStart++ during one slow start.
#[derive(Clone, Copy, Debug)]
pub struct HyStart {
    round_start: Time,
    last_min: Option<Duration>,
    current_min: Option<Duration>,
    samples: u32,
    conservative: Option<Conservative>,
}

impl HyStart {
    /// Returns the state at the start of a path.
    pub const fn new(now: Time) -> Self {
        Self { round_start: now, last_min: None, current_min: None, samples: 0, conservative: None }
    }

    /// Processes the RTT of one ACK frame and returns how slow start may grow.
    pub fn on_ack(&mut self, acks: &AckEvent<'_>) -> Growth {
        if acks.newest_sent() >= Some(self.round_start) {
            self.end_round(acks.now);
            if let Some(css) = &mut self.conservative {
                css.rounds += 1;
                if css.rounds >= CSS_ROUNDS {
                    return Growth::Over;
                }
            }
        }
        let rtt = acks.rtt.latest;
        self.current_min = Some(self.current_min.map_or(rtt, |min| min.min(rtt)));
        self.samples = self.samples.saturating_add(1);
        if self.samples >= ROUND_SAMPLES {
            self.judge();
        }
        if self.conservative.is_some() { Growth::Conservative } else { Growth::Full }
    }

    fn end_round(&mut self, now: Time) {
        self.round_start = now;
        self.last_min = self.current_min.take();
        self.samples = 0;
    }

    /// Enters Conservative Slow Start if the RTT has risen, and leaves it if the rise proves
    /// spurious.
    fn judge(&mut self) {
        let (Some(current), last) = (self.current_min, self.last_min) else { return };
        match self.conservative {
            None => {
                let risen =
                    last.is_some_and(|last| current >= last.saturating_add(rtt_threshold(last)));
                self.conservative = risen.then_some(Conservative { baseline: current, rounds: 0 });
            }
            Some(css) if current < css.baseline => self.conservative = None,
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Acked, Rtt};

    const MS: Duration = Duration::from_millis(1);

    /// Feeds `count` frames at intervals of 1 ms, for packets sent at intervals of 1 ms from `sent`
    /// on, all with this RTT.
    fn frames(
        hystart: &mut HyStart,
        at: Time,
        sent: Time,
        count: u32,
        rtt: Duration,
    ) -> Vec<Growth> {
        (0..count)
            .map(|n| {
                hystart.on_ack(&AckEvent {
                    now: at + MS * n,
                    packets: &[Acked { sent: sent + MS * n, bytes: 1_200 }],
                    in_flight: 0,
                    rtt: Rtt::first(rtt),
                    one_way: None,
                    ecn: None,
                    app_limited: false,
                })
            })
            .collect()
    }

    /// Runs rounds of ten frames, 40 ms apart on the clock, with these RTTs in ms. Returns the
    /// growth at the end of each round.
    fn rounds(rtts: &[u64]) -> Vec<Growth> {
        let mut hystart = HyStart::new(Time::ZERO);
        rtts.iter()
            .enumerate()
            .filter_map(|(n, rtt)| {
                let sent = Time::from_millis(1 + 40 * n as u64);
                frames(&mut hystart, sent + MS * 39, sent, 10, Duration::from_millis(*rtt)).pop()
            })
            .collect()
    }

    #[test]
    fn hystart_rtt_threshold_is_an_eighth_between_4_and_16_ms() {
        for (rtt, threshold) in [(8, 4), (32, 4), (64, 8), (128, 16), (400, 16)] {
            assert_eq!(rtt_threshold(Duration::from_millis(rtt)), Duration::from_millis(threshold));
        }
    }

    #[test]
    fn five_rounds_of_conservative_slow_start_end_slow_start() {
        use Growth::{Conservative, Full, Over};
        assert_eq!(
            rounds(&[40, 44, 48]),
            [Full, Full, Full],
            "less than 40 / 8 = 5 ms from round to round"
        );
        assert_eq!(rounds(&[40, 45]), [Full, Conservative]);
        let long = rounds(&[40, 45, 45, 45, 45, 45, 45]);
        assert_eq!(long[1..6], [Conservative; 5]);
        // The first frame of round 6 ends the fifth round of Conservative Slow Start. The later
        // frames of round 6 do not matter.
        let mut hystart = HyStart::new(Time::ZERO);
        let mut all = Vec::new();
        for n in 0..7_u64 {
            let sent = Time::from_millis(1 + 40 * n);
            let rtt = if n == 0 { 40 } else { 45 };
            all.push(frames(&mut hystart, sent + MS * 39, sent, 10, Duration::from_millis(rtt)));
        }
        assert_eq!(all[6][0], Over);
        assert!(!all[..6].concat().contains(&Over));
    }

    #[test]
    fn slow_start_resumes_after_a_spurious_rtt_rise() {
        use Growth::{Conservative, Full};
        assert_eq!(rounds(&[40, 46, 45, 45]), [Full, Conservative, Full, Full]);
    }

    #[test]
    fn seven_rtt_samples_are_too_few_to_leave_slow_start() {
        let mut hystart = HyStart::new(Time::ZERO);
        frames(&mut hystart, Time::from_millis(40), Time::from_millis(1), 10, MS * 40);
        let second =
            frames(&mut hystart, Time::from_millis(100), Time::from_millis(60), 7, MS * 90);
        assert!(second.iter().all(|g| *g == Growth::Full));
        let eighth =
            frames(&mut hystart, Time::from_millis(107), Time::from_millis(67), 1, MS * 90);
        assert_eq!(eighth, [Growth::Conservative]);
    }
}
