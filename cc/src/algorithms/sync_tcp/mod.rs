//! Sync-TCP (Weigle, Jeffay, Smith: "Delay-based early congestion detection and adaptation in TCP",
//! Computer Communications 28, 2005).
//!
//! Reno that also reacts to the forward queueing delay. [`detect`] is Algorithm 1, [`mod@react`] is
//! Algorithm 2, `reno_bound` limits the effect of delays reported by the peer, and this file
//! connects them to the window. The reaction to losses and marks is exactly Reno's. Until the first
//! verdict (nine ACKs), growth is also Reno's.
//!
//! # Departures
//! The paper leaves these points open. Each has an option if the choice could matter.
//! - **Slow start** (`slow-start=steer`): the paper says only "until the 9th ACK is received [...]
//!   the sender will use Reno" (Sync-TCP §5.1). Read literally, Algorithm 2 then controls the
//!   window alone, also below the threshold. This reading is the default: Sync-TCP §3.4 compares
//!   the growth of its 50 % row to slow start. `reno` leaves slow start to Reno until a loss or a
//!   mark ends it.
//! - **Threshold** (`threshold=cut`): an early cut sets the slow-start threshold to the new window.
//!   With `keep`, the next level verdict returns to slow start if the window is below the
//!   threshold. The paper does not mention the threshold.
//! - **Equal medians**: Sync-TCP §3.3 considers only m0 < m2 and m0 > m2. Equal medians leave the
//!   window to Reno.
//! - **Borders**: a delay of exactly 25, 50 or 75 % belongs to the higher region. If the largest
//!   delay is zero, the region is 0-25 %.
//! - **After a cut**, the window stays constant until the next verdict, because Algorithm 2 names
//!   no increase in the rows that cut.
//! - **Per byte, not per ACK**: Sync-TCP §3.4 increases the window with every ACK; this
//!   implementation increases it with every acknowledged byte. "Over one RTT" is then exact,
//!   however many packets an ACK acknowledges.
//! - **One sample per ACK frame** that carries a one-way delay. Frames without a delay give no
//!   sample, but the window still grows with them. In lean mode, long transfers have a timestamp
//!   with only about every third ACK frame, so verdicts come more slowly than in the paper.
//! - **Fast recovery** (`recovery=hold`): verdicts are computed but have no effect. With `steer`,
//!   cuts take effect, but growth is still forbidden (RFC 9002 §7.3.2).
//! - **Cuts per round trip** (`cut=verdict`): in a large window, three ACKs take far less than a
//!   round trip. The literal rule therefore cuts several times before the first cut can show an
//!   effect. `round` allows one cut per round trip.
//! - **Reset** (`reset=never`): the paper never forgets the smallest and largest delay. `idle`
//!   forgets them after an idle time according to RFC 5681 §4.1 (one timeout, here the larger of
//!   1 s and three smoothed RTTs, RFC 6298 §2). `timeout` forgets them on persistent congestion. A
//!   change of path always forgets them.
//! - **Trust** (`trust=limited`): the peer reports the one-way delays and may misreport them. A
//!   receiver that reported an empty queue got one and a half times Reno's rate, because Algorithm
//!   2 then grows the window by up to half per round trip. Therefore, the window never grows beyond
//!   a Reno window that starts from the window after the last loss or mark and counts the same
//!   acknowledged bytes. Up to this limit, the window recovers from early cuts as fast as in the
//!   paper. Before the first loss, the limit is slow start. In addition, a verdict expires if no
//!   delay arrives for an idle time (as for `reset`); otherwise, a receiver that stops reporting
//!   after a cut would hold the window down permanently. `full` follows the paper, for known peers.
//! - **Floor** (`floor=0ms`): the paper's queues were tens of milliseconds deep. As long as the
//!   largest queueing delay is below the floor, every verdict counts as level.
//! - **RTT** (`signal=rtt`, `signal=either`): contrary to Sync-TCP §3.1, for comparison or for
//!   peers that report no one-way delays. The two signals never share a baseline: the first one-way
//!   delay restarts the detection, and RTTs are then ignored on that path.
//! - **Windows below two datagrams** do not exist (RFC 9002 §7.2).

