//! Packet keys that add our timestamp frame while sealing a packet, and remove the peer's frame
//! while opening one.
//!
//! A stack reserves `tag_len` bytes at the end of every packet for the authentication tag. If a
//! 1-RTT key is about to write a frame of `N` bytes, it reports `N` more bytes. When the packet is
//! sealed, the payload moves `N` bytes towards the end, and the frame is written in front of it.
//! The frame cannot be last, because the last STREAM frame of a packet may have no length. The
//! stack never sees the frame.
//!
//! # A packet that cannot be sealed
//!
//! A crypto provider may fail to seal a packet or to protect its header. For example, rustls's
//! provided method for packets of a second path always fails. In that case, quinn's and noq's own
//! keys panic in the task that drives the connection, and then every later user of the connection
//! panics. The keys here cannot return an error either (`encrypt` returns nothing), so they fail
//! closed without a panic:
//! - The payload and the tag are overwritten with zeros, and so is the packet number if the header
//!   could not be protected. The packet leaves as junk, which any peer drops.
//! - The next packet that is opened appears to have no frames, so the stack closes the connection
//!   with PROTOCOL_VIOLATION. If no packet arrives, the idle timeout ends the connection. A
//!   confidentiality limit of 0 would be quicker but does not work. In 1-RTT, stacks react to such
//!   a limit with a key update for every packet. noq 1.4.0 also panics if a key reaches the limit
//!   while the connection is closing.
//! - An error is logged, and [`Report::unsealed`](crate::Report::unsealed) increases.

use std::sync::Arc;

use bytes::{Buf, BytesMut};

use crate::connection_state::ConnectionState;
use crate::payload::{NotNegotiated, check_none};
use crate::shaping::Departure;

/// Maximum length of a packet number (RFC 9000 §17.1).
const MAX_NUMBER_LEN: usize = 4;
/// Header form, and the protected bits of the first byte (RFC 9001 §5.4.1).
const LONG_HEADER: u8 = 0x80;
const LONG_PROTECTED: u8 = 0x0f;
const SHORT_PROTECTED: u8 = 0x1f;

/// Records that a packet was replaced by junk.
fn on_seal_failure(state: Option<&ConnectionState>, what: &str) {
    match state {
        Some(state) => state.key_counts().on_seal_failure(what),
        None => tracing::error!(
            "{what} failed before a connection existed, so an invalid packet was sent instead"
        ),
    }
}

/// Header protection of rustls, changed to fail closed.
pub struct HeaderProtection {
    key: Box<dyn rustls::quic::HeaderProtectionKey>,
    state: Option<Arc<ConnectionState>>,
}

impl HeaderProtection {
    /// Creates the header protection of a connection's packets. `state` is `None` before the
    /// connection exists.
    pub(crate) const fn new(
        key: Box<dyn rustls::quic::HeaderProtectionKey>,
        state: Option<Arc<ConnectionState>>,
    ) -> Self {
        Self { key, state }
    }

    /// Unprotects the first byte and the packet number of `packet`. The packet number starts at
    /// `pn_offset`.
    pub fn decrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        let (first, number, sample) = self.split(pn_offset, packet);
        // If this fails, the header differs from the one that the peer sealed, and opening the
        // packet fails.
        let _ = self.key.decrypt_in_place(sample, first, number);
    }

    /// Protects the first byte and the packet number of `packet`. The packet number starts at
    /// `pn_offset`. If the key fails, the packet becomes junk (see the module documentation).
    pub fn encrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        let (first, number, sample) = self.split(pn_offset, packet);
        if self.key.encrypt_in_place(sample, first, number).is_err() {
            // The form and the type of a packet are never protected, unlike the remaining bits of
            // its first byte.
            *first &= if *first & LONG_HEADER == 0 { !SHORT_PROTECTED } else { !LONG_PROTECTED };
            packet[pn_offset..].fill(0);
            on_seal_failure(self.state.as_deref(), "protecting a packet's header");
        }
    }

    /// Returns the number of ciphertext bytes that header protection samples.
    pub fn sample_size(&self) -> usize {
        self.key.sample_len()
    }

    fn split<'a>(
        &self,
        pn_offset: usize,
        packet: &'a mut [u8],
    ) -> (&'a mut u8, &'a mut [u8], &'a [u8]) {
        let (header, sample) = packet.split_at_mut(pn_offset + MAX_NUMBER_LEN);
        let (first, rest) = header.split_at_mut(1);
        (&mut first[0], &mut rest[pn_offset - 1..], &sample[..self.key.sample_len()])
    }
}

/// Task of a key in addition to sealing and opening.
enum Extra {
    /// The key writes this many bytes of PADDING (0 for none). The state is set once the connection
    /// exists.
    Padding(usize, Option<Arc<ConnectionState>>),
    /// The key adds and removes frames for the connection of this state. The number counts the key
    /// updates before this key.
    Frames(Arc<ConnectionState>, u64),
}

/// Error for a packet whose authentication tag does not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAuthentic;

/// Packet protection of rustls, plus the timestamp frame.
pub struct PacketProtection {
    key: Box<dyn rustls::quic::PacketKey>,
    tag_len: usize,
    extra: Extra,
}

