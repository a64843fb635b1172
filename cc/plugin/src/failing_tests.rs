//! Tests of packets that a crypto provider cannot seal: their content must not leave in the clear.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::BytesMut;
use fathom_cc::Capabilities;
use rustls::quic::{Tag, Version};
use rustls::{CipherSuite, Error, Side};

use crate::connection_state::ConnectionState;
use crate::packet_key::{HeaderProtection, PacketProtection};
use crate::sealing_tests::core;
use crate::session::seals_paths;
use crate::shaping::ShapingRequest;
use crate::{Extension, Offer};

const HEADER: usize = 11;
const TAG: usize = 16;
const SECRET: &[u8] = b"the payload of a packet, in the clear";

/// Key that fails once switched, and then leaves the plaintext as it is or partly overwritten.
struct Failing<K: ?Sized> {
    fails: Arc<AtomicBool>,
    key: Box<K>,
}

impl<K: ?Sized> Failing<K> {
    fn check(&self) -> Result<(), Error> {
        if self.fails.load(Ordering::Relaxed) { Err(Error::EncryptError) } else { Ok(()) }
    }
}

impl rustls::quic::PacketKey for Failing<dyn rustls::quic::PacketKey> {
    fn encrypt_in_place(
        &self,
        number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, Error> {
        if self.check().is_err() {
            payload[..4].fill(0xee);
        }
        self.check().and_then(|()| self.key.encrypt_in_place(number, header, payload))
    }

    // Packets of other paths use rustls's provided method, which always fails.

    fn decrypt_in_place<'a>(
        &self,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        self.key.decrypt_in_place(number, header, payload)
    }

    fn tag_len(&self) -> usize {
        self.key.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.key.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.key.integrity_limit()
    }
}

impl rustls::quic::HeaderProtectionKey for Failing<dyn rustls::quic::HeaderProtectionKey> {
    fn encrypt_in_place(
        &self,
        sample: &[u8],
        first: &mut u8,
        number: &mut [u8],
    ) -> Result<(), Error> {
        self.check().and_then(|()| self.key.encrypt_in_place(sample, first, number))
    }

    fn decrypt_in_place(
        &self,
        sample: &[u8],
        first: &mut u8,
        number: &mut [u8],
    ) -> Result<(), Error> {
        self.check().and_then(|()| self.key.decrypt_in_place(sample, first, number))
    }

    fn sample_len(&self) -> usize {
        self.key.sample_len()
    }
}

/// Sender whose keys fail once switched.
struct Fixture {
    state: Arc<ConnectionState>,
    packets: Arc<AtomicBool>,
    headers: Arc<AtomicBool>,
    seal: PacketProtection,
    /// Key of an Initial packet.
    early: PacketProtection,
    protect: HeaderProtection,
    /// Key with which the peer seals packets for the sender.
    peer: Box<dyn rustls::quic::PacketKey>,
    open: PacketProtection,
    registry: Arc<crate::TrailerRegistry>,
}

impl Fixture {
    fn new(suite: CipherSuite, shaping_socket: bool) -> Self {
        let extension = Extension { offer: Some(Offer::Lean), ..Extension::OFF };
        let (core, registry) = core(extension, shaping_socket);
        let state = Arc::new(core.connection(Capabilities::NONE, None));
        let mut parameters = Vec::new();
        state.complete_parameters(&mut parameters);
        state.negotiate(&parameters).expect("negotiated");
        let provider = rustls::crypto::ring::default_provider();
        let suite = provider
            .cipher_suites
            .iter()
            .find(|s| s.suite() == suite)
            .and_then(|s| s.tls13()?.quic_suite());
        let keys = |side| suite.expect("a suite of ring's").keys(b"failing", side, Version::V1);
        let (ours, again, theirs) = (keys(Side::Client), keys(Side::Client), keys(Side::Server));
        let [packets, headers] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let failing = |key| -> Box<dyn rustls::quic::PacketKey> {
            Box::new(Failing::<dyn rustls::quic::PacketKey> { fails: Arc::clone(&packets), key })
        };
        let header: Box<dyn rustls::quic::HeaderProtectionKey> =
            Box::new(Failing::<dyn rustls::quic::HeaderProtectionKey> {
                fails: Arc::clone(&headers),
                key: ours.local.header,
            });
        Self {
            seal: PacketProtection::one_rtt(failing(ours.local.packet), Arc::clone(&state), 0),
            early: PacketProtection::padded(
                failing(again.local.packet),
                0,
                Some(Arc::clone(&state)),
            ),
            protect: HeaderProtection::new(header, Some(Arc::clone(&state))),
            peer: theirs.local.packet,
            open: PacketProtection::one_rtt(ours.remote.packet, Arc::clone(&state), 0),
            state,
            packets,
            headers,
            registry,
        }
    }

    /// Returns a packet as it leaves: sealed and with protected header; `first` is its first byte.
    fn send(&self, path: u32, first: u8) -> Vec<u8> {
        let mut packet = vec![0x42; HEADER];
        packet[0] = first;
        packet.extend_from_slice(&[0x08, 0x04]);
        packet.extend_from_slice(SECRET);
        packet.resize(packet.len() + self.seal.tag_len(), 0);
        self.seal.encrypt(path, 7, &mut packet, HEADER);
        self.protect.encrypt(HEADER - 2, &mut packet);
        packet
    }

    /// Returns the peer's packet as the sender's stack reads it.
    fn receive(&self, number: u64, frames: &[u8]) -> Vec<u8> {
        let mut payload = frames.to_vec();
        let tag = self.peer.encrypt_in_place(number, b"header", &mut payload).expect("sealed");
        let mut payload = BytesMut::from(&[&payload[..], tag.as_ref()].concat()[..]);
        self.open.decrypt(0, number, b"header", &mut payload).expect("authentic");
        payload.to_vec()
    }

