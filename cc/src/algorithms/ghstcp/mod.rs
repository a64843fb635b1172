//! gHSTCP, gentle HighSpeed TCP (Zhang, Hasegawa, Murata: "Performance analysis and improvement of
//! HighSpeed TCP with TailDrop/ARED routers").
//!
//! HighSpeed TCP that grows like Reno while its round-trip times rise. A rise means that a queue
//! builds up because the link is full. Slower growth then leaves room for Reno flows. The reaction
//! to losses and marks is the same as HighSpeed TCP's.
//!
//! Departures, and points that the paper leaves open:
//! - **Test** (`trend=correlation`): gHSTCP §3.2 tests "statistically" for a positive correlation
//!   of departure time and RTT, but does not say how. The default follows the paper's wording and
//!   uses the sign of Pearson's r. `t-test` and `mann-kendall` require the rise to be significant
//!   (one-sided, 5 %), so that noise alone seldom causes Reno mode.
//! - **Span**: the paper does not say which samples the test covers. Here, there is one mode
//!   decision per round trip, from the samples of this round trip. The mode then applies until the
//!   next decision.
//! - **Samples** (`samples=all`): one per ACK frame, from its newest packet, because QUIC stacks
//!   report no more. Frames in slow start and recovery also count. The paper does not say how many
//!   samples it tests. `samples=spread` uses at most 64 samples of a round trip, evenly spaced.
//! - **Undecided**: if there is no decision yet, or if the samples are too few for the test, HSTCP
//!   mode applies, because no correlation is recognised.
//! - **Loss**: the mode and the samples are kept. Recovery lasts a round trip, so a decision
//!   follows at its end.
//! - **Timeout**: the paper reduces the window to one packet. The smallest window in QUIC is two
//!   datagrams (RFC 9002 §7.2).
//! - The departures of [`crate::highspeed`] also apply.

pub mod trend;

use crate::aimd::Aimd;
use crate::algorithm::{Algorithm, Page};
use crate::event::AckEvent;
use crate::ghstcp::trend::{Samples, Test, TrendDetector};
use crate::highspeed::{increase, kept};
use crate::round::RoundTrip;
use crate::rule::rule_options;
use crate::rule::{RuleConfig, WindowRule};
use crate::units::{Ratio, Time};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "gentle",
    aliases: &["ghstcp"],
    summary: "gHSTCP: HighSpeed TCP that grows as Reno while round trips rise",
    source: "gHSTCP §3.2",
    page: PAGE,
    ..Algorithm::of_rule::<GhstcpConfig>()
};

rule_options! {
    /// The configuration `gentle`.
    pub struct GhstcpConfig {
        /// test for rising round trips: the sign of Pearson's r, the t-test of r, or the
        /// Mann-Kendall test; the last two are one-sided at 5 %
        trend: Test,
        /// which RTT samples of a round trip the first two tests use: all, or at most 64 evenly
        /// spaced; Mann-Kendall always uses at most 64
        samples: Samples,
    }
}

impl RuleConfig for GhstcpConfig {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = Ghstcp;

    fn rule(&self, _window: &Aimd, _now: Time) -> Ghstcp {
        Ghstcp {
            mode: Mode::HighSpeed,
            detector: TrendDetector::new(self.trend, self.samples),
            round: RoundTrip::default(),
        }
    }
}

/// Growth of the window in avoidance (gHSTCP §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Growth by a(w), because round-trip times do not rise.
    HighSpeed,
    /// Growth by one datagram, because round-trip times rise.
    Reno,
}

/// The rule of gHSTCP.
#[derive(Clone, Debug)]
pub struct Ghstcp {
    mode: Mode,
    detector: TrendDetector,
    /// Detects the end of the round trip under test.
    round: RoundTrip,
}

impl Ghstcp {
    /// Records the sample of an ACK frame. The first frame of a new round trip decides the mode
    /// from the samples of the previous round trip.
    fn observe(&mut self, acks: &AckEvent<'_>) {
        let Some(departure) = acks.newest_sent() else { return };
        if self.round.on_ack(acks) {
            self.mode = if self.detector.rising() { Mode::Reno } else { Mode::HighSpeed };
            self.detector.clear();
        }
        self.detector.on_sample(departure, acks.rtt.latest);
    }
}

impl WindowRule for Ghstcp {
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

const PAGE: Page = Page {
    about: "gHSTCP (Zhang, Hasegawa, Murata) is `highspeed` with one change. While round-trip times rise, its
window grows by one datagram per round trip, as Reno's does. At the end of each round trip, gHSTCP
decides from the RTT samples of this round trip whether round-trip times rise. `gentle` reacts to
losses and marks as `highspeed` does.",
    departures: "The paper does not say which statistical test it uses or which samples it
tests, so both are Fathom's choices. Each ACK frame gives one sample. The Mann-Kendall test uses at
most 64 evenly spaced samples of a round trip and does not correct for ties. If a round trip has too
few samples for a test, the window grows as `highspeed`'s. The same authors later published a
variant with two RTT thresholds. Fathom does not include this variant, because the paper above does
not give its thresholds.",
    figure: "gHSTCP and the scripted queue",
    to_see: "`gentle` starts as `highspeed` does. In the shaded times, the window grows by one
packet per round trip. These times begin when the RTT begins to rise, and end at most three round
trips after the rise. While the delay stays at 40 ms and while the queue drains, `gentle` behaves as
`highspeed`. `gentle` reacts to the trend of the RTT and not to its level, so it does not notice a
queue that stays full.",
    weakness: "With the default test, random delay makes `gentle` slower. A random trend is positive in
half of all round trips, so the window grows as Reno's in about half of the round trips. The options
`trend=t-test` and `trend=mann-kendall` require a significant rise.",
};
