//! Negotiation of the frames: what this endpoint offers, what the peer's transport parameters say, and what follows from both.
//!
//! It changes during the handshake only. Afterwards the other parts of a connection's state read from it how to write and to read
//! frames.

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

/// ack_delay_exponent of an endpoint that sends none (RFC 9000 §18.2).
const DEFAULT_EXPONENT: u8 = 3;
/// initial_max_path_id (draft-ietf-quic-multipath-21 §2.1): who sends it may come to use several paths, and PATH_ACK frames.
const INITIAL_MAX_PATH_ID: u64 = 0x3e;

/// What the peer's transport parameters say that matters here.
#[derive(Clone, Copy)]
struct PeerParameters {
    /// Of SYNC_TIMESTAMP; `None` too where this endpoint does not offer it.
    offer: Option<Offer>,
    /// Of TIMESTAMP, likewise.
    enable_timestamp: Option<EnableTimestamp>,
    /// Of ACK_RECEIVE_TIMESTAMPS, likewise.
    receive_timestamps: Option<ReceiveTimestamps>,
    exponent: u8,
    /// The longest that the peer holds an acknowledgement back.
    max_ack_delay: Duration,
}

/// The negotiation of one connection.
pub(crate) struct Negotiation {
    extension: Extension,
    /// Sent in place of our transport parameters.
    raw_parameter: Option<Arc<[u8]>>,
    own_exponent: u8,
    peer: PeerParameters,
    negotiated: NegotiatedExtensions,
}

impl Negotiation {
    /// Nothing is known of the peer yet.
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

    /// The ack_delay_exponent among our stack's encoded parameters, which are well-formed.
    pub(crate) fn read_own_parameters(&mut self, parameters: &[u8]) {
        self.own_exponent = ack_delay_exponent(parameters).unwrap_or(DEFAULT_EXPONENT);
        if self.extension.receive_timestamps.is_some() && has(parameters, INITIAL_MAX_PATH_ID) {
            // Their frames for several paths are others, which are not written or read here.
            tracing::info!("receive timestamps are not offered beside multipath");
            self.extension.receive_timestamps = None;
        }
    }

    /// The ack_delay_exponent that this endpoint sends.
    pub(crate) const fn set_own_exponent(&mut self, exponent: u8) {
        self.own_exponent = exponent;
    }

    /// Appends our transport parameters.
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
    /// One of those read here is malformed; then nothing has changed.
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

    /// A parameter of an extension that is off here is an unknown one, and ignored.
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

