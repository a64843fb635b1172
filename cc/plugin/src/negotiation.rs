//! Negotiation of the timestamp frames: the frames that this endpoint offers, the contents of the
//! peer's transport parameters, and the result.
//!
//! The negotiation changes only during the handshake. Afterwards, the other parts of a connection's
//! state use its result to write and read frames.

use std::sync::Arc;
use std::time::Duration;

use fathom_cc::ControllerConfig;
use fathom_frames::parameter::{
    Negotiated, Offer, ParameterError, Placement, ack_delay_exponent, has, max_ack_delay,
};
use fathom_frames::{
    EnableTimestamp, NegotiatedReceiveTimestamps, ReceiveTimestamps, SyncTimestamp, Timestamp,
    Timestamps,
};

use crate::close_error::{CloseError, ErrorCode};
use crate::extension::{Extension, NegotiatedExtensions};
use crate::payload::{AckSeen, IncomingFrames, PeerTimestamp};
use crate::receipt_log::KEPT_GROWTH;

/// Value of ack_delay_exponent for an endpoint that does not send one (RFC 9000 §18.2).
const DEFAULT_EXPONENT: u8 = 3;
/// Identifier of initial_max_path_id (draft-ietf-quic-multipath-21 §2.1). An endpoint that sends
/// this parameter may later use several paths and PATH_ACK frames.
const INITIAL_MAX_PATH_ID: u64 = 0x3e;

/// The relevant parts of the peer's transport parameters.
#[derive(Clone, Copy)]
struct PeerParameters {
    /// Parameter of SYNC_TIMESTAMP. It is also `None` if this endpoint does not offer the frame.
    offer: Option<Offer>,
    /// Parameter of TIMESTAMP. It is also `None` if this endpoint does not offer the frame.
    enable_timestamp: Option<EnableTimestamp>,
    /// Parameters of ACK_RECEIVE_TIMESTAMPS. They are also `None` if this endpoint does not offer
    /// the frame.
    receive_timestamps: Option<ReceiveTimestamps>,
    exponent: u8,
    /// Maximum time for which the peer delays an acknowledgement.
    max_ack_delay: Duration,
}

/// The negotiation of one connection.
pub(crate) struct Negotiation {
    extension: Extension,
    /// Bytes sent instead of the extension's transport parameters.
    raw_parameter: Option<Arc<[u8]>>,
    own_exponent: u8,
    peer: PeerParameters,
    negotiated: NegotiatedExtensions,
}

impl Negotiation {
    /// Creates a negotiation before the peer's parameters are known.
    pub(crate) fn new(extension: Extension, raw_parameter: Option<Arc<[u8]>>) -> Self {
        let receive_timestamps = extension.receive_timestamps.and_then(ReceiveTimestamps::bounded);
        let extension = Extension { receive_timestamps, ..extension };
        Self {
            extension,
            raw_parameter,
            own_exponent: DEFAULT_EXPONENT,
            peer: PeerParameters {
                offer: None,
                enable_timestamp: None,
                receive_timestamps: None,
                exponent: DEFAULT_EXPONENT,
                max_ack_delay: Duration::ZERO,
            },
            negotiated: NegotiatedExtensions::default(),
        }
    }

    // ---- during the handshake ----

    /// Reads the ack_delay_exponent from our stack's encoded parameters, which are well-formed.
    pub(crate) fn read_own_parameters(&mut self, parameters: &[u8]) {
        self.own_exponent = ack_delay_exponent(parameters).unwrap_or(DEFAULT_EXPONENT);
        if self.extension.receive_timestamps.is_some() && has(parameters, INITIAL_MAX_PATH_ID) {
            // The draft has different frames for several paths, which are neither written nor read
            // here.
            tracing::info!("multipath is on, so receive timestamps are not offered");
            self.extension.receive_timestamps = None;
        }
    }

    /// Sets the ack_delay_exponent that this endpoint sends.
    pub(crate) const fn set_own_exponent(&mut self, exponent: u8) {
        self.own_exponent = exponent;
    }

