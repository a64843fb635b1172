//! Controllers that are broken on purpose, each in one way, to test that an evaluation detects
//! them. Apart from its defect, each controller is Reno.

use std::sync::Arc;
use std::time::Duration;

use crate::aimd::{Aimd, minimum_window};
use crate::algorithm::Algorithm;
use crate::capabilities::Capabilities;
use crate::config::{ControllerConfig, Missing};
use crate::controller::{Controller, ControllerMetrics, SendParams};
use crate::event::{AckEvent, CongestionEvent, PathChange, Sent, Start};
use crate::reno::{LOSS_REDUCTION, RenoConfig};
use crate::rule::{RuleConfig, WindowRule, rule_options};
use crate::units::{OneWayDelay, Ratio, Time};

/// All broken controllers, for [`crate::catalogue::extend`].
pub static BROKEN: &[Algorithm] = &[
    IgnoresLossConfig::ENTRY,
    NeverGrowsConfig::ENTRY,
    HalvesOnEveryAckConfig::ENTRY,
    StarvesOthersConfig::ENTRY,
    BelievesALiarConfig::ENTRY,
    LEAKS_WINDOW,
    LeavesSlowStartLateConfig::ENTRY,
    KeepsItsFirstShareConfig::ENTRY,
    GreedyBesideOthersConfig::ENTRY,
];

/// Declares the configuration of a broken controller from its name, summary and rule. `ENTRY` is
/// its entry in the catalogue.
macro_rules! broken {
    ($config:ident makes $rule:ident, $name:literal: $summary:literal $(, $field:ident: $value:expr)*) => {
        rule_options! {
            #[doc = concat!("The configuration `", $name, "`.")]
            pub struct $config {}
        }

        impl $config {
            const ENTRY: Algorithm = Algorithm {
                name: $name,
                summary: $summary,
                source: "broken on purpose",
                $($field: $value,)*
                ..Algorithm::of_rule::<Self>()
            };
        }

        impl RuleConfig for $config {
            const ALGORITHM: &'static Algorithm = &Self::ENTRY;
            type Rule = $rule;

            fn rule(&self, _window: &Aimd, _now: Time) -> $rule {
                $rule::default()
            }
        }
    };
}

broken! {IgnoresLossConfig makes IgnoresLoss, "ignores-loss": "Reno that does not react to losses and marks"}
broken! {NeverGrowsConfig makes NeverGrows, "never-grows": "Reno whose window never grows"}
broken! {HalvesOnEveryAckConfig makes HalvesOnEveryAck, "halves-on-every-ack": "Reno that takes an acknowledgement for a loss"}
broken! {StarvesOthersConfig makes StarvesOthers, "starves-others": "Reno that gives back a sixty-fourth where it should give back half"}
broken! {
    BelievesALiarConfig makes BelievesALiar, "believes-a-liar": "Reno that grows fast while the peer's timestamps show no queue",
    required: Capabilities { one_way: true, ..Capabilities::NONE }
}
broken! {LeavesSlowStartLateConfig makes LeavesSlowStartLate, "leaves-slow-start-late": "Reno that ignores the losses of two round trips in slow start"}
broken! {KeepsItsFirstShareConfig makes KeepsItsFirstShare, "keeps-its-first-share": "Reno whose window stays as it is after the first loss"}
broken! {GreedyBesideOthersConfig makes GreedyBesideOthers, "greedy-beside-others": "Reno that gives back a sixteenth while others share the queue"}

/// Largest window of [`IgnoresLoss`] in datagrams: several times what any path of a test holds. A
/// sender without a limit would fill the memory and the time of a test with packets to be dropped.
pub const CEILING: u64 = 2_000;

/// A rule that grows like Reno and never reduces the window.
#[derive(Clone, Copy, Debug, Default)]
pub struct IgnoresLoss;

impl WindowRule for IgnoresLoss {
    fn on_ack(&mut self, window: &mut Aimd, _acks: &AckEvent<'_>, acked: u64) {
        window.grow_as_reno(acked);
        window.confine(CEILING * window.datagram());
    }

    fn on_congestion_event(&mut self, _window: &mut Aimd, _event: &CongestionEvent) {}
}

/// A rule that reacts to losses and never grows the window.
#[derive(Clone, Copy, Debug, Default)]
pub struct NeverGrows;

