//! Tests of the frame and its parameter.

use super::*;

/// Packets 96 to 100 and 87 to 91 of the draft's example, newest first.
const RECEIPTS: [(u64, u64); 10] = [
    (100, 380),
    (99, 370),
    (98, 360),
    (97, 355),
    (96, 350),
    (91, 330),
    (90, 320),
    (89, 310),
    (88, 305),
    (87, 300),
];

fn receipts() -> Vec<Receipt> {
    RECEIPTS.iter().map(|&(packet, micros)| Receipt { packet, micros }).collect()
}

const FRAME: &[u8] = &[
    0x83, 0x17, 0x83, 0x07, 0x40, 0x64, 0x00, 0x01, 0x04, 0x03, 0x04, 0x02, 0x00, 0x05, 0x41, 0x7c,
    0x0a, 0x0a, 0x05, 0x05, 0x09, 0x05, 0x14, 0x0a, 0x0a, 0x05, 0x05,
];
/// Start of the timestamps in the frame.
const BEHIND_ACK: usize = 11;
const IN_UNITS_OF_8: &[u8] =
    &[0x02, 0x00, 0x05, 0x30, 0x01, 0x02, 0x00, 0x01, 0x09, 0x05, 0x02, 0x02, 0x01, 0x00, 0x01];

#[test]
fn receive_timestamps_of_the_draft_example_decode_and_encode() {
    let (frame, len) = AckReceiveTimestamps::decode(FRAME).unwrap();
    assert_eq!((len, frame.count), (FRAME.len(), 10));
    assert!(frame.ack.ranges().eq([96..=100, 87..=91]));
    assert_eq!(frame.receipts(0).collect::<Vec<_>>(), receipts());
    let wanted = ReceiveTimestamps { max_per_ack: 64, exponent: 0 };
    let mut out = [0xee; 40];
    assert_eq!(
        encode_receipts(100, &receipts(), wanted, &mut out),
        Some((FRAME.len() - BEHIND_ACK, 10))
    );
    assert_eq!(&out[..16], &FRAME[BEHIND_ACK..]);
}

#[test]
fn receive_timestamps_with_ecn_or_without_timestamps_are_read() {
    let mut ecn = FRAME.to_vec();
    ecn[3] = 0x08;
    ecn.splice(BEHIND_ACK..BEHIND_ACK, [0x0a, 0x00, 0x01]);
    let (frame, len) = AckReceiveTimestamps::decode(&ecn).unwrap();
    assert_eq!(
        (len, frame.ack.ecn.map(|ecn| (ecn.ect0, ecn.ect1, ecn.ce))),
        (ecn.len(), Some((10, 0, 1)))
    );
    assert_eq!(frame.receipts(0).count(), 10);
    let (none, len) =
        AckReceiveTimestamps::decode(&[0x83, 0x17, 0x83, 0x07, 5, 0, 0, 0, 0]).unwrap();
    assert_eq!((len, none.ack.largest, none.count, none.receipts(0).count()), (9, 5, 0, 0));
}

#[test]
fn coarse_time_units_do_not_accumulate_error() {
    let mut out = [0; 40];
    let wanted = ReceiveTimestamps { max_per_ack: 64, exponent: 3 };
    assert_eq!(
        encode_receipts(100, &receipts(), wanted, &mut out),
        Some((IN_UNITS_OF_8.len(), 10))
    );
    assert_eq!(&out[..IN_UNITS_OF_8.len()], IN_UNITS_OF_8);
    let frame = [&FRAME[..BEHIND_ACK], IN_UNITS_OF_8].concat();
    let read = AckReceiveTimestamps::decode(&frame).unwrap().0;
    for (read, real) in read.receipts(3).zip(receipts()) {
        assert_eq!(read.packet, real.packet);
        assert!((0..8).contains(&(read.micros - real.micros)), "{read:?} {real:?}");
    }
}

/// The ACK frame of the draft's example, without and with ECN counts.
const ACKS: [&[u8]; 2] = [
    &[0x02, 0x40, 0x64, 0x00, 0x01, 0x04, 0x03, 0x04],
    &[0x03, 0x40, 0x64, 0x00, 0x01, 0x04, 0x03, 0x04, 0x0a, 0x00, 0x01],
];

