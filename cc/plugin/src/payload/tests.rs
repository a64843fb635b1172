//! Tests of reading and removing frames.

use fathom_frames::parameter::Negotiated;
use fathom_frames::{NegotiatedReceiveTimestamps, Timestamps};

use super::*;

const OURS: [u8; 8] = [0x91, 0xfa, 0x6b, 0x58, 0, 0, 0, 9];
const LEAN: NegotiatedExtensions = NegotiatedExtensions {
    sync: Negotiated {
        place: fathom_frames::parameter::Placement::BesideAcks,
        echoes: false,
        reads: true,
        reads_echoes: false,
    },
    timestamps: NONE,
    receive_timestamps: NO_RECEIPTS,
};
const NO_RECEIPTS: NegotiatedReceiveTimestamps =
    NegotiatedReceiveTimestamps { sends: None, reads: None, expects: false, accepts: false };
const RECEIPTS: NegotiatedExtensions = NegotiatedExtensions {
    receive_timestamps: NegotiatedReceiveTimestamps {
        reads: Some(0),
        accepts: true,
        ..NO_RECEIPTS
    },
    timestamps: NONE,
    ..TIMESTAMPS
};
const NONE: Timestamps = Timestamps { sends: false, reads: false, accepts: false };
const TIMESTAMPS: NegotiatedExtensions = NegotiatedExtensions {
    sync: Negotiated {
        place: fathom_frames::parameter::Placement::Never,
        echoes: false,
        reads: false,
        reads_echoes: false,
    },
    timestamps: Timestamps { sends: true, reads: true, accepts: true },
    receive_timestamps: NO_RECEIPTS,
};

fn found(payload: &[u8]) -> IncomingFrames {
    try_found(payload, &LEAN).expect("ours to read")
}

fn try_found(payload: &[u8], negotiated: &NegotiatedExtensions) -> Option<IncomingFrames> {
    let mut found = IncomingFrames::default();
    found.read(payload, negotiated).ok().map(|()| found)
}

#[test]
fn path_acks_are_found_between_other_frames() {
    // PATH_ACK of path 5, largest 100, delay 32, ranges 96..=100 and 87..=91; PATH_ACK_ECN of
    // path 0, largest 7; a PING.
    let payload = [
        &OURS[..],
        &[0x3e, 0x05, 0x40, 0x64, 0x20, 0x01, 0x04, 0x03, 0x04],
        &[0x3f, 0x00, 0x07, 0x01, 0x00, 0x00, 0x06, 0x00, 0x02],
        &[0x01],
    ]
    .concat();
    let found = found(&payload);
    let first =
        AckSeen { path: 5, largest: 100, first_range: 4, raw_delay: 32, ..AckSeen::default() };
    let counts = EcnCounts { ect0: 6, ect1: 0, ce: 2 };
    let second = AckSeen { largest: 7, raw_delay: 1, ecn: Some(counts), ..AckSeen::default() };
    assert!(found.acks().eq([&first, &second]));
    assert!(found.ack_eliciting);
    assert!(found.ranges().eq(std::iter::once(0..8)));
    assert_eq!(found.stamp.map(|s| s.sent), Some(9));
}

#[test]
fn unknown_frame_ends_parsing() {
    let unknown = [&OURS[..], &[0x02, 9, 0, 0, 0], &[0x40, 0x7b, 1, 2, 3], &OURS[..]].concat();
    let found = found(&unknown);
    assert!(found.ranges().eq(std::iter::once(0..8)));
    assert_eq!(found.acks().count(), 1);
    assert!(found.ack_eliciting);
}

#[test]
fn payload_of_a_single_stream_frame_is_not_parsed() {
    for ty in 0x00..=0xff_u8 {
        // The payload has stream 0, an offset or data, and then bytes that would be a PING or a
        // timestamp frame.
        let payload = [&[ty, 0, 1][..], &OURS].concat();
        let walked = found(&payload);
        if is_one_stream_frame(&payload) {
            assert!((0x08..=0x0f).contains(&ty));
            assert!(walked.ack_eliciting && walked.count == 0 && walked.ack.is_none(), "{ty:#x}");
        }
    }
    assert!(is_one_stream_frame(&[0x08, 0]) && is_one_stream_frame(&[0x0d, 0, 0]));
    // The frames have stream 4, the offset 1000 if they have an offset, and then 3 bytes to the
    // end. In the other frames, the length is one byte too short or too long.
    for frame in [&[0x0a, 4][..], &[0x0e, 4, 0x43, 0xe8], &[0x0f, 4, 0x43, 0xe8]] {
        assert!(is_one_stream_frame(&[frame, &[3, 7, 7, 7]].concat()));
        assert!(!is_one_stream_frame(&[frame, &[2, 7, 7, 7]].concat()));
        assert!(!is_one_stream_frame(&[frame, &[4, 7, 7, 7]].concat()));
    }
    assert!(
        !is_one_stream_frame(&[0x0a, 0])
            && !is_one_stream_frame(&[0x0e, 0, 0x40])
            && !is_one_stream_frame(&[])
    );
}