    fn unsealed(&self) -> u64 {
        self.state.monitor().report().unsealed
    }
}

const SUITES: [CipherSuite; 2] =
    [CipherSuite::TLS13_AES_128_GCM_SHA256, CipherSuite::TLS13_CHACHA20_POLY1305_SHA256];
const PING: &[u8] = &[0x01, 0, 0, 0];

/// Returns whether `packet` contains no four consecutive bytes of the secret.
fn says_nothing(packet: &[u8]) -> bool {
    !SECRET.windows(4).any(|part| packet.windows(4).any(|seen| seen == part))
}

#[test]
fn packet_that_cannot_be_sealed_is_sent_as_zeros() {
    for suite in SUITES {
        let fixture = Fixture::new(suite, false);
        assert_eq!(fixture.receive(0, PING), PING[..1], "all but the PADDING");
        fixture.packets.store(true, Ordering::Relaxed);
        let packet = fixture.send(0, 0x41);
        assert!(says_nothing(&packet), "{suite:?}");
        assert!(packet[HEADER..].iter().all(|byte| *byte == 0), "{suite:?}: payload and tag");
        assert_ne!(
            packet[HEADER - 2..HEADER],
            [0x42; 2],
            "{suite:?}: its number is protected all the same"
        );
        assert_eq!(fixture.unsealed(), 1);
        // One such packet is enough to end the connection, even if later packets can be sealed.
        fixture.packets.store(false, Ordering::Relaxed);
        assert_eq!(fixture.receive(1, PING), [], "stacks close on a packet without frames");
    }
}

#[test]
fn packet_of_second_path_is_zeroed_if_its_key_cannot_seal() {
    for suite in SUITES {
        let fixture = Fixture::new(suite, false);
        // The key was not switched to fail: rustls's provided method fails.
        let packet = fixture.send(1, 0x41);
        assert!(
            says_nothing(&packet) && packet[HEADER..].iter().all(|byte| *byte == 0),
            "{suite:?}"
        );
        assert_eq!((fixture.unsealed(), fixture.receive(0, PING)), (1, vec![]));
    }
}

#[test]
fn packet_whose_header_cannot_be_protected_is_sent_as_zeros() {
    // A short header keeps its form and fixed bit; a long header also keeps its type.
    for (suite, (first, left)) in
        SUITES.into_iter().flat_map(|s| [(0x5d, 0x40), (0xed, 0xe0)].map(|f| (s, f)))
    {
        let fixture = Fixture::new(suite, false);
        fixture.headers.store(true, Ordering::Relaxed);
        let packet = fixture.send(0, first);
        assert_eq!(packet[0], left, "{suite:?}");
        assert_eq!(
            packet[1..HEADER - 2],
            [0x42; HEADER - 3],
            "{suite:?}: whose it is, is never protected"
        );
        assert!(
            packet[HEADER - 2..].iter().all(|byte| *byte == 0),
            "{suite:?}: number, payload and tag"
        );
        assert_eq!((fixture.unsealed(), fixture.receive(0, PING)), (1, vec![]));
    }
}

#[test]
fn trimmed_bytes_of_an_unsealable_packet_are_zeros() {
    for suite in SUITES {
        let fixture = Fixture::new(suite, true);
        // After an acknowledgement, packets may be trimmed.
        fixture.receive(0, &[0x02, 0x00, 0x00, 0x00, 0x00]);
        fixture.state.lock().request_shaping(
            0,
            ShapingRequest {
                path: Some(0),
                mtu: 1_200,
                shrink: 700,
                send_delay: std::time::Duration::ZERO,
            },
        );
        assert!(fixture.seal.tag_len() > TAG + 600);
        fixture.packets.store(true, Ordering::Relaxed);
        let packet = fixture.send(0, 0x41);
        assert!(
            says_nothing(&packet),
            "{suite:?}: what is trimmed off may leave where the socket is not the shaping socket's"
        );
        let trim = fixture.registry.read(&packet).expect("trimmed all the same").datagram;
        assert!(trim.len() < 100 && trim[HEADER..].iter().all(|byte| *byte == 0), "{suite:?}");
        fixture.headers.store(true, Ordering::Relaxed);
        assert!(says_nothing(&fixture.send(0, 0x41)), "{suite:?}");
        assert_eq!(fixture.unsealed(), 3);
    }
}

#[test]
fn unsealable_initial_packet_is_sent_as_zeros() {
    let fixture = Fixture::new(SUITES[0], false);
    fixture.packets.store(true, Ordering::Relaxed);
    let mut packet = [&[0xc1; HEADER][..], SECRET, &[0; TAG]].concat();
    fixture.early.encrypt(0, 0, &mut packet, HEADER);
    assert!(packet[HEADER..].iter().all(|byte| *byte == 0));
    assert_eq!((fixture.unsealed(), fixture.receive(0, PING)), (1, vec![]));
}

#[test]
fn packet_whose_header_cannot_be_unprotected_is_not_opened() {
    let fixture = Fixture::new(SUITES[0], false);
    fixture.headers.store(true, Ordering::Relaxed);
    let mut packet = vec![0x55; 60];
    fixture.protect.decrypt(HEADER - 2, &mut packet);
    assert_eq!((packet, fixture.unsealed()), (vec![0x55; 60], 0));
}

#[test]
fn cipher_suites_of_ring_can_seal_packets_of_second_paths() {
    assert!(seals_paths(&rustls::crypto::ring::default_provider()));
}
