//! LEDBAT (RFC 6817): a transport for background transfers, which keeps the queueing delay near a
//! target and yields to all other traffic.
//!
//! With every ACK, the window changes in proportion to the distance of the queueing delay from the
//! target: it grows by `gain` packets per round trip while nothing waits, and shrinks as fast when
//! the delay is twice the target. [`delay`] estimates the queueing delay. The reaction to losses
//! and marks is exactly Reno's.
//!
//! # Departures
//! - **Slow start**: the RFC's pseudo-code has none. Here, slow start is Reno's and ends when the
//!   queueing delay exceeds nine tenths of the target, as in libutp, the library of uTP, from which
//!   LEDBAT comes.
//! - **Initial window and minimum**: the RFC's INIT_CWND and MIN_CWND are two packets. Here, the
//!   initial window is that of RFC 9002 §7.2, and the minimum is the same two packets.
//! - **Application-limited sender**: the RFC limits the window to the bytes in flight plus one
//!   packet, which also shrinks the window of a sender without data. Here, the window of such a
//!   sender does not grow (RFC 9002 §7.8), and shrinks only above the target.
//! - **Recovery**: the window does not grow. The RFC does not mention recovery.
//! - **Idle times**: after ten minutes without a delay, the base delay is forgotten. In the RFC's
//!   pseudo-code, each minute is forgotten only when a later delay arrives.
//! - **Frames without a delay** use the queueing delay of the last frame with one, because a
//!   timestamp comes with only a part of the ACK frames in lean mode.
//! - **Congestion timeout**: the RFC reduces the window to one packet if no ACK arrives for a
//!   timeout. QUIC's persistent congestion replaces this timeout (RFC 9002 §7.6).
//! - **RTT** (`signal=rtt`, `signal=either`): the RFC uses one-way delays only.

pub mod delay;

use std::time::Duration;

use crate::aimd::Aimd;
use crate::algorithm::{Algorithm, Contract, Page};
use crate::capabilities::Capabilities;
use crate::controller::ControllerMetrics;
use crate::event::AckEvent;
use crate::ledbat::delay::QueueingDelay;
use crate::options::Values;
use crate::rule::rule_options;
use crate::rule::{RuleConfig, WindowRule};
use crate::signal::{Delays, Signal, capabilities_by_signal};
use crate::units::{Ratio, Time};

/// Share of the target above which slow start ends (libutp, `apply_ccontrol` in
/// `utp_internal.cpp`).
pub const SLOW_START_EXIT: f64 = 0.9;
/// Smallest and largest target. RFC 6817 §2.4.2 allows at most 100 ms.
pub const TARGETS: Values =
    Values::Duration { min: Duration::from_millis(1), max: Duration::from_millis(100) };
/// Range of the gain (RFC 6817 §2.4.2: GAIN must be at most 1).
const GAINS: Values = Values::Fraction { min: Ratio::new(1, 10), max: Ratio::ONE };

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "ledbat",
    summary: "LEDBAT: keeps the forward queueing delay near a target and yields to other traffic",
    source: "RFC 6817 §2.4.2",
    required: Capabilities { one_way: true, ..Capabilities::NONE },
    // RFC 6817 §2.4.2 divides by the current window, so a round trip adds a little less than one
    // datagram.
    contract: Contract { one_per_round: false, ..Contract::AS_RENO },
    page: PAGE,
    ..Algorithm::of_rule::<LedbatConfig>()
};

rule_options! {
    /// The configuration `ledbat`.
    pub struct LedbatConfig {
        /// queueing delay that the controller aims at
        target: Duration = "100ms" in TARGETS,
        /// packets per round trip by which the window grows while nothing waits in queues
        gain: Ratio = "1" in GAINS,
        /// delay to use: one-way, RTT, or (either) RTT until the peer reports one-way delays
        signal: Signal,
    }
}

impl RuleConfig for LedbatConfig {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = Ledbat;

    fn rule(&self, _window: &Aimd, _now: Time) -> Ledbat {
        Ledbat { config: *self, queue: Queue::new(self.signal), control: Control::default() }
    }

    capabilities_by_signal!("ledbat");
}

/// The queueing delay of a path, by the chosen signal.
#[derive(Clone, Debug)]
pub struct Queue {
    delays: Delays,
    history: QueueingDelay,
    /// Queueing delay at the last ACK frame with a delay.
    queueing: Option<Duration>,
}

impl Queue {
    /// Returns the queue of a new path.
    pub fn new(signal: Signal) -> Self {
        Self { delays: Delays::new(signal), history: QueueingDelay::default(), queueing: None }
    }

