//! gHSTCP, gentle HighSpeed TCP (Zhang, Hasegawa, Murata: "Performance analysis and improvement of HighSpeed TCP with TailDrop/ARED
//! routers").
//!
//! HighSpeed TCP that grows as Reno while its round-trip times rise: a queue builds, so the link is full, and room is left to Reno's
//! flows. Losses and marks are answered as by HighSpeed TCP.
//!
//! Departures, and what the paper leaves open:
//! - **Test** (`trend=correlation`): gHSTCP §3.2 tests "statistically" for a positive correlation of departure time and RTT and does
//!   not say how. The default is its plain words, the sign of Pearson's r. `t-test` and `mann-kendall` ask that the rise be
//!   significant (one-sided, 5 %); noise alone then seldom brings Reno mode.
//! - **Span**: the paper does not say over which samples. One mode decision per round trip, from the samples of that round trip; the
//!   mode then rules until the next decision.
//! - **Samples**: one per ACK frame, from its newest packet: QUIC stacks give no more. Frames of slow start and recovery count too.
//! - **No decision yet** or too few samples for the test is HSTCP mode: no correlation is recognised.
//! - **Loss**: the mode and the samples stay. Recovery lasts a round trip, so a decision comes at its end.
//! - **Timeout**: the paper falls back to one packet; the smallest window in QUIC is two datagrams (RFC 9002 §7.2).
//! - Those of [`crate::highspeed`].

pub mod trend;

use crate::aimd::Aimd;
use crate::config::Capabilities;
use crate::event::AckEvent;
use crate::ghstcp::trend::{Test, Watch};
use crate::highspeed::{increase, kept};
use crate::options::{Algorithm, Options as _, rule_options};
use crate::round::RoundTrip;
use crate::rule::{self, RuleConfig, WindowRule};
use crate::units::{Ratio, Time};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "gentle",
    summary: "gHSTCP: HighSpeed TCP that grows as Reno while round trips rise",
    source: "gHSTCP §3.2",
    options: GhstcpConfig::OPTIONS,
    required: Capabilities::NONE,
    build: rule::build::<GhstcpConfig>,
};

rule_options! {
    /// The configuration `gentle`.
    pub struct GhstcpConfig {
        /// how rising round trips are recognised: sign of Pearson's r, its t-test, or Mann-Kendall (both one-sided 5 %)
        trend: Test,
    }
}

impl RuleConfig for GhstcpConfig {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = Gentle;

    fn rule(&self, _window: &Aimd, _now: Time) -> Gentle {
        Gentle { mode: Mode::HighSpeed, watch: Watch::new(self.trend), round: RoundTrip::default() }
    }
}

/// How the window grows in avoidance (gHSTCP §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// By a(w): round trips do not rise.
    HighSpeed,
    /// By one datagram: they rise.
    Reno,
}

/// gHSTCP.
#[derive(Clone, Debug)]
pub struct Gentle {
    mode: Mode,
    watch: Watch,
    /// The round trip that is watched.
    round: RoundTrip,
}

impl Gentle {
    /// Takes the sample of an ACK frame; the first frame of a new round trip decides the mode by those of the last one.
    fn observe(&mut self, acks: &AckEvent<'_>) {
        let Some(departure) = acks.newest_sent() else { return };
        if self.round.on_ack(acks) {
            self.mode = if self.watch.rising() { Mode::Reno } else { Mode::HighSpeed };
            self.watch.clear();
        }
        self.watch.on_sample(departure, acks.rtt.latest);
    }
}

impl WindowRule for Gentle {
    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, acked: u64) {
        self.observe(acks);
        let acked = window.grow_slow_start(acked);
        let packets = match self.mode {
            Mode::HighSpeed => increase(window.window(), window.datagram()),
            Mode::Reno => Ratio::ONE,
        };
        window.grow_additive(packets, acked);
    }

    fn kept(&self, window: &Aimd) -> Ratio {
        kept(window.window(), window.datagram())
    }
}
