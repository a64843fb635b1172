//! The controller interface: methods for the events that a stack reports, and the send parameters
//! that it reads.

use std::fmt;
use std::time::Duration;

use crate::event::{AckEvent, CongestionEvent, PathChange, Sent};
use crate::units::{Rate, Time};

/// A congestion controller. It reads no clock, does no I/O and knows no stack.
///
/// At the same instant, acknowledgements must be reported before congestion events. `send_params`
/// is cheap and may be called at any time.
pub trait Controller: fmt::Debug + Send + Sync {
    /// Records that bytes were sent.
    fn on_sent(&mut self, sent: &Sent);
    /// Handles the packets that one ACK frame newly acknowledged.
    fn on_ack(&mut self, acks: &AckEvent<'_>);
    /// Handles a loss or a mark. Must be called after the acknowledgements of the same instant.
    fn on_congestion_event(&mut self, congestion_event: &CongestionEvent);
    /// Handles the report that the last congestion event was spurious.
    fn on_spurious_congestion_event(&mut self, now: Time);
    /// Handles the `count`th consecutive probe timeout (RFC 9002 §6.2), which means that an
    /// acknowledgement is overdue.
    ///
    /// A probe timeout alone is not a sign of congestion. Only persistent congestion is
    /// (RFC 9002 §7.6). Therefore, most controllers do nothing, which is the default. Stacks
    /// without this event never call this method.
    fn on_probe_timeout(&mut self, _now: Time, _count: u32) {}
    /// Handles a change of the path.
    fn on_path(&mut self, now: Time, change: PathChange);
    /// Returns the parameters that the sender must obey now.
    fn send_params(&self) -> SendParams;
    /// Returns the controller's state for telemetry. Never use it for control.
    fn metrics(&self) -> ControllerMetrics;
    /// Returns a copy, for stacks that clone their controllers.
    fn boxed(&self) -> Box<dyn Controller>;
}

/// Parameters that the sender must obey now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendParams {
    /// Congestion window: number of bytes that may be in flight.
    pub window: u64,
    /// Spacing of the packets.
    pub pacing: Pacing,
    /// Largest burst in bytes; `None` if the controller sets no limit.
    pub burst: Option<u64>,
    /// Datagram size in bytes; `None` if the controller does not set it.
    pub datagram: Option<u16>,
}

impl SendParams {
    /// Returns parameters with only a window. The stack then spaces packets by its own rule.
    pub const fn window(window: u64) -> Self {
        Self { window, pacing: Pacing::Window, burst: None, datagram: None }
    }
}

/// Spacing of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// The stack's own pacing of a window over a round trip.
    Window,
    /// A fixed rate.
    Rate(Rate),
    /// A delay that stretches the round trip, so that at most one window leaves per RTT + delay,
    /// evenly spaced (SDC's added delay). The RTTs reported to the controller do not include this
    /// delay.
    Delay(Duration),
}

/// Phase of a controller, for traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Exponential growth, at the start or after a collapse of the window.
    SlowStart,
    /// Growth by the algorithm's own rule.
    Avoidance,
    /// Recovery: between a congestion event and the first acknowledgement of a packet sent after
    /// it.
    Recovery,
}

impl Phase {
    /// Returns the name used in traces, which is that of the qlog drafts.
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
    /// Slow-start threshold in bytes; `None` until one is set.
    pub threshold: Option<u64>,
    /// Current phase.
    pub phase: Phase,
    /// Average queueing delay to which the controller reacts; `None` if the controller uses none.
    pub queueing: Option<Duration>,
    /// Delay that the sender adds to every packet; `None` if the controller adds none (only SDC
    /// does).
    pub hold: Option<Duration>,
    /// Datagram size in bytes; `None` if the controller does not set it.
    pub datagram: Option<u16>,
    /// Rate at which a live source, such as a video encoder, should produce data; `None` if the
    /// controller is not for live media.
    pub media_rate: Option<Rate>,
    /// Number of congestion events that the controller has reacted to.
    pub reductions: u64,
    /// Number of early (delay-based) reductions.
    pub early_reductions: u64,
}