#[test]
fn truncated_path_ack_ends_parsing() {
    let whole = [0x3f, 0x00, 0x07, 0x01, 0x00, 0x00, 0x06, 0x00, 0x02];
    assert_eq!(found(&whole).acks().count(), 1);
    for len in 1..whole.len() {
        assert!(found(&whole[..len]).acks().next().is_none(), "truncated to {len}");
    }
    // A range count far beyond the end of the payload.
    assert!(
        found(&[0x3e, 0, 7, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0])
            .acks()
            .next()
            .is_none()
    );
}

#[test]
fn extension_frame_that_was_not_negotiated_is_an_error() {
    assert!(try_found(&OURS, &NegotiatedExtensions::default()).is_none());
    assert!(try_found(&OURS.repeat(5), &LEAN).is_none());
    assert!(try_found(&OURS.repeat(4), &LEAN).is_some());
    assert!(try_found(&OURS, &TIMESTAMPS).is_none());
    for negotiated in [NegotiatedExtensions::default(), LEAN] {
        assert!(try_found(&[0x42, 0xf5, 0x01], &negotiated).is_none());
        assert!(try_found(&[0x01, 0x42, 0xf5, 0x01, 0x01], &negotiated).is_none());
    }
    assert!(check_none(&[0x01, 0x42, 0xf5, 0x01]).is_err());
    assert!(check_none(&[0x08, 0x00, 0x42, 0xf5, 0x01]).is_ok(), "data");
    assert!(
        check_none(&[0x01, 0x42, 0xf5]).is_ok(),
        "truncated: the stack finds a frame that it cannot read"
    );
}

#[test]
fn trailing_padding_is_hidden_from_the_stack() {
    let visible = |payload: &[u8]| found(payload).remove_from(&mut payload.to_vec());
    // PING; CRYPTO and STREAM with bytes that are zero; an unknown frame.
    let crypto = [0x06, 0, 3, 0, 0, 0];
    for frames in [&[0x01][..], &crypto, &[0, 0, 0x01], &[0x40, 0x7b, 0, 0]] {
        let payload = [frames, &[0; 800]].concat();
        let unknown = frames[0] == 0x40;
        assert_eq!(
            check_none(&payload).unwrap(),
            0..if unknown { payload.len() } else { frames.len() }
        );
        assert_eq!(visible(&payload), check_none(&payload).unwrap());
    }
    assert_eq!(check_none(&[0x08, 0, 0, 0, 0]).unwrap(), 0..5, "data to the end");
    // A payload without frames would be an error.
    assert_eq!(check_none(&[0; 800]).unwrap(), 0..1);
    assert_eq!(check_none(&[]).unwrap(), 0..0);
    assert_eq!(visible(&[&OURS[..], &[0; 9]].concat()), 8..9);
    assert_eq!(visible(&[&OURS[..], &[0x01], &[0; 9]].concat()), 8..9);
    assert_eq!(visible(&[&[0x01], &OURS[..], &[0; 9]].concat()), 0..9);
}

#[test]
fn largest_of_several_timestamps_in_a_packet_is_used() {
    let payload = [0x42, 0xf5, 0x05, 0x01, 0x42, 0xf5, 0x40, 0xff, 0x42, 0xf5, 0x07];
    let found = try_found(&payload, &TIMESTAMPS).expect("negotiated");
    assert_eq!(found.timestamp, Some(Timestamp { scaled: 0xff }));
    assert!(found.ranges().eq([0..3, 4..8, 8..11]));
    let many = [0x42, 0xf5, 0x05].repeat(400);
    let found = try_found(&many, &TIMESTAMPS).expect("negotiated");
    assert!(found.ranges().eq((0..400).map(|n| 3 * n..3 * n + 3)));
    assert!(!found.ack_eliciting);
}

/// ACK_RECEIVE_TIMESTAMPS of packets 0 to 9 with ECN counts 1, 0 and 2. Packets 9 and 8 arrived
/// 100 and 90 us after the epoch.
const RECEIVED: &[u8] = &[0x83, 0x17, 0x83, 0x08, 9, 1, 0, 9, 1, 0, 2, 1, 0, 2, 0x40, 100, 10];
const ITS_ACK: &[u8] = &[0x03, 9, 1, 0, 9, 1, 0, 2];

