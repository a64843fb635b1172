//! Tests of ACK frames that report arrival times, sealed and opened.

use fathom_frames::ReceiveTimestamps;

use super::*;

const RECEIVE: Extension = Extension {
    receive_timestamps: Some(ReceiveTimestamps { max_per_ack: 32, exponent: 0 }),
    ..Extension::OFF
};

fn ints(values: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    for value in values {
        let mut bytes = [0; 8];
        let len = varint::encode(*value, &mut bytes).expect("fits");
        out.extend_from_slice(&bytes[..len]);
    }
    out
}

/// Returns an ACK frame of packets 0 to `largest`.
fn ack(largest: u64) -> Vec<u8> {
    ints(&[0x02, largest, 0, 0, largest])
}

/// Returns the payload as it is on the wire.
fn opened(pair: &mut Pair, frames: &[u8]) -> Vec<u8> {
    let (number, mut packet) = pair.build(frames, 0);
    pair.unprotect.decrypt(1 + CID, &mut packet);
    let suite = initial_suite(&rustls::crypto::ring::default_provider()).expect("a suite");
    let key = suite.keys(b"shaping", rustls::Side::Server, rustls::quic::Version::V1).remote.packet;
    let (header, sealed) = packet.split_at_mut(pair.header());
    key.decrypt_in_place(number, header, sealed).expect("authentic").to_vec()
}

#[test]
fn ack_frame_carries_receive_timestamps() {
    let mut pair = Pair::offering([RECEIVE; 2]);
    assert_eq!(pair.seal.tag_len(), TAG, "nothing arrived");
    pair.clock.set(10);
    pair.receive(PING);
    assert_eq!(pair.seal.tag_len(), TAG + 10 - 2, "a time in two bytes");
    pair.clock.set(12);
    pair.receive(&stream(100));
    assert_eq!(pair.seal.tag_len(), TAG + 10);
    // Packet 1 arrived 12 ms after the epoch, and packet 0 arrived 2 ms earlier.
    let tail = ints(&[1, 0, 2, 12_000, 2_000]);
    assert_eq!(
        opened(&mut pair, &ack(1)),
        [&[0x83, 0x17, 0x83, 0x07, 1, 0, 0, 1], &tail[..]].concat()
    );
    assert_eq!(pair.seal.tag_len(), TAG, "each packet once");
    let ecn = ints(&[0x03, 2, 0, 0, 2, 3, 0, 1]);
    pair.receive(PING);
    let tail = ints(&[1, 0, 1, 12_000]);
    assert_eq!(
        opened(&mut pair, &[PING, &ecn, PING].concat()),
        [PING, &ints(&[0x317_8308, 2, 0, 0, 2, 3, 0, 1]), &tail, PING].concat()
    );
    let report = pair.state.monitor().report();
    assert_eq!((report.in_use, report.negotiated, report.stamps_sent), (InUse::Receive, true, 2));
    assert_eq!(report.peer_receive_timestamps, RECEIVE.receive_timestamps);
}

#[test]
fn packet_without_an_ack_uses_up_the_reserved_room() {
    let mut pair = Pair::offering([RECEIVE; 2]);
    pair.receive(PING);
    let room = pair.seal.tag_len() - TAG;
    assert_eq!(room, 8 - 1, "the epoch itself");
    let full = stream(pair.capacity(1_200));
    assert_eq!(opened(&mut pair, &full), [&vec![0; room], &full[..]].concat());
    assert_eq!(pair.seal.tag_len(), TAG);
    assert_eq!(opened(&mut pair, &ack(0)), ack(0), "an ACK frame without room stays one");
    assert_eq!(pair.state.monitor().report().stamps_sent, 0);
}

#[test]
fn full_packet_with_receive_timestamps_keeps_its_frames() {
    // The frame has ranges of one packet each, from packet 400 down.
    let ranges = 60;
    let gaps: Vec<u64> = std::iter::repeat_n([0, 0], ranges).flatten().collect();
    for ecn in [&[][..], &[7, 0, 3]] {
        let mut pair = Pair::offering([RECEIVE; 2]);
        for number in 300..=400 {
            pair.clock.set(number);
            pair.receive_number(number, PING);
        }
        let ty = if ecn.is_empty() { 0x02 } else { 0x03 };
        let ack = [ints(&[ty, 400, 0, ranges as u64, 0]), ints(&gaps), ints(ecn)].concat();
        let frames = [&ack[..], &stream(pair.capacity(1_200) - ack.len())].concat();
        let (number, packet) = pair.build(&frames, 0);
        assert_eq!(packet.len(), 1_200);
        let before = pair.peer.monitor().report();
        assert_eq!(
            pair.read(number, &packet),
            frames,
            "what the peer's stack reads is what ours wrote"
        );
        let after = pair.peer.monitor().report();
        assert_eq!(
            (after.stamps_received - before.stamps_received, after.acks - before.acks),
            (1, 1)
        );
        assert_eq!(
            after.ecn.map(|ecn| (ecn.ect0, ecn.ect1, ecn.ce)),
            (ty == 0x03).then_some((7, 0, 3))
        );
    }
}

