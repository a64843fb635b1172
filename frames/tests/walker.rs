//! Tests of the frame walker on generated and corrupted payloads.

use crate::common;

use std::ops::{Range, RangeInclusive};

use fathom_frames::{
    Content, Echo, Frames, Receipt, ReceiveTimestamps, SyncTimestamp, Timestamp, add_receipts,
    remove, restore_ack, varint,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// A valid frame: its type and its bytes.
#[derive(Clone, Debug)]
struct Made {
    ty: u64,
    bytes: Vec<u8>,
}

impl Made {
    fn new(ty: u64) -> Self {
        Self { ty, bytes: Vec::new() }.int(ty)
    }

    fn int(mut self, value: u64) -> Self {
        let mut buf = [0; 8];
        let len = varint::encode(value, &mut buf).expect("fits");
        self.bytes.extend(&buf[..len]);
        self
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }

    fn block(self, bytes: &[u8]) -> Self {
        self.int(bytes.len() as u64).raw(bytes)
    }

    fn is_eliciting(&self) -> bool {
        !matches!(
            self.ty,
            0x00 | 0x02
                | 0x03
                | 0x1c
                | 0x1d
                | 0x2f5
                | 0x11fa_6b58
                | 0x11fa_6b59
                | 0x0317_8307
                | 0x0317_8308
        )
    }
}

/// An integer of any encoded length.
fn int() -> impl Strategy<Value = u64> {
    (0..=varint::MAX, 0..62u32).prop_map(|(value, shift)| value >> shift)
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..100)
}

/// Frames that contain only integers.
fn plain() -> impl Strategy<Value = Made> {
    let counts = [
        (0x01, 0),
        (0x04, 3),
        (0x05, 2),
        (0x10, 1),
        (0x11, 2),
        (0x12, 1),
        (0x13, 1),
        (0x14, 1),
        (0x15, 2),
        (0x16, 1),
        (0x17, 1),
        (0x19, 1),
        (0x1e, 0),
        (0x1f, 0),
        (0xaf, 4),
    ];
    (prop::sample::select(counts.to_vec()), [int(), int(), int(), int()])
        .prop_map(|((ty, count), ints)| ints[..count].iter().fold(Made::new(ty), |f, i| f.int(*i)))
}

/// Frames with data whose length is stated.
fn sized() -> impl Strategy<Value = Made> {
    let ids = prop::sample::select(vec![
        0x06, 0x07, 0x0a, 0x0b, 0x0e, 0x0f, 0x18, 0x1a, 0x1b, 0x1c, 0x1d, 0x31,
    ]);
    (ids, int(), int(), data()).prop_map(|(ty, a, b, data)| {
        let frame = Made::new(ty);
        match ty {
            0x07 | 0x31 => frame.block(&data),
            0x06 | 0x0a | 0x0b | 0x1d => frame.int(a).block(&data),
            0x18 => {
                let id = [&[7], &data[..data.len().min(19)]].concat();
                frame.int(a).int(b).raw(&[id.len() as u8]).raw(&id).raw(&[9; 16])
            }
            0x1a | 0x1b => frame.raw(&a.to_be_bytes()),
            _ => frame.int(a).int(b).block(&data),
        }
    })
}

/// An ACK frame and its ranges, newest first.
fn ack() -> impl Strategy<Value = (Made, Vec<RangeInclusive<u64>>)> {
    (
        vec((0u64..1 << 20, 0u64..1 << 20), 1..40),
        0u64..1 << 40,
        int(),
        prop::option::of([int(), int(), int()]),
    )
        .prop_map(|(steps, lowest, delay, ecn)| {
            let mut next = lowest;
            let mut ranges = Vec::new();
            for (gap, len) in &steps {
                ranges.push(next..=next + len);
                next += len + gap + 2;
            }
            ranges.reverse();
            let first = &ranges[0];
            let mut frame =
                Made::new(if ecn.is_some() { 0x03 } else { 0x02 }).int(*first.end()).int(delay);
            frame = frame.int(ranges.len() as u64 - 1).int(first.end() - first.start());
            for pair in ranges.windows(2) {
                frame = frame
                    .int(pair[0].start() - pair[1].end() - 2)
                    .int(pair[1].end() - pair[1].start());
            }
            (ecn.into_iter().flatten().fold(frame, Made::int), ranges)
        })
}

