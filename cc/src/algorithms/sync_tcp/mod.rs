//! Sync-TCP (Weigle, Jeffay, Smith: "Delay-based early congestion detection and adaptation in TCP", Computer Communications 28, 2005).
//!
//! Reno that also steers by the forward queueing delay: [`detect`] is Algorithm 1, [`mod@react`] is Algorithm 2, `limit` bounds what a
//! peer's word may do, this file joins them to the window. Loss and marks are answered exactly as by Reno; until the first verdict (nine
//! ACKs) growth is Reno's too.
//!
//! # Departures
//! What the paper leaves open, and what is taken here. Each has an option where the choice could matter.
//! - **Slow start** (`slow-start=steer`): the paper gives no word beyond "until the 9th ACK is received [...] the sender will use
//!   Reno" (Sync-TCP §5.1). Read literally Algorithm 2 then rules alone, below the threshold too: that is the default, and
//!   Sync-TCP §3.4 compares its 50 % row to slow start's growth. `reno` leaves slow start to Reno until it ends by loss or mark.
//! - **Threshold**: an early cut sets the slow-start threshold to the window it leaves, or the next level verdict would bring slow
//!   start back.
//! - **Equal medians**: Sync-TCP §3.3 knows only m0 < m2 and m0 > m2. Equal medians leave the window to Reno.
//! - **Borders**: a delay exactly on 25, 50 or 75 % belongs to the region above. With a largest delay of zero the region is 0-25 %.
//! - **After a cut** the window holds until the next verdict: Algorithm 2 names no increase in those rows.
//! - **Per byte, not per ACK**: Sync-TCP §3.4 increases with every ACK; here with every acknowledged byte, so "over one RTT" is
//!   exact however many packets an ACK acknowledges.
//! - **One sample per ACK frame** that brings a one-way delay. Frames without one are no sample, and growth goes on in them. In lean
//!   mode long transfers have a stamp beside about every third ACK frame only, so verdicts come slower there than in the paper.
//! - **Fast recovery** (`recovery=hold`): verdicts are computed and do not act. `steer` lets cuts act; growth stays barred
//!   (RFC 9002 §7.3.2).
//! - **Cuts per round trip** (`cut=verdict`): three ACKs are far less than a round trip of a large window, so the literal rule cuts
//!   several times before the first cut can show. `round` allows one per round trip.
//! - **Reset** (`reset=never`): the paper never forgets the smallest and largest delay. `idle` forgets them after an idle time of
//!   RFC 5681 §4.1 (one timeout, here the larger of 1 s and three smoothed RTTs, RFC 6298 §2), `timeout` on persistent congestion. A
//!   change of path always does.
//! - **Trust** (`trust=limited`): one-way delays are the peer's word. A receiver that called the queue empty was sent half as much again
//!   as by Reno, for Algorithm 2 then grows by up to half of the window per round trip. So growth ends where Reno's would: from the
//!   window that the last loss or mark left, by the same acknowledged bytes. Early cuts are made up for as fast as in the paper, and
//!   before the first loss slow start is the limit. And a verdict counts no longer once no delay has come for an idle time (as for
//!   `reset`): a receiver that falls silent after a cut would hold the window for good. `full` is the paper, for peers that are known.
//! - **Floor** (`floor=0ms`): the paper's queues were tens of milliseconds deep; below the floor every verdict counts as level.
//! - **RTT** (`signal=rtt`, `signal=either`): against Sync-TCP §3.1, for comparison, or where no peer reports one-way delays. The two
//!   never share a baseline: the first one-way delay starts the detection anew, and RTTs are not looked at again on that path.
//! - **Windows below two datagrams** do not exist (RFC 9002 §7.2).

pub mod detect;
mod options;
pub mod react;
mod reno_bound;

pub(crate) use options::ALGORITHM;
pub use options::{Cut, MAX_FLOOR, Recovery, Reset, Signal, SlowStart, SyncTcpConfig, Trust};

use std::time::Duration;

use crate::aimd::Aimd;
use crate::controller::{ControllerMetrics, Phase};
use crate::event::{AckEvent, CongestionEvent, Sent};
use crate::reno::LOSS_REDUCTION;
use crate::rule::WindowRule;
use crate::sync_tcp::detect::{Detector, Verdict};
use crate::sync_tcp::react::{Action, react};
use crate::sync_tcp::reno_bound::RenoBound;
use crate::units::{OneWayDelay, Time};

/// Sync-TCP.
#[derive(Clone, Debug)]
pub struct SyncTcp {
    /// With `trust=limited`.
    limit: Option<RenoBound>,
    config: SyncTcpConfig,
    detector: Detector,
    /// The first one-way delay came: with `signal=either`, RTTs count no longer.
    one_way_seen: bool,
    /// What the last verdict wants; rules growth until the next one.
    action: Action,
    /// When a delay last came.
    last_sample: Time,
    /// When a verdict last cut the window.
    last_cut: Option<Time>,
    /// When something was last sent or acknowledged.
    last_event: Time,
    /// Smoothed RTT of the last ACK.
    smoothed: Duration,
}

impl SyncTcp {
    fn new(config: SyncTcpConfig, window: &Aimd, now: Time) -> Self {
        Self {
            limit: (config.trust == Trust::Limited).then(|| RenoBound::new(window)),
            config,
            detector: Detector::default(),
            one_way_seen: false,
            action: Action::AsReno,
            last_sample: now,
            last_cut: None,
            last_event: now,
            smoothed: Duration::ZERO,
        }
    }

