//! Tests of packets that are trimmed and delayed for a shaping socket.

use super::*;

#[test]
fn full_packets_leave_at_the_requested_size() {
    for offer in [None, Some(Offer::Lean), Some(Offer::Paper)] {
        for mtu in [1_200, 1_392] {
            for size in [1_000, 750, 500, 250] {
                let mut pair = Pair::confirmed(offer);
                pair.request(mtu, size, 0);
                let frames = stream(pair.capacity(mtu.into()));
                let (len, release, read) = pair.send(&frames, 0);
                // At most, 1200 bytes less header and tag (41), the timestamp frame, other frames
                // (64) and an ACK frame of one range (56) may be trimmed.
                let frame = match offer {
                    None => 0,
                    Some(Offer::Lean) => 8,
                    _ => 16,
                };
                let least = usize::from(mtu) - (1_200 - 41 - 64 - 56 - frame);
                assert_eq!(len, usize::from(size).max(least), "{offer:?} {mtu} {size}");
                assert_eq!((release, read), (None, frames), "{offer:?} {mtu} {size}");
            }
        }
    }
}

#[test]
fn packets_are_not_trimmed_before_the_first_ack() {
    let mut pair = Pair::new(None, false);
    pair.request(1_200, 500, 20);
    let frames = stream(pair.capacity(1_200));
    assert_eq!(pair.send(&frames, 0), (1_200, None, frames.clone()));
    pair.receive(PING);
    assert_eq!(pair.seal.tag_len(), TAG);
    pair.receive(ACK);
    assert_eq!(pair.seal.tag_len(), TAG + 700);
}

#[test]
fn small_packets_are_long_enough_for_header_protection() {
    let mut pair = Pair::confirmed(None);
    pair.request(1_200, 250, 0);
    let header = pair.header();
    let (len, _, read) = pair.send(PING, 0);
    assert_eq!((len, read), (header + 4 + TAG, vec![0, 0, 0, 0x01]));
    let (len, _, read) = pair.send(ACK, 0);
    assert_eq!((len, read), (header + ACK.len() + TAG, ACK.to_vec()));
}

#[test]
fn packets_with_path_frames_or_unknown_frames_keep_their_size() {
    let mut pair = Pair::confirmed(Some(Offer::Lean));
    pair.request(1_200, 500, 20);
    for ty in [0x1a, 0x1b] {
        let frames = [&[ty][..], &[7; 8], ACK].concat();
        let (len, release, read) = pair.send(&frames, 1_200);
        assert_eq!((len, release), (1_200, None));
        let read = unpadded(&read);
        assert_eq!(read[..frames.len()], frames);
        assert!(read[frames.len()..].iter().all(|byte| *byte == 0));
    }
    // This packet is an MTU probe.
    let (len, release, read) = pair.send(PING, 1_452);
    assert_eq!((len, release, unpadded(&read)[0]), (1_452, None, 0x01));
    // A STREAM frame without a length fills the rest of a packet with a challenge.
    let frames = [&[0x1a][..], &[7; 8], &stream(pair.capacity(1_200) - 9)].concat();
    let (len, _, read) = pair.send(&frames, 0);
    assert_eq!((len, unpadded(&read)), (1_200, &frames[..]));
    let (_, packet) = pair.build(&[0x40, 0x7f, 1, 2, 3], 0);
    assert!(pair.registry.read(&packet).is_none(), "a frame of an unknown extension");
    // A PATH_ACK frame is known. This one has path 1, largest packet 3, no delay, and one range of
    // one packet.
    let (len, _, _) = pair.send(&[0x3e, 0x01, 0x03, 0x00, 0x00, 0x00], 0);
    assert_eq!(len, pair.header() + 6 + TAG);
}

#[test]
fn empty_trimmed_packet_suspends_trimming() {
    let mut pair = Pair::confirmed(None);
    pair.request(1_200, 250, 0);
    assert_eq!(pair.seal.tag_len(), TAG + 950);
    // The stack wanted to send frames, but no frame fitted into the packet.
    pair.send(&[], 0);
    assert_eq!(pair.seal.tag_len(), TAG);
    pair.request(1_200, 250, 0);
    assert_eq!(pair.seal.tag_len(), TAG + 950);
}

