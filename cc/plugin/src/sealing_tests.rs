//! Tests of packets that pass through keys and shaping socket. rustls's QUIC keys seal and open
//! them, as in a stack, but without a stack.

mod receive_timestamps;
mod shaping;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use fathom_cc::testing::Null;
use fathom_cc::{Capabilities, Controller, ControllerConfig, Missing, Start, Time};
use fathom_frames::{Dedup, varint};
use parking_lot::Mutex;
use proptest::prelude::*;

use crate::connection_state::ConnectionState;
use crate::core::Core;
use crate::packet_key::{HeaderProtection, PacketProtection};
use crate::session::initial_suite;
use crate::shaping::ShapingRequest;
use crate::shaping_socket::TrailerRegistry;
use crate::{Clock, EnableTimestamp, Extension, InUse, Offer, SystemClock};

/// Clock that shows the time it was set to.
struct ManualClock {
    start: Instant,
    elapsed: Mutex<Duration>,
}

impl ManualClock {
    fn set(&self, millis: u64) {
        *self.elapsed.lock() = Duration::from_millis(millis);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.start + *self.elapsed.lock()
    }
}

#[derive(Debug)]
struct Fixed;

impl ControllerConfig for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }
    fn spec(&self) -> String {
        self.name().into()
    }
    fn required(&self) -> Capabilities {
        Capabilities::NONE
    }
    fn start(&self, _: &Start) -> Result<Box<dyn Controller>, Missing> {
        Ok(Box::new(Null { window: 100_000 }))
    }
}

/// Returns the settings of connections with a fixed window.
fn at(clock: Arc<dyn Clock>, registry: Option<Arc<TrailerRegistry>>, extension: Extension) -> Core {
    Core {
        controller_config: Arc::new(Fixed),
        clock,
        extension,
        parameter: None,
        stamp: None,
        monitors_acks: false,
        registry,
    }
}

/// Returns settings of connections with a fixed window, and a registry that the connections use if
/// `shaping_socket` is true.
pub(crate) fn core(extension: Extension, shaping_socket: bool) -> (Core, Arc<TrailerRegistry>) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let registry = Arc::new(TrailerRegistry::new(clock.now()));
    (at(clock, shaping_socket.then(|| Arc::clone(&registry)), extension), registry)
}

/// Length of the connection ID. The header of the pair's packets is flags, connection ID, packet
/// number.
const CID: usize = 8;
const TAG: usize = 16;
/// Length of a SYNC_TIMESTAMP frame without echo.
const FRAME: usize = 8;
const PING: &[u8] = &[0x01];
/// ACK of packet 0.
const ACK: &[u8] = &[0x02, 0x00, 0x00, 0x00, 0x00];

/// A sender with a shaping socket and its peer.
struct Pair {
    clock: Arc<ManualClock>,
    registry: Arc<TrailerRegistry>,
    state: Arc<ConnectionState>,
    peer: Arc<ConnectionState>,
    seal: PacketProtection,
    open: PacketProtection,
    peer_seal: PacketProtection,
    peer_open: PacketProtection,
    /// Header protection of the packets that the sender sends.
    protect: HeaderProtection,
    unprotect: HeaderProtection,
    next: u64,
    peer_next: u64,
}

impl Pair {
    fn new(offer: Option<Offer>, datagrams: bool) -> Self {
        Self::offering([Extension { offer, datagrams, ..Extension::OFF }; 2])
    }

