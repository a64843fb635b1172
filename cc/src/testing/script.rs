//! A scripted connection that sends and acknowledges packets, to keep tests short and readable.

use std::time::Duration;

use crate::catalogue::{self, Algorithm, CATALOGUE, Values};
use crate::units::duration_text;
use crate::{
    AckEvent, Acked, Capabilities, Cause, CongestionEvent, Controller, OneWayDelay, Rtt, Sent,
    Start, Time,
};

/// Size of every packet in bytes.
pub const MSS: u64 = 1_200;
/// All capabilities that a stack can provide.
pub const ALL_SIGNALS: Capabilities = Capabilities::ALL;
/// Round-trip time of the path without queueing.
pub const RTT: Duration = Duration::from_millis(100);

/// Returns the start of the connection: one second after the clock's zero, with [`ALL_SIGNALS`].
pub fn start() -> Start {
    Start { now: Time::from_millis(1_000), datagram: MSS as u16, provided: ALL_SIGNALS }
}

/// Returns sample values of an option as users type them: every word, the smallest and largest
/// number, and durations of 1 ms and 2 s (or the nearest allowed ones).
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

/// Returns specs of a controller: the default, each option with each of its [`values`], and for a
/// wrapper every controller that is not a wrapper.
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

/// A controller with a clock that advances by one millisecond per ACK frame.
pub struct Script {
    /// The controller under test.
    pub controller: Box<dyn Controller>,
    /// Current time.
    pub now: Time,
    /// Sum of the propagation delay and the clock offset, in nanoseconds. The test's queueing
    /// delays are added to it.
    pub base: i64,
    /// Current round-trip time.
    pub rtt: Duration,
    /// Whether ACK frames carry a one-way delay.
    pub one_way: bool,
    /// Whether the application is the limit.
    pub app_limited: bool,
    /// Bytes that each ACK frame acknowledges.
    pub bytes: u64,
}

impl Script {
    /// Starts a new connection with the controller that `spec` names.
    ///
    /// # Panics
    /// Panics if the spec is invalid or the controller does not start.
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

    /// Returns the window in bytes.
    pub fn window(&self) -> u64 {
        self.controller.send_params().window
    }

    /// Delivers one ACK frame of one packet that was sent one RTT ago, with this queueing delay in
    /// microseconds. Returns the change of the window in bytes.
    pub fn ack(&mut self, queued_us: i64) -> i64 {
        self.ack_sent(self.now - self.rtt + Duration::from_millis(1), queued_us)
    }

    /// Delivers an ACK frame like [`Script::ack`], for a packet sent at `sent`.
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

    /// Delivers `count` ACK frames with the same delay. Returns the change of the window by the
    /// last frame in bytes.
    pub fn acks(&mut self, count: usize, queued_us: i64) -> i64 {
        (0..count).map(|_| self.ack(queued_us)).last().unwrap_or(0)
    }

    /// Sends a packet.
    pub fn send(&mut self) {
        self.controller.on_sent(&Sent { now: self.now, bytes: MSS });
    }

    /// Reports a congestion event about a packet sent just now.
    pub fn congestion_event(&mut self, cause: Cause) {
        self.controller.on_congestion_event(&CongestionEvent {
            now: self.now,
            sent: self.now,
            cause,
        });
    }

    /// Reports the loss of a packet sent just now.
    pub fn lose(&mut self) {
        self.congestion_event(Cause::Loss { bytes: MSS, persistent: false });
    }

    /// Reports persistent congestion that ends with a packet sent just now.
    pub fn collapse(&mut self) {
        self.congestion_event(Cause::Loss { bytes: MSS, persistent: true });
    }

    /// Advances the clock so far that the next ACK frames acknowledge packets sent from now on.
    pub fn next_round(&mut self) {
        self.now += self.rtt + Duration::from_millis(2);
    }
}