#[test]
fn delayed_packets_keep_their_order_and_close_is_not_delayed() {
    let mut pair = Pair::confirmed(None);
    pair.clock.set(100);
    pair.request(1_200, 1_200, 20);
    let departs = |pair: &mut Pair, frames: &[u8]| pair.send(frames, 0).1;
    assert_eq!(departs(&mut pair, ACK), None, "nothing is held before it");
    assert_eq!(departs(&mut pair, PING), Some(120));
    assert_eq!(departs(&mut pair, ACK), Some(120), "not before the held one");
    assert_eq!(departs(&mut pair, &[0x1c, 0x00, 0x00, 0x00]), None);
    pair.clock.set(110);
    assert_eq!(departs(&mut pair, PING), Some(130));
    pair.request(1_200, 1_200, 5);
    assert_eq!(
        departs(&mut pair, PING),
        Some(130),
        "a packet with a shorter send delay does not overtake"
    );
    pair.request(1_200, 1_200, 0);
    assert_eq!(
        departs(&mut pair, PING),
        Some(130),
        "a packet without a send delay does not overtake"
    );
    // A timer may be late, so a packet without delay still goes through the delay line.
    pair.clock.set(132);
    assert_eq!(departs(&mut pair, PING), Some(132));
    pair.clock.set(200);
    pair.receive(ACK);
    assert_eq!(pair.seal.tag_len(), TAG, "the line is empty");
    assert_eq!(departs(&mut pair, PING), None);
}

#[test]
fn send_delay_reported_with_an_ack_is_that_of_the_acked_packet() {
    let mut pair = Pair::confirmed(None);
    let (at, ms) = (Time::from_millis, Duration::from_millis);
    pair.clock.set(90);
    pair.send(PING, 0);
    pair.clock.set(100);
    pair.request(1_200, 1_200, 20);
    pair.send(PING, 0);
    pair.clock.set(105);
    pair.send(ACK, 0);
    pair.clock.set(110);
    pair.request(1_200, 1_200, 50);
    pair.send(PING, 0);
    assert_eq!(
        pair.state.lock().send_delay_of(0, at(90)),
        ms(0),
        "it left before anything was held"
    );
    assert_eq!(pair.state.lock().send_delay_of(1, at(100)), ms(0), "another path");
    assert_eq!(pair.state.lock().send_delay_of(0, at(100)), ms(20));
    assert_eq!(pair.state.lock().send_delay_of(0, at(110)), ms(50));
    assert_eq!(pair.state.lock().send_delay_of(0, at(111)), ms(0));
}

#[test]
fn trim_is_set_per_connection_and_send_delay_per_path() {
    let mut pair = Pair::confirmed(None);
    let request = |path, size: usize, send_delay| ShapingRequest {
        path: Some(path),
        mtu: 1_200,
        shrink: 1_200 - size,
        send_delay: Duration::from_millis(send_delay),
    };
    pair.state.lock().request_shaping(1, request(0, 1_000, 0));
    pair.state.lock().request_shaping(2, request(1, 600, 30));
    assert_eq!(pair.state.trim().1, 600);
    let frames = stream(pair.capacity(1_200));
    assert_eq!(pair.send(&frames, 0), (600, None, frames.clone()), "path 0 holds nothing");
    // A third controller starts: its packets are not delayed, and it requests nothing.
    pair.state.lock().request_shaping(3, request(2, 1_200, 0));
    assert_eq!(pair.state.trim().1, 600);
    pair.state.remove_controller(2);
    pair.state.lock().request_shaping(1, request(0, 1_000, 0));
    assert_eq!(pair.state.trim().1, 200);
}

#[test]
fn reserved_room_is_constant_with_application_datagrams() {
    let mut pair = Pair::new(Some(Offer::Lean), true);
    let tag = pair.seal.tag_len();
    // The room is that of the trailer (26 bytes), four bytes of payload, and the timestamp frame.
    assert_eq!(tag, TAG + FRAME + 30);
    // 0-RTT packets reserve the room that the longest frame may need.
    assert_eq!(pair.state.zero_rtt_padding(), 16 + 30);
    pair.receive(ACK);
    let frames = stream(pair.capacity(1_200));
    assert_eq!(pair.send(&frames, 0), (1_200, None, [&[0; 30][..], &frames].concat()));
    pair.request(1_200, 500, 20);
    assert_eq!(pair.seal.tag_len(), tag);
    assert_eq!(pair.send(&frames, 0), (1_170, Some(20), frames));
}

#[test]
fn endpoint_without_a_shaping_socket_loses_only_five_packets() {
    let mut pair = Pair::confirmed(None);
    pair.request(1_200, 500, 0);
    let opens = |pair: &mut Pair| {
        let (number, mut packet) = pair.build(PING, 0);
        pair.unprotect.decrypt(1 + CID, &mut packet);
        let (header, payload) = packet.split_at(pair.header());
        pair.peer_open.decrypt(0, number, header, &mut BytesMut::from(payload)).is_ok()
    };
    assert_eq!((0..20).map(|_| opens(&mut pair)).position(|opens| opens), Some(5));
    assert!((0..20).all(|_| opens(&mut pair)));
    pair.request(1_200, 500, 0);
    assert_eq!(pair.seal.tag_len(), TAG);
    assert!(!pair.state.has_shaping_socket());
}
