//! Tests that values round-trip through the codecs, and that no input causes a panic.

use crate::common;

use fathom_frames::{
    AckReceiveTimestamps, Arrival, Dedup, Echo, EnableTimestamp, Frames, Negotiated, Offer,
    Receipt, ReceiveTimestamps, SendTimes, SyncTimestamp, Timestamp, encode_receipts, parameter,
    varint,
};
use fathom_units::Time;
use proptest::prelude::*;

fn offer() -> impl Strategy<Value = Option<Offer>> {
    prop::sample::select(vec![
        None,
        Some(Offer::Reads),
        Some(Offer::Sends),
        Some(Offer::Lean),
        Some(Offer::Paper),
    ])
}

fn enable() -> impl Strategy<Value = Option<EnableTimestamp>> {
    use EnableTimestamp::{Both, Reads, Sends};
    prop::sample::select(vec![None, Some(Reads), Some(Sends), Some(Both)])
}

/// Encoded transport parameters as another stack writes them.
fn parameters() -> impl Strategy<Value = Vec<u8>> {
    let one = (0u64..1 << 20, prop::collection::vec(any::<u8>(), 0..20));
    prop::collection::vec(one, 0..10).prop_map(|all| {
        let mut out = Vec::new();
        for (id, value) in all.into_iter().filter(|(id, _)| !matches!(id, 0x0a | 0x0b | 0x7158)) {
            push(&mut out, id);
            push(&mut out, value.len() as u64);
            out.extend(value);
        }
        out
    })
}

fn push(out: &mut Vec<u8>, value: u64) {
    let mut buf = [0; 8];
    let len = varint::encode(value, &mut buf).expect("small enough");
    out.extend(&buf[..len]);
}