impl PacketProtection {
    /// Creates a key for Initial, Handshake or 0-RTT packets, which only appends `padding` zero
    /// bytes. `state` is the connection's state, if there is a connection yet.
    pub(crate) fn padded(
        key: Box<dyn rustls::quic::PacketKey>,
        padding: usize,
        state: Option<Arc<ConnectionState>>,
    ) -> Self {
        let tag_len = key.tag_len();
        Self { key, tag_len, extra: Extra::Padding(padding, state) }
    }

    /// Creates a 1-RTT key for the connection of `state`, after `updates` key updates.
    pub(crate) fn one_rtt(
        key: Box<dyn rustls::quic::PacketKey>,
        state: Arc<ConnectionState>,
        updates: u64,
    ) -> Self {
        let tag_len = key.tag_len();
        Self { key, tag_len, extra: Extra::Frames(state, updates) }
    }

    /// Seals packet `packet` of `path` (0 without multipath). `buf` contains the header, the
    /// payload and room for the tag. If the key fails, the packet becomes junk (see the module
    /// documentation).
    pub fn encrypt(&self, path: u32, packet: u64, buf: &mut [u8], header_len: usize) {
        let (header, rest) = buf.split_at_mut(header_len);
        let room = rest.len() - self.tag_len;
        let departure = match &self.extra {
            Extra::Frames(state, updates) => {
                if *updates > 0 {
                    state.key_counts().on_sealed(*updates);
                }
                state.seal(path, packet, &mut rest[..room], header.len() + room + self.tag_len)
            }
            Extra::Padding(..) => Departure::default(),
        };
        let (payload, rest) = rest.split_at_mut(room - departure.trim);
        let (tag, tail) = rest.split_at_mut(self.tag_len);
        // PADDING need not be written, because stacks pass the reserved bytes as zeros, and zero is
        // the PADDING frame.
        let sealed = match path {
            0 => self.key.encrypt_in_place(packet, header, payload),
            // The nonce also contains the path number (draft-ietf-quic-multipath-21 §2.4). For
            // path 0, it is the usual nonce.
            _ => self.key.encrypt_in_place_for_path(path, packet, header, payload),
        };
        match sealed.as_ref().map(AsRef::as_ref) {
            Ok(sealed) if sealed.len() == tag.len() => tag.copy_from_slice(sealed),
            _ => {
                payload.fill(0);
                tag.fill(0);
                on_seal_failure(self.state(), "sealing a packet");
            }
        }
        // The trimmed bytes contained payload, so overwrite them even if sealing failed.
        if let (Extra::Frames(state, _), true) = (&self.extra, departure.trim > 0) {
            state.write_trailer(tail, departure.release);
        }
    }

    /// Opens packet `packet` of `path` in place and removes the timestamp frames. If there is a
    /// connection, also removes PADDING at the end. If the packet has a timestamp frame that is not
    /// allowed, the payload becomes empty, and stacks then close the connection.
    ///
    /// # Errors
    /// Returns [`NotAuthentic`] if the authentication tag does not match.
    pub fn decrypt(
        &self,
        path: u32,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), NotAuthentic> {
        let opened = match path {
            0 => self.key.decrypt_in_place(packet, header, payload),
            _ => self.key.decrypt_in_place_for_path(path, packet, header, payload),
        };
        let len = opened.map_err(|_| NotAuthentic)?.len();
        payload.truncate(len);
        let visible = match &self.extra {
            Extra::Frames(state, updates) => {
                if *updates > 0 {
                    state.key_counts().on_opened(*updates);
                }
                state.enter();
                state.open(path, packet, payload)
            }
            // Stacks count the size of a server's first packet against amplification
            // (RFC 9000 §8.1), so PADDING stays.
            Extra::Padding(_, None) => check_none(payload).map(|_| 0..len),
            Extra::Padding(_, Some(_)) => check_none(payload),
        };
        match visible {
            // The stack closes the connection when it gets a packet without frames.
            Ok(_) if self.state().is_some_and(|state| state.key_counts().unsealed() > 0) => {
                payload.clear()
            }
            Ok(visible) => {
                payload.truncate(visible.end);
                payload.advance(visible.start);
            }
            Err(NotNegotiated) => {
                tracing::warn!("a packet contains a timestamp that was not negotiated");
                // For a packet without frames, stacks close the connection with PROTOCOL_VIOLATION
                // (RFC 9000 §12.4), which is also the error for a frame that was not negotiated.
                payload.clear();
            }
        }
        Ok(())
    }

    /// Returns the number of bytes to reserve at the end of the next packet.
    pub fn tag_len(&self) -> usize {
        self.tag_len
            + match &self.extra {
                Extra::Padding(n, _) => *n,
                Extra::Frames(state, _) => state.reserved(),
            }
    }

    /// Returns the number of packets that may be sealed with this key.
    pub fn confidentiality_limit(&self) -> u64 {
        self.key.confidentiality_limit()
    }

    fn state(&self) -> Option<&ConnectionState> {
        match &self.extra {
            Extra::Frames(state, _) => Some(state),
            Extra::Padding(_, state) => state.as_deref(),
        }
    }

    /// Returns the number of packets that may fail to open before the connection must end.
    pub fn integrity_limit(&self) -> u64 {
        self.key.integrity_limit()
    }
}
