//! TCP Vegas's congestion avoidance (Brakmo, O'Malley, Peterson: "TCP Vegas: New Techniques for Congestion Detection and Avoidance",
//! SIGCOMM 1994).
//!
//! Once per round trip the controller compares the rate it would have without queues, window / base RTT, with the one it has,
//! window / RTT. The difference times the base RTT is the number of packets of its own that wait in queues; it keeps that number
//! between `alpha` and `beta`. Slow start ends once more than `gamma` wait.
//!
//! This is what the DCA paper calls Vegas-CAM: Vegas with the stack's normal loss recovery, without Vegas's own (DCA §4.4). QUIC stacks
//! bring their own loss detection, so it is all that a controller can be. Loss and marks are answered exactly as by Reno.
//!
//! Two sets of rules and numbers are in use, chosen by `params`:
//!
//! | | `ns2` (2.35, `tcp/tcp-vegas.cc`; the paper's model, DCA §4.4) | `linux` (`net/ipv4/tcp_vegas.c`) |
//! |---|---|---|
//! | alpha, beta, gamma | 1, 3, 1 packets | 2, 4, 1 packets |
//! | RTT of a round | mean of its samples | smallest of its samples; fewer than three: Reno for that ACK |
//! | packets waiting | W (RTT - base) / RTT, to the nearest whole ([`delta`]) | W (RTT - base) / base, rounded down ([`diff`]) |
//! | above `beta` | one packet less, at once | one packet less, at once |
//! | below `alpha` | one packet more, over the next round | one packet more, at once |
//! | slow start | doubles every other round; checked before each doubling | doubles every round; checked after each |
//! | leaves slow start | to 7/8 of the window | to W base / RTT + 1 packet, if that is less |
//!
//! # Departures
//! - **Window for flight** (`transit=window`): ns-2 counts the packets in transit, and where the ACK that ends a round acknowledges two of
//!   them one less for the rate expected ([`Flight::delta`]); here, as in Linux and in the definition, the window stands for both.
//!   `transit=flight` counts as ns-2.
//! - **The first round of slow start grows**: ns-2 holds in the first and doubles in the second. The order of the two is all that
//!   differs.
//! - **After loss or mark** the round begins anew (with `base=lone` it goes on, as in ns-2) and the window grows as Reno's until the first
//!   verdict, one round trip at most.
//!   With `linux` it holds there, as Linux does.
//! - **Threshold**: ns-2 sets it to 2 packets, Linux to the window or just under it; here it is the window. All mean that slow start is
//!   over.
//! - **Base RTT** (`base=path`) is the smallest RTT of the path, whenever it came. ns-2 also replaces it by that of a round with one packet,
//!   Linux forgets it after idle times; no window here is below two packets (RFC 9002 §7.2), and a change of path is an event of its
//!   own. TCP has such rounds after timeouts: `base=lone` is ns-2's rule, except that a packet sent again counts as one of the round.
//! - **Per byte, not per ACK**: growth counts acknowledged bytes; ns-2 counts ACKs, so it grows slower with delayed ones.
//! - **Byte windows**: Linux truncates W base / RTT to whole packets before it adds one; bytes need no truncation.

use std::sync::Arc;
use std::time::Duration;

use crate::aimd::Aimd;
use crate::algorithm::{Algorithm, Contract, Page};
use crate::controller::ControllerMetrics;
use crate::event::{AckEvent, CongestionEvent};
use crate::options::{Options as _, Values, option_values};
use crate::round::RoundTrip;
use crate::rule::rule_options;
use crate::rule::{RuleConfig, WindowRule};
use crate::units::{Ratio, Time};

/// What leaving slow start leaves of the window with `params=ns2` (ns-2, the model of DCA §4.4).
pub const EXIT: Ratio = Ratio::new(7, 8);
/// Samples without which a round says nothing with `params=linux` (Linux).
pub const LINUX_SAMPLES: u32 = 3;

