//! Congestion avoidance of TCP Vegas (Brakmo, O'Malley, Peterson: "TCP Vegas: New Techniques for
//! Congestion Detection and Avoidance", SIGCOMM 1994).
//!
//! Once per round trip, the controller compares two rates: the rate without queues, window / base
//! RTT, and the actual rate, window / RTT. Their difference times the base RTT is the number of the
//! connection's packets that wait in queues. The controller keeps this number between `alpha` and
//! `beta`. Slow start ends when more than `gamma` packets wait.
//!
//! The DCA paper calls this Vegas-CAM: Vegas with the stack's normal loss recovery instead of
//! Vegas's own (DCA §4.4). QUIC stacks have their own loss detection, so a controller can do no
//! more than that. The reaction to losses and marks is exactly Reno's.
//!
//! `params` chooses between two sets of rules and numbers:
//!
//! | | `ns2` (2.35, `tcp/tcp-vegas.cc`; the paper's model, DCA §4.4) | `linux` (`net/ipv4/tcp_vegas.c`) |
//! |---|---|---|
//! | alpha, beta, gamma | 1, 3, 1 packets | 2, 4, 1 packets |
//! | RTT of a round | mean of its samples | smallest of its samples; with fewer than three: Reno for that ACK |
//! | packets waiting | W (RTT - base) / RTT, rounded to nearest ([`delta`]) | W (RTT - base) / base, rounded down ([`diff`]) |
//! | above `beta` | one packet less, at once | one packet less, at once |
//! | below `alpha` | one packet more, over the next round | one packet more, at once |
//! | slow start | doubles every other round; checked before each doubling | doubles every round; checked after each doubling |
//! | leaves slow start | to 7/8 of the window | to W base / RTT + 1 packet, if that is less |
//!
//! # Departures
//! - **Window instead of packets in transit** (`transit=window`): ns-2 counts the packets in
//!   transit. If the ACK that ends a round acknowledges two of them, ns-2 counts one packet less
//!   for the expected rate ([`Flight::delta`]). Here, the window replaces both counts, as in Linux
//!   and in the definition. `transit=flight` counts packets as ns-2 does.
//! - **The first round of slow start grows**: ns-2 holds the window in the first round and doubles
//!   it in the second. Only this order differs.
//! - **After a loss or a mark** the round restarts (with `base=lone` it continues, as in ns-2), and
//!   the window grows as Reno's until the first verdict, for at most one round trip. With `linux`,
//!   the window stays constant in avoidance during this time, as in Linux.
//! - **Threshold**: ns-2 sets it to 2 packets, and Linux to the window or just below it. Here the
//!   threshold is the window. All three mean that slow start is over.
//! - **Base RTT** (`base=path`) is the smallest RTT of the path, whenever it was measured. ns-2
//!   also replaces the base by the RTT of a round with only one packet, and Linux forgets the base
//!   after idle times. Here no window is below two packets (RFC 9002 §7.2), and a change of path
//!   is an event of its own. TCP has rounds of one packet after timeouts. `base=lone` is ns-2's
//!   rule for them, except that a retransmitted packet counts as a packet of the round.
//! - **Per byte, not per ACK**: growth counts acknowledged bytes. ns-2 counts ACKs, so it grows
//!   more slowly with delayed ACKs.
//! - **Byte windows**: Linux truncates W base / RTT to whole packets before it adds one packet.
//!   Bytes need no truncation.

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

/// Fraction of the window that remains when slow start ends with `params=ns2` (ns-2, the model of
/// DCA §4.4).
pub const EXIT: Ratio = Ratio::new(7, 8);
/// Smallest number of samples for a verdict on a round with `params=linux` (Linux).
pub const LINUX_SAMPLES: u32 = 3;

option_values! {
    /// Source of the rules and numbers.
    pub enum Params {
        /// The network simulator ns-2, which the DCA paper used.
        Ns2 = "ns2",
        /// The Linux kernel.
        Linux = "linux",
    }
}

option_values! {
    /// Count of the packets in transit with `params=ns2`.
    pub enum Transit {
        /// The window.
        Window = "window",
        /// The packets in flight, as ns-2 counts them.
        Flight = "flight",
    }
}