impl WindowRule for NeverGrows {
    fn on_ack(&mut self, _window: &mut Aimd, _acks: &AckEvent<'_>, _acked: u64) {}
}

/// A rule that halves its window with every ACK frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct HalvesOnEveryAck;

impl WindowRule for HalvesOnEveryAck {
    fn on_ack(&mut self, window: &mut Aimd, _acks: &AckEvent<'_>, _acked: u64) {
        window.cut(Ratio::HALF);
    }
}

/// Fraction of the window of [`StarvesOthers`] that remains after a loss.
pub const HARDLY_LESS: Ratio = Ratio::new(63, 64);

/// A rule that gives back 1/64 of the window on a loss, so that flows that halve their window get
/// no share.
#[derive(Clone, Copy, Debug, Default)]
pub struct StarvesOthers;

impl WindowRule for StarvesOthers {
    fn on_ack(&mut self, window: &mut Aimd, _acks: &AckEvent<'_>, acked: u64) {
        window.grow_as_reno(acked);
    }

    fn kept(&self, _window: &Aimd) -> Ratio {
        HARDLY_LESS
    }
}

/// Queueing delay below which [`BelievesALiar`] considers the path empty. It corresponds to a few
/// packets at 10 Mbps, or to some jitter.
pub const EMPTY: Duration = Duration::from_millis(2);
/// Number of datagrams per round trip that [`BelievesALiar`] adds while it considers the path
/// empty.
pub const FAST: Ratio = Ratio::new(32, 1);

/// A rule that adds [`FAST`] per round trip as long as the timestamps show a queueing delay below
/// [`EMPTY`]. The queueing delay is measured from the first delay that the timestamps showed.
#[derive(Clone, Copy, Debug, Default)]
pub struct BelievesALiar {
    first: Option<OneWayDelay>,
}

impl WindowRule for BelievesALiar {
    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, acked: u64) {
        let left = window.grow_slow_start(acked);
        let empty =
            acks.one_way.is_some_and(|delay| delay.above(*self.first.get_or_insert(delay)) < EMPTY);
        window.grow_additive(if empty { FAST } else { Ratio::ONE }, left);
    }
}

/// Number of round trips with losses that [`LeavesSlowStartLate`] ignores. Slow start doubles the
/// window in each.
pub const LATE: u32 = 2;

/// A rule that ignores the losses of the first [`LATE`] round trips with losses in slow start.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeavesSlowStartLate {
    /// Ignored round trips, and the time from which sent packets belong to the next one.
    ignored: u32,
    next: Option<Time>,
}

impl WindowRule for LeavesSlowStartLate {
    fn on_ack(&mut self, window: &mut Aimd, _acks: &AckEvent<'_>, acked: u64) {
        window.grow_as_reno(acked);
    }

    fn on_congestion_event(&mut self, window: &mut Aimd, event: &CongestionEvent) {
        if window.in_slow_start() && self.ignored <= LATE {
            if self.next.is_none_or(|next| event.sent >= next) {
                self.next = Some(event.now);
                self.ignored += 1;
            }
            if self.ignored <= LATE {
                return;
            }
        }
        window.on_congestion_event(event, self.kept(window));
    }
}

/// A rule whose window neither grows nor shrinks after the end of slow start, so that the first
/// flow of a path keeps the share that it found.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeepsItsFirstShare;

impl WindowRule for KeepsItsFirstShare {
    fn on_ack(&mut self, window: &mut Aimd, _acks: &AckEvent<'_>, acked: u64) {
        window.grow_slow_start(acked);
    }

    fn on_congestion_event(&mut self, window: &mut Aimd, event: &CongestionEvent) {
        if window.in_slow_start() {
            window.on_congestion_event(event, self.kept(window));
        }
    }
}

/// Fraction of the window of [`GreedyBesideOthers`] that remains after a loss beside others.
pub const KEPT_BESIDE_OTHERS: Ratio = Ratio::new(15, 16);
/// Factor by which the round trip after a reduction exceeds the expected one if others fill the
/// queue.
pub const NOT_MINE: f64 = 1.2;

