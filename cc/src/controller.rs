//! The controller interface: the events a stack reports, and the send parameters it reads.

use std::fmt;
use std::time::Duration;

use crate::event::{AckEvent, CongestionEvent, PathChange, Sent};
use crate::units::{Rate, Time};

/// A congestion controller. Pure: it reads no clock, does no I/O and knows no stack.
///
/// Call order at one instant: acknowledgements first, then congestion events. `send_params` may be called at any time and is cheap.
pub trait Controller: fmt::Debug + Send + Sync {
    /// Packets left.
    fn on_sent(&mut self, sent: &Sent);
    /// One ACK frame newly acknowledged packets.
    fn on_ack(&mut self, acks: &AckEvent<'_>);
    /// Loss or mark, after the acks of the same instant.
    fn on_congestion_event(&mut self, congestion_event: &CongestionEvent);
    /// The last congestion event was spurious.
    fn on_spurious_congestion_event(&mut self, now: Time);
    /// A probe timeout ran out, the `count`th in a row (RFC 9002 §6.2): an acknowledgement is overdue. By itself it is no sign of
    /// congestion (RFC 9002 §7.6: only persistent congestion is), so most controllers do nothing. Stacks without this event never call it.
    fn on_probe_timeout(&mut self, _now: Time, _count: u32) {}
    /// The path changed.
    fn on_path(&mut self, now: Time, change: PathChange);
    /// What the sender may do now: control.
    fn send_params(&self) -> SendParams;
    /// What the controller thinks: telemetry only, never read back as control.
    fn metrics(&self) -> ControllerMetrics;
    /// A copy, for stacks that clone their controllers.
    fn boxed(&self) -> Box<dyn Controller>;
}

/// What the sender may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendParams {
    /// Congestion window: bytes that may be in flight.
    pub window: u64,
    /// How to space the packets.
    pub pacing: Pacing,
    /// Largest burst in bytes, where the controller cares.
    pub burst: Option<u64>,
    /// Datagram size in bytes, where the controller steers it.
    pub datagram: Option<u16>,
}

impl SendParams {
    /// Only a window; the stack spaces packets as it always does.
    pub const fn window(window: u64) -> Self {
        Self { window, pacing: Pacing::Window, burst: None, datagram: None }
    }
}

/// How to space packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// As the stack paces a window over a round trip.
    Window,
    /// At this rate.
    Rate(Rate),
    /// Stretch the round trip by this much: at most one window per RTT + hold, evenly spaced (SDC's added delay). The RTTs a
    /// controller gets do not contain it.
    Delay(Duration),
}

/// Where a controller stands, for traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Exponential growth at the start or after a collapse.
    SlowStart,
    /// Growth by the algorithm's own rule.
    Avoidance,
    /// Between a congestion event and the first acknowledgement of a packet sent after it.
    Recovery,
}

impl Phase {
    /// The name used in traces (that of the qlog drafts).
    pub const fn name(self) -> &'static str {
        match self {
            Self::SlowStart => "slow_start",
            Self::Avoidance => "congestion_avoidance",
            Self::Recovery => "recovery",
        }
    }
}

/// Telemetry of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerMetrics {
    /// Congestion window in bytes.
    pub window: u64,
    /// Slow-start threshold in bytes, once there is one.
    pub threshold: Option<u64>,
    /// Phase.
    pub phase: Phase,
    /// Averaged queueing delay the controller steers by, where it has one.
    pub queueing: Option<Duration>,
    /// Delay the sender adds to every packet, where the controller adds one (SDC).
    pub hold: Option<Duration>,
    /// Datagram size in bytes, where the controller steers it.
    pub datagram: Option<u16>,
    /// Congestion events reacted to so far.
    pub reductions: u64,
    /// Early (delay-based) reductions so far.
    pub early_reductions: u64,
}
