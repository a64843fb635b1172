//! Tests with 1-RTT payloads that no honest endpoint sends.

use proptest::prelude::*;

use super::{ConnectionConfig, EnableTimestamp, Extension, Offer, ReceiveTimestamps};
use crate::recovery::RecoveryOps;
use crate::test_utils::{emit_flight, process_flight, Pipe};
use crate::{packet, Connection, ConnectionId, Error, Header, Type};

const LEAN: [u8; 8] = [0x91, 0xfa, 0x6b, 0x58, 0, 0, 0, 9];
const ECHO: [u8; 16] = [0x91, 0xfa, 0x6b, 0x59, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2];
const PING: u8 = 1;
/// TIMESTAMP frames: 2736 and 500000 us, in units of 8 us.
const SHORT: [u8; 4] = [0x42, 0xf5, 0x41, 0x56];
const LATER: [u8; 6] = [0x42, 0xf5, 0x80, 0x00, 0xf4, 0x24];
/// Extension of a peer from another project.
const TIMESTAMP: Extension = Extension { timestamp: Some(EnableTimestamp::Both), ..Extension::OFF };

/// Receive timestamps in ACK frames.
const RECEIVE: Extension = Extension {
    receive_timestamps: Some(ReceiveTimestamps { max_per_ack: 32, exponent: 0 }),
    ..Extension::OFF
};
/// ACK_RECEIVE_TIMESTAMPS of packet 0, which arrived 9 us after the epoch, and the same with ECN
/// counts.
const RECEIVED: [u8; 12] = [0x83, 0x17, 0x83, 0x07, 0, 0, 0, 0, 1, 0, 1, 9];
const RECEIVED_ECN: [u8; 15] = [0x83, 0x17, 0x83, 0x08, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 9];

fn pipe(offer: Option<Offer>) -> Pipe {
    extended(Extension { offer, ..Extension::OFF })
}

fn extended(extension: Extension) -> Pipe {
    let mut config = Pipe::default_config("fathom:reno").expect("a configuration");
    config.set_fathom(ConnectionConfig { extension, ..ConnectionConfig::default() });
    let mut pipe = Pipe::with_config(&mut config).expect("two ends");
    pipe.handshake().expect("no reason to fail");
    pipe.advance().expect("no reason to fail");
    pipe
}

/// Returns a 1-RTT packet of `conn` with this payload.
fn packet(conn: &mut Connection, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; payload.len() + 100];
    let mut b = octets::OctetsMut::with_slice(&mut bytes);
    let pn = conn.next_pkt_num;
    let path = conn.paths.get_active().expect("a path");
    let dcid = conn.ids.get_dcid(path.active_dcid_seq.expect("an id")).expect("known").cid.to_vec();
    let header = Header {
        ty: Type::Short,
        version: conn.version,
        dcid: ConnectionId::from_vec(dcid),
        scid: ConnectionId::default(),
        pkt_num: pn,
        pkt_num_len: 4,
        token: None,
        versions: None,
        key_phase: conn.key_phase,
    };
    header.to_bytes(&mut b).expect("room");
    b.put_u32(pn as u32).expect("room");
    let offset = b.off();
    b.put_bytes(payload).expect("room");
    let seal = conn.crypto_ctx[packet::Epoch::Application].crypto_seal.as_mut().expect("keys");
    let len = packet::encrypt_pkt(&mut b, pn, 4, payload.len(), offset, None, seal).expect("room");
    conn.next_pkt_num += 1;
    bytes.truncate(len);
    bytes
}

fn hear(pipe: &mut Pipe, payload: &[u8]) -> Result<usize, Error> {
    let mut bytes = packet(&mut pipe.client, payload);
    pipe.server_recv(&mut bytes)
}

fn stamps(pipe: &Pipe) -> u64 {
    pipe.server.fathom().map_or(0, |probe| probe.report().stamps_received)
}

#[test]
fn timestamps_are_removed_anywhere_in_a_payload() {
    let payloads: [&[&[u8]]; 5] = [
        &[&LEAN],
        &[&LEAN, &[PING]],
        &[&[PING], &LEAN],
        &[&[PING], &LEAN, &[0, 0]],
        &[&LEAN, &LEAN, &[PING]],
    ];
    for payload in payloads {
        let mut pipe = pipe(Some(Offer::Lean));
        let before = stamps(&pipe);
        assert!(hear(&mut pipe, &payload.concat()).is_ok(), "{payload:?}");
        assert_eq!(stamps(&pipe) - before, 1, "{payload:?}");
        assert!(pipe.server.local_error().is_none(), "{payload:?}");
    }
}