    /// Appends the extension's transport parameters.
    pub(crate) fn append_parameters(&self, parameters: &mut Vec<u8>) {
        if let Some(raw) = &self.raw_parameter {
            parameters.extend_from_slice(raw);
            return;
        }
        if let Some(offer) = self.extension.offer {
            offer.append(parameters);
        }
        if let Some(timestamp) = self.extension.timestamp {
            timestamp.append(parameters);
        }
        if let Some(receive_timestamps) = self.extension.receive_timestamps {
            receive_timestamps.append(parameters);
        }
    }

    /// Reads the peer's raw transport parameters.
    ///
    /// # Errors
    /// Returns an error, and changes nothing, if a parameter read here is malformed.
    pub(crate) fn on_peer_parameters(&mut self, raw: &[u8]) -> Result<(), CloseError> {
        let peer = self
            .peer_parameters(raw)
            .map_err(|e| CloseError::new(ErrorCode::TransportParameter, e.to_string()))?;
        let sync = Negotiated::between(self.extension.offer, peer.offer);
        let timestamps =
            Timestamps::between(self.extension.timestamp, peer.enable_timestamp, &sync);
        let receive_timestamps = NegotiatedReceiveTimestamps::between(
            self.extension.receive_timestamps,
            peer.receive_timestamps,
            &sync,
            &timestamps,
        );
        self.negotiated = NegotiatedExtensions { sync, timestamps, receive_timestamps };
        self.peer = peer;
        Ok(())
    }

    /// Reads the peer's parameters. Ignores the parameters of an extension that is off.
    fn peer_parameters(&self, raw: &[u8]) -> Result<PeerParameters, ParameterError> {
        Ok(PeerParameters {
            offer: if self.extension.offer.is_some() { Offer::find(raw)? } else { None },
            enable_timestamp: if self.extension.timestamp.is_some() {
                EnableTimestamp::find(raw)?
            } else {
                None
            },
            receive_timestamps: match self.extension.receive_timestamps {
                Some(_) => ReceiveTimestamps::find(raw)?,
                None => None,
            },
            exponent: ack_delay_exponent(raw)?,
            max_ack_delay: max_ack_delay(raw),
        })
    }

    /// Checks that a controller of this configuration can run with the negotiated frames.
    ///
    /// # Errors
    /// Returns an error if the controller requires one-way delay and the peer sends none.
    pub(crate) fn check(&self, controller_config: &dyn ControllerConfig) -> Result<(), CloseError> {
        if self.negotiated.receives_delays() {
            return Ok(());
        }
        let (name, wanted) = (controller_config.name(), self.wanted_frames());
        if controller_config.required().one_way {
            let hint = controller_config.hint();
            return Err(CloseError::new(
                ErrorCode::ConnectionRefused,
                format!(
                    "controller '{name}' needs one-way delay, but the peer does not offer {wanted}; {hint}"
                ),
            ));
        }
        if controller_config.optional().one_way {
            tracing::info!("the peer does not offer {wanted}, so controller '{name}' uses RTTs");
        }
        Ok(())
    }

    /// Returns the names of the frames that the peer would have to offer.
    fn wanted_frames(&self) -> String {
        let offered = [
            (self.extension.offer.is_some(), "SYNC_TIMESTAMP"),
            (self.extension.timestamp.is_some(), "TIMESTAMP"),
            (self.extension.receive_timestamps.is_some(), "ACK_RECEIVE_TIMESTAMPS"),
        ];
        let names: Vec<_> =
            offered.iter().filter(|(offered, _)| *offered).map(|(_, name)| *name).collect();
        if names.is_empty() { "SYNC_TIMESTAMP".into() } else { names.join(" or ") }
    }

    // ---- consequences for packets ----

    /// Returns the result of the negotiation.
    pub(crate) const fn negotiated(&self) -> &NegotiatedExtensions {
        &self.negotiated
    }

