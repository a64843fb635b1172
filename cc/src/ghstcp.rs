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

use std::sync::Arc;

use crate::aimd::Aimd;
use crate::config::{Capabilities, ControllerConfig, Missing};
use crate::controller::{Controller, ControllerMetrics, SendParams};
use crate::event::{AckEvent, CongestionEvent, PathChange, Sent, Start};
use crate::ghstcp::trend::{Test, Watch};
use crate::highspeed::{increase, kept};
use crate::hystart;
use crate::options::{Algorithm, OptionInfo, Values, spec_text};
use crate::round::RoundTrip;
use crate::units::{Ratio, Time};

const TREND: OptionInfo = OptionInfo {
    name: "trend",
    default: "correlation",
    values: Values::Choice(Test::NAMES),
    about: "how rising round trips are recognised: sign of Pearson's r, its t-test, or Mann-Kendall (both one-sided 5 %)",
};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "gentle",
    summary: "gHSTCP: HighSpeed TCP that grows as Reno while round trips rise",
    source: "gHSTCP §3.2",
    options: &[TREND, hystart::OPTION],
    required: Capabilities::NONE,
    build: |parsed| {
        Arc::new(GhstcpConfig {
            trend: parsed.choice(TREND.name, Test::ALL),
            hystart: parsed.choice(hystart::OPTION.name, hystart::Use::ALL),
        })
    },
};

/// The configuration `gentle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GhstcpConfig {
    trend: Test,
    hystart: hystart::Use,
}

impl ControllerConfig for GhstcpConfig {
    fn name(&self) -> &'static str {
        ALGORITHM.name
    }

    fn spec(&self) -> String {
        let hystart = self.hystart.name().to_owned();
        spec_text(&ALGORITHM, &[(TREND.name, self.trend.name().to_owned()), (hystart::OPTION.name, hystart)])
    }

    fn required(&self) -> Capabilities {
        Capabilities::NONE
    }

    fn start(&self, start: &Start) -> Result<Box<dyn Controller>, Missing> {
        self.check(start.provided)?;
        Ok(Box::new(Gentle {
            aimd: Aimd::new(start).with_hystart(self.hystart),
            mode: Mode::HighSpeed,
            watch: Watch::new(self.trend),
            round: RoundTrip::default(),
        }))
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
    aimd: Aimd,
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

impl Controller for Gentle {
    fn on_sent(&mut self, _sent: &Sent) {}

    fn on_ack(&mut self, acks: &AckEvent<'_>) {
        self.observe(acks);
        let acked = self.aimd.on_ack(acks);
        let acked = self.aimd.grow_slow_start(acked);
        let packets = match self.mode {
            Mode::HighSpeed => increase(self.aimd.window(), self.aimd.datagram()),
            Mode::Reno => Ratio::ONE,
        };
        self.aimd.grow_additive(packets, acked);
    }

    fn on_congestion_event(&mut self, congestion_event: &CongestionEvent) {
        self.aimd.on_congestion_event(congestion_event, kept(self.aimd.window(), self.aimd.datagram()));
    }

    fn on_spurious_congestion_event(&mut self, _now: Time) {
        self.aimd.on_spurious_congestion_event();
    }

    fn on_path(&mut self, now: Time, change: PathChange) {
        match change {
            PathChange::Datagram(bytes) => self.aimd.on_datagram(bytes),
            PathChange::Moved => {
                self.aimd.on_moved(now);
                self.mode = Mode::HighSpeed;
                self.watch.clear();
                self.round.restart();
            }
        }
    }

    fn send_params(&self) -> SendParams {
        SendParams::window(self.aimd.window())
    }

    fn metrics(&self) -> ControllerMetrics {
        self.aimd.metrics()
    }

    fn boxed(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}