    /// Creates a pair from the extensions that the sender and its peer offer.
    fn offering(extensions: [Extension; 2]) -> Self {
        let clock = Arc::new(ManualClock { start: SystemClock.now(), elapsed: Mutex::default() });
        let registry = Arc::new(TrailerRegistry::new(clock.now()));
        let state = |registry, extension| {
            let core = at(Arc::clone(&clock) as Arc<dyn Clock>, registry, extension);
            Arc::new(core.connection(Capabilities::NONE, None))
        };
        let (state, peer) =
            (state(Some(Arc::clone(&registry)), extensions[0]), state(None, extensions[1]));
        for (one, other) in [(&state, &peer), (&peer, &state)] {
            let mut parameters = Vec::new();
            other.complete_parameters(&mut parameters);
            one.negotiate(&parameters).expect("negotiated");
        }
        let suite = initial_suite(&rustls::crypto::ring::default_provider()).expect("a suite");
        let keys = |side| suite.keys(b"shaping", side, rustls::quic::Version::V1);
        let (ours, theirs) = (keys(rustls::Side::Client), keys(rustls::Side::Server));
        Self {
            seal: PacketProtection::one_rtt(ours.local.packet, Arc::clone(&state), 0),
            open: PacketProtection::one_rtt(ours.remote.packet, Arc::clone(&state), 0),
            peer_seal: PacketProtection::one_rtt(theirs.local.packet, Arc::clone(&peer), 0),
            peer_open: PacketProtection::one_rtt(theirs.remote.packet, Arc::clone(&peer), 0),
            peer,
            protect: HeaderProtection::new(ours.local.header, Some(Arc::clone(&state))),
            unprotect: HeaderProtection::new(theirs.remote.header, None),
            clock,
            registry,
            state,
            next: 0,
            peer_next: 0,
        }
    }

    /// Creates a pair whose peer has acknowledged a packet, so that the sender's packets may be
    /// trimmed.
    fn confirmed(offer: Option<Offer>) -> Self {
        let mut pair = Self::new(offer, false);
        pair.receive(ACK);
        pair
    }

    fn request(&self, mtu: u16, size: u16, send_delay: u64) {
        let send_delay = Duration::from_millis(send_delay);
        self.state.lock().request_shaping(
            0,
            ShapingRequest { path: Some(0), mtu, shrink: usize::from(mtu - size), send_delay },
        );
    }

    /// Receives the peer's next packet.
    fn receive(&mut self, frames: &[u8]) -> Vec<u8> {
        let read = self.receive_number(self.peer_next, frames);
        self.peer_next += 1;
        read
    }

    fn receive_number(&self, number: u64, frames: &[u8]) -> Vec<u8> {
        let mut packet = [&[0x40; 10][..], frames].concat();
        packet.resize(packet.len() + self.peer_seal.tag_len(), 0);
        self.peer_seal.encrypt(0, number, &mut packet, 10);
        let mut payload = BytesMut::from(&packet[10..]);
        self.open.decrypt(0, number, &packet[..10], &mut payload).expect("authentic");
        payload.to_vec()
    }

    fn header(&self) -> usize {
        1 + CID + 2
    }

    /// Returns the maximum number of frame bytes in a datagram of `size` bytes.
    fn capacity(&self, size: usize) -> usize {
        size - self.header() - self.seal.tag_len()
    }

    /// Builds a packet as stacks do: with PADDING up to a datagram of `pad` bytes, with room for
    /// the tag, sealed, and with protected header.
    fn build(&mut self, frames: &[u8], pad: usize) -> (u64, Vec<u8>) {
        let number = self.next;
        self.next += 1;
        let mut packet = vec![0x41; self.header() - 2];
        packet.extend_from_slice(&(number as u16).to_be_bytes());
        packet.extend_from_slice(frames);
        let tag = self.seal.tag_len();
        // Header protection needs 20 bytes of packet number, payload and tag (RFC 9001 §5.4.2).
        let least = (packet.len() - frames.len() + 18).saturating_sub(tag);
        packet.resize(packet.len().max(pad.saturating_sub(tag)).max(least), 0);
        packet.resize(packet.len() + tag, 0);
        self.seal.encrypt(0, number, &mut packet, 1 + CID + 2);
        self.protect.encrypt(1 + CID, &mut packet);
        (number, packet)
    }