option_values! {
    /// Whose rules and numbers.
    pub enum Params {
        /// Those of the network simulator ns-2, which the DCA paper used.
        Ns2 = "ns2",
        /// Those of the Linux kernel.
        Linux = "linux",
    }
}

option_values! {
    /// What counts as packets on the way with `params=ns2`.
    pub enum Transit {
        /// The window.
        Window = "window",
        /// The packets in flight, as ns-2 counts them.
        Flight = "flight",
    }
}

option_values! {
    /// When the base RTT is forgotten with `params=ns2`, besides a change of path.
    pub enum Base {
        /// Never.
        Path = "path",
        /// After a round trip of one packet, as in ns-2.
        Lone = "lone",
    }
}

/// Packets waiting in queues: fewer than `alpha` ask for growth, more than `beta` for less, more than `gamma` end slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Growth below.
    pub alpha: u32,
    /// Reduction above.
    pub beta: u32,
    /// End of slow start above.
    pub gamma: u32,
}

impl Params {
    /// The defaults of ns-2 and of Linux, in packets.
    pub const fn thresholds(self) -> Thresholds {
        match self {
            Self::Ns2 => Thresholds { alpha: 1, beta: 3, gamma: 1 },
            Self::Linux => Thresholds { alpha: 2, beta: 4, gamma: 1 },
        }
    }
}

const PACKETS: Values = Values::Integer { min: 0, max: 1_000 };

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "vegas",
    summary: "TCP Vegas: keeps a few packets of its own waiting in the path's queues",
    source: "DCA §4.4",
    build: |parsed| Arc::new(VegasConfig::read(parsed).without_those_of_the_set()),
    // It doubles every other round trip only, so that the rounds between show what the queue does (Vegas-CAM, DCA §4.4). With alpha 0 it
    // never finds fewer packets waiting.
    contract: Contract { doubles: false, still: &["alpha=0"], ..Contract::AS_RENO },
    page: PAGE,
    ..Algorithm::of_rule::<VegasConfig>()
};

rule_options! {
    /// The configuration `vegas`.
    pub struct VegasConfig {
        /// rules and numbers: of the simulator ns-2, or of the Linux kernel
        params: Params,
        /// grow while fewer packets than this wait; 2 with params=linux
        alpha: Option<u32> = "1" in PACKETS,
        /// shrink while more packets than this wait, also where alpha says grow; 4 with params=linux
        beta: Option<u32> = "3" in PACKETS,
        /// leave slow start once more packets than this wait
        gamma: Option<u32> = "1" in PACKETS,
        /// with params=ns2, what counts as packets in transit: the window, or those in flight
        transit: Transit,
        /// with params=ns2, when the base RTT is forgotten besides a change of path: never, or after a round trip of one packet
        base: Base,
    }
}

impl VegasConfig {
    /// The thresholds given, else those of `params`.
    pub fn thresholds(&self) -> Thresholds {
        let set = self.params.thresholds();
        Thresholds {
            alpha: self.alpha.unwrap_or(set.alpha),
            beta: self.beta.unwrap_or(set.beta),
            gamma: self.gamma.unwrap_or(set.gamma),
        }
    }

    /// A threshold that `params` has already goes without saying.
    fn without_those_of_the_set(self) -> Self {
        let set = self.params.thresholds();
        Self {
            alpha: self.alpha.filter(|own| *own != set.alpha),
            beta: self.beta.filter(|own| *own != set.beta),
            gamma: self.gamma.filter(|own| *own != set.gamma),
            ..self
        }
    }
}

impl RuleConfig for VegasConfig {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = Vegas;

    fn rule(&self, _window: &Aimd, _now: Time) -> Vegas {
        Vegas {
            params: self.params,
            transit: self.transit,
            forgets: self.base,
            thresholds: self.thresholds(),
            began: None,
            round: RoundTrip::default(),
            samples: Samples::default(),
            base: None,
            grows: true,
            queueing: None,
        }
    }
}