    /// Returns whether this endpoint offers nothing.
    pub(crate) const fn is_off(&self) -> bool {
        self.extension.is_off()
    }

    /// Returns whether a frame is written or read in at least one direction.
    pub(crate) fn is_used(&self) -> bool {
        self.negotiated != NegotiatedExtensions::default()
    }

    /// Returns whether the application sends DATAGRAM frames, which keeps the room for the
    /// timestamp frame constant.
    pub(crate) const fn keeps_room(&self) -> bool {
        self.extension.datagrams
    }

    /// Returns whether every packet carries a timestamp frame, not only packets with an ACK frame.
    pub(crate) fn stamps_every_packet(&self) -> bool {
        self.negotiated.sync.place == Placement::EveryPacket
    }

    /// Returns the length in bytes of the longest frame that may be negotiated. It is used before
    /// the peer's parameters are known.
    pub(crate) fn longest_frame(&self) -> usize {
        let sync = self
            .extension
            .offer
            .map(|offer| Negotiated::between(Some(offer), Some(Offer::Paper)).frame_len());
        let timestamp = self.extension.timestamp.map(|_| Timestamp::LEN_LONG);
        let receive_timestamps = self.extension.receive_timestamps.map(|_| KEPT_GROWTH);
        sync.max(timestamp).max(receive_timestamps).unwrap_or(0)
    }

    /// Returns our ack_delay_exponent, by which our TIMESTAMP frames are scaled.
    pub(crate) const fn own_exponent(&self) -> u8 {
        self.own_exponent
    }

    /// Returns the peer's ack_delay_exponent.
    pub(crate) const fn peer_exponent(&self) -> u8 {
        self.peer.exponent
    }

    /// Returns the maximum time for which the peer delays an acknowledgement, according to its
    /// parameters.
    pub(crate) const fn max_ack_delay(&self) -> Duration {
        self.peer.max_ack_delay
    }

    /// Returns how to record the send time of a packet. When the packet is acknowledged, its delay
    /// is computed from this time. `None` means that the time is not recorded. `Some(false)` means
    /// that the packet counts as not ack-eliciting. `ack_eliciting` is called only if the result
    /// depends on it.
    pub(crate) fn records_send_time(&self, ack_eliciting: impl FnOnce() -> bool) -> Option<bool> {
        // A stamp next to an ACK frame refers to the frame's largest packet. Receive timestamps may
        // refer to any packet.
        let any = self.negotiated.sync.reads || self.negotiated.receive_timestamps.reads.is_some();
        match (any, self.negotiated.timestamps.reads) {
            (true, _) => Some(true),
            (false, true) => Some(ack_eliciting()),
            (false, false) => None,
        }
    }

    /// Returns the time information that a packet carries for one of its ACK frames. A stamp is the
    /// peer's clock, whatever path the packet arrived on. An echo refers to a packet of the path on
    /// which it arrived.
    pub(crate) fn peer_timestamp(
        &self,
        found: &IncomingFrames,
        ack: &AckSeen,
        path: u32,
    ) -> PeerTimestamp {
        match (found.stamp, found.timestamp) {
            (Some(SyncTimestamp { echo: Some(echo), .. }), _) if ack.path == path => {
                PeerTimestamp::Echo(echo)
            }
            (Some(SyncTimestamp { sent, echo: None }), _) if !self.negotiated.sync.reads_echoes => {
                PeerTimestamp::Stamp(sent)
            }
            (_, Some(stamp)) => {
                PeerTimestamp::Timestamp(stamp.micros(self.peer.exponent), self.peer.max_ack_delay)
            }
            _ => PeerTimestamp::Nothing,
        }
    }

    /// Returns the unit of the peer's receive timestamps; `None` unless our delays come from them.
    pub(crate) const fn receipts_unit(&self) -> Option<u8> {
        self.negotiated.receive_timestamps.reads
    }