    /// Returns the payload that the peer's stack reads in a datagram.
    fn read(&self, number: u64, datagram: &[u8]) -> Vec<u8> {
        let mut datagram = datagram.to_vec();
        self.unprotect.decrypt(1 + CID, &mut datagram);
        assert_eq!(datagram[..2], [0x41, 0x41], "header protection");
        let (header, payload) = datagram.split_at(self.header());
        let mut payload = BytesMut::from(payload);
        self.peer_open.decrypt(0, number, header, &mut payload).expect("authentic");
        payload.to_vec()
    }

    /// Sends frames through the shaping socket. Returns the length on the wire, the release time in
    /// ms, and the payload that the peer reads.
    fn send(&mut self, frames: &[u8], pad: usize) -> (usize, Option<u64>, Vec<u8>) {
        let (number, packet) = self.build(frames, pad);
        let (sent, release) = match self.registry.read(&packet) {
            Some(trim) => (trim.datagram, trim.release),
            None => (&packet[..], None),
        };
        let release = release.map(|at| at.duration_since(self.clock.start).as_millis() as u64);
        (sent.len(), release, self.read(number, sent))
    }
}

/// Returns a payload without the PADDING before it. PADDING must not follow it, because the last
/// frame may have no length.
fn unpadded(read: &[u8]) -> &[u8] {
    &read[read.iter().take_while(|byte| **byte == 0).count()..]
}

/// Returns a STREAM frame that extends to the end of its packet.
fn stream(len: usize) -> Vec<u8> {
    let mut frame = vec![0x08, 0x04];
    frame.resize(len, 0xa5);
    frame
}

/// Returns an extension that offers TIMESTAMP but not SYNC_TIMESTAMP.
const fn timestamp(says: EnableTimestamp) -> Extension {
    Extension { timestamp: Some(says), ..Extension::OFF }
}

#[test]
fn timestamps_are_sent_with_the_next_ack() {
    let mut pair = Pair::offering([timestamp(EnableTimestamp::Both); 2]);
    pair.receive(ACK);
    assert_eq!(pair.seal.tag_len(), TAG, "nothing was ack-eliciting");
    pair.receive(PING);
    assert_eq!(pair.seal.tag_len(), TAG + 6);
    pair.clock.set(1_000);
    let (number, mut packet) = pair.build(ACK, 0);
    assert_eq!(pair.seal.tag_len(), TAG, "one stamp for one acknowledgement");
    pair.unprotect.decrypt(1 + CID, &mut packet);
    let suite = initial_suite(&rustls::crypto::ring::default_provider()).expect("a suite");
    let key = suite.keys(b"shaping", rustls::Side::Server, rustls::quic::Version::V1).remote.packet;
    let (header, sealed) = packet.split_at_mut(pair.header());
    let payload = key.decrypt_in_place(number, header, sealed).expect("authentic");
    // 1 s is 125,000 units of 8 us, on top of the epoch's 16,384.
    assert_eq!(payload, [&[0x42, 0xf5, 0x80, 0x02, 0x28, 0x48], ACK].concat());
    assert_eq!(pair.state.monitor().report().in_use, InUse::Timestamp);
}

#[test]
fn timestamp_longer_than_its_reserved_room_waits_for_a_packet() {
    let mut pair = Pair::offering([timestamp(EnableTimestamp::Both); 2]);
    let stamps = |pair: &mut Pair| {
        pair.receive(PING);
        let (room, before) = (pair.seal.tag_len() - TAG, pair.state.monitor().report().stamps_sent);
        let (_, _, read) = pair.send(ACK, 0);
        assert_eq!(unpadded(&read), ACK);
        (room, pair.state.monitor().report().stamps_sent - before)
    };
    assert_eq!(stamps(&mut pair), (6, 1));
    // 2^30 units of 8 us are 8,590 s.
    pair.clock.set(8_600_000);
    assert_eq!(stamps(&mut pair), (6, 0));
    assert_eq!(stamps(&mut pair), (10, 1));
    assert_eq!(pair.peer.monitor().report().stamps_received, 2);
}