/// delta = (W / base - W / RTT) base, in packets, to the nearest whole (ns-2).
pub fn delta(window: u64, datagram: u64, base: Duration, rtt: Duration) -> u64 {
    packets(window, rtt.saturating_sub(base), rtt, datagram, Rounding::Nearest)
}

/// diff = W (RTT - base) / base, in packets, rounded down (Linux).
///
/// It divides by the base RTT where the definition divides by the RTT, so it counts more as queues grow.
pub fn diff(window: u64, datagram: u64, base: Duration, rtt: Duration) -> u64 {
    packets(window, rtt.saturating_sub(base), base, datagram, Rounding::Down)
}

/// W base / RTT in bytes, the window that would leave no queue; all of W when the RTT is zero.
pub fn target(window: u64, base: Duration, rtt: Duration) -> u64 {
    let target = (u128::from(window) * u128::from(nanos(base))).checked_div(u128::from(nanos(rtt)));
    target.map_or(window, |bytes| u64::try_from(bytes).unwrap_or(u64::MAX))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounding {
    Nearest,
    Down,
}

/// `window * share / whole / datagram`; zero when `whole` is zero.
fn packets(
    window: u64,
    share: Duration,
    whole: Duration,
    datagram: u64,
    rounding: Rounding,
) -> u64 {
    let divisor = u128::from(nanos(whole)) * u128::from(datagram);
    let half = if rounding == Rounding::Nearest { divisor / 2 } else { 0 };
    let packets = (u128::from(window) * u128::from(nanos(share)))
        .saturating_add(half)
        .checked_div(divisor)
        .unwrap_or(0);
    u64::try_from(packets).unwrap_or(u64::MAX)
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

/// The RTT samples of one round trip.
#[derive(Clone, Copy, Debug, Default)]
struct Samples {
    sum: u128,
    count: u32,
    min: Option<Duration>,
}

impl Samples {
    fn take(&mut self, rtt: Duration) {
        self.sum += u128::from(nanos(rtt));
        self.count = self.count.saturating_add(1);
        self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
    }

    fn mean(&self) -> Option<Duration> {
        let mean = self.sum.checked_div(u128::from(self.count))?;
        Some(Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)))
    }
}

/// What ns-2 counts where a round ends: packets, here in bytes of full ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// In flight once the ACK that ends the round is taken off.
    pub left: u64,
    /// Sent since the round began: those in flight, and those of the round that this ACK acknowledges.
    pub round: u64,
}

impl Flight {
    /// Packets are counted, not their bytes: TCP that grows by ACKs gives the packets of one ACK the bytes of one segment together.
    fn of(acks: &AckEvent<'_>, began: Option<Time>, datagram: u64) -> Self {
        let of_round = acks.packets.iter().filter(|p| Some(p.sent) >= began).count() as u64;
        Self {
            left: acks.in_flight,
            round: acks.in_flight.saturating_add(of_round.saturating_mul(datagram)),
        }
    }

    /// delta = (expected - actual) base, in packets, to the nearest whole (ns-2): the window expected is what is left in flight and the
    /// packet that comes next, the actual rate that of the packets of the round.
    ///
    /// Where the ACK that ends the round acknowledges two packets of it, that is one packet less than with the round's packets for both.
    pub fn delta(self, datagram: u64, base: Duration, rtt: Duration) -> u64 {
        let expected = u128::from(self.left.saturating_add(datagram)) * u128::from(nanos(rtt));
        let actual = u128::from(self.round) * u128::from(nanos(base));
        let divisor = u128::from(nanos(rtt)) * u128::from(datagram);
        let packets = expected
            .saturating_sub(actual)
            .saturating_add(divisor / 2)
            .checked_div(divisor)
            .unwrap_or(0);
        u64::try_from(packets).unwrap_or(u64::MAX)
    }
}

