//! A sender that works in rounds: a whole window leaves at one instant and is acknowledged at one
//! instant, so windows can be computed by hand.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use fathom_cc::catalogue;
use fathom_cc::{
    AckEvent, Acked, Capabilities, Cause, CongestionEvent, Controller, Rtt, Start, Time,
};
use std::time::Duration;

pub const MSS: u64 = 1_200;
/// Initial window in packets.
pub const INITIAL: u64 = 10;

pub struct Rounds {
    pub controller: Box<dyn Controller>,
    pub now: Time,
    /// Packets per ACK frame.
    pub per_ack: usize,
    pub app_limited: bool,
    /// Time when the last packet left, for [`Rounds::frame`].
    sent: Time,
}

impl Rounds {
    pub fn new(spec: &str) -> Self {
        let start = Start {
            now: Time::from_millis(1_000),
            datagram: MSS as u16,
            provided: Capabilities::NONE,
        };
        let controller = catalogue::parse(spec).expect(spec).start(&start).expect(spec);
        Self { controller, now: start.now, per_ack: 2, app_limited: false, sent: start.now }
    }

    pub fn window(&self) -> u64 {
        self.controller.send_params().window
    }

    /// Returns the window in packets, which must be a whole number.
    pub fn packets(&self) -> u64 {
        assert_eq!(self.window() % MSS, 0, "{} bytes", self.window());
        self.window() / MSS
    }

    pub fn early(&self) -> u64 {
        self.controller.metrics().early_reductions
    }

    /// Sends one window of packets and acknowledges it after `rtt_ms`.
    pub fn round(&mut self, rtt_ms: u64) {
        let (sent, rtt) = (self.now, Duration::from_millis(rtt_ms));
        self.now += rtt;
        let mut left = (self.window() / MSS) as usize;
        while left > 0 {
            let count = left.min(self.per_ack);
            left -= count;
            self.acks(sent, rtt, count);
        }
        self.sent = self.now;
    }

    /// Runs rounds with these RTTs in ms. Returns the window in packets after each round.
    pub fn rounds(&mut self, rtts_ms: &[u64]) -> Vec<u64> {
        rtts_ms.iter().map(|rtt| (self.round(*rtt), self.packets()).1).collect()
    }

    /// Delivers one ACK frame for `count` packets that left 1 ms after the last ones. Returns the
    /// change of the window in bytes.
    pub fn frame(&mut self, rtt: Duration, count: usize) -> i64 {
        self.sent += Duration::from_millis(1);
        self.frame_sent(self.sent, rtt, count)
    }

    /// Does the same as [`Rounds::frame`], for packets that left at `sent`.
    pub fn frame_sent(&mut self, sent: Time, rtt: Duration, count: usize) -> i64 {
        let before = self.window() as i64;
        self.now = self.now.max(sent + rtt);
        self.acks(sent, rtt, count);
        self.window() as i64 - before
    }

    fn acks(&mut self, sent: Time, rtt: Duration, count: usize) {
        self.controller.on_ack(&AckEvent {
            now: self.now,
            packets: &vec![Acked { sent, bytes: MSS }; count],
            in_flight: 0,
            rtt: Rtt::first(rtt),
            one_way: None,
            ecn: None,
            app_limited: self.app_limited,
        });
    }

    /// Reports the loss of a packet sent just now. Packets that leave afterwards were sent after
    /// the loss.
    pub fn lose(&mut self, persistent: bool) {
        let cause = Cause::Loss { bytes: MSS, persistent };
        self.controller.on_congestion_event(&CongestionEvent {
            now: self.now,
            sent: self.now,
            cause,
        });
        self.now += Duration::from_millis(1);
        self.sent = self.now;
    }
}
