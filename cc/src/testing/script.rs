//! A connection in miniature: sends and acknowledges packets, so that a test reads like a story.

use std::time::Duration;

use crate::catalogue::{self, Algorithm, CATALOGUE, Values};
use crate::units::duration_text;
use crate::{
    AckEvent, Acked, Capabilities, Cause, CongestionEvent, Controller, OneWayDelay, Rtt, Sent,
    Start, Time,
};

/// Bytes of every packet.
pub const MSS: u64 = 1_200;
/// All that a stack may provide.
pub const ALL_SIGNALS: Capabilities =
    Capabilities { one_way: true, ecn: true, pacing: true, datagram: true };
/// The path's round trip without queueing.
pub const RTT: Duration = Duration::from_millis(100);

/// The start of the connection: a second after the clock's zero, with [`ALL_SIGNALS`].
pub fn start() -> Start {
    Start { now: Time::from_millis(1_000), datagram: MSS as u16, provided: ALL_SIGNALS }
}

/// Values of an option as users type them: every word, numbers at their ends, durations near 1 ms and 2 s.
pub fn values(values: &Values) -> Vec<String> {
    match values {
        Values::Choice(words) => words.iter().map(|word| (*word).to_owned()).collect(),
        Values::Duration { min, max } => {
            [1, 2_000].map(|ms| duration_text(Duration::from_millis(ms).clamp(*min, *max))).into()
        }
        Values::Integer { min, max } => vec![min.to_string(), max.to_string()],
        Values::Fraction { min, max } => vec![min.decimal(), max.decimal()],
    }
}

/// The default and every other value of every option, one at a time; a wrapper around every controller that is none.
pub fn variants(entry: &Algorithm) -> Vec<String> {
    let mut specs = vec![entry.name.to_owned()];
    for option in entry.options {
        specs.extend(
            values(&option.values)
                .iter()
                .map(|value| format!("{}:{}={value}", entry.name, option.name)),
        );
    }
    if entry.wraps.is_some() {
        let inner = CATALOGUE.iter().filter(|inner| inner.wraps.is_none());
        specs.extend(inner.map(|inner| format!("{}/{}", entry.name, inner.name)));
    }
    specs
}

/// A controller with a clock that moves by one millisecond per ACK frame.
pub struct Script {
    /// The controller.
    pub controller: Box<dyn Controller>,
    /// Its clock.
    pub now: Time,
    /// Propagation plus clock offset; the test's delays lie above it.
    pub base: i64,
    /// The round trip of the moment.
    pub rtt: Duration,
    /// ACK frames bring a one-way delay.
    pub one_way: bool,
    /// The application is the limit.
    pub app_limited: bool,
    /// Bytes that each ACK frame acknowledges.
    pub bytes: u64,
}

impl Script {
    /// A new connection of the controller that `spec` names.
    ///
    /// # Panics
    /// Where there is none, or where it does not start.
    pub fn new(spec: &str) -> Self {
        Self {
            controller: catalogue::parse(spec).expect(spec).start(&start()).expect(spec),
            now: start().now + RTT,
            base: -77_000_000,
            rtt: RTT,
            one_way: true,
            app_limited: false,
            bytes: MSS,
        }
    }

    /// The window in bytes.
    pub fn window(&self) -> u64 {
        self.controller.send_params().window
    }

    /// One ACK frame of one packet with a queueing delay in microseconds, sent one RTT ago; gives the window's change in bytes.
    pub fn ack(&mut self, queued_us: i64) -> i64 {
        self.ack_sent(self.now - self.rtt + Duration::from_millis(1), queued_us)
    }

    /// As [`Script::ack`], of a packet sent at `sent`.
    pub fn ack_sent(&mut self, sent: Time, queued_us: i64) -> i64 {
        let before = self.window() as i64;
        self.now += Duration::from_millis(1);
        self.controller.on_ack(&AckEvent {
            now: self.now,
            packets: &[Acked { sent, bytes: self.bytes }],
            in_flight: 0,
            rtt: Rtt::first(self.rtt),
            one_way: self.one_way.then(|| OneWayDelay::from_nanos(self.base + queued_us * 1_000)),
            ecn: None,
            app_limited: self.app_limited,
        });
        self.window() as i64 - before
    }

    /// `count` ACK frames with the same delay; gives the change by the last one.
    pub fn acks(&mut self, count: usize, queued_us: i64) -> i64 {
        (0..count).map(|_| self.ack(queued_us)).last().unwrap_or(0)
    }

    /// A packet leaves.
    pub fn send(&mut self) {
        self.controller.on_sent(&Sent { now: self.now, bytes: MSS });
    }

    /// A congestion event about a packet sent just now.
    pub fn congestion_event(&mut self, cause: Cause) {
        self.controller.on_congestion_event(&CongestionEvent {
            now: self.now,
            sent: self.now,
            cause,
        });
    }

    /// A packet sent just now was lost.
    pub fn lose(&mut self) {
        self.congestion_event(Cause::Loss { bytes: MSS, persistent: false });
    }

    /// The same, with all before it: persistent congestion.
    pub fn collapse(&mut self) {
        self.congestion_event(Cause::Loss { bytes: MSS, persistent: true });
    }

    /// Waits until packets sent from now on are the ones acknowledged.
    pub fn next_round(&mut self) {
        self.now += self.rtt + Duration::from_millis(2);
    }
}
