//! The extension for one-way delays: the frames that an endpoint offers, the result of the
//! negotiation, and the frame in use.

use std::fmt;

use fathom_frames::parameter::Negotiated;
use fathom_frames::{
    EnableTimestamp, NegotiatedReceiveTimestamps, Offer, ReceiveTimestamps, Timestamps,
};

/// Settings for the exchange of one-way delays. If both endpoints offer several frames,
/// SYNC_TIMESTAMP is used first, then TIMESTAMP, then ACK_RECEIVE_TIMESTAMPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// Value of the transport parameter of SYNC_TIMESTAMP. If `None`, the frame is not offered.
    pub offer: Option<Offer>,
    /// Value of the transport parameter of TIMESTAMP (draft-huitema-quic-ts), which other stacks
    /// support. If `None`, the frame is not offered.
    pub timestamp: Option<EnableTimestamp>,
    /// Values of the transport parameters of ACK_RECEIVE_TIMESTAMPS (draft-ietf-quic-receive-ts):
    /// the frames that this endpoint wants to read. `Some` also enables writing such frames for a
    /// peer that wants them. `None` disables both reading and writing. At most
    /// [`ReceiveTimestamps::MOST`] timestamps are requested. Multipath QUIC disables this setting.
    pub receive_timestamps: Option<ReceiveTimestamps>,
    /// Whether the application sends DATAGRAM frames (RFC 9221). The room for the timestamp frame
    /// is then reserved in every packet, so that the largest datagram that fits does not change
    /// between packets.
    pub datagrams: bool,
}

impl Default for Extension {
    fn default() -> Self {
        Self { offer: Some(Offer::Lean), timestamp: Some(EnableTimestamp::Both), ..Self::OFF }
    }
}

impl Extension {
    /// Settings that offer no frame and read none.
    pub const OFF: Self =
        Self { offer: None, timestamp: None, receive_timestamps: None, datagrams: false };

    /// Returns whether no frame is offered.
    pub const fn is_off(&self) -> bool {
        self.offer.is_none() && self.timestamp.is_none() && self.receive_timestamps.is_none()
    }
}

/// Frame that carries one-way delays on a connection, in at least one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InUse {
    /// No frame carries one-way delays.
    #[default]
    None,
    /// SYNC_TIMESTAMP, which is Fathom's own frame.
    Sync,
    /// TIMESTAMP (draft-huitema-quic-ts).
    Timestamp,
    /// ACK_RECEIVE_TIMESTAMPS (draft-ietf-quic-receive-ts).
    Receive,
}

impl InUse {
    /// Returns the name in metrics and logs: `none`, `sync`, `timestamp` or `receive`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Sync => "sync",
            Self::Timestamp => "timestamp",
            Self::Receive => "receive",
        }
    }
}

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Result of the negotiation between the two sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NegotiatedExtensions {
    /// Negotiated use of SYNC_TIMESTAMP.
    pub(crate) sync: Negotiated,
    /// Negotiated use of TIMESTAMP.
    pub(crate) timestamps: Timestamps,
    /// Negotiated use of ACK_RECEIVE_TIMESTAMPS.
    pub(crate) receive_timestamps: NegotiatedReceiveTimestamps,
}

impl NegotiatedExtensions {
    /// Returns whether the peer's packets carry the delay of our packets.
    pub(crate) const fn receives_delays(&self) -> bool {
        self.sync.reads
            || self.sync.reads_echoes
            || self.timestamps.reads
            || self.receive_timestamps.expects
    }

    /// Returns the frame that carries delays, in at least one direction.
    pub(crate) fn in_use(&self) -> InUse {
        let receive = &self.receive_timestamps;
        if self.sync != Negotiated::default() {
            InUse::Sync
        } else if self.timestamps.sends || self.timestamps.reads {
            InUse::Timestamp
        } else if receive.sends.is_some() || receive.expects {
            InUse::Receive
        } else {
            InUse::None
        }
    }
}