#[test]
fn timestamp_gives_the_delay_of_the_acknowledged_packet() {
    let mut pair = Pair::offering([timestamp(EnableTimestamp::Both); 2]);
    for step in 0..6u64 {
        pair.clock.set(1_000 + 100 * step);
        pair.send(PING, 0);
        // The way there takes 20 ms for the first three packets, then 27 ms. The way back takes
        // 30 ms.
        let there = if step < 3 { 20 } else { 27 };
        pair.clock.set(1_000 + 100 * step + there);
        let number = pair.peer_next;
        let mut packet = [&[0x40; 10][..], &[0x02, step as u8, 0, 0, 0]].concat();
        packet.resize(packet.len() + pair.peer_seal.tag_len(), 0);
        pair.peer_seal.encrypt(0, number, &mut packet, 10);
        pair.peer_next += 1;
        pair.clock.set(1_000 + 100 * step + there + 30);
        let mut payload = BytesMut::from(&packet[10..]);
        pair.open.decrypt(0, number, &packet[..10], &mut payload).expect("authentic");
        assert_eq!(payload[..], [0x02, step as u8, 0, 0, 0]);
        let report = pair.state.monitor().report();
        assert_eq!((report.negotiated, report.samples.samples), (true, step + 1));
        let delay = report.one_way.expect("a delay").as_nanos();
        let queued = if step < 3 { 0 } else { 7_000_000 };
        assert!((delay - queued).abs() < 500_000, "{delay} ns in step {step}");
    }
}

#[test]
fn sync_timestamp_is_preferred_to_timestamp() {
    let mut pair = Pair::offering([Extension::default(); 2]);
    assert_eq!(
        (pair.state.monitor().report().in_use, pair.peer.monitor().report().in_use),
        (InUse::Sync, InUse::Sync)
    );
    pair.receive(PING);
    assert_eq!(pair.seal.tag_len(), TAG + FRAME);
    let both = [&[0x42, 0xf5, 0x41, 0x56], ACK].concat();
    assert_eq!(pair.receive(&both), ACK);
    let report = pair.state.monitor().report();
    assert_eq!(
        (report.stamps_received, report.samples.samples),
        (report.stamps_received.min(1), 0)
    );
}

#[test]
fn peer_that_only_sends_timestamps_receives_none() {
    // Like lsquic, the peer sends timestamps but does not read them.
    let mut pair =
        Pair::offering([timestamp(EnableTimestamp::Both), timestamp(EnableTimestamp::Sends)]);
    pair.receive(PING);
    assert_eq!(pair.seal.tag_len(), TAG);
    let (ours, peers) = (pair.state.monitor().report(), pair.peer.monitor().report());
    assert_eq!(
        (ours.negotiated, ours.in_use, peers.negotiated, peers.in_use),
        (true, InUse::Timestamp, false, InUse::Timestamp)
    );
}

#[test]
fn frame_that_was_not_negotiated_empties_the_payload() {
    const TS: &[u8] = &[0x42, 0xf5, 0x41, 0x56];
    let lean = Extension { offer: Some(Offer::Lean), ..Extension::OFF };
    // The reader has only SYNC_TIMESTAMP, or a TIMESTAMP parameter that does not read, or nothing
    // negotiated.
    let pairs = [
        [lean; 2],
        [timestamp(EnableTimestamp::Sends), timestamp(EnableTimestamp::Both)],
        [lean, Extension::OFF],
    ];
    for offers in pairs {
        let mut pair = Pair::offering(offers);
        assert_eq!(pair.receive(&[PING, TS].concat()), [], "{offers:?}");
        assert_eq!(pair.receive(&[TS, PING].concat()), [], "{offers:?}");
    }
    // An endpoint without any extension passes on frames that it does not know.
    let mut pair = Pair::offering([Extension::OFF; 2]);
    assert_eq!(pair.receive(&[TS, PING].concat()), [TS, PING].concat());
    // These frames are truncated or have a type that is encoded in too many bytes.
    let mut pair = Pair::offering([timestamp(EnableTimestamp::Both); 2]);
    for malformed in [&[0x42, 0xf5][..], &[0x42, 0xf5, 0x80, 0, 0], &[0x80, 0x00, 0x02, 0xf5, 0x05]]
    {
        let payload = [PING, malformed].concat();
        assert!(pair.receive(&payload).ends_with(&payload));
    }
}

