//! 1-RTT payloads that no honest endpoint sends, byte by byte.

use proptest::prelude::*;

use super::Extension;
use super::{Offer, Setup};
use crate::recovery::RecoveryOps;
use crate::test_utils::Pipe;
use crate::{packet, Connection, ConnectionId, Error, Header, Type};

const LEAN: [u8; 8] = [0x91, 0xfa, 0x6b, 0x58, 0, 0, 0, 9];
const ECHO: [u8; 16] = [0x91, 0xfa, 0x6b, 0x59, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2];
const PING: u8 = 1;

fn pipe(offer: Option<Offer>) -> Pipe {
    let mut config = Pipe::default_config("fathom:reno").expect("a configuration");
    config.set_fathom(Setup { extension: Extension { offer, ..Extension::default() }, ..Setup::default() });
    let mut pipe = Pipe::with_config(&mut config).expect("two ends");
    pipe.handshake().expect("no reason to fail");
    pipe.advance().expect("no reason to fail");
    pipe
}

/// A 1-RTT packet of `conn`'s with this payload.
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
fn stamps_are_taken_out_wherever_they_lie() {
    let payloads: [&[&[u8]]; 5] =
        [&[&LEAN], &[&LEAN, &[PING]], &[&[PING], &LEAN], &[&[PING], &LEAN, &[0, 0]], &[&LEAN, &LEAN, &[PING]]];
    for payload in payloads {
        let mut pipe = pipe(Some(Offer::Lean));
        let before = stamps(&pipe);
        assert!(hear(&mut pipe, &payload.concat()).is_ok(), "{payload:?}");
        assert_eq!(stamps(&pipe) - before, 1, "{payload:?}");
        assert!(pipe.server.local_error().is_none(), "{payload:?}");
    }
}

#[test]
fn what_was_not_agreed_closes_the_connection() {
    let cases: [(Option<Offer>, &[u8]); 4] = [
        (None, &LEAN),
        (Some(Offer::Lean), &ECHO),
        (Some(Offer::Sends), &LEAN),
        (Some(Offer::Lean), &[LEAN; 5].concat()),
    ];
    for (offer, payload) in cases {
        let mut pipe = pipe(offer);
        assert_eq!(hear(&mut pipe, payload), Err(Error::InvalidFrame), "{offer:?} {payload:x?}");
        assert!(pipe.server.local_error().is_some());
    }
}

#[test]
fn a_cut_frame_closes_the_connection() {
    for cut in 1..LEAN.len() {
        let mut pipe = pipe(Some(Offer::Lean));
        assert!(hear(&mut pipe, &LEAN[..cut]).is_err(), "cut to {cut}");
        assert_eq!(stamps(&pipe), pipe.client.fathom().map_or(0, |p| p.report().stamps_sent));
    }
}

#[test]
fn our_frame_is_the_end_of_the_payload_and_its_room_is_clean() {
    let mut pipe = pipe(Some(Offer::Paper));
    pipe.client.stream_send(0, b"hello", true).expect("room");
    let mut out = [0xee; 1500];
    let (len, _) = pipe.client.send(&mut out).expect("data waits");
    let mut b = octets::OctetsMut::with_slice(&mut out[..len]);
    let mut header = Header::from_bytes(&mut b, pipe.server.source_id().len()).expect("ours");
    let open = pipe.server.crypto_ctx[packet::Epoch::Application].crypto_open.as_ref().expect("keys");
    let sealed = b.cap();
    packet::decrypt_hdr(&mut b, &mut header, open).expect("ours");
    let payload = packet::decrypt_pkt(&mut b, header.pkt_num, header.pkt_num_len, sealed, open).expect("ours");
    let payload = payload.buf().to_vec();
    let at = payload.len() - ECHO.len();
    // STREAM with offset bit clear or set, length and fin; then our frame, nothing behind it.
    assert!((0x08..=0x0f).contains(&payload[0]), "{payload:x?}");
    assert!(payload[at..].starts_with(&ECHO[..4]), "{payload:x?}");
}

#[test]
fn one_controller_hears_one_probe_and_its_window_is_the_path_s() {
    let pipe = pipe(Some(Offer::Lean));
    let path = pipe.client.paths.get_active().expect("a path");
    let steering = path.recovery.fathom().expect("ours");
    assert_eq!(path.recovery.cwnd(), steering.window());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_payload_makes_anything_panic(
        paper in any::<bool>(),
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 4..80), 1..6),
        ours in prop::collection::vec(0..3_usize, 6),
    ) {
        let mut pipe = pipe(Some(if paper { Offer::Paper } else { Offer::Lean }));
        for (payload, kind) in payloads.iter().zip(ours) {
            // Random bytes seldom hold a frame of ours, or an ACK frame of what was sent.
            let front: &[u8] = [&LEAN[..], &ECHO[..], &[0x03, 0, 0, 0, 0, 0x3f, 0x3f, 0x3f][..]][kind];
            let _ = hear(&mut pipe, &[front, payload].concat());
            let _ = pipe.server.send(&mut [0; 1500]);
            pipe.server.on_timeout();
        }
    }

    #[test]
    fn no_datagram_makes_anything_panic(mut datagram in prop::collection::vec(any::<u8>(), 1..300), ecn in any::<u8>(), short in any::<bool>()) {
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