option_values! {
    /// Event at which the controller forgets the base RTT with `params=ns2`, in addition to a
    /// change of path.
    pub enum Base {
        /// No event.
        Path = "path",
        /// A round trip of one packet, as in ns-2.
        Lone = "lone",
    }
}

/// Numbers of waiting packets: below `alpha` the window grows, above `beta` it shrinks, and above
/// `gamma` slow start ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// The window grows below this number.
    pub alpha: u32,
    /// The window shrinks above this number.
    pub beta: u32,
    /// Slow start ends above this number.
    pub gamma: u32,
}

impl Params {
    /// Returns the defaults of ns-2 or of Linux, in packets.
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
    summary: "TCP Vegas: keeps a few of its own packets waiting in the path's queues",
    source: "DCA §4.4",
    build: |parsed| Arc::new(VegasConfig::read(parsed).without_those_of_the_set()),
    // Vegas doubles the window only every other round trip, so that the rounds between show the
    // effect on the queue (Vegas-CAM, DCA §4.4). With an alpha of 0, the number of waiting packets
    // is never below alpha, so the window never grows.
    contract: Contract { doubles: false, still: &["alpha=0"], ..Contract::AS_RENO },
    page: PAGE,
    ..Algorithm::of_rule::<VegasConfig>()
};

rule_options! {
    /// The configuration `vegas`.
    pub struct VegasConfig {
        /// rules and defaults of the simulator ns-2 or of the Linux kernel
        params: Params,
        /// grow while fewer packets than this wait in queues; the default is 2 with params=linux
        alpha: Option<u32> = "1" in PACKETS,
        /// shrink while more packets than this wait in queues, even if fewer than alpha wait; the
        /// default is 4 with params=linux
        beta: Option<u32> = "3" in PACKETS,
        /// leave slow start when more packets than this wait in queues
        gamma: Option<u32> = "1" in PACKETS,
        /// with params=ns2, number of packets in transit: the window, or the packets in flight
        transit: Transit,
        /// with params=ns2, when to forget the base RTT, in addition to a change of path: never, or
        /// after a round trip of one packet
        base: Base,
    }
}

impl VegasConfig {
    /// Returns the given thresholds. Missing ones are those of `params`.
    pub fn thresholds(&self) -> Thresholds {
        let set = self.params.thresholds();
        Thresholds {
            alpha: self.alpha.unwrap_or(set.alpha),
            beta: self.beta.unwrap_or(set.beta),
            gamma: self.gamma.unwrap_or(set.gamma),
        }
    }

    /// Drops thresholds that are the same as those of `params`, so that the spec does not repeat
    /// them.
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

/// Returns delta = (W / base - W / RTT) base, in packets, rounded to nearest (ns-2).
pub fn delta(window: u64, datagram: u64, base: Duration, rtt: Duration) -> u64 {
    packets(window, rtt.saturating_sub(base), rtt, datagram, Rounding::Nearest)
}

/// Returns diff = W (RTT - base) / base, in packets, rounded down (Linux).
///
/// Linux divides by the base RTT, but the definition divides by the RTT. The result therefore
/// exceeds that of the definition as queues grow.
pub fn diff(window: u64, datagram: u64, base: Duration, rtt: Duration) -> u64 {
    packets(window, rtt.saturating_sub(base), base, datagram, Rounding::Down)
}

/// Returns the window in bytes that would leave no queue, W base / RTT. Returns W if the RTT is
/// zero.
pub fn target(window: u64, base: Duration, rtt: Duration) -> u64 {
    let target = (u128::from(window) * u128::from(nanos(base))).checked_div(u128::from(nanos(rtt)));
    target.map_or(window, |bytes| u64::try_from(bytes).unwrap_or(u64::MAX))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounding {
    Nearest,
    Down,
}

/// Returns `window * share / whole / datagram`; zero if `whole` is zero.
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

/// RTT samples of one round trip.
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

/// The packets that ns-2 counts at the end of a round. Here, they are given in bytes of full-size
/// packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// Bytes in flight after the ACK that ends the round.
    pub left: u64,
    /// Bytes sent since the round began: the bytes in flight, plus the bytes of the round's packets
    /// that this ACK acknowledges.
    pub round: u64,
}

impl Flight {
    /// Counts the packets at the end of a round. The bytes of the packets do not matter, because a
    /// TCP sender that grows by ACKs assigns the bytes of one segment to all packets of an ACK
    /// together.
    fn of(acks: &AckEvent<'_>, began: Option<Time>, datagram: u64) -> Self {
        let of_round = acks.packets.iter().filter(|p| Some(p.sent) >= began).count() as u64;
        Self {
            left: acks.in_flight,
            round: acks.in_flight.saturating_add(of_round.saturating_mul(datagram)),
        }
    }