#[test]
fn budget_bounds_the_number_of_receive_timestamps() {
    let mut pair = Pair::offering([RECEIVE; 2]);
    let mut written = 0;
    for packet in 0..2_000 {
        pair.receive(PING);
        pair.send(&ack(packet), 0);
        let sent = pair.state.monitor().report().stamps_sent;
        assert!(sent - written <= 1);
        written = sent;
    }
    // The budget allows 512 times ten bytes, because the clock stands still.
    assert!((450..800).contains(&written), "{written}");
}

#[test]
fn reserved_room_is_constant_with_application_datagrams() {
    let datagrams = Extension { datagrams: true, ..RECEIVE };
    let mut pair = Pair::offering([datagrams, RECEIVE]);
    let tag = pair.seal.tag_len();
    for packet in 0..20 {
        pair.receive(PING);
        assert_eq!(pair.seal.tag_len(), tag);
        let (_, _, read) = pair.send(&ack(packet), 0);
        assert_eq!(unpadded(&read), ack(packet));
    }
    assert_eq!(pair.state.monitor().report().stamps_sent, 20);
}

/// Returns the forward delay of each packet. The delay grows by `grown` ms after the fourth packet.
/// Each packet is acknowledged `held` ms after its arrival.
fn delays(held: u64, grown: u64) -> Vec<i64> {
    let mut pair = Pair::offering([RECEIVE; 2]);
    let mut delays = Vec::new();
    for step in 0..8u64 {
        pair.clock.set(1_000 + 100 * step);
        let (number, packet) = pair.build(PING, 0);
        let there = if step < 4 { 20 } else { 20 + grown };
        pair.clock.set(1_000 + 100 * step + there);
        pair.read(number, &packet);
        pair.clock.set(1_000 + 100 * step + there + held);
        let mut packet = [&[0x40; 10][..], &ints(&[0x02, step, 125 * held, 0, step])].concat();
        packet.resize(packet.len() + pair.peer_seal.tag_len(), 0);
        pair.peer_seal.encrypt(0, pair.peer_next, &mut packet, 10);
        pair.clock.set(1_000 + 100 * step + there + held + 30);
        let mut payload = BytesMut::from(&packet[10..]);
        pair.open.decrypt(0, pair.peer_next, &packet[..10], &mut payload).expect("authentic");
        assert_eq!(payload[..], ints(&[0x02, step, 125 * held, 0, step]));
        pair.peer_next += 1;
        let report = pair.state.monitor().report();
        assert_eq!(
            (report.samples.samples, report.stamps_received),
            (step + 1, step + 1),
            "{report:?}"
        );
        delays.push(report.one_way.expect("a delay").as_nanos());
    }
    delays
}

#[test]
fn receive_timestamps_give_the_delay_of_acknowledged_packets() {
    for held in [0, 5, 40] {
        for (step, delay) in delays(held, 7).into_iter().enumerate() {
            let queued = if step < 4 { 0 } else { 7_000_000 };
            assert!(
                (delay - queued).abs() < 500_000,
                "{delay} ns in step {step}, held for {held} ms"
            );
        }
    }
}

#[test]
fn unrequested_receive_timestamps_empty_the_payload() {
    let frame = ints(&[0x317_8307, 0, 0, 0, 0, 1, 0, 1, 9]);
    let lean = Extension { offer: Some(Offer::Lean), ..Extension::OFF };
    for offers in [[lean, RECEIVE], [lean; 2], [timestamp(EnableTimestamp::Both); 2]] {
        let mut pair = Pair::offering(offers);
        assert_eq!(pair.receive(&frame), [], "{offers:?}");
        assert_eq!(pair.receive(&[PING, &frame].concat()), [], "{offers:?}");
    }
    // An endpoint without any extension passes on frames that it does not know.
    assert_eq!(Pair::offering([Extension::OFF, RECEIVE]).receive(&frame), frame);
    // If another frame is in use, the frame counts as an ACK frame, but its times are ignored.
    let both = Extension { receive_timestamps: RECEIVE.receive_timestamps, ..Extension::default() };
    let mut pair = Pair::offering([both; 2]);
    pair.send(ACK, 0);
    assert_eq!(pair.receive(&frame), ints(&[0x02, 0, 0, 0, 0]));
    let report = pair.state.monitor().report();
    assert_eq!(
        (report.in_use, report.stamps_received, report.samples.samples),
        (InUse::Sync, 0, 0)
    );
    pair.receive(PING);
    assert_eq!(pair.seal.tag_len(), TAG + FRAME);
}