#[test]
fn ack_converts_to_the_draft_example_and_back() {
    let wanted = ReceiveTimestamps { max_per_ack: 64, exponent: 0 };
    let mut ecn = FRAME.to_vec();
    ecn[3] = 0x08;
    ecn.splice(BEHIND_ACK..BEHIND_ACK, [0x0a, 0x00, 0x01]);
    for (ack, frame) in ACKS.into_iter().zip([FRAME, &ecn]) {
        for spare in [0, 1, 9] {
            let mut bytes = ack.to_vec();
            bytes.resize(frame.len() + spare, 0xee);
            assert_eq!(add_receipts(&mut bytes, ack.len(), &receipts(), wanted), Some(frame.len()));
            assert_eq!(bytes, [frame, &vec![0; spare]].concat());
            // The frame is tested once between other frames and once as the first frame.
            let mut payload = [&[0x01], frame, &[0x1e]].concat();
            assert_eq!(restore_ack(&mut payload, 1..1 + frame.len()), 0);
            let padding = vec![0; frame.len() - ack.len()];
            assert_eq!(payload, [&[0x01], &padding[..], ack, &[0x1e]].concat());
            let mut payload = [frame, &[0x1e]].concat();
            let lead = restore_ack(&mut payload, 0..frame.len());
            assert_eq!(payload[lead..], [ack, &[0x1e]].concat());
        }
    }
}

#[test]
fn ack_without_room_for_timestamps_is_unchanged() {
    let wanted = ReceiveTimestamps { max_per_ack: 64, exponent: 0 };
    for room in 0..8 {
        let mut bytes = [ACKS[0], &vec![0xee; room]].concat();
        assert_eq!(add_receipts(&mut bytes, ACKS[0].len(), &receipts(), wanted), None, "{room}");
        assert_eq!(bytes, [ACKS[0], &vec![0; room]].concat());
    }
    let mut bytes = [ACKS[0], &[0xee; 30]].concat();
    assert_eq!(add_receipts(&mut bytes, ACKS[0].len(), &[], wanted), None);
    // Invalid arguments are harmless: no frame, no ACK frame, or a length beyond the bytes.
    assert_eq!(add_receipts(&mut [], 0, &receipts(), wanted), None);
    assert_eq!(add_receipts(&mut [0x02, 9], 5, &receipts(), wanted), None);
    assert_eq!(add_receipts(&mut [0x01; 40], 1, &receipts(), wanted), None);
}

#[test]
fn only_complete_receive_timestamps_frames_become_acks() {
    for range in [0..FRAME.len() - 1, 1..FRAME.len(), 0..FRAME.len() + 9] {
        let mut payload = [FRAME, &[0x01]].concat();
        assert_eq!(restore_ack(&mut payload, range), 0);
        assert_eq!(payload, [FRAME, &[0x01]].concat());
    }
}

#[test]
fn other_timestamp_frames_take_precedence_over_receive_times() {
    use crate::parameter::Offer;
    use crate::{EnableTimestamp, Timestamps};
    let greedy = ReceiveTimestamps { max_per_ack: 1 << 40, exponent: 20 };
    let ours = ReceiveTimestamps::default();
    let between = |ours, peers, offer: Option<Offer>, enable: Option<EnableTimestamp>| {
        let sync = Negotiated::between(offer, offer);
        NegotiatedReceiveTimestamps::between(
            ours,
            peers,
            &sync,
            &Timestamps::between(enable, enable, &sync),
        )
    };
    let both = between(Some(ours), Some(greedy), None, None);
    assert_eq!(
        both.sends,
        Some(ReceiveTimestamps { max_per_ack: ReceiveTimestamps::MOST, exponent: 20 })
    );
    assert_eq!((both.reads, both.expects, both.accepts), (Some(3), true, true));
    let one = between(Some(ours), None, None, None);
    assert_eq!((one.sends, one.reads, one.expects, one.accepts), (None, Some(3), false, true));
    assert_eq!(between(None, Some(greedy), None, None), NegotiatedReceiveTimestamps::default());
    for (offer, enable) in [(Some(Offer::Lean), None), (None, Some(EnableTimestamp::Both))] {
        let rests = between(Some(ours), Some(greedy), offer, enable);
        assert_eq!(
            (rests.sends, rests.reads, rests.expects, rests.accepts),
            (None, None, false, true)
        );
    }
}