/// Receipts of packets up to `largest`, newest first, which is the order of writing.
fn receipts(largest: u64) -> impl Strategy<Value = Vec<Receipt>> {
    (vec((0..4u64, 0..100_000u64), 0..60), 0..1u64 << 40).prop_map(move |(steps, newest)| {
        let (mut below, mut micros, mut receipts) = (0, newest, Vec::new());
        for (down, earlier) in steps {
            (below, micros) = (below + down, micros.saturating_sub(earlier));
            receipts.extend(largest.checked_sub(below).map(|packet| Receipt { packet, micros }));
        }
        receipts
    })
}

fn wanted() -> impl Strategy<Value = ReceiveTimestamps> {
    (1..100u64, 0..=20u8)
        .prop_map(|(max_per_ack, exponent)| ReceiveTimestamps { max_per_ack, exponent })
}

/// An ACK frame, and the ACK_RECEIVE_TIMESTAMPS frame made from it.
fn with_receipts() -> impl Strategy<Value = (Made, Made)> {
    ack()
        .prop_flat_map(|(frame, ranges)| (Just(frame), receipts(*ranges[0].end()), wanted()))
        .prop_map(|(ack, receipts, wanted)| {
            let mut bytes = ack.bytes.clone();
            bytes.resize(bytes.len() + 2_000, 0xee);
            let Some(len) = add_receipts(&mut bytes, ack.bytes.len(), &receipts, wanted) else {
                return (ack.clone(), ack);
            };
            assert!(bytes[len..].iter().all(|byte| *byte == 0), "PADDING behind it");
            bytes.truncate(len);
            let made = Made { ty: 0x0317_8305 + ack.ty, bytes };
            (ack, made)
        })
}

/// A SYNC_TIMESTAMP or TIMESTAMP frame.
fn ours() -> impl Strategy<Value = Made> {
    prop_oneof![sync_timestamp(), int().prop_map(|scaled| Made::new(0x2f5).int(scaled))]
}

fn sync_timestamp() -> impl Strategy<Value = Made> {
    any::<(u32, Option<(u32, u32)>)>().prop_map(|(sent, echo)| {
        let frame =
            SyncTimestamp { sent, echo: echo.map(|(sent, transit)| Echo { sent, transit }) };
        let mut bytes = vec![0; frame.encoded_len()];
        frame.encode(&mut bytes);
        Made { ty: if echo.is_some() { 0x11fa_6b59 } else { 0x11fa_6b58 }, bytes }
    })
}

fn frame() -> impl Strategy<Value = Made> {
    prop_oneof![
        4 => plain(),
        4 => sized(),
        2 => ack().prop_map(|(frame, _)| frame),
        2 => ours(),
        2 => with_receipts().prop_map(|(_, frame)| frame),
        1 => (1usize..200).prop_map(|n| Made { ty: 0, bytes: vec![0; n] }),
    ]
}

/// The frames of a payload, possibly with a last frame that has no length.
fn frames() -> impl Strategy<Value = Vec<Made>> {
    let last = (prop::sample::select(vec![0x08, 0x09, 0x0c, 0x0d, 0x30]), int(), int(), data())
        .prop_map(|(ty, a, b, data)| {
            let frame = match ty {
                0x30 => Made::new(ty),
                0x08 | 0x09 => Made::new(ty).int(a),
                _ => Made::new(ty).int(a).int(b),
            };
            frame.raw(&data)
        });
    (vec(frame(), 0..12), prop::option::of(last)).prop_map(|(mut frames, last)| {
        frames.extend(last);
        frames.dedup_by(|b, a| {
            let both_padding = a.ty == 0 && b.ty == 0;
            if both_padding {
                a.bytes.append(&mut b.bytes);
            }
            both_padding
        });
        frames
    })
}