    /// Whether a controller of this configuration can run on what was negotiated.
    ///
    /// # Errors
    /// It needs one-way delay, and the peer sends none.
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
            tracing::info!("peer does not offer {wanted}: '{name}' runs on RTT");
        }
        Ok(())
    }

    /// What a peer would have to offer.
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

    // ---- what follows for packets ----

    /// What the two sides negotiated.
    pub(crate) const fn negotiated(&self) -> &NegotiatedExtensions {
        &self.negotiated
    }

    /// This endpoint offers nothing.
    pub(crate) const fn is_off(&self) -> bool {
        self.extension.is_off()
    }

    /// A frame is written or read in one direction at least.
    pub(crate) fn is_used(&self) -> bool {
        self.negotiated != NegotiatedExtensions::default()
    }

    /// The application sends DATAGRAM frames: the room for our frame stays the same from packet to packet.
    pub(crate) const fn keeps_room(&self) -> bool {
        self.extension.datagrams
    }

    /// Every packet carries our frame, not only those with an ACK frame.
    pub(crate) fn stamps_every_packet(&self) -> bool {
        self.negotiated.sync.place == Placement::EveryPacket
    }

    /// Bytes of the longest frame that may be negotiated, before the peer's parameters are known.
    pub(crate) fn longest_frame(&self) -> usize {
        let sync = self
            .extension
            .offer
            .map(|offer| Negotiated::between(Some(offer), Some(Offer::Paper)).frame_len());
        let timestamp = self.extension.timestamp.map(|_| Timestamp::LEN_LONG);
        let receive_timestamps = self.extension.receive_timestamps.map(|_| KEPT_GROWTH);
        sync.max(timestamp).max(receive_timestamps).unwrap_or(0)
    }

    /// Our ack_delay_exponent, by which our TIMESTAMP frames are scaled.
    pub(crate) const fn own_exponent(&self) -> u8 {
        self.own_exponent
    }

    /// The peer's ack_delay_exponent.
    pub(crate) const fn peer_exponent(&self) -> u8 {
        self.peer.exponent
    }

    /// The longest that the peer says it holds an acknowledgement back.
    pub(crate) const fn max_ack_delay(&self) -> Duration {
        self.peer.max_ack_delay
    }

    /// Whether the delay of our packets is known when they are acknowledged, so that their send times matter; `ack_eliciting` is called
    /// only where the answer depends on it. `Some(false)`: they matter as the send times of packets that ask for no acknowledgement.
    pub(crate) fn records_send_time(&self, ack_eliciting: impl FnOnce() -> bool) -> Option<bool> {
        // A stamp beside an ACK frame is of its largest packet; receive timestamps are of any.
        let any = self.negotiated.sync.reads || self.negotiated.receive_timestamps.reads.is_some();
        match (any, self.negotiated.timestamps.reads) {
            (true, _) => Some(true),
            (false, true) => Some(ack_eliciting()),
            (false, false) => None,
        }
    }

    /// What a packet says for an ACK frame in it: a stamp is the peer's clock, whatever path it came on; an echo is of a packet of that
    /// path.
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

    /// The unit of the peer's receive timestamps, where they tell us our delay.
    pub(crate) const fn receipts_unit(&self) -> Option<u8> {
        self.negotiated.receive_timestamps.reads
    }

    /// The peer's parameters, for the report.
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
    fn both_sides_must_offer_and_sync_timestamp_goes_first() {
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
            // Who asks for receive timestamps may be sent them by a peer that asks for none.
            let may_come = ours.receive_timestamps.is_some();
            assert_eq!(
                negotiation.is_used(),
                in_use != InUse::None || may_come,
                "{ours:?} {peers:?}"
            );
            assert_eq!(negotiation.negotiated().receives_delays(), in_use != InUse::None);
        }
        // What is off here is not read.
        assert_eq!(peer_of(Extension::OFF, every).peer_offers(), (None, None, None));
    }

    /// A negotiation that asks for `max_per_ack` timestamps.
    fn asking(max_per_ack: u64, exponent: u8) -> Negotiation {
        let receive_timestamps = Some(ReceiveTimestamps { max_per_ack, exponent });
        Negotiation::new(Extension { receive_timestamps, ..Extension::OFF }, None)
    }

    #[test]
    fn each_side_writes_what_the_other_asks_for_within_bounds() {
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
        // A peer may ask for any number; more than there is room for it does not get.
        let greedy = [0x80, 0x04, 0xac, 0x07, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        here.on_peer_parameters(&greedy).expect("well-formed");
        assert_eq!(of(&here).0, Some(ReceiveTimestamps { max_per_ack: 32, exponent: 0 }));
        // What cannot be asked for is not.
        for negotiation in [asking(0, 0), asking(9, 21)] {
            let mut parameters = Vec::new();
            negotiation.append_parameters(&mut parameters);
            assert!(parameters.is_empty() && negotiation.is_off());
        }
    }

    #[test]
    fn greased_receive_timestamps_are_absent_and_a_large_exponent_is_an_error() {
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
        // Noise beside a maximum is the default exponent; without a maximum any exponent is noise.
        negotiation
            .on_peer_parameters(&[&MAX[..], &[1, 9], &EXPONENT, &[2, 1, 2]].concat())
            .expect("noise");
        let sends = negotiation.negotiated().receive_timestamps.sends;
        assert_eq!(sends, Some(ReceiveTimestamps { max_per_ack: 9, exponent: 0 }));
        negotiation.on_peer_parameters(&[&EXPONENT[..], &[1, 21]].concat()).expect("noise");
        let error =
            negotiation.on_peer_parameters(&[&MAX[..], &[1, 9], &EXPONENT, &[1, 21]].concat());
        assert_eq!(error.expect_err("too large").code, ErrorCode::TransportParameter);
        // Where it is off nothing of it is read.
        let mut off = Negotiation::new(Extension::default(), None);
        off.on_peer_parameters(&[&MAX[..], &[1, 9], &EXPONENT, &[1, 21]].concat())
            .expect("unknown");
    }

    #[test]
    fn beside_multipath_receive_timestamps_are_off() {
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
    fn malformed_parameters_change_nothing() {
        let mut negotiation = peer_of(Extension::default(), Extension::default());
        // ack_delay_exponent (0x0a) of 21, one more than RFC 9000 §18.2 allows.
        let error = negotiation.on_peer_parameters(&[0x0a, 0x01, 21]).expect_err("too large");
        assert_eq!(error.code, ErrorCode::TransportParameter);
        assert_eq!(negotiation.negotiated().in_use(), InUse::Sync);
        assert_eq!(negotiation.peer_exponent(), DEFAULT_EXPONENT);
    }

    #[test]
    fn a_controller_that_needs_delays_is_refused_without_them() {
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
