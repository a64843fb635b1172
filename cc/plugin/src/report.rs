//! Data about a connection for the application: a report, and calls to an observer.

use std::time::Duration;

use fathom_cc::{AckEvent, CongestionEvent, ControllerMetrics, OneWayDelay, Rate, Sent, Time};
use fathom_frames::{Counters, EcnCounts, EnableTimestamp, Offer, ReceiveTimestamps};

use crate::extension::InUse;

/// Observer of a connection's controller.
///
/// Its functions are called after each of the controller's events, while the stack holds the
/// connection, so an observer must be quick. The plug-in does not hold its own lock during these
/// calls, so an observer may read a [`ConnectionMonitor`](crate::ConnectionMonitor).
pub trait Observer: Send + Sync {
    /// Observes the controller's state. Called after each batch of acknowledgements and each
    /// congestion event.
    fn on_metrics(&self, now: Time, metrics: &ControllerMetrics, one_way: Option<OneWayDelay>);
    /// Observes bytes that were handed to the network: one packet, or several packets that left
    /// together.
    fn on_sent(&self, _sent: &Sent) {}
    /// Observes the batch that the controller has just processed, and the pacing rate that it has
    /// set. A call of [`Observer::on_metrics`] follows.
    fn on_ack(&self, _acks: &AckEvent<'_>, _pacing_rate: Option<Rate>) {}
    /// Observes the congestion event that the controller has just processed. A call of
    /// [`Observer::on_metrics`] follows.
    fn on_congestion_event(&self, _event: &CongestionEvent) {}
    /// Observes the state in which the stack has been since it last sent. Called before packets or
    /// timers change this state. `in_flight` is the number of bytes in flight. `more` tells whether
    /// the stack has more data that flow control permits, but that the window or pacing holds back.
    /// Only a stack that knows this (quiche) calls this function.
    fn on_send_state(&self, _now: Time, _in_flight: u64, _more: bool) {}
}

/// Report of a [`ConnectionMonitor`](crate::ConnectionMonitor).
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Whether the peer's packets carry the one-way delay of our packets.
    pub negotiated: bool,
    /// Timestamp frame in use.
    pub in_use: InUse,
    /// Number of stamps written, or of ACK frames written with arrival times.
    pub stamps_sent: u64,
    /// Number of packets read with stamps, or with ACK frames that have arrival times.
    pub stamps_received: u64,
    /// Counters of the delay samples.
    pub samples: Counters,
    /// Newest forward one-way delay. As a difference between two clocks, it has no meaning by
    /// itself. The queueing delay is the difference between this delay and the smallest one of the
    /// connection ([`OneWayDelay::above`]). `None` until the peer's first stamp, and for peers
    /// without the extension.
    pub one_way: Option<OneWayDelay>,
    /// Largest difference between the plug-in's clock and the stack's time while packets were sent.
    /// If it is larger than the machine's delays explain, such as 1 s, the plug-in and the stack
    /// read different clocks, and the delays have no meaning: see
    #[cfg_attr(feature = "rustls", doc = "[`Plugin::with_runtime`](crate::Plugin::with_runtime).")]
    #[cfg_attr(not(feature = "rustls"), doc = "`Plugin::with_runtime`.")]
    pub clock_error: Duration,
    /// Name of the controller; `None` if the stack's own controllers run.
    pub controller_name: Option<&'static str>,
    /// State of the controller after its last event. With several paths, it is the state of the
    /// controller that acted last.
    pub controller: Option<ControllerMetrics>,
    /// Value of the peer's transport parameter for SYNC_TIMESTAMP. `None` if the peer sent none, if
    /// the parameter has not arrived yet, or if this endpoint does not offer the frame and thus
    /// does not read the parameter.
    pub peers: Option<Offer>,
    /// Value of the peer's transport parameter for TIMESTAMP. `None` in the same cases as for
    /// `peers`.
    pub peer_enable_timestamp: Option<EnableTimestamp>,
    /// Values of the peer's transport parameters for ACK_RECEIVE_TIMESTAMPS. `None` in the same
    /// cases as for `peers`.
    pub peer_receive_timestamps: Option<ReceiveTimestamps>,
    /// ECN counts of the newest ACK frame that has ECN counts. It is also `None` if ACK frames are
    /// not read.
    pub ecn: Option<EcnCounts>,
    /// Number of ACK frames in 1-RTT packets that were read.
    pub acks: u64,
    /// Longest ACK delay that any of the ACK frames in `acks` reports.
    pub longest_ack_delay: Duration,
    /// Result of the TLS handshake; `None` before its end, and on stacks with their own TLS.
    pub handshake: Option<Handshake>,
    /// Number of packets that the crypto provider could not seal. Junk was sent instead, and the
    /// connection is being closed. Always 0 on stacks that seal packets themselves.
    pub unsealed: u64,
}

/// Result of a connection's TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// Number of the cipher suite (RFC 8446 §B.4).
    pub suite: u16,
    /// Whether the handshake resumed an earlier session.
    pub resumed: bool,
    /// Key updates (RFC 9001 §6) visible in our packets.
    pub updates_sent: u64,
    /// Key updates visible in the peer's packets.
    pub updates_received: u64,
}