    /// Records the delay of an ACK frame, and returns the newest queueing delay; `None` before the
    /// first delay.
    pub fn on_ack(&mut self, acks: &AckEvent<'_>) -> Option<Duration> {
        self.sample(acks);
        self.queueing
    }

    /// Records the delay of an ACK frame, and returns the queueing delay; `None` if the frame has no
    /// delay.
    pub fn sample(&mut self, acks: &AckEvent<'_>) -> Option<Duration> {
        let sample = self.delays.sample(acks)?;
        if sample.restarts {
            self.history = QueueingDelay::default();
        }
        self.queueing = Some(self.history.on_sample(acks.now, sample.delay));
        self.queueing
    }

    /// Returns the queueing delay at the last ACK frame with a delay.
    pub const fn queueing(&self) -> Option<Duration> {
        self.queueing
    }
}

/// Collects steps of fractions of a byte until they are whole bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct WholeBytes {
    fraction: f64,
}

impl WholeBytes {
    /// Adds a step in bytes and returns the whole bytes of all steps so far that were not returned
    /// yet.
    pub fn add(&mut self, bytes: f64) -> i64 {
        let sum = self.fraction + bytes;
        self.fraction = sum.fract();
        sum as i64
    }
}

/// Returns (target - queueing delay) / target, which RFC 6817 §2.4.2 calls off_target.
pub fn off_target(target: Duration, queueing: Duration) -> f64 {
    1.0 - queueing.as_secs_f64() / target.as_secs_f64()
}

/// The rule of LEDBAT.
#[derive(Clone, Debug)]
pub struct Ledbat {
    config: LedbatConfig,
    queue: Queue,
    control: Control,
}

/// Changes a window by small steps in both directions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Control {
    steps: WholeBytes,
    /// Whether the last step made the window smaller.
    shrinks: bool,
}

impl Control {
    /// Changes the window by `per_round` bytes per round trip. This step is the share of
    /// `per_round` that `acked` bytes are of the window. The first step down after a step up counts
    /// as an early reduction.
    pub fn step(&mut self, window: &mut Aimd, per_round: f64, acked: u64) {
        let bytes = self.steps.add(per_round * acked as f64 / window.window() as f64);
        if bytes == 0 {
            return;
        }
        let shrank = std::mem::replace(&mut self.shrinks, bytes < 0);
        match (bytes < 0, shrank) {
            (false, _) => window.grow_by(bytes.unsigned_abs()),
            (true, false) => window.cut_by(bytes.unsigned_abs()),
            (true, true) => window.lower_by(bytes.unsigned_abs()),
        }
    }
}

impl WindowRule for Ledbat {
    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, acked: u64) {
        let queueing = self.queue.on_ack(acks).unwrap_or_default();
        let LedbatConfig { target, gain, .. } = self.config;
        if window.in_slow_start() && queueing > target.mul_f64(SLOW_START_EXIT) {
            window.end_slow_start();
        }
        let left = window.grow_slow_start(acked);
        let gain = f64::from(gain.num()) / f64::from(gain.den());
        let per_round = gain * off_target(target, queueing) * window.datagram() as f64;
        self.control.step(window, per_round, if per_round < 0.0 { acks.bytes() } else { left });
    }

    /// Adds `queueing`: the queueing delay that is compared with the target.
    fn metrics(&self, window: ControllerMetrics) -> ControllerMetrics {
        ControllerMetrics { queueing: self.queue.queueing(), ..window }
    }
}

const PAGE: Page = Page {
    about: "LEDBAT (RFC 6817) is for background transfers, such as updates and backups. LEDBAT keeps the
queueing delay from the sender to the receiver near a target of 100 ms. While less than the target
waits, the window grows by at most one packet per round trip. While more waits, the window shrinks.
A flow that fills the queue beyond the target therefore gets the whole link.",
    departures: "Slow start is Reno's, and ends when the queueing delay exceeds nine tenths of the
target, as in libutp. The initial window is QUIC's. The window of a sender without
data does not grow, but is not reduced to the bytes in flight.",
    figure: "LEDBAT with a target of 20 ms and the scripted queue",
    to_see: "The target in this figure is 20 ms. The window grows by one packet per round trip while nothing
waits, and shrinks by one packet per round trip while 40 ms wait. With the default target of 100 ms,
the window would grow all the time.",
    weakness: "A target of 100 ms is more than many queues hold. With such a queue, LEDBAT behaves as Reno
and does not yield. After slow start, about twice the target waits, and the window then shrinks by
less than one packet per round trip. A flow that starts while another LEDBAT flow keeps the queue
filled takes this queue for a part of the base delay, and gets most of the link. `ledbat-pp` has
remedies for these faults.",
};
