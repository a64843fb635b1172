//! Packet keys that write the frame while a packet is sealed and take it out while it is opened.
//!
//! A stack leaves `tag_len` bytes at the end of every packet for the authentication tag. A 1-RTT key that is about to carry a frame
//! reports `N` bytes more; when the packet is sealed the payload moves back by `N` and the frame goes first, because the last STREAM
//! frame of a packet may have no length. The stack never learns that a frame was there.
//!
//! # A packet that cannot be sealed
//!
//! A crypto provider may refuse to seal a packet or to protect its header: rustls's provided method for a packet of a second path always
//! does. quinn's and noq's own keys panic then, in the task that drives the connection, and so does whoever uses the connection next.
//! These keys cannot return an error either (`encrypt` returns nothing), so they fail closed without a panic:
//! - The payload is overwritten with zeros, with the tag, and with the packet number where the header could not be protected. The
//!   packet leaves as junk, which any peer drops.
//! - The next packet that is opened reads as one without frames, on which stacks close with PROTOCOL_VIOLATION. When none comes, the idle
//!   timeout ends the connection. A confidentiality limit of 0 would be quicker and is no way: in 1-RTT stacks answer it with a key update
//!   for every packet, and noq 1.4.0 panics when a key reaches it while the connection is closing.
//! - An error is logged, and [`Report::unsealed`](crate::Report::unsealed) counts.

use std::sync::Arc;

use bytes::{Buf, BytesMut};

use crate::connection_state::ConnectionState;
use crate::payload::{NotNegotiated, check_none};
use crate::shaping::Departure;

/// Longest packet number (RFC 9000 §17.1).
const MAX_NUMBER_LEN: usize = 4;
/// Header form, and the bits of the first byte that are protected (RFC 9001 §5.4.1).
const LONG_HEADER: u8 = 0x80;
const LONG_PROTECTED: u8 = 0x0f;
const SHORT_PROTECTED: u8 = 0x1f;

/// A packet became junk.
fn on_seal_failure(state: Option<&ConnectionState>, what: &str) {
    match state {
        Some(state) => state.key_counts().on_seal_failure(what),
        None => tracing::error!(
            "{what} failed before there was a connection: junk was sent in its place"
        ),
    }
}

/// rustls's header protection.
pub struct HeaderProtection {
    key: Box<dyn rustls::quic::HeaderProtectionKey>,
    state: Option<Arc<ConnectionState>>,
}

impl HeaderProtection {
    /// That of a connection's packets; `None` before there is a connection.
    pub(crate) const fn new(
        key: Box<dyn rustls::quic::HeaderProtectionKey>,
        state: Option<Arc<ConnectionState>>,
    ) -> Self {
        Self { key, state }
    }

    /// Unprotects the first byte and the packet number of `packet`, which starts at `pn_offset`.
    pub fn decrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        let (first, number, sample) = self.split(pn_offset, packet);
        // Where it fails the header is not what the peer sealed, and the packet does not open.
        let _ = self.key.decrypt_in_place(sample, first, number);
    }

    /// Protects the first byte and the packet number of `packet`, which starts at `pn_offset`. Where the key cannot, the packet becomes
    /// junk: see the module.
    pub fn encrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        let (first, number, sample) = self.split(pn_offset, packet);
        if self.key.encrypt_in_place(sample, first, number).is_err() {
            // The form and the type of a packet are never protected; the rest of its first byte is.
            *first &= if *first & LONG_HEADER == 0 { !SHORT_PROTECTED } else { !LONG_PROTECTED };
            packet[pn_offset..].fill(0);
            on_seal_failure(self.state.as_deref(), "protecting a packet's header");
        }
    }

    /// Bytes of ciphertext the protection looks at.
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