/// A rule that is Reno as long as the queue follows its own window. If the round trip does not
/// become shorter as the halved window would make it, others fill the queue, and the rule gives
/// hardly anything back until the queue is empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct GreedyBesideOthers {
    beside_others: bool,
    /// Latest round trip.
    latest: Duration,
    /// Expected round trip after the last reduction, and the shortest one since.
    expected: Option<(Duration, Duration)>,
    base: Duration,
}

impl WindowRule for GreedyBesideOthers {
    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, acked: u64) {
        (self.latest, self.base) = (acks.rtt.latest, acks.rtt.min);
        if let Some((_, shortest)) = &mut self.expected {
            *shortest = self.latest.min(*shortest);
        }
        if self.latest < self.base.mul_f64(1.05) {
            self.beside_others = false;
        }
        window.grow_as_reno(acked);
    }

    fn kept(&self, _window: &Aimd) -> Ratio {
        if self.beside_others { KEPT_BESIDE_OTHERS } else { LOSS_REDUCTION }
    }

    fn on_congestion_event(&mut self, window: &mut Aimd, event: &CongestionEvent) {
        if !window.begins_recovery(event) {
            window.on_congestion_event(event, self.kept(window));
            return;
        }
        if let Some((expected, shortest)) = self.expected {
            self.beside_others |= shortest > expected.mul_f64(NOT_MINE);
        }
        let kept = self.kept(window);
        let expected = self.latest.mul_f64(f64::from(kept.num()) / f64::from(kept.den()));
        self.expected = Some((expected.max(self.base), Duration::MAX));
        window.on_congestion_event(event, kept);
    }
}

/// Share of the acknowledged bytes that [`LeaksWindow`] continues to count as in flight.
pub const LEAK: Ratio = Ratio::percent(5);

const LEAKS_WINDOW: Algorithm = Algorithm {
    name: "leaks-window",
    summary: "Reno that goes on to count a twentieth of what is acknowledged as in flight",
    source: "broken on purpose",
    options: &[],
    build: |_| Arc::new(LeaksWindowConfig),
    ..Algorithm::of_rule::<RenoConfig>()
};

/// The configuration `leaks-window`.
#[derive(Clone, Copy, Debug)]
pub struct LeaksWindowConfig;

impl ControllerConfig for LeaksWindowConfig {
    fn name(&self) -> &'static str {
        LEAKS_WINDOW.name
    }

    fn spec(&self) -> String {
        LEAKS_WINDOW.name.to_owned()
    }

    fn required(&self) -> Capabilities {
        Capabilities::NONE
    }

    fn start(&self, start: &Start) -> Result<Box<dyn Controller>, Missing> {
        let reno = RenoConfig::default().start(start)?;
        Ok(Box::new(LeaksWindow { reno, leaked: 0, least: minimum_window(start.datagram.into()) }))
    }
}

/// Reno with the window reduced by the bytes that [`LEAK`] has accumulated.
#[derive(Debug)]
pub struct LeaksWindow {
    reno: Box<dyn Controller>,
    /// Number of bytes that are counted as in flight forever.
    leaked: u64,
    least: u64,
}

impl LeaksWindow {
    fn window(&self, whole: u64) -> u64 {
        whole.saturating_sub(self.leaked).max(self.least)
    }
}

impl Controller for LeaksWindow {
    fn on_sent(&mut self, sent: &Sent) {
        self.reno.on_sent(sent);
    }

    fn on_ack(&mut self, acks: &AckEvent<'_>) {
        self.leaked = self.leaked.saturating_add(LEAK.of(acks.bytes()));
        self.reno.on_ack(acks);
    }

    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        self.reno.on_congestion_event(event);
    }

    fn on_spurious_congestion_event(&mut self, now: Time) {
        self.reno.on_spurious_congestion_event(now);
    }

    fn on_path(&mut self, now: Time, change: PathChange) {
        self.reno.on_path(now, change);
    }

    fn send_params(&self) -> SendParams {
        let whole = self.reno.send_params();
        SendParams { window: self.window(whole.window), ..whole }
    }

    fn metrics(&self) -> ControllerMetrics {
        let whole = self.reno.metrics();
        ControllerMetrics { window: self.window(whole.window), ..whole }
    }

    fn boxed(&self) -> Box<dyn Controller> {
        Box::new(Self { reno: self.reno.boxed(), ..*self })
    }
}