    /// Returns delta = (expected - actual) base, in packets, rounded to nearest (ns-2). The
    /// expected rate counts the packets left in flight and the next packet. The actual rate counts
    /// the packets of the round.
    ///
    /// If the ACK that ends the round acknowledges two of its packets, delta is one packet less
    /// than with the round's packets for both rates.
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

/// The rule of TCP Vegas.
#[derive(Clone, Debug)]
pub struct Vegas {
    params: Params,
    transit: Transit,
    /// Event at which the base RTT is forgotten.
    forgets: Base,
    thresholds: Thresholds,
    round: RoundTrip,
    /// Time when the round began.
    began: Option<Time>,
    samples: Samples,
    /// Smallest RTT of the path.
    base: Option<Duration>,
    /// Whether the window grows in this round trip. Only ns-2's rules use this value.
    grows: bool,
    /// RTT of the last round minus the base RTT.
    queueing: Option<Duration>,
}

impl Vegas {
    /// Handles one ACK frame outside recovery by ns-2's rules. `acked` is the number of bytes that
    /// may count as growth.
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
        // The frame that ends a round gives the first sample of the next round.
        self.samples.take(acks.rtt.latest);
        if !self.grows {
            return;
        }
        if window.in_slow_start() {
            window.grow_slow_start(acked);
            // Above the threshold, the window stays constant until the next verdict.
            self.grows = window.in_slow_start();
        } else {
            window.grow_additive(Ratio::ONE, acked);
        }
    }

    /// Evaluates a completed round with this mean RTT by ns-2's rules.
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

    /// Applies the verdict on a round by ns-2's rules.
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

    /// Handles one ACK frame outside recovery by Linux's rules.
    fn on_ack_linux(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, base: Duration, acked: u64) {
        // The frame that ends a round gives the last sample of that round.
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

    /// Applies the verdict on a round by Linux's rules.
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
        // With `base=lone`, the round continues, as in ns-2, because rounds of a single packet
        // occur after timeouts.
        if self.params == Params::Linux || self.forgets == Base::Path {
            self.round.restart();
            (self.samples, self.began) = (Samples::default(), None);
        }
        self.grows = true;
    }