#[test]
fn extension_frames_are_rejected_in_initial_packets() {
    let suite = initial_suite(&rustls::crypto::ring::default_provider()).expect("a suite");
    let keys = |side| suite.keys(b"shaping", side, rustls::quic::Version::V1);
    let (client, server) = (keys(rustls::Side::Client), keys(rustls::Side::Server));
    let (seal, open) =
        (client.local.packet, PacketProtection::padded(server.remote.packet, 0, None));
    for (frames, empty) in [
        (&[0x42, 0xf5, 0x05, 0x01][..], true),
        (&[0x01, 0x91, 0xfa, 0x6b, 0x58, 0, 0, 0, 9], true),
        (PING, false),
    ] {
        let mut payload = frames.to_vec();
        let tag = seal.encrypt_in_place(7, b"header", &mut payload).expect("sealed");
        let mut sealed = BytesMut::from(&[&payload[..], tag.as_ref()].concat()[..]);
        open.decrypt(0, 7, b"header", &mut sealed).expect("authentic");
        assert_eq!(sealed.is_empty(), empty, "{frames:x?}");
    }
}

#[test]
fn padding_of_received_initial_packets_is_removed() {
    let suite = initial_suite(&rustls::crypto::ring::default_provider()).expect("a suite");
    let keys = |side| suite.keys(b"shaping", side, rustls::quic::Version::V1);
    let opened = |state| {
        let mut payload = [PING, &[0; 1_000]].concat();
        let tag = keys(rustls::Side::Client)
            .local
            .packet
            .encrypt_in_place(7, b"header", &mut payload)
            .expect("sealed");
        let mut sealed = BytesMut::from(&[&payload[..], tag.as_ref()].concat()[..]);
        let open = PacketProtection::padded(keys(rustls::Side::Server).remote.packet, 0, state);
        open.decrypt(0, 7, b"header", &mut sealed).expect("authentic");
        sealed
    };
    assert_eq!(opened(Some(Pair::confirmed(None).state)), PING);
    assert_eq!(opened(None).len(), PING.len() + 1_000);
}

/// Returns the length in bytes of the longest ACK frame for these packets. The frame has as many
/// ranges as stacks remember, and 8 bytes for each field that is not part of a range.
fn ack_frame(packets: &std::collections::BTreeSet<u64>) -> usize {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for packet in packets.iter().rev() {
        match ranges.last_mut() {
            Some((low, _)) if *low == packet + 1 => *low = *packet,
            _ => ranges.push((*packet, *packet)),
        }
    }
    let int = |n: u64| varint::len(n).expect("a varint");
    let more: usize =
        ranges.windows(2).take(63).map(|w| int(w[0].0 - w[1].1 - 2) + int(w[1].1 - w[1].0)).sum();
    // Type, largest, delay, count of ranges, first range, three ECN counts.
    1 + 8 + 8 + 2 + int(ranges[0].1 - ranges[0].0) + 3 * 8 + more
}