    /// Forgets all delays: Reno again until nine new samples are in.
    fn forget_delays(&mut self) {
        self.detector = Detector::default();
        self.action = Action::AsReno;
    }

    /// The delay this ACK frame brings, by the chosen signal.
    fn sample(&mut self, acks: &AckEvent<'_>) -> Option<OneWayDelay> {
        // Only differences of delays count, so an RTT serves in the place of a one-way delay.
        let rtt = || {
            OneWayDelay::from_nanos(i64::try_from(acks.rtt.latest.as_nanos()).unwrap_or(i64::MAX))
        };
        match self.config.signal {
            Signal::OneWay => acks.one_way,
            Signal::Rtt => Some(rtt()),
            Signal::Either => {
                if acks.one_way.is_some() && !self.one_way_seen {
                    self.one_way_seen = true;
                    self.forget_delays();
                }
                if self.one_way_seen { acks.one_way } else { Some(rtt()) }
            }
        }
    }

    /// Takes a new verdict: cuts at once, anything else rules growth from here on.
    fn judge(&mut self, window: &mut Aimd, verdict: Verdict, acks: &AckEvent<'_>) {
        let counts = self.detector.max() >= self.config.floor;
        self.action = if counts { react(verdict) } else { Action::AsReno };
        let Action::Cut(factor) = self.action else { return };
        let held = window.in_recovery() && self.config.recovery == Recovery::Hold;
        let reno = window.in_slow_start() && self.config.slow_start == SlowStart::Reno;
        if held || reno || self.cut_this_round(acks) {
            return;
        }
        window.cut(factor);
        self.last_cut = Some(acks.now);
    }

    /// With `trust=limited`: a verdict whose delays are long past leaves the window to Reno.
    fn lapse(&mut self, now: Time) {
        if self.config.trust == Trust::Limited
            && now.since(self.last_sample) > idle_time(self.smoothed)
        {
            self.action = Action::AsReno;
        }
    }

    /// With `cut=round`: nothing sent after the last cut is acknowledged yet.
    fn cut_this_round(&self, acks: &AckEvent<'_>) -> bool {
        self.config.cut == Cut::Round
            && self.last_cut.is_some_and(|cut| acks.newest_sent() <= Some(cut))
    }

    /// Grows the window by the action in force, `acked` being the bytes that may count, and not beyond the limit.
    fn grow(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, acked: u64) {
        let before = window.window();
        self.steer(window, acked);
        if let Some(limit) = &mut self.limit {
            limit.hold(window, before, acks);
        }
    }

    fn steer(&self, window: &mut Aimd, acked: u64) {
        if window.in_slow_start() && self.config.slow_start == SlowStart::Reno {
            return window.grow_as_reno(acked);
        }
        match self.action {
            Action::AsReno => window.grow_as_reno(acked),
            Action::Segments(segments) => window.grow_additive(segments, acked),
            Action::Share(share) => window.grow_proportional(share, acked),
            Action::Cut(_) | Action::Hold => {}
        }
    }
}

/// The shortest timeout (RFC 6298 §2).
const MIN_TIMEOUT: Duration = Duration::from_secs(1);
/// The timeout in RTTs while their variance is unknown (RFC 6298 §2: SRTT + 4 RTTVAR, RTTVAR being half of the RTT).
const TIMEOUT_RTTS: u32 = 3;

/// Silence after which a sender counts as idle: one timeout (RFC 5681 §4.1).
pub fn idle_time(smoothed: Duration) -> Duration {
    smoothed.saturating_mul(TIMEOUT_RTTS).max(MIN_TIMEOUT)
}

impl WindowRule for SyncTcp {
    fn on_sent(&mut self, sent: &Sent) {
        if self.config.reset.on_idle() && sent.now.since(self.last_event) > idle_time(self.smoothed)
        {
            self.forget_delays();
        }
        self.last_event = sent.now;
    }

    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, acked: u64) {
        self.last_event = acks.now;
        self.smoothed = acks.rtt.smoothed;
        match self.sample(acks) {
            Some(delay) => {
                self.last_sample = acks.now;
                if let Some(verdict) = self.detector.on_sample(delay) {
                    self.judge(window, verdict, acks);
                }
            }
            None => self.lapse(acks.now),
        }
        self.grow(window, acks, acked);
    }

    fn on_congestion_event(&mut self, window: &mut Aimd, event: &CongestionEvent) {
        let reduced = window.on_congestion_event(event, LOSS_REDUCTION);
        if let Some(limit) = &mut self.limit {
            limit.on_congestion_event(window, event, reduced);
        }
        if reduced && event.is_persistent() && self.config.reset.on_timeout() {
            self.forget_delays();
        }
    }

    fn on_spurious_congestion_event(&mut self, _restored: bool) {
        if let Some(limit) = &mut self.limit {
            limit.on_spurious_congestion_event();
        }
    }

    fn on_datagram(&mut self, bytes: u16) {
        if let Some(limit) = &mut self.limit {
            limit.on_datagram(bytes);
        }
    }

    fn metrics(&self, window: ControllerMetrics) -> ControllerMetrics {
        let steered = self.action != Action::AsReno && self.config.slow_start == SlowStart::Steer;
        let phase = if window.phase == Phase::SlowStart && steered {
            Phase::Avoidance
        } else {
            window.phase
        };
        ControllerMetrics { phase, queueing: self.detector.average(), ..window }
    }
}
