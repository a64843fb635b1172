//! The extension for one-way delays: what an endpoint offers, what two endpoints negotiated, which frame is in use.

use std::fmt;

use fathom_frames::parameter::Negotiated;
use fathom_frames::{
    EnableTimestamp, NegotiatedReceiveTimestamps, Offer, ReceiveTimestamps, Timestamps,
};

/// How connections exchange one-way delays. Where a peer offers several frames, SYNC_TIMESTAMP is used, then TIMESTAMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// What the transport parameter of SYNC_TIMESTAMP says; `None`: it is not offered at all.
    pub offer: Option<Offer>,
    /// What that of TIMESTAMP (draft-huitema-quic-ts) says, which other stacks have; `None`: it is not offered at all.
    pub timestamp: Option<EnableTimestamp>,
    /// What those of ACK_RECEIVE_TIMESTAMPS (draft-ietf-quic-receive-ts) say that we want to read, and that such frames are written for a peer that
    /// wants them; `None`: neither. More than [`ReceiveTimestamps::MOST`] are not asked for. With multipath QUIC it is as `None`.
    pub receive_timestamps: Option<ReceiveTimestamps>,
    /// The application sends DATAGRAM frames (RFC 9221): the room for the frame is then reserved in every packet, so that the largest
    /// datagram that fits does not change from packet to packet.
    pub datagrams: bool,
}

impl Default for Extension {
    fn default() -> Self {
        Self { offer: Some(Offer::Lean), timestamp: Some(EnableTimestamp::Both), ..Self::OFF }
    }
}

impl Extension {
    /// Nothing is offered and nothing is read.
    pub const OFF: Self =
        Self { offer: None, timestamp: None, receive_timestamps: None, datagrams: false };

    /// No frame is offered.
    pub const fn is_off(&self) -> bool {
        self.offer.is_none() && self.timestamp.is_none() && self.receive_timestamps.is_none()
    }
}

/// Which frame carries one-way delays on a connection, in one direction at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InUse {
    /// None.
    #[default]
    None,
    /// SYNC_TIMESTAMP, our own.
    Sync,
    /// TIMESTAMP, of draft-huitema-quic-ts.
    Timestamp,
    /// ACK_RECEIVE_TIMESTAMPS, of draft-ietf-quic-receive-ts.
    Receive,
}

impl InUse {
    /// As metrics and logs have it: `none`, `sync`, `timestamp` or `receive`.
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

/// What the two sides negotiated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NegotiatedExtensions {
    /// SYNC_TIMESTAMP.
    pub(crate) sync: Negotiated,
    /// TIMESTAMP.
    pub(crate) timestamps: Timestamps,
    /// ACK_RECEIVE_TIMESTAMPS.
    pub(crate) receive_timestamps: NegotiatedReceiveTimestamps,
}

impl NegotiatedExtensions {
    /// The peer's packets carry the delay of ours.
    pub(crate) const fn receives_delays(&self) -> bool {
        self.sync.reads
            || self.sync.reads_echoes
            || self.timestamps.reads
            || self.receive_timestamps.expects
    }

    /// Which frame carries delays, in one direction at least.
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