/// TCP Vegas.
#[derive(Clone, Debug)]
pub struct Vegas {
    params: Params,
    transit: Transit,
    /// When the base is forgotten.
    forgets: Base,
    thresholds: Thresholds,
    round: RoundTrip,
    /// When the round began.
    began: Option<Time>,
    samples: Samples,
    /// Smallest RTT of the path.
    base: Option<Duration>,
    /// Whether this round trip grows the window: in slow start all of ns-2's and Linux's growth, in avoidance ns-2's.
    grows: bool,
    /// RTT of the last round above the base.
    queueing: Option<Duration>,
}

impl Vegas {
    /// One ACK frame outside recovery, ns-2's way; `acked` are the bytes that may count as growth.
    fn on_ack_ns2(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, base: Duration, acked: u64) {
        let ended = self.round.on_ack(acks);
        if ended {
            if let Some(rtt) = self.samples.mean() {
                self.judge_round(window, acks, base, rtt);
            }
            self.samples = Samples::default();
        }
        if ended || self.began.is_none() {
            self.began = Some(acks.now);
        }
        // The frame that ends a round gives the first sample of the next one.
        self.samples.take(acks.rtt.latest);
        if !self.grows {
            return;
        }
        if window.in_slow_start() {
            window.grow_slow_start(acked);
            // Beyond the threshold the window holds until the next verdict.
            self.grows = window.in_slow_start();
        } else {
            window.grow_additive(Ratio::ONE, acked);
        }
    }

    /// A round with this mean RTT is over, ns-2's way.
    fn judge_round(
        &mut self,
        window: &mut Aimd,
        acks: &AckEvent<'_>,
        base: Duration,
        rtt: Duration,
    ) {
        let datagram = window.datagram();
        let flight = Flight::of(acks, self.began, datagram);
        let lone = self.forgets == Base::Lone && flight.round <= datagram;
        let base = if lone { rtt } else { base };
        if lone {
            self.base = Some(rtt.min(acks.rtt.latest));
        }
        self.queueing = Some(rtt.saturating_sub(base));
        let waiting = match self.transit {
            Transit::Window => delta(window.window(), datagram, base, rtt),
            Transit::Flight => flight.delta(datagram, base, rtt),
        };
        self.judge_ns2(window, waiting);
    }

    /// The verdict of a round, ns-2's way.
    fn judge_ns2(&mut self, window: &mut Aimd, delta: u64) {
        let Thresholds { alpha, beta, gamma } = self.thresholds;
        if window.in_slow_start() {
            self.grows = !self.grows;
            if self.grows && delta > u64::from(gamma) {
                window.cut(EXIT);
                self.grows = false;
            }
        } else if delta > u64::from(beta) {
            window.cut_by(window.datagram());
            self.grows = false;
        } else {
            self.grows = delta < u64::from(alpha);
        }
    }

    /// One ACK frame outside recovery, Linux's way.
    fn on_ack_linux(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, base: Duration, acked: u64) {
        // The frame that ends a round gives the last sample of it.
        self.samples.take(acks.rtt.latest);
        let ended = self.round.on_ack(acks);
        let Samples { count, min, .. } = self.samples;
        if ended {
            self.samples = Samples::default();
        }
        match min.filter(|_| ended) {
            Some(rtt) if count >= LINUX_SAMPLES => {
                self.queueing = Some(rtt.saturating_sub(base));
                self.judge_linux(window, base, rtt, acked);
            }
            Some(_) => window.grow_as_reno(acked),
            None => drop(window.grow_slow_start(acked)),
        }
    }

    /// The verdict of a round, Linux's way.
    fn judge_linux(&mut self, window: &mut Aimd, base: Duration, rtt: Duration, acked: u64) {
        let Thresholds { alpha, beta, gamma } = self.thresholds;
        let (bytes, datagram) = (window.window(), window.datagram());
        let diff = diff(bytes, datagram, base, rtt);
        if window.in_slow_start() {
            if diff <= u64::from(gamma) {
                window.grow_slow_start(acked);
                return;
            }
            match bytes.saturating_sub(target(bytes, base, rtt).saturating_add(datagram)) {
                0 => window.end_slow_start(),
                excess => window.cut_by(excess),
            }
        } else if diff > u64::from(beta) {
            window.cut_by(datagram);
        } else if diff < u64::from(alpha) && acked > 0 {
            window.raise(datagram);
        }
    }
}