#[test]
fn frame_that_was_not_negotiated_closes_the_connection() {
    const SENDS: Extension =
        Extension { timestamp: Some(EnableTimestamp::Sends), ..Extension::OFF };
    let sync = |offer| Extension { offer: Some(offer), ..Extension::OFF };
    let (frame_encoding, violation) = ((Error::InvalidFrame, 0x7), (Error::InvalidPacket, 0xa));
    let cases: [(Extension, &[u8], _); 14] = [
        // These frames are unknown to both endpoints.
        (Extension::OFF, &LEAN, frame_encoding),
        (Extension::OFF, &LATER, frame_encoding),
        (sync(Offer::Lean), &ECHO, violation),
        (sync(Offer::Sends), &LEAN, violation),
        (sync(Offer::Lean), &[LEAN; 5].concat(), violation),
        (sync(Offer::Lean), &LATER, violation),
        (SENDS, &SHORT, violation),
        (SENDS, &[&[PING][..], &SHORT].concat(), violation),
        (TIMESTAMP, &LEAN, violation),
        (Extension::OFF, &RECEIVED, frame_encoding),
        (TIMESTAMP, &RECEIVED, violation),
        (sync(Offer::Lean), &RECEIVED_ECN, violation),
        (RECEIVE, &LEAN, violation),
        // Truncated: stock reads the type, which it does not know.
        (RECEIVE, &RECEIVED[..9], frame_encoding),
    ];
    for (extension, payload, (error, code)) in cases {
        let mut pipe = extended(extension);
        assert_eq!(hear(&mut pipe, payload), Err(error), "{extension:?} {payload:x?}");
        assert_eq!(
            pipe.server.local_error().map(|e| (e.is_app, e.error_code)),
            Some((false, code))
        );
    }
}

#[test]
fn largest_of_several_timestamps_in_a_packet_is_used() {
    let payloads: [&[&[u8]]; 4] = [
        &[&SHORT],
        &[&SHORT, &LATER, &[PING]],
        &[&LATER, &[PING], &SHORT],
        &[&[PING], &[0x42, 0xf5, 0x05].repeat(300)],
    ];
    for payload in payloads {
        let mut pipe = extended(TIMESTAMP);
        let before = stamps(&pipe);
        assert!(hear(&mut pipe, &payload.concat()).is_ok(), "{payload:?}");
        assert_eq!(stamps(&pipe) - before, 1, "{payload:?}");
        assert!(pipe.server.local_error().is_none(), "{payload:?}");
    }
}

#[test]
fn stock_quiche_sees_a_plain_ack_without_receive_timestamps() {
    let payloads: [&[&[u8]]; 5] = [
        &[&RECEIVED],
        &[&RECEIVED, &[PING]],
        &[&[PING], &RECEIVED_ECN, &[PING]],
        &[&[PING], &RECEIVED, &[0, 0]],
        &[&RECEIVED.repeat(50), &RECEIVED_ECN],
    ];
    for payload in payloads {
        let mut pipe = extended(RECEIVE);
        let before = stamps(&pipe);
        assert!(hear(&mut pipe, &payload.concat()).is_ok(), "{payload:?}");
        assert_eq!(stamps(&pipe) - before, 1, "{payload:?}");
        assert!(pipe.server.local_error().is_none(), "{payload:?}");
    }
}

#[test]
fn ack_frames_of_quiche_carry_receive_timestamps() {
    let mut pipe = extended(RECEIVE);
    let exchange = |pipe: &mut Pipe| {
        pipe.client.stream_send(0, b"hello", false).expect("room");
        pipe.advance().expect("no reason to fail");
        let [client, server] =
            [&pipe.client, &pipe.server].map(|side| side.fathom().expect("ours").report());
        assert_eq!(client.stamps_received, server.stamps_sent);
        (server.stamps_sent, client.samples.samples)
    };
    let (before, after) = (exchange(&mut pipe), exchange(&mut pipe));
    assert!(after.0 > before.0 && after.1 > before.1, "{before:?} {after:?}");
}

#[test]
fn malformed_timestamp_is_a_frame_encoding_error() {
    // These frames are truncated or have the type in four bytes.
    let malformed: [&[u8]; 4] =
        [&LATER[..2], &LATER[..5], &SHORT[..3], &[0x80, 0x00, 0x02, 0xf5, 0x05]];
    for frame in malformed {
        let mut pipe = extended(TIMESTAMP);
        let error = hear(&mut pipe, &[&[PING, PING][..], frame].concat());
        assert_eq!(error, Err(Error::InvalidFrame), "{frame:x?}");
        assert_eq!(pipe.server.local_error().map(|e| e.error_code), Some(0x7), "{frame:x?}");
    }
}

#[test]
fn quiche_exchanges_timestamps_only_in_1_rtt_packets() {
    for extension in [TIMESTAMP, Extension::default()] {
        let mut config = Pipe::default_config("fathom:reno").expect("a configuration");
        config.set_fathom(ConnectionConfig { extension, ..ConnectionConfig::default() });
        let mut pipe = Pipe::with_config(&mut config).expect("two ends");
        let link = super::ConnectionPlugin::new(&config).expect("a link");
        let mut payload = [&[PING][..], &LATER].concat();
        assert_eq!(link.on_packet_received(0, false, &mut payload), Err(Error::InvalidPacket));
        assert_eq!(link.on_packet_received(0, false, &mut [PING]), Ok(0));
        pipe.handshake().expect("no reason to fail");
    }
}