#[test]
fn peer_may_send_receive_timestamps_without_receiving_any() {
    let mut pair = Pair::offering([RECEIVE, Extension::OFF]);
    let report = pair.state.monitor().report();
    assert_eq!(
        (report.in_use, report.negotiated),
        (InUse::None, false),
        "nobody says that they will come"
    );
    pair.send(PING, 0);
    pair.receive(PING);
    assert_eq!(pair.seal.tag_len(), TAG, "and it is sent none");
    assert_eq!(
        pair.receive(&ints(&[0x317_8307, 0, 0, 0, 0, 1, 0, 1, 9])),
        ints(&[0x02, 0, 0, 0, 0])
    );
    assert_eq!(pair.state.monitor().report().samples.samples, 1);
}

#[test]
fn malformed_receive_timestamps_reach_the_stack_unchanged() {
    let frame = ints(&[0x317_8307, 9, 0, 0, 9, 1, 0, 2, 900, 7]);
    let mut pair = Pair::offering([RECEIVE; 2]);
    for cut in 1..frame.len() {
        assert!(
            pair.receive(&[PING, &frame[..cut]].concat()).ends_with(&frame[..cut]),
            "cut to {cut}"
        );
    }
    // The frames have a packet below packet 0, counts beyond the payload, or a type in eight bytes.
    for frame in [
        ints(&[0x317_8307, 1, 0, 0, 0, 1, 2, 0]),
        ints(&[0x317_8307, 1, 0, 0, 0, 1 << 60, 0, 1, 9]),
        ints(&[0x317_8307, 9, 0, 0, 0, 1, 0, 1 << 60]),
        [&[0xc0, 0, 0, 0, 0x03, 0x17, 0x83, 0x07], &frame[4..]].concat(),
    ] {
        assert!(pair.receive(&[PING, &frame].concat()).ends_with(&frame), "{frame:x?}");
    }
    assert_eq!(pair.state.monitor().report().samples.samples, 0);
}

#[test]
fn impossible_receive_times_are_ignored() {
    let mut pair = Pair::offering([RECEIVE; 2]);
    for packet in 0..40 {
        pair.clock.set(packet);
        pair.send(PING, 0);
    }
    pair.clock.set(60);
    // The frames have times before the epoch, packets that were never sent, or more timestamps than
    // requested.
    let many: Vec<u64> = std::iter::repeat_n(0, 62).collect();
    for frame in [
        ints(&[0x317_8307, 3, 0, 0, 0, 1, 0, 2, 5, 9]),
        ints(&[0x317_8307, 90, 0, 0, 0, 1, 0, 1, 60_000]),
        [ints(&[0x317_8307, 62, 0, 0, 62, 1, 0, 63, 60_000]), ints(&many)].concat(),
        ints(&[0x317_8307, 20, 0, 0, 20, 1, 0, 1, varint::MAX]),
    ] {
        pair.receive(&frame);
    }
    let report = pair.state.monitor().report();
    assert!(report.samples.samples <= 2, "{report:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever arrives in between, and whatever is trimmed, the peer's stack reads the frames that
    /// our stack wrote.
    #[test]
    fn peer_reads_exactly_the_frames_that_were_sealed(
        datagrams in any::<bool>(),
        shaped in any::<bool>(),
        max_per_ack in 1..70u64,
        exponent in 0..=20u8,
        steps in prop::collection::vec((0u8..6, 1u64..5, 0u64..200, 0.0..=1.0f64), 1..60),
    ) {
        let wanted = Extension { receive_timestamps: Some(ReceiveTimestamps { max_per_ack, exponent }), ..Extension::OFF };
        let mut pair = Pair::offering([Extension { datagrams, ..RECEIVE }, wanted]);
        pair.receive_number(0, ACK);
        let (mut now, mut largest) = (0, 0);
        for (kind, gap, millis, fill) in steps {
            now += millis;
            pair.clock.set(now);
            if shaped {
                pair.request(1_392, (1_392.0 * fill) as u16, millis);
            }
            let room = pair.capacity(1_392);
            let ack = [ints(&[0x03, largest, 9, 0, 0]), ints(&[5, 6, 7])].concat();
            let frames = match kind {
                0 => { largest += gap; pair.receive_number(largest, PING); continue },
                1 => { largest += gap; pair.receive_number(largest, &stream(300)); continue },
                2 => ack,
                3 => [&ack[..], &stream(room - ack.len())].concat(),
                4 => [PING, &ack, PING].concat(),
                _ => stream(2 + (fill * (room - 2) as f64) as usize),
            };
            let (len, _, read) = pair.send(&frames, 0);
            prop_assert!(len <= 1_392);
            let others = |payload: &[u8]| payload.iter().copied().filter(|byte| *byte != 0).collect::<Vec<_>>();
            match kind {
                // PADDING may precede its ACK frame.
                4 => prop_assert_eq!(others(&read), others(&frames)),
                _ => prop_assert_eq!(unpadded(&read), &frames[..]),
            }
        }
    }
}