pub mod detect;
mod options;
pub mod react;
mod reno_bound;

pub(crate) use options::ALGORITHM;
pub use options::{Cut, MAX_FLOOR, Recovery, Reset, SlowStart, SyncTcpConfig, Trust};

use std::time::Duration;

use crate::aimd::Aimd;
use crate::controller::{ControllerMetrics, Phase};
use crate::event::{AckEvent, CongestionEvent, Sent};
use crate::reno::LOSS_REDUCTION;
use crate::rule::WindowRule;
use crate::signal::Delays;
use crate::sync_tcp::detect::{Detector, Verdict};
use crate::sync_tcp::react::{Action, react};
use crate::sync_tcp::reno_bound::RenoBound;
use crate::units::{OneWayDelay, Time};

/// The rule of Sync-TCP.
#[derive(Clone, Debug)]
pub struct SyncTcp {
    /// Limit of the growth with `trust=limited`.
    limit: Option<RenoBound>,
    config: SyncTcpConfig,
    detector: Detector,
    delays: Delays,
    /// Action of the last verdict. It controls growth until the next verdict.
    action: Action,
    /// Time of the last delay sample.
    last_sample: Time,
    /// Time of the last cut by a verdict.
    last_cut: Option<Time>,
    /// Time at which bytes were last sent or acknowledged.
    last_event: Time,
    /// Smoothed RTT at the last ACK.
    smoothed: Duration,
}

impl SyncTcp {
    fn new(config: SyncTcpConfig, window: &Aimd, now: Time) -> Self {
        Self {
            limit: (config.trust == Trust::Limited).then(|| RenoBound::new(window)),
            config,
            detector: Detector::default(),
            delays: Delays::new(config.signal),
            action: Action::AsReno,
            last_sample: now,
            last_cut: None,
            last_event: now,
            smoothed: Duration::ZERO,
        }
    }

    /// Forgets all delays. The window is Reno's again until nine new samples have arrived.
    fn forget_delays(&mut self) {
        self.detector = Detector::default();
        self.action = Action::AsReno;
    }

    /// Returns the delay sample of this ACK frame, according to the chosen signal.
    fn sample(&mut self, acks: &AckEvent<'_>) -> Option<OneWayDelay> {
        let sample = self.delays.sample(acks)?;
        if sample.restarts {
            self.forget_delays();
        }
        Some(sample.delay)
    }

    /// Processes a new verdict. A cut takes effect at once. Any other action controls growth from
    /// now on.
    fn judge(&mut self, window: &mut Aimd, verdict: Verdict, acks: &AckEvent<'_>) {
        let counts = self.detector.max() >= self.config.floor;
        self.action = if counts { react(verdict) } else { Action::AsReno };
        let Action::Cut(factor) = self.action else { return };
        let held = window.in_recovery() && self.config.recovery == Recovery::Hold;
        let reno = window.in_slow_start() && self.config.slow_start == SlowStart::Reno;
        if held || reno || self.cut_this_round(acks) {
            return;
        }
        window.cut_early(factor, self.config.threshold);
        self.last_cut = Some(acks.now);
    }

    /// Drops a verdict whose delays are too old, with `trust=limited`. The window is then left to
    /// Reno.
    fn lapse(&mut self, now: Time) {
        if self.config.trust == Trust::Limited
            && now.since(self.last_sample) > idle_time(self.smoothed)
        {
            self.action = Action::AsReno;
        }
    }

    /// Returns whether no packet sent after the last cut has been acknowledged yet. The result is
    /// always false without `cut=round`.
    fn cut_this_round(&self, acks: &AckEvent<'_>) -> bool {
        self.config.cut == Cut::Round
            && self.last_cut.is_some_and(|cut| acks.newest_sent() <= Some(cut))
    }

    /// Grows the window by the current action, up to the limit. `acked` is the number of bytes that
    /// may count as growth.
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

/// Shortest timeout (RFC 6298 §2).
const MIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout in RTTs while their variance is unknown (RFC 6298 §2: SRTT + 4 RTTVAR, where RTTVAR is
/// half of the RTT).
const TIMEOUT_RTTS: u32 = 3;

/// Returns the silence after which a sender counts as idle: one timeout (RFC 5681 §4.1).
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