proptest! {
    /// Whatever sizes and send delays are requested, the peer reads the frames that were sent, and
    /// datagrams leave with the intended size and release time.
    #[test]
    fn peer_reads_exactly_the_frames_that_were_sealed(
        extension in prop_oneof![
            Just(Extension::OFF),
            Just(Extension { offer: Some(Offer::Lean), ..Extension::OFF }),
            Just(Extension { offer: Some(Offer::Paper), ..Extension::OFF }),
            Just(timestamp(EnableTimestamp::Both)),
        ],
        mtu in 1_200u16..1_500,
        steps in prop::collection::vec((0.0..=1.0f64, 0.0..=1.0f64, 0u64..40, 0u8..8, any::<bool>()), 1..30),
    ) {
        let mut pair = Pair::offering([extension; 2]);
        pair.receive(ACK);
        for (at, (size, fill, send_delay, kind, receive)) in steps.into_iter().enumerate() {
            pair.clock.set(at as u64 * 10);
            pair.request(mtu, (f64::from(mtu) * size) as u16, send_delay);
            if receive {
                pair.receive(&[ACK, PING].concat());
            }
            let tag = pair.seal.tag_len();
            prop_assert!(tag + 41 <= 1_200, "a loss probe holds a header");
            let room = pair.capacity(mtu.into());
            let (frames, pad) = match kind {
                0 => (PING.to_vec(), 0),
                1 => (ACK.to_vec(), 0),
                2 => ([&[0x1a][..], &[1; 8]].concat(), 1_200),
                3 => (PING.to_vec(), usize::from(mtu) + 50),
                4 => ([ACK, &stream(room - ACK.len())[..]].concat(), 0),
                _ => (stream(2 + (fill * (room - 2) as f64) as usize), 0),
            };
            let stack = (pair.header() + frames.len()).max(pad.saturating_sub(tag)) + tag;
            let trim = pair.state.trim().1;
            let (len, release, read) = pair.send(&frames, pad);
            let read = unpadded(&read);
            if matches!(kind, 2 | 3) {
                // The payload may contain the stack's own PADDING.
                prop_assert_eq!(&read[..frames.len()], &frames[..]);
                prop_assert!(read[frames.len()..].iter().all(|byte| *byte == 0));
            } else {
                prop_assert!(read.starts_with(&frames) && read.len() <= frames.len().max(4), "{:?}", read);
            }
            if matches!(kind, 2 | 3) {
                prop_assert_eq!((len, release), (stack, None));
            } else {
                prop_assert!(len == stack - trim || len == pair.header() + 4 + TAG, "{} of {} less {}", len, stack, trim);
                prop_assert!(release.is_none() || trim > 0);
            }
        }
    }

    /// An ACK frame of all received packets fits into a loss probe, however many bytes are trimmed.
    #[test]
    fn ack_of_all_received_packets_fits_into_a_trimmed_probe(steps in prop::collection::vec((1u64..200, any::<bool>(), 0u8..20), 1..400)) {
        let mut pair = Pair::confirmed(None);
        pair.request(1_200, 250, 0);
        let (mut packets, mut largest) = (std::collections::BTreeSet::from([0]), 0u64);
        for (gap, late, acknowledge) in steps {
            let number = if late { largest.saturating_sub(gap) } else { largest + 1 + (gap / 50) * gap };
            largest = largest.max(number);
            pair.receive_number(number, PING);
            // Stacks drop packets later than this, because they could be duplicates.
            if largest - number < Dedup::WINDOW {
                packets.insert(number);
            }
            let ack = ack_frame(&packets);
            prop_assert!(pair.seal.tag_len() + 25 + 64 + ack <= 1_200, "{} bytes beside {}", ack, pair.seal.tag_len());
            if acknowledge == 0 {
                // The stack then writes an ACK frame, here the longest possible one.
                let mut frame = vec![0x02];
                let put = |frame: &mut Vec<u8>, n: u64| {
                    let mut bytes = [0; 8];
                    let len = varint::encode(n, &mut bytes).expect("fits");
                    frame.extend_from_slice(&bytes[..len]);
                };
                let low = |from: u64| (0..=from).rev().take_while(|n| packets.contains(n)).last().expect("itself");
                let (mut high, mut ranges, mut body) = (largest, 0u64, Vec::new());
                let mut bottom = low(high);
                let first = high - bottom;
                while let Some(next) = packets.range(..bottom).next_back().copied().filter(|_| ranges < 63) {
                    put(&mut body, bottom - next - 2);
                    (high, bottom) = (next, low(next));
                    put(&mut body, high - bottom);
                    ranges += 1;
                }
                for n in [largest, 0, ranges, first] {
                    put(&mut frame, n);
                }
                frame.extend_from_slice(&body);
                pair.send(&frame, 0);
            }
        }
    }
}