#[test]
fn truncated_extension_frame_closes_the_connection() {
    for cut in 1..LEAN.len() {
        let mut pipe = pipe(Some(Offer::Lean));
        assert!(hear(&mut pipe, &LEAN[..cut]).is_err(), "cut to {cut}");
        assert_eq!(stamps(&pipe), pipe.client.fathom().map_or(0, |p| p.report().stamps_sent));
    }
}

#[test]
fn timestamp_frame_is_last_in_the_payload() {
    let mut pipe = pipe(Some(Offer::Paper));
    pipe.client.stream_send(0, b"hello", true).expect("room");
    let mut out = [0xee; 1500];
    let (len, _) = pipe.client.send(&mut out).expect("data waits");
    let mut b = octets::OctetsMut::with_slice(&mut out[..len]);
    let mut header = Header::from_bytes(&mut b, pipe.server.source_id().len()).expect("ours");
    let open =
        pipe.server.crypto_ctx[packet::Epoch::Application].crypto_open.as_ref().expect("keys");
    let sealed = b.cap();
    packet::decrypt_hdr(&mut b, &mut header, open).expect("ours");
    let payload = packet::decrypt_pkt(&mut b, header.pkt_num, header.pkt_num_len, sealed, open)
        .expect("ours");
    let payload = payload.buf().to_vec();
    let at = payload.len() - ECHO.len();
    // STREAM with the offset bit clear or set, length and fin; then the timestamp frame, and
    // nothing behind it.
    assert!((0x08..=0x0f).contains(&payload[0]), "{payload:x?}");
    assert!(payload[at..].starts_with(&ECHO[..4]), "{payload:x?}");
}

#[test]
fn server_may_update_keys_with_handshake_done() {
    let mut config = Pipe::default_config("fathom:reno").expect("a configuration");
    let mut pipe = Pipe::with_config(&mut config).expect("two ends");
    while !pipe.server.is_established() {
        let flight = emit_flight(&mut pipe.client).expect("no reason to fail");
        process_flight(&mut pipe.server, flight).expect("no reason to fail");
        if !pipe.server.is_established() {
            let flight = emit_flight(&mut pipe.server).expect("no reason to fail");
            process_flight(&mut pipe.client, flight).expect("no reason to fail");
        }
    }
    assert!(pipe.client.is_established() && !pipe.client.handshake_confirmed);
    let keys = &mut pipe.server.crypto_ctx[packet::Epoch::Application];
    keys.crypto_seal =
        keys.crypto_seal.as_ref().map(|seal| seal.derive_next_packet_key().expect("keys"));
    keys.crypto_open =
        keys.crypto_open.as_ref().map(|open| open.derive_next_packet_key().expect("keys"));
    pipe.server.key_phase = !pipe.server.key_phase;
    pipe.advance().expect("no reason to fail");
    assert!(pipe.client.handshake_confirmed && pipe.client.key_phase);
    assert_eq!(pipe.client.stream_send(0, b"hello", true), Ok(5));
    pipe.advance().expect("no reason to fail");
    assert_eq!(pipe.server.stream_recv(0, &mut [0; 10]), Ok((5, true)));
}

#[test]
fn probe_timeout_is_reported_once() {
    let pipe = pipe(Some(Offer::Lean));
    let path = pipe.client.paths.get_active().expect("a path");
    let path_controller = path.recovery.fathom().expect("ours");
    assert_eq!(path.recovery.cwnd(), path_controller.window());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn quiche_never_panics_on_any_payload(
        extension in prop::sample::select(vec![
            Extension { offer: Some(Offer::Paper), ..Extension::OFF },
            Extension { offer: Some(Offer::Lean), ..Extension::OFF },
            TIMESTAMP,
            RECEIVE,
        ]),
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 4..80), 1..6),
        ours in prop::collection::vec(0..6_usize, 6),
    ) {
        let mut pipe = extended(extension);
        for (payload, kind) in payloads.iter().zip(ours) {
            // Random bytes rarely contain a timestamp frame, or an ACK frame of sent packets.
            let front: &[u8] = [&LEAN[..], &ECHO[..], &[0x03, 0, 0, 0, 0, 0x3f, 0x3f, 0x3f][..], &SHORT[..2], &RECEIVED[..5], &RECEIVED[..9]][kind];
            let _ = hear(&mut pipe, &[front, payload].concat());
            let _ = pipe.server.send(&mut [0; 1500]);
            pipe.server.on_timeout();
        }
    }

    #[test]
    fn quiche_never_panics_on_any_datagram(mut datagram in prop::collection::vec(any::<u8>(), 1..300), ecn in any::<u8>(), short in any::<bool>()) {
        let mut pipe = pipe(Some(Offer::Lean));
        if short {
            let id = pipe.server.source_id().to_vec();
            datagram.splice(..0, [0x40].into_iter().chain(id));
        }
        pipe.server.set_received_ecn(ecn);
        let _ = pipe.server_recv(&mut datagram);
        prop_assert!(pipe.server.local_error().is_none(), "what cannot be opened is dropped");
    }
}
