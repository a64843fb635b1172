//! What a connection shows of itself: a report, and calls to an observer.

use std::time::Duration;

use fathom_cc::{AckEvent, CongestionEvent, ControllerMetrics, OneWayDelay, Rate, Sent, Time};
use fathom_frames::{Counters, EcnCounts, EnableTimestamp, Offer, ReceiveTimestamps};

use crate::extension::InUse;

/// Called after what a connection's controller does, while the stack holds the connection: be quick. The plug-in's own lock is free then, and
/// an observer may read a [`ConnectionMonitor`](crate::ConnectionMonitor).
pub trait Observer: Send + Sync {
    /// After each batch of acknowledgements and each congestion event.
    fn on_metrics(&self, now: Time, metrics: &ControllerMetrics, one_way: Option<OneWayDelay>);
    /// Bytes were handed to the network: a packet's, or those of several that left at once.
    fn on_sent(&self, _sent: &Sent) {}
    /// The batch that the controller has just processed, and the pacing rate it has set. [`Observer::on_metrics`] follows.
    fn on_ack(&self, _acks: &AckEvent<'_>, _pacing_rate: Option<Rate>) {}
    /// The congestion event that the controller has just processed. [`Observer::on_metrics`] follows.
    fn on_congestion_event(&self, _event: &CongestionEvent) {}
    /// Before packets or timers change it: how things have stood since the stack sent last. `in_flight` bytes are under way, and the stack has
    /// `more` that it may send by flow control, which the window or the pace holds back. Only stacks call it that know (quiche).
    fn on_send_state(&self, _now: Time, _in_flight: u64, _more: bool) {}
}

/// What a [`ConnectionMonitor`](crate::ConnectionMonitor) shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// The peer's packets carry the one-way delay of ours.
    pub negotiated: bool,
    /// Which frame is in use.
    pub in_use: InUse,
    /// Stamps written, or ACK frames that say when packets arrived.
    pub stamps_sent: u64,
    /// Packets with stamps, or with such ACK frames, that were read.
    pub stamps_received: u64,
    /// What became of the delay samples.
    pub samples: Counters,
    /// The newest forward one-way delay: a difference of two clocks, which means nothing by itself. Queueing delay is its height above the
    /// least of this connection ([`OneWayDelay::above`]); `None` until the peer's first stamp, and for peers without the extension.
    pub one_way: Option<OneWayDelay>,
    /// The controller's state after its last event; with several paths, the one that acted last.
    pub controller: Option<ControllerMetrics>,
    /// What the peer's transport parameter says; `None`: there is none, it has not come yet, or we offer none and so do not look.
    pub peers: Option<Offer>,
    /// The same of that of TIMESTAMP.
    pub peer_enable_timestamp: Option<EnableTimestamp>,
    /// The same of those of ACK_RECEIVE_TIMESTAMPS.
    pub peer_receive_timestamps: Option<ReceiveTimestamps>,
    /// ECN counts of the newest ACK frame with any; `None` also where ACK frames are not read.
    pub ecn: Option<EcnCounts>,
    /// ACK frames of 1-RTT packets that were read.
    pub acks: u64,
    /// The longest time for which one of them says that it was held back.
    pub longest_ack_delay: Duration,
    /// What the TLS handshake negotiated; `None` before, and on stacks that bring a TLS of their own.
    pub handshake: Option<Handshake>,
    /// Packets that the crypto provider could not seal: junk left in their place, and the connection is being closed. Always 0 on
    /// stacks that seal packets themselves.
    pub unsealed: u64,
}

/// What the TLS handshake of a connection negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// Number of the cipher suite (RFC 8446 §B.4).
    pub suite: u16,
    /// It resumed an earlier session.
    pub resumed: bool,
    /// Key updates (RFC 9001 §6) that our packets show.
    pub updates_sent: u64,
    /// Key updates that the peer's packets show.
    pub updates_received: u64,
}