    /// Adds `queueing`: the RTT of the last round minus the base RTT.
    fn metrics(&self, window: ControllerMetrics) -> ControllerMetrics {
        ControllerMetrics { queueing: self.queueing, ..window }
    }
}

const PAGE: Page = Page {
    about: "Vegas keeps between `alpha` and `beta` of its own packets waiting in queues. Once per round trip it
compares window / base RTT with window / RTT. Vegas then grows the window by one packet, shrinks the
window by one packet, or holds the window. This controller has only the congestion avoidance of
Vegas, which the DCA paper calls Vegas-CAM. Loss recovery is the stack's, because a controller in
QUIC cannot replace it.",
    departures: "With `params=ns2`, as in ns-2, Vegas uses the mean RTT of a round, spreads the
growth over the next round, and doubles the window every other round in slow start. With
`params=linux`, as in Linux, Vegas uses the smallest RTT of a round, grows at once, and doubles the
window every round in slow start. With `params=linux`, Vegas divides by the base RTT to count the
waiting packets, although the definition of Vegas divides by the RTT. The window counts as the
number of packets in transit, unless `transit=flight` is set. After a loss, the window grows as
Reno's until Vegas next compares the two rates.

The base RTT is the smallest RTT since the last change of path. With `base=lone`, as in ns-2, Vegas
also forgets the base RTT after a round trip with only one packet. TCP has such round trips after
timeouts.",
    figure: "Vegas and the scripted queue",
    to_see: "As soon as more than three of its packets would wait in the queue, Vegas shrinks the
window by one packet per round trip. While the queueing delay stays at 40 ms of a round trip of
90 ms, the window stays between seven and eight packets. About three of these packets wait in the
queue. When the queue drains, the window grows by one packet per round trip. The spike reduces the
window by only a few packets.",
    weakness: "Vegas gets little bandwidth in competition with flows that fill the queue. While they
keep the queueing delay high, as in the figure, Vegas gives nearly all bandwidth away. Vegas also
sends too slowly after a change to a longer route that the stack does not detect, because the longer
route looks like a queue that never drains.

A lone flow may fill only half of a link. 20 MB at 10 Mbps with a round trip of 42 ms take 31.7 s on
quinn and 32.0 s on quiche, compared with 16.9 s under Reno (`fathom compare --stack quinn,quiche
--controllers reno,vegas --workload bulk:1x20MB@0ms --rate 10Mbps --rtt 42ms --queue droptail:50p
--max-window none --seeds 1`). The base RTT comes from a small packet of the handshake, which takes
1.1 ms less on this link than a full packet. With 20 packets in the window, ns-2's formula rounds
this to one waiting packet, which is `alpha`. With `params=linux` the transfer takes 16.9 s on both
stacks, and with `transit=flight` 17.6 s on quinn. [ns2.md](ns2.md) has the comparison with ns-2.",
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
    fn vegas_delta_matches_hand_calculation() {
        // 20 packets, base 50 ms: 20 * (RTT - 50) / RTT.
        for (rtt, expected) in
            [(50, 0), (51, 0), (52, 1), (54, 1), (55, 2), (60, 3), (61, 4), (100, 10)]
        {
            assert_eq!(delta(20 * MSS, MSS, ms(50), ms(rtt)), expected, "{rtt} ms");
        }
        // A result of one half, here 2 * 25 / 100 packets, is rounded up.
        assert_eq!(delta(2 * MSS, MSS, ms(75), ms(100)), 1);
    }

    #[test]
    fn vegas_delta_from_bytes_in_flight_matches_hand_calculation() {
        // Two of twelve packets acknowledged: 11 - 12 * 50 / RTT, or 12 (RTT - 50) / RTT with the
        // window.
        for (rtt, expected, with_window) in
            [(50, 0, 0), (55, 0, 1), (60, 1, 2), (75, 3, 4), (100, 5, 6)]
        {
            let flight = Flight { left: 10 * MSS, round: 12 * MSS };
            assert_eq!(flight.delta(MSS, ms(50), ms(rtt)), expected, "{rtt} ms");
            assert_eq!(delta(12 * MSS, MSS, ms(50), ms(rtt)), with_window, "{rtt} ms");
        }
        // One of twelve packets acknowledged: the result is the same as with the window.
        assert_eq!(Flight { left: 11 * MSS, round: 12 * MSS }.delta(MSS, ms(50), ms(75)), 4);
        // After a timeout, one ACK may acknowledge all packets of a round.
        assert_eq!(Flight { left: 0, round: 7 * MSS }.delta(MSS, ms(50), ms(75)), 0);
        assert_eq!(Flight { left: u64::MAX, round: 0 }.delta(1, Duration::ZERO, Duration::ZERO), 0);
    }

    #[test]
    fn vegas_round_counts_packets_not_bytes() {
        // TCP that grows by ACKs assigns the bytes of one packet to both packets of an ACK. The
        // third packet was sent before the round began.
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
    fn vegas_diff_matches_hand_calculation() {
        // 20 packets, base 50 ms: 20 * (RTT - 50) / 50.
        for (rtt, expected) in
            [(50, 0), (52, 0), (53, 1), (55, 2), (60, 4), (62, 4), (63, 5), (100, 20)]
        {
            assert_eq!(diff(20 * MSS, MSS, ms(50), ms(rtt)), expected, "{rtt} ms");
        }
    }

    #[test]
    fn vegas_target_window_matches_hand_calculation() {
        assert_eq!(target(40 * MSS, ms(50), ms(80)), 25 * MSS);
        assert_eq!(target(40 * MSS, ms(50), ms(50)), 40 * MSS);
    }

    #[test]
    fn vegas_formulas_never_divide_by_zero_or_overflow() {
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
    fn vegas_thresholds_default_to_the_parameter_set() {
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