/// What a key does besides sealing and opening.
enum Extra {
    /// Writes this many bytes of PADDING (0: nothing), for the connection of this state if there is one yet.
    Padding(usize, Option<Arc<ConnectionState>>),
    /// Carries frames for the connection of this state, after so many key updates.
    Frames(Arc<ConnectionState>, u64),
}

/// A packet whose tag does not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAuthentic;

/// rustls's packet protection, plus our frame.
pub struct PacketProtection {
    key: Box<dyn rustls::quic::PacketKey>,
    tag_len: usize,
    extra: Extra,
}

impl PacketProtection {
    /// A key that only appends `padding` zero bytes: Initial, Handshake and 0-RTT. `state` is the connection's, if there is one yet.
    pub(crate) fn padded(
        key: Box<dyn rustls::quic::PacketKey>,
        padding: usize,
        state: Option<Arc<ConnectionState>>,
    ) -> Self {
        let tag_len = key.tag_len();
        Self { key, tag_len, extra: Extra::Padding(padding, state) }
    }

    /// A 1-RTT key of the connection of `state`, after so many key updates.
    pub(crate) fn one_rtt(
        key: Box<dyn rustls::quic::PacketKey>,
        state: Arc<ConnectionState>,
        updates: u64,
    ) -> Self {
        let tag_len = key.tag_len();
        Self { key, tag_len, extra: Extra::Frames(state, updates) }
    }

    /// Seals packet number `packet` of `path` (0 without multipath): `buf` is header, payload and room for the tag. Where the key cannot,
    /// the packet becomes junk: see the module.
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
        // PADDING needs no writing: stacks hand the reserved bytes over as zeros, and zero is the PADDING frame.
        let sealed = match path {
            0 => self.key.encrypt_in_place(packet, header, payload),
            // The nonce holds the path number too (draft-ietf-quic-multipath-21 §2.4); for path 0 it is the usual one.
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
        // What is trimmed off is overwritten even where sealing failed: some of the payload lay there.
        if let (Extra::Frames(state, _), true) = (&self.extra, departure.trim > 0) {
            state.write_trailer(tail, departure.release);
        }
    }

    /// Opens packet number `packet` of `path` in place and takes our frames out, and once there is a connection PADDING at the end.
    /// Where there may be none of ours the payload becomes empty, on which stacks close the connection.
    ///
    /// # Errors
    /// [`NotAuthentic`] when the tag does not match.
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
            // Of a server's first packet stacks count what is left of it against amplification (RFC 9000 §8.1): PADDING stays.
            Extra::Padding(_, None) => check_none(payload).map(|_| 0..len),
            Extra::Padding(_, Some(_)) => check_none(payload),
        };
        match visible {
            // The stack closes on a packet without frames.
            Ok(_) if self.state().is_some_and(|state| state.key_counts().unsealed() > 0) => {
                payload.clear()
            }
            Ok(visible) => {
                payload.truncate(visible.end);
                payload.advance(visible.start);
            }
            Err(NotNegotiated) => {
                tracing::warn!("a packet holds a timestamp where none was negotiated");
                // Stacks close on a packet without frames with PROTOCOL_VIOLATION (RFC 9000 §12.4), the code that this takes.
                payload.clear();
            }
        }
        Ok(())
    }

    /// Bytes to leave at the end of the next packet.
    pub fn tag_len(&self) -> usize {
        self.tag_len
            + match &self.extra {
                Extra::Padding(n, _) => *n,
                Extra::Frames(state, _) => state.reserved(),
            }
    }

    /// Packets that may be sealed with this key.
    pub fn confidentiality_limit(&self) -> u64 {
        self.key.confidentiality_limit()
    }

    fn state(&self) -> Option<&ConnectionState> {
        match &self.extra {
            Extra::Frames(state, _) => Some(state),
            Extra::Padding(_, state) => state.as_deref(),
        }
    }

    /// Packets that may fail to open before the connection must end.
    pub fn integrity_limit(&self) -> u64 {
        self.key.integrity_limit()
    }
}