#[test]
fn stack_sees_a_plain_ack_without_receive_timestamps() {
    let seen = |payload: &[u8]| {
        let found = try_found(payload, &RECEIPTS).expect("negotiated");
        let mut payload = payload.to_vec();
        let visible = found.remove_from(&mut payload);
        payload[visible].to_vec()
    };
    assert_eq!(seen(&[RECEIVED, &[0x01]].concat()), [ITS_ACK, &[0x01]].concat());
    assert_eq!(seen(RECEIVED), ITS_ACK);
    let padding = vec![0; RECEIVED.len() - ITS_ACK.len()];
    assert_eq!(
        seen(&[&[0x01], RECEIVED, &[0x1e]].concat()),
        [&[0x01], &padding[..], ITS_ACK, &[0x1e]].concat()
    );
    // The payload is full of frames: far more ACK frames than are read here.
    let many = seen(&RECEIVED.repeat(80));
    let acks =
        Frames::new(&many).filter(|frame| matches!(frame, Ok(Frame { ty: ACK_ECN, .. }))).count();
    assert_eq!((acks, Frames::new(&many).filter(Result::is_err).count()), (80, 0));
}

#[test]
fn receive_timestamps_are_read_with_their_ack() {
    let payload = [&[0x01], RECEIVED].concat();
    let found = try_found(&payload, &RECEIPTS).expect("negotiated");
    assert!(found.is_stamped());
    let ack = found.acks().next().expect("an ACK frame");
    assert_eq!((ack.path, ack.largest, ack.newest(), ack.raw_delay), (0, 9, 0..=9, 1));
    assert_eq!(ack.ecn, Some(EcnCounts { ect0: 1, ect1: 0, ce: 2 }));
    let receipts: Vec<_> =
        ack.receipts(&payload, 0).expect("there").map(|r| (r.packet, r.micros)).collect();
    assert_eq!(receipts, [(9, 100), (8, 90)]);
    // Receive timestamps are ignored if another frame was negotiated. A frame without any has
    // no information.
    let resting = NegotiatedReceiveTimestamps { accepts: true, ..NO_RECEIPTS };
    let resting =
        try_found(&payload, &NegotiatedExtensions { receive_timestamps: resting, ..LEAN });
    assert!(!resting.expect("requested").is_stamped());
    assert!(
        !try_found(&[0x83, 0x17, 0x83, 0x07, 5, 0, 0, 0, 0], &RECEIPTS)
            .expect("negotiated")
            .is_stamped()
    );
    for negotiated in [NegotiatedExtensions::default(), LEAN, TIMESTAMPS] {
        assert!(try_found(&payload, &negotiated).is_none());
    }
    assert!(check_none(&payload).is_err());
    // Truncated, or with a type that is too long: the stack finds an unreadable frame.
    for cut in 1..RECEIVED.len() {
        let found = try_found(&RECEIVED[..cut], &RECEIPTS).expect("unreadable");
        assert_eq!(
            (found.acks().count(), found.remove_from(&mut RECEIVED[..cut].to_vec())),
            (0, 0..cut)
        );
    }
}

#[test]
fn zero_timestamps_and_those_with_sync_timestamp_are_ignored() {
    let zero = try_found(&[0x42, 0xf5, 0x00, 0x01], &TIMESTAMPS).expect("negotiated");
    assert!(!zero.is_stamped() && zero.ranges().eq(std::iter::once(0..3)));
    // The parameter offered TIMESTAMP frames, but then SYNC_TIMESTAMP was negotiated.
    let timestamps = Timestamps { sends: false, reads: false, accepts: true };
    let beside = try_found(
        &[&OURS[..], &[0x42, 0xf5, 0x07]].concat(),
        &NegotiatedExtensions { timestamps, ..LEAN },
    )
    .expect("negotiated");
    assert!(
        beside.stamp.is_some() && beside.timestamp.is_none() && beside.ranges().eq([0..8, 8..11])
    );
}

#[test]
fn ack_eliciting_payloads_are_recognised() {
    assert!(!is_ack_eliciting(&[0x02, 9, 0, 0, 0, 0x00, 0x00]));
    assert!(is_ack_eliciting(&[0x02, 9, 0, 0, 0, 0x01]));
    assert!(is_ack_eliciting(&[0x08, 0x00, 0x02]));
    assert!(!is_ack_eliciting(&[0x1c, 0x00, 0x00, 0x00]));
}

#[test]
fn ack_delay_is_scaled_by_the_exponent_and_saturates() {
    let ack = |raw_delay| AckSeen { raw_delay, ..AckSeen::default() };
    assert_eq!(ack(125).delay(3), Duration::from_millis(1));
    assert_eq!(ack(u64::MAX).delay(20), Duration::from_micros(u64::MAX));
    assert_eq!(ack(2).delay(255), Duration::from_micros(u64::MAX));
}