fn join(frames: &[Made]) -> Vec<u8> {
    frames.iter().flat_map(|f| f.bytes.iter().copied()).collect()
}

const fn is_ours(content: &Content<'_>) -> bool {
    matches!(content, Content::SyncTimestamp(_) | Content::Timestamp(_))
}

/// Returns every frame except PADDING and ours, as bytes.
fn others(payload: &[u8]) -> Vec<Vec<u8>> {
    let frames = Frames::new(payload).map(|f| f.expect("valid"));
    let others = frames.filter(|f| f.ty != 0 && !is_ours(&f.content));
    others.map(|f| payload[f.range].to_vec()).collect()
}

/// Walks any payload and checks that the walk is consistent.
fn walk(payload: &[u8]) -> Result<(), TestCaseError> {
    let mut at = 0;
    let mut ended = false;
    for item in Frames::new(payload) {
        prop_assert!(!ended, "a frame after an error");
        match item {
            Ok(frame) => {
                prop_assert_eq!(frame.range.start, at);
                prop_assert!(frame.range.end > at && frame.range.end <= payload.len());
                at = frame.range.end;
                if let Content::Ack(ack) = frame.content {
                    check_ranges(&ack.ranges().collect::<Vec<_>>(), ack.largest)?;
                }
                if let Content::AckReceiveTimestamps(found) = frame.content {
                    check_ranges(&found.ack.ranges().collect::<Vec<_>>(), found.ack.largest)?;
                    for exponent in [0, 20, 63, 64, 255] {
                        let receipts: Vec<_> = found.receipts(exponent).collect();
                        prop_assert!(
                            receipts.len() as u64 <= found.count && receipts.len() < payload.len()
                        );
                        prop_assert!(
                            receipts.iter().all(|receipt| receipt.packet <= found.ack.largest)
                        );
                        prop_assert!(
                            receipts.windows(2).all(|pair| pair[1].micros <= pair[0].micros)
                        );
                    }
                }
            }
            Err(error) => {
                prop_assert_eq!(error.offset, at);
                ended = true;
            }
        }
    }
    prop_assert!(ended || at == payload.len());
    Ok(())
}

/// Checks that ranges descend, do not touch, and begin at the largest packet number.
fn check_ranges(ranges: &[RangeInclusive<u64>], largest: u64) -> Result<(), TestCaseError> {
    prop_assert_eq!(*ranges[0].end(), largest);
    prop_assert!(ranges.iter().all(|r| r.start() <= r.end()));
    prop_assert!(ranges.windows(2).all(|p| p[1].end() + 1 < *p[0].start()));
    Ok(())
}