#[test]
fn receive_timestamps_that_do_not_fit_are_omitted() {
    for (room, max_per_ack) in [(0, 64), (1, 64), (4, 64), (9, 64), (40, 3), (40, 0)] {
        let wanted = ReceiveTimestamps { max_per_ack, exponent: 0 };
        let mut out = vec![0; room];
        let Some((len, written)) = encode_receipts(100, &receipts(), wanted, &mut out) else {
            assert_eq!(room, 0);
            continue;
        };
        assert!(len <= room && written as u64 <= max_per_ack);
        let frame = [&FRAME[..BEHIND_ACK], &out[..len]].concat();
        let read = AckReceiveTimestamps::decode(&frame).unwrap().0;
        assert_eq!(read.receipts(0).collect::<Vec<_>>(), receipts()[..written]);
    }
}

#[test]
fn receive_times_before_the_epoch_end_decoding() {
    // The first packet of the frame arrived 10 us after the epoch, and the second packet 11 us
    // before the first packet.
    let frame = [0x83, 0x17, 0x83, 0x07, 9, 0, 0, 0, 1, 0, 3, 10, 11, 1];
    let read = AckReceiveTimestamps::decode(&frame).unwrap().0;
    assert_eq!(read.receipts(0).collect::<Vec<_>>(), [Receipt { packet: 9, micros: 10 }]);
    // Three timestamps from packet 1 down would need a packet below packet 0.
    assert_eq!(
        AckReceiveTimestamps::decode(&[0x83, 0x17, 0x83, 0x07, 1, 0, 0, 0, 1, 0, 3, 1, 1, 1]).err(),
        Some(FrameError::Value)
    );
    assert_eq!(
        AckReceiveTimestamps::decode(&[0x83, 0x17, 0x83, 0x07, 1, 0, 0, 0, 1, 2, 0]).err(),
        Some(FrameError::Value)
    );
    assert_eq!(AckReceiveTimestamps::decode(&[0x02, 1, 0, 0, 0]).err(), Some(FrameError::Type(2)));
    for cut in 0..FRAME.len() {
        assert_eq!(
            AckReceiveTimestamps::decode(&FRAME[..cut]).err(),
            Some(FrameError::Truncated),
            "{cut}"
        );
    }
}

#[test]
fn receive_timestamps_parameters_are_found_and_grease_ignored() {
    let ours = ReceiveTimestamps { max_per_ack: 64, exponent: 3 };
    let mut parameters = Vec::new();
    ours.append(&mut parameters);
    assert_eq!(ReceiveTimestamps::find(&parameters), Ok(Some(ours)));
    assert_eq!(ReceiveTimestamps::find(&[]), Ok(None));
    let raw = |id: u64, bytes: &[u8]| {
        let mut out = vec![0; 8];
        let len = varint::encode(id, &mut out).unwrap();
        out.truncate(len);
        out.push(bytes.len() as u8);
        out.extend(bytes);
        out
    };
    let max = codepoints::MAX_RECEIVE_TIMESTAMPS_PARAMETER;
    let exponent = codepoints::RECEIVE_TIMESTAMPS_EXPONENT_PARAMETER;
    for noise in [&[][..], &[0x40], &[1, 2, 3], &[0]] {
        assert_eq!(ReceiveTimestamps::find(&raw(max, noise)), Ok(None), "{noise:?}");
    }
    assert_eq!(
        ReceiveTimestamps::find(&[raw(max, &[5]), raw(exponent, &[21])].concat()),
        Err(ParameterError::Value)
    );
    // Without a maximum, an exponent means nothing.
    assert_eq!(ReceiveTimestamps::find(&raw(exponent, &[21])), Ok(None));
    assert!(ReceiveTimestamps::find(&[raw(max, &[5]), raw(max, &[5])].concat()).is_err());
}