proptest! {
    #![proptest_config(common::config())]

    #[test]
    fn varints_round_trip(value in 0..=varint::MAX, shift in 0..62u32) {
        let value = value >> shift;
        let mut buf = [0; 8];
        let len = varint::encode(value, &mut buf).expect("fits");
        prop_assert_eq!(varint::decode(&buf[..len]), Some((value, len)));
        prop_assert_eq!(varint::len(value), Some(len));
    }

    #[test]
    fn sync_timestamps_round_trip(sent: u32, echo in any::<Option<(u32, u32)>>(), behind in any::<[u8; 4]>()) {
        let frame = SyncTimestamp { sent, echo: echo.map(|(sent, transit)| Echo { sent, transit }) };
        let mut buf = [0; 20];
        let len = frame.encode(&mut buf);
        buf[len..len + 4].copy_from_slice(&behind);
        prop_assert_eq!(len, frame.encoded_len());
        prop_assert_eq!(SyncTimestamp::decode(&buf), Ok((frame, len)));
        let first = Frames::new(&buf[..len]).next().expect("a frame").expect("valid");
        prop_assert_eq!(first.range, 0..len);
        prop_assert!(varint::decode(&buf).is_some_and(|(ty, len)| ty == first.ty && len == 4));
    }

    #[test]
    fn timestamps_round_trip(scaled in 0..=varint::MAX, shift in 0..62u32, behind in any::<[u8; 4]>()) {
        let frame = Timestamp { scaled: scaled >> shift };
        let mut buf = [0; 16];
        let len = frame.encode(&mut buf);
        buf[len..len + 4].copy_from_slice(&behind);
        prop_assert_eq!(len, frame.encoded_len());
        prop_assert_eq!(Timestamp::decode(&buf), Ok((frame, len)));
        let first = Frames::new(&buf[..len]).next().expect("a frame").expect("valid");
        prop_assert!(first.range == (0..len) && !first.is_ack_eliciting());
        prop_assert_eq!(&buf[..2], &[0x42, 0xf5]);
    }

    /// Decoded times differ from the encoded ones only by the bits that the exponent cuts off.
    #[test]
    fn differences_of_timestamps_are_accurate(nanos: u64, later in 0..1u64 << 40, exponent in 0..=20u8) {
        let (a, b) = (Time::from_nanos(nanos), Time::from_nanos(nanos.saturating_add(later)));
        let (first, second) = (Timestamp::at(a, exponent), Timestamp::at(b, exponent));
        prop_assert!(first <= second && first.encoded_len() >= Timestamp::LEN);
        let difference = second.micros(exponent).wrapping_sub(first.micros(exponent));
        let truth = (b.as_nanos() / 1_000 - a.as_nanos() / 1_000) as u32;
        let off = difference.wrapping_sub(truth) as i32;
        prop_assert!(off.unsigned_abs() < 1 << exponent, "{off} us off");
    }

    #[test]
    fn frame_decoders_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Some((value, len)) = varint::decode(&bytes) {
            prop_assert!(len <= bytes.len() && value <= varint::MAX);
        }
        if let Ok((frame, len)) = SyncTimestamp::decode(&bytes) {
            let mut again = [0; 16];
            prop_assert_eq!(frame.encode(&mut again), len);
            prop_assert_eq!(&again[..len], &bytes[..len]);
        }
        let type_first = [&[0x42, 0xf5], &bytes[..]].concat();
        for bytes in [&bytes, &type_first] {
            if let Ok((frame, len)) = Timestamp::decode(bytes) {
                let mut again = [0; 10];
                prop_assert!(len <= bytes.len() && frame.scaled <= varint::MAX);
                // The value may be encoded in more bytes than it needs.
                prop_assert!((1..=len).contains(&frame.encode(&mut again)));
            }
        }
    }

    #[test]
    fn offers_are_found_among_other_parameters(
        before in parameters(), offer in offer(), enable in enable(), after in parameters(),
    ) {
        let mut all = before;
        if let Some(offer) = offer {
            offer.append(&mut all);
        }
        if let Some(enable) = enable {
            enable.append(&mut all);
        }
        all.extend(after);
        prop_assert_eq!(Offer::find(&all), Ok(offer));
        prop_assert_eq!(EnableTimestamp::find(&all), Ok(enable));
        prop_assert_eq!(parameter::ack_delay_exponent(&all), Ok(3));
        prop_assert_eq!(parameter::max_ack_delay(&all).as_millis(), 25);
    }

    #[test]
    fn parameter_scanners_never_panic(
        mut bytes in parameters(), hit in any::<prop::sample::Index>(), with: u8, tail in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        Offer::Paper.append(&mut bytes);
        EnableTimestamp::Both.append(&mut bytes);
        let at = hit.index(bytes.len());
        bytes[at] = with;
        bytes.extend(tail);
        let _ = Offer::find(&bytes).map(|peers| Negotiated::between(Some(Offer::Paper), peers));
        let _ = EnableTimestamp::find(&bytes);
        prop_assert!(parameter::ack_delay_exponent(&bytes).is_ok_and(|e| e <= 20) || parameter::ack_delay_exponent(&bytes).is_err());
        prop_assert!(parameter::max_ack_delay(&bytes).as_millis() < 1 << 14);
    }

    /// Compares with a set of all numbers that ever arrived.
    #[test]
    fn dedup_finds_every_duplicate_packet(base in 0..u64::MAX - 1_000, numbers in prop::collection::vec(0u64..600, 0..300)) {
        let mut dedup = Dedup::default();
        let mut all = std::collections::BTreeSet::new();
        for n in numbers {
            let largest = all.last().copied();
            let expected = match largest {
                None => Arrival::Newest,
                Some(l) if n > l => Arrival::Newest,
                Some(l) if l - n >= Dedup::WINDOW => Arrival::TooOld,
                Some(_) if all.contains(&n) => Arrival::Duplicate,
                Some(_) => Arrival::Late,
            };
            prop_assert_eq!(dedup.insert(base + n), expected);
            all.insert(n);
        }
    }

    /// Compares with a map, with acknowledgements of arbitrary packet numbers.
    #[test]
    fn recorded_send_times_match_a_reference_map(steps in prop::collection::vec((1u64..4, prop::option::of(0u64..600)), 0..300)) {
        let mut log = SendTimes::default();
        let mut model = std::collections::BTreeMap::new();
        let mut number = 0;
        for (skip, ack) in steps {
            number += skip;
            log.record(number, fathom_units::Time::from_micros(number));
            model.insert(number, fathom_units::Time::from_micros(number));
            if let Some(ack) = ack {
                let expected = model.get(&ack).copied();
                if ack <= number {
                    model.retain(|n, _| *n > ack);
                }
                prop_assert_eq!(log.take(ack), expected);
            }
            // A number beyond the newest removes nothing. Entries up to the requested number are
            // gone.
            prop_assert_eq!(log.len(), model.len());
        }
    }

    #[test]
    fn receive_timestamps_round_trip(
        largest in 1u64..varint::MAX >> 1,
        gaps in prop::collection::vec((1u64..4, 0u64..5000), 0..200),
        exponent in 0u8..=20,
        max_per_ack in 0u64..100,
        room in 0usize..400,
    ) {
        // Newest first. Packet numbers may skip, and times never rise.
        let (mut packet, mut micros) = (largest + 1, 1 << 40);
        let receipts: Vec<Receipt> = gaps
            .into_iter()
            .map_while(|(skip, since)| {
                packet = packet.checked_sub(skip)?;
                micros -= since;
                Some(Receipt { packet, micros })
            })
            .collect();
        let mut out = vec![0; room];
        let wanted = ReceiveTimestamps { max_per_ack, exponent };
        let Some((len, written)) = encode_receipts(largest, &receipts, wanted, &mut out) else {
            prop_assert_eq!(room, 0);
            return Ok(());
        };
        let mut frame = vec![0x83, 0x17, 0x83, 0x07];
        for field in [largest, 0, 0, 0] {
            push(&mut frame, field);
        }
        frame.extend(&out[..len]);
        let (read, read_len) = AckReceiveTimestamps::decode(&frame).expect("written here");
        prop_assert_eq!(read_len, frame.len());
        prop_assert_eq!(read.count, written as u64);
        let found: Vec<Receipt> = read.receipts(exponent).collect();
        prop_assert_eq!(found.len(), written);
        for (found, real) in found.iter().zip(&receipts) {
            prop_assert_eq!(found.packet, real.packet);
            // Each time is late by less than a unit, so errors do not add up.
            prop_assert!(found.micros >= real.micros && found.micros - real.micros < 1 << exponent);
        }
    }

    #[test]
    fn decoding_receive_timestamps_never_panics(ecn: bool, bytes in prop::collection::vec(any::<u8>(), 0..300), exponent: u8) {
        let frame = [&[0x83, 0x17, 0x83, if ecn { 0x08 } else { 0x07 }][..], &bytes].concat();
        if let Ok((read, len)) = AckReceiveTimestamps::decode(&frame) {
            prop_assert!(len <= frame.len());
            prop_assert!(read.receipts(exponent).count() as u64 <= read.count && read.count <= bytes.len() as u64);
        }
        let _ = ReceiveTimestamps::find(&bytes);
    }
}