proptest! {
    #![proptest_config(common::config())]

    #[test]
    fn frame_walker_never_panics_on_arbitrary_bytes(payload in vec(any::<u8>(), 0..1500)) {
        walk(&payload)?;
    }

    #[test]
    fn frame_walker_never_panics_on_corrupted_payloads(frames in frames(), hits in vec(any::<(prop::sample::Index, u8)>(), 1..4), cut in any::<prop::sample::Index>()) {
        let mut payload = join(&frames);
        payload.push(0x01);
        for (hit, value) in hits {
            let at = hit.index(payload.len());
            payload[at] = value;
        }
        walk(&payload)?;
        walk(&payload[..cut.index(payload.len())])?;
    }

    #[test]
    fn frame_walker_finds_exactly_the_frames_of_a_payload(frames in frames()) {
        let payload = join(&frames);
        let found: Vec<_> = Frames::new(&payload).collect::<Result<_, _>>().expect("valid");
        let mut at = 0;
        prop_assert_eq!(found.len(), frames.len());
        for (found, made) in found.iter().zip(&frames) {
            let range: Range<usize> = at..at + made.bytes.len();
            at = range.end;
            prop_assert_eq!((found.ty, &found.range), (made.ty, &range));
            prop_assert_eq!(found.is_ack_eliciting(), made.is_eliciting());
            if let Content::Timestamp(frame) = found.content {
                prop_assert_eq!(Timestamp::decode(&made.bytes), Ok((frame, made.bytes.len())));
            }
        }
    }

    #[test]
    fn ack_ranges_round_trip((frame, ranges) in ack()) {
        let found = Frames::new(&frame.bytes).next().expect("a frame").expect("valid");
        let Content::Ack(ack) = found.content else { panic!("an ACK") };
        prop_assert_eq!(ack.ranges().collect::<Vec<_>>(), ranges);
        prop_assert_eq!(ack.ecn.is_some(), frame.ty == 0x03);
    }

    #[test]
    fn removing_own_frames_keeps_other_frames(frames in frames(), ours in ours(), at in any::<prop::sample::Index>()) {
        let mut frames = frames;
        frames.insert(at.index(frames.len().max(1)), ours);
        let mut payload = join(&frames);
        let before = others(&payload);
        let ranges: Vec<_> = Frames::new(&payload)
            .map(|f| f.expect("valid"))
            .filter(|f| is_ours(&f.content))
            .map(|f| f.range)
            .collect();
        let dropped: usize = ranges.into_iter().map(|range| remove(&mut payload, range)).sum();
        let rest = &payload[dropped..];
        prop_assert!(!rest.is_empty());
        prop_assert_eq!(others(rest), before);
        let kept = Frames::new(rest).map(|f| f.expect("valid"));
        prop_assert!(kept.into_iter().all(|f| !is_ours(&f.content)));
    }

    #[test]
    fn ack_with_timestamps_converts_back_to_the_same_ack((ack, frame) in with_receipts(), before in frames(), after in frames()) {
        // A frame without a length can only be the last one.
        let before: Vec<_> = before.into_iter().filter(|f| !matches!(f.ty, 0x08 | 0x09 | 0x0c | 0x0d | 0x30)).collect();
        for before in [&before[..], &[]] {
            let (before, after) = (join(before), join(&after));
            let mut payload = [&before[..], &frame.bytes, &after].concat();
            let at = before.len()..before.len() + frame.bytes.len();
            let dropped = if frame.ty == ack.ty { 0 } else { restore_ack(&mut payload, at.clone()) };
            prop_assert!(dropped == 0 || at.start == 0);
            prop_assert!(payload[dropped..].ends_with(&[&ack.bytes[..], &after].concat()));
            prop_assert_eq!(&payload[..before.len()], &before[..]);
            let between = &payload[before.len() + dropped..at.end - ack.bytes.len()];
            prop_assert!(between.iter().all(|byte| *byte == 0), "PADDING");
        }
    }

    #[test]
    fn adding_and_removing_timestamps_never_panics(
        mut bytes in vec(any::<u8>(), 0..60),
        like in any::<bool>(),
        ack_len in 0..70usize,
        receipts in receipts(1 << 20),
        wanted in wanted(),
        range in (0..70usize, 0..70usize),
    ) {
        if let (true, Some(ty)) = (like, bytes.first_mut()) {
            *ty = 0x02;
        }
        let len = bytes.len();
        let mut grown = bytes.clone();
        let _ = add_receipts(&mut grown, ack_len, &receipts, wanted);
        prop_assert_eq!(grown.len(), len);
        let dropped = restore_ack(&mut grown, range.0..range.1);
        prop_assert!(dropped < len.max(1));
        if let (true, Some(ty)) = (like, bytes.get_mut(..4)) {
            ty.copy_from_slice(&[0x83, 0x17, 0x83, 0x07]);
        }
        let dropped = restore_ack(&mut bytes, range.0..range.1);
        prop_assert!(dropped < len.max(1));
    }

    #[test]
    fn removing_any_byte_range_never_panics(payload in vec(any::<u8>(), 0..40), start in 0usize..50, end in 0usize..50) {
        let mut after = payload.clone();
        let dropped = remove(&mut after, start..end);
        prop_assert!(dropped < payload.len() || dropped == 0);
        prop_assert_eq!(after.len(), payload.len());
    }
}