    /// Returns the peer's parameters, for the report.
    pub(crate) const fn peer_offers(
        &self,
    ) -> (Option<Offer>, Option<EnableTimestamp>, Option<ReceiveTimestamps>) {
        (self.peer.offer, self.peer.enable_timestamp, self.peer.receive_timestamps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extension::InUse;

    fn peer_of(offered: Extension, peer: Extension) -> Negotiation {
        let mut parameters = Vec::new();
        Negotiation::new(peer, None).append_parameters(&mut parameters);
        let mut negotiation = Negotiation::new(offered, None);
        negotiation.on_peer_parameters(&parameters).expect("well-formed");
        negotiation
    }

    #[test]
    fn extension_needs_offers_of_both_sides_and_prefers_sync() {
        let both = Extension::default();
        let timestamp = Extension { offer: None, ..both };
        let receive =
            Extension { receive_timestamps: Some(ReceiveTimestamps::default()), ..Extension::OFF };
        let every = Extension { receive_timestamps: receive.receive_timestamps, ..both };
        for (ours, peers, in_use) in [
            (both, both, InUse::Sync),
            (both, timestamp, InUse::Timestamp),
            (timestamp, both, InUse::Timestamp),
            (every, every, InUse::Sync),
            (every, timestamp, InUse::Timestamp),
            (every, receive, InUse::Receive),
            (receive, every, InUse::Receive),
            (receive, both, InUse::None),
            (both, receive, InUse::None),
            (both, Extension::OFF, InUse::None),
            (every, Extension::OFF, InUse::None),
            (Extension::OFF, both, InUse::None),
        ] {
            let negotiation = peer_of(ours, peers);
            assert_eq!(negotiation.negotiated().in_use(), in_use, "{ours:?} {peers:?}");
            // An endpoint that asks for receive timestamps may receive some from a peer that asks
            // for none.
            let may_come = ours.receive_timestamps.is_some();
            assert_eq!(
                negotiation.is_used(),
                in_use != InUse::None || may_come,
                "{ours:?} {peers:?}"
            );
            assert_eq!(negotiation.negotiated().receives_delays(), in_use != InUse::None);
        }
        // Parameters of an extension that is off here are not read.
        assert_eq!(peer_of(Extension::OFF, every).peer_offers(), (None, None, None));
    }

    /// Returns a negotiation that asks for `max_per_ack` timestamps.
    fn asking(max_per_ack: u64, exponent: u8) -> Negotiation {
        let receive_timestamps = Some(ReceiveTimestamps { max_per_ack, exponent });
        Negotiation::new(Extension { receive_timestamps, ..Extension::OFF }, None)
    }

    #[test]
    fn each_side_sends_what_the_peer_requested_within_bounds() {
        let (mut ours, mut peers) = (Vec::new(), Vec::new());
        let (mut here, mut there) = (asking(5, 7), asking(1_000_000, 0));
        here.append_parameters(&mut ours);
        there.append_parameters(&mut peers);
        here.on_peer_parameters(&peers).expect("well-formed");
        there.on_peer_parameters(&ours).expect("well-formed");
        let of = |n: &Negotiation| {
            (n.negotiated().receive_timestamps.sends, n.negotiated().receive_timestamps.reads)
        };
        assert_eq!(of(&here), (Some(ReceiveTimestamps { max_per_ack: 32, exponent: 0 }), Some(7)));
        assert_eq!(of(&there), (Some(ReceiveTimestamps { max_per_ack: 5, exponent: 7 }), Some(0)));
        // A peer may ask for any number, but it gets no more timestamps than there is room for.
        let greedy = [0x80, 0x04, 0xac, 0x07, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        here.on_peer_parameters(&greedy).expect("well-formed");
        assert_eq!(of(&here).0, Some(ReceiveTimestamps { max_per_ack: 32, exponent: 0 }));
        // Values that cannot be requested are not sent.
        for negotiation in [asking(0, 0), asking(9, 21)] {
            let mut parameters = Vec::new();
            negotiation.append_parameters(&mut parameters);
            assert!(parameters.is_empty() && negotiation.is_off());
        }
    }

    #[test]
    fn greased_receive_timestamps_are_ignored_and_bad_ones_refused() {
        const MAX: [u8; 4] = [0x80, 0x04, 0xac, 0x07];
        const EXPONENT: [u8; 4] = [0x80, 0x04, 0xac, 0x26];
        let mut negotiation = asking(32, 3);
        for noise in [&[0][..], &[1, 0x40], &[3, 1, 2, 3], &[1, 0], &[9, 1, 2, 3, 4, 5, 6, 7, 8, 9]]
        {
            for id in [MAX, EXPONENT] {
                negotiation.on_peer_parameters(&[&id, noise].concat()).expect("noise");
                assert_eq!(negotiation.negotiated().in_use(), InUse::None, "{noise:?}");
            }
        }
        // Noise instead of an exponent, beside a maximum, means the default exponent. Without a
        // maximum, any exponent is noise.
        negotiation
            .on_peer_parameters(&[&MAX[..], &[1, 9], &EXPONENT, &[2, 1, 2]].concat())
            .expect("noise");
        let sends = negotiation.negotiated().receive_timestamps.sends;
        assert_eq!(sends, Some(ReceiveTimestamps { max_per_ack: 9, exponent: 0 }));
        negotiation.on_peer_parameters(&[&EXPONENT[..], &[1, 21]].concat()).expect("noise");
        let error =
            negotiation.on_peer_parameters(&[&MAX[..], &[1, 9], &EXPONENT, &[1, 21]].concat());
        assert_eq!(error.expect_err("too large").code, ErrorCode::TransportParameter);
        // If the extension is off, none of its parameters is read.
        let mut off = Negotiation::new(Extension::default(), None);
        off.on_peer_parameters(&[&MAX[..], &[1, 9], &EXPONENT, &[1, 21]].concat())
            .expect("unknown");
    }

    #[test]
    fn receive_timestamps_are_disabled_with_multipath() {
        for (own, offered) in [(&[0x3e, 1, 4][..], false), (&[0x0a, 1, 3], true)] {
            let mut negotiation = asking(32, 3);
            negotiation.read_own_parameters(own);
            let mut parameters = Vec::new();
            negotiation.append_parameters(&mut parameters);
            assert_eq!(!parameters.is_empty(), offered);
            asking(32, 3).append_parameters(&mut parameters);
            negotiation
                .on_peer_parameters(&parameters[..if offered { 12 } else { parameters.len() }])
                .expect("well-formed");
            assert_eq!(negotiation.negotiated().in_use() == InUse::Receive, offered);
        }
    }

    #[test]
    fn malformed_parameters_do_not_change_the_negotiation() {
        let mut negotiation = peer_of(Extension::default(), Extension::default());
        // ack_delay_exponent (0x0a) of 21, one more than RFC 9000 §18.2 allows.
        let error = negotiation.on_peer_parameters(&[0x0a, 0x01, 21]).expect_err("too large");
        assert_eq!(error.code, ErrorCode::TransportParameter);
        assert_eq!(negotiation.negotiated().in_use(), InUse::Sync);
        assert_eq!(negotiation.peer_exponent(), DEFAULT_EXPONENT);
    }

    #[test]
    fn controller_that_needs_one_way_delays_is_refused_without_them() {
        let sync = fathom_cc::catalogue::parse("sync").expect("known");
        let either = fathom_cc::catalogue::parse("sync:signal=either").expect("known");
        let without = peer_of(Extension::default(), Extension::OFF);
        let error = without.check(&*sync).expect_err("refused");
        assert_eq!(error.code, ErrorCode::ConnectionRefused);
        assert!(error.reason.contains("SYNC_TIMESTAMP or TIMESTAMP"), "{}", error.reason);
        assert!(without.check(&*either).is_ok());
        assert!(peer_of(Extension::default(), Extension::default()).check(&*sync).is_ok());
    }
}