impl WindowRule for Vegas {
    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, acked: u64) {
        let base = self.base.map_or(acks.rtt.latest, |base| base.min(acks.rtt.latest));
        self.base = Some(base);
        if window.in_recovery() {
            return;
        }
        match self.params {
            Params::Ns2 => self.on_ack_ns2(window, acks, base, acked),
            Params::Linux => self.on_ack_linux(window, acks, base, acked),
        }
    }

    fn on_reduction(&mut self, _event: &CongestionEvent) {
        // With ns-2's base the round goes on, as there: packets alone in a round are those after timeouts.
        if self.params == Params::Linux || self.forgets == Base::Path {
            self.round.restart();
            (self.samples, self.began) = (Samples::default(), None);
        }
        self.grows = true;
    }

    /// `queueing` is the RTT of the last round above the base RTT.
    fn metrics(&self, window: ControllerMetrics) -> ControllerMetrics {
        ControllerMetrics { queueing: self.queueing, ..window }
    }
}

const PAGE: Page = Page {
    about: "Vegas keeps between `alpha` and `beta` packets of its own waiting in queues. Once per round trip it
compares window / base RTT with window / RTT, and then adds a packet, takes one away, or holds. It
is Vegas-CAM in the DCA paper's words: congestion avoidance on top of the stack's normal loss
recovery. A controller in QUIC cannot be more than that.",
    departures: "ns-2 takes the mean RTT of a round, grows over the next round and, in slow
start, doubles every other round. Linux takes the smallest RTT, grows at once, doubles every round,
and divides by the base RTT although the definition divides by the RTT. The window stands for the
packets in flight, unless `transit` says otherwise. After a loss, the window grows as Reno's until
the first verdict.

The base RTT is the smallest of the path. It is not forgotten before the path changes, unless `base`
says otherwise. ns-2 forgets it when a round trip has only one packet, as TCP's round trips have
after timeouts.",
    figure: "Vegas and the scripted queue",
    to_see: "As soon as more than three packets would wait, Vegas takes one packet away per round
trip. At the plateau it settles between seven and eight packets, of which 40 / 90, about three,
wait. It holds there and, when the queue drains, grows by one packet per round trip. The spike costs
only a few packets.",
    weakness: "Vegas does badly beside flows that fill the queue. The plateau above is such a queue,
and Vegas gives nearly everything away. It also does badly after a change to a longer route that the
stack does not notice, because the longer route looks like a queue that never drains.",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::Capabilities;
    use crate::catalogue;
    use crate::event::{Acked, Rtt, Start};

    const MSS: u64 = 1_200;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn delta_by_hand() {
        // 20 packets, base 50 ms: 20 * (RTT - 50) / RTT.
        for (rtt, expected) in
            [(50, 0), (51, 0), (52, 1), (54, 1), (55, 2), (60, 3), (61, 4), (100, 10)]
        {
            assert_eq!(delta(20 * MSS, MSS, ms(50), ms(rtt)), expected, "{rtt} ms");
        }
        // A half counts up: 2 * 25 / 100 packets.
        assert_eq!(delta(2 * MSS, MSS, ms(75), ms(100)), 1);
    }

    #[test]
    fn delta_in_flight_by_hand() {
        // Two packets of twelve acknowledged: 11 - 12 * 50 / RTT; with the window it is 12 (RTT - 50) / RTT.
        for (rtt, expected, with_window) in
            [(50, 0, 0), (55, 0, 1), (60, 1, 2), (75, 3, 4), (100, 5, 6)]
        {
            let flight = Flight { left: 10 * MSS, round: 12 * MSS };
            assert_eq!(flight.delta(MSS, ms(50), ms(rtt)), expected, "{rtt} ms");
            assert_eq!(delta(12 * MSS, MSS, ms(50), ms(rtt)), with_window, "{rtt} ms");
        }
        // One of twelve: the same as with the window.
        assert_eq!(Flight { left: 11 * MSS, round: 12 * MSS }.delta(MSS, ms(50), ms(75)), 4);
        // After a timeout one ACK may take all of a round.
        assert_eq!(Flight { left: 0, round: 7 * MSS }.delta(MSS, ms(50), ms(75)), 0);
        assert_eq!(Flight { left: u64::MAX, round: 0 }.delta(1, Duration::ZERO, Duration::ZERO), 0);
    }

    #[test]
    fn a_round_counts_packets_and_not_their_bytes() {
        // TCP that grows by ACKs gives both packets of an ACK the bytes of one; the third left before the round began.
        let at = |millis, bytes| Acked { sent: Time::from_millis(millis), bytes };
        let packets = [at(5, MSS), at(6, 0), at(1, MSS)];
        let rtt = Rtt { latest: ms(50), smoothed: ms(50), min: ms(50), ack_delay: Duration::ZERO };
        let (now, in_flight) = (Time::from_millis(60), 3 * MSS);
        let acks = AckEvent {
            now,
            packets: &packets,
            in_flight,
            rtt,
            one_way: None,
            ecn: None,
            app_limited: false,
        };
        let flight = Flight::of(&acks, Some(Time::from_millis(5)), MSS);
        assert_eq!(flight, Flight { left: 3 * MSS, round: 5 * MSS });
    }

    #[test]
    fn diff_by_hand() {
        // 20 packets, base 50 ms: 20 * (RTT - 50) / 50.
        for (rtt, expected) in
            [(50, 0), (52, 0), (53, 1), (55, 2), (60, 4), (62, 4), (63, 5), (100, 20)]
        {
            assert_eq!(diff(20 * MSS, MSS, ms(50), ms(rtt)), expected, "{rtt} ms");
        }
    }

    #[test]
    fn target_by_hand() {
        assert_eq!(target(40 * MSS, ms(50), ms(80)), 25 * MSS);
        assert_eq!(target(40 * MSS, ms(50), ms(50)), 40 * MSS);
    }

    #[test]
    fn nothing_divides_by_zero_or_overflows() {
        let zero = Duration::ZERO;
        assert_eq!(
            (delta(5, 0, zero, zero), diff(5, MSS, zero, ms(1)), target(5, zero, zero)),
            (0, 0, 5)
        );
        assert_eq!(diff(u64::MAX, 1, Duration::from_nanos(1), Duration::MAX), u64::MAX);
        assert_eq!(target(u64::MAX, Duration::MAX, Duration::from_nanos(1)), u64::MAX);
        assert_eq!(delta(u64::MAX, 1, Duration::from_nanos(1), Duration::MAX), u64::MAX);
        assert_eq!(delta(u64::MAX, 65_535, Duration::ZERO, Duration::MAX), u64::MAX / 65_535);
    }

    #[test]
    fn thresholds_come_from_the_set_unless_given() {
        for (spec, alpha, beta, gamma, written) in [
            ("vegas", 1, 3, 1, "vegas"),
            ("vegas:params=linux", 2, 4, 1, "vegas:params=linux"),
            ("vegas:params=linux,alpha=1", 1, 4, 1, "vegas:params=linux,alpha=1"),
            ("vegas:alpha=2,params=linux,beta=6", 2, 6, 1, "vegas:params=linux,beta=6"),
            ("vegas:gamma=5,beta=3", 1, 3, 5, "vegas:gamma=5"),
        ] {
            let config = catalogue::parse(spec).expect(spec);
            assert_eq!(config.spec(), written);
            let thresholds = Thresholds { alpha, beta, gamma };
            let start =
                Start { now: Time::ZERO, datagram: MSS as u16, provided: Capabilities::NONE };
            let vegas = format!("{:?}", config.start(&start));
            assert!(vegas.contains(&format!("{thresholds:?}")), "{spec}: {vegas}");
        }
    }
}
