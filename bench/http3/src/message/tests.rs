//! Streams of messages, cut into chunks of every kind.

use super::*;
use crate::noise::{Noise, cases};
use crate::qpack;
use crate::varint;

const LIMITS: MessageLimits =
    MessageLimits { section: Limits { bytes: 2_048, fields: 30 }, overhead: 4_096 };
const REQUEST: Message = Message::Request { extended_connect: false };
const RESPONSE: Message = Message::Response { to: Method::Other };

fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write_header(kind, payload.len() as u64, &mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = Vec::new();
    qpack::encode(fields, &mut section);
    frame(frame::HEADERS, &section)
}

fn get(more: &[(&str, &str)]) -> Vec<u8> {
    let head = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
    headers(&[&head[..], more].concat())
}

/// An event, with the data of consecutive events joined.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Section(Event, Vec<(Vec<u8>, Vec<u8>)>),
    Data(Vec<u8>),
}

/// Returns the events of a stream that arrives in these chunks, and how it ends.
fn events<'a>(
    message: Message,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Seen>, Result<(), ProtocolError>) {
    let (mut reader, mut seen) = (MessageReader::new(message, LIMITS), Vec::new());
    let mut section = FieldSection::new();
    for chunk in chunks {
        let mut input = Bytes::copy_from_slice(chunk);
        loop {
            let next = reader.next(&mut input, &mut section, |kind, payload, section| {
                read_section(kind, payload, LIMITS.section, section)
            });
            assert!(reader.collected.len() as u64 <= LIMITS.overhead);
            match next {
                Err(error) => return (seen, Err(error)),
                Ok(None) => break,
                Ok(Some(Event::Data(data))) => {
                    assert!(!data.is_empty());
                    match seen.last_mut() {
                        Some(Seen::Data(before)) => before.extend_from_slice(&data),
                        _ => seen.push(Seen::Data(data.to_vec())),
                    }
                }
                Ok(Some(event)) => {
                    let fields = section.iter().map(|(n, v)| (n.to_vec(), v.to_vec()));
                    seen.push(Seen::Section(event, fields.collect()));
                }
            }
        }
        assert!(input.is_empty());
    }
    (seen, reader.end())
}

fn of(message: Message, stream: &[u8]) -> (Vec<Seen>, Result<(), ProtocolError>) {
    let whole = events(message, [stream]);
    assert_eq!(whole, events(message, stream.chunks(1)), "however it is cut");
    whole
}

fn code(message: Message, stream: &[u8]) -> Option<(Code, bool)> {
    of(message, stream).1.err().map(|error| (error.code, error.ends_connection()))
}

#[test]
fn messages_are_parsed_in_order() {
    let stream = [
        &get(&[])[..],
        b"\0\x02ab",
        &frame(0x21, b"x"),
        b"\0\0\0\x40\x01c",
        &headers(&[("a", "b")]),
        &frame(0x21, b""),
    ]
    .concat();
    let (seen, end) = of(REQUEST, &stream);
    assert_eq!(end, Ok(()));
    assert_eq!(seen.len(), 3);
    assert!(matches!(&seen[0], Seen::Section(Event::Head(_), fields) if fields.len() == 4));
    assert_eq!(seen[1], Seen::Data(b"abc".to_vec()));
    let trailers = vec![(b"a".to_vec(), b"b".to_vec())];
    assert_eq!(seen[2], Seen::Section(Event::Trailers, trailers));
}

#[test]
fn data_are_not_copied() {
    let mut input = Bytes::from([&get(&[])[..], b"\0\x02ab\0\x01c"].concat());
    let whole = input.clone();
    let (mut reader, mut section) = (MessageReader::new(REQUEST, LIMITS), FieldSection::new());
    let mut next = || {
        reader.next(&mut input, &mut section, |kind, payload, section| {
            read_section(kind, payload, LIMITS.section, section)
        })
    };
    assert!(matches!(next(), Ok(Some(Event::Head(_)))));
    let Ok(Some(Event::Data(data))) = next() else { panic!("no data") };
    assert_eq!(data.as_ptr(), whole[whole.len() - 5..].as_ptr());
}

#[test]
fn streams_that_end_within_a_frame_close_the_connection() {
    let trailers = headers(&[("a", "b")]);
    let stream = [get(&[]), frame(frame::DATA, b"abc"), frame(0x21, b"xyz"), trailers].concat();
    assert_eq!(of(REQUEST, &stream).1, Ok(()));
    let mut whole = 0;
    for end in 1..stream.len() {
        match code(REQUEST, &stream[..end]) {
            Some(error) => assert_eq!(error, (Code::H3_FRAME_ERROR, true), "of {end} bytes"),
            None => whole += 1,
        }
    }
    assert_eq!(whole, 3, "after the header, the body, and the unknown frame");
    assert_eq!(code(REQUEST, b""), Some((Code::H3_REQUEST_INCOMPLETE, false)));
    assert_eq!(code(RESPONSE, b""), Some((Code::H3_MESSAGE_ERROR, false)));
}

#[test]
fn misplaced_frames_close_the_connection() {
    let (head, trailers) = (get(&[]), headers(&[("a", "b")]));
    let data = frame(frame::DATA, b"a");
    let with = |frames: &[Vec<u8>]| code(REQUEST, &[&head[..], &frames.concat()].concat());
    let unexpected = Some((Code::H3_FRAME_UNEXPECTED, true));
    assert_eq!(code(REQUEST, &[data.clone(), head.clone()].concat()), unexpected);
    assert_eq!(code(REQUEST, &[frame(frame::DATA, b""), head.clone()].concat()), unexpected);
    assert_eq!(with(&[trailers.clone(), data.clone()]), unexpected);
    assert_eq!(with(&[trailers.clone(), trailers.clone()]), unexpected);
    for kind in [0x3, 0x4, 0x5, 0x7, 0xd, 0x2, 0x6, 0x8, 0x9, 0xf0700, 0xf0701] {
        assert_eq!(with(&[frame(kind, b"\0")]), unexpected, "{kind:#x}");
        assert_eq!(code(REQUEST, &frame(kind, b"\0")), unexpected, "{kind:#x}");
    }
    // WebTransport's frame type was not negotiated, so it counts as unknown.
    assert_eq!(with(&[frame(0x3f, b"x"), data, trailers, frame(0x21, b"")]), None);
    let push = [headers(&[(":status", "200")]), frame(0x5, b"\0\0\0")].concat();
    assert_eq!(code(RESPONSE, &push), Some((Code::H3_ID_ERROR, true)));
}

#[test]
fn malformed_headers_are_errors_of_the_stream() {
    for fields in [
        &[(":method", "GET")][..],
        &[("Upper", "a")],
        &[(":method", "GET"), (":scheme", "https"), (":authority", "a"), ("x", "\n")],
    ] {
        assert_eq!(code(REQUEST, &headers(fields)), Some((Code::H3_MESSAGE_ERROR, false)));
    }
    let undecodable = frame(frame::HEADERS, b"\0\0\x80");
    assert_eq!(code(REQUEST, &undecodable), Some((Code::QPACK_DECOMPRESSION_FAILED, true)));
}

#[test]
fn interim_responses_come_before_the_final_one() {
    let interim = headers(&[(":status", "103"), ("link", "a")]);
    let last = headers(&[(":status", "200")]);
    let (seen, end) = of(RESPONSE, &[&interim[..], &interim, &last, b"\0\x01a"].concat());
    assert_eq!(end, Ok(()));
    assert!(matches!(seen[1], Seen::Section(Event::Interim(Head { status: 103, .. }), _)));
    assert!(matches!(seen[2], Seen::Section(Event::Head(Head { status: 200, .. }), _)));
    assert_eq!(code(RESPONSE, &interim), Some((Code::H3_MESSAGE_ERROR, false)));
    let body = [&interim[..], b"\0\x01a"].concat();
    assert_eq!(code(RESPONSE, &body), Some((Code::H3_FRAME_UNEXPECTED, true)));
}

#[test]
fn bodies_have_the_declared_length() {
    let body = |declared: &str, frames: &[&[u8]]| {
        code(REQUEST, &[&get(&[("content-length", declared)])[..], &frames.concat()].concat())
    };
    let wrong = Some((Code::H3_MESSAGE_ERROR, false));
    assert_eq!(body("3", &[b"\0\x02ab", b"\0\x01c"]), None);
    assert_eq!(body("0", &[]), None);
    assert_eq!(body("x", &[b"\0\x01a"]), None);
    assert_eq!(body("0", &[b"\0\x01a"]), wrong);
    assert_eq!(body("3", &[]), wrong);
    assert_eq!(body("3", &[b"\0\x02ab"]), wrong);
    assert_eq!(body("3", &[b"\0\x02ab", b"\0\x02cd"]), wrong);
    assert_eq!(body("3", &[b"\0\x02ab", &headers(&[("a", "b")])]), wrong);
    let response = |message, status: &str| {
        code(message, &headers(&[(":status", status), ("content-length", "3")]))
    };
    assert_eq!(response(RESPONSE, "200"), wrong);
    assert_eq!(response(RESPONSE, "304"), None);
    assert_eq!(response(Message::Response { to: Method::Head }, "200"), None);
}

#[test]
fn announced_length_is_checked_before_the_payload_arrives() {
    let announced = |begin: &[u8], kind: u64, length: u64| {
        let mut stream = begin.to_vec();
        frame::write_header(kind, length, &mut stream);
        events(REQUEST, [&stream[..]]).1.unwrap_err().kind
    };
    assert_eq!(announced(b"", frame::HEADERS, varint::MAX), Kind::FieldsTooLarge);
    assert_eq!(announced(b"", 0x21, varint::MAX), Kind::ExcessiveLoad);
    assert_eq!(announced(b"", varint::MAX, varint::MAX), Kind::ExcessiveLoad);
    let head = get(&[("content-length", "3")]);
    assert_eq!(announced(&head, frame::DATA, 1 << 40), Kind::ContentLength);
    // A body of any length is permitted without a content-length.
    let (seen, end) = of(REQUEST, &[&get(&[])[..], b"\0\xff\xff\xff\xff\xff\xff\xff\xff"].concat());
    assert_eq!((seen.len(), end.unwrap_err().code), (1, Code::H3_FRAME_ERROR));
}

#[test]
fn endless_frames_without_meaning_are_excessive_load() {
    let endless = [&get(&[])[..], &[0; 5_000]].concat();
    assert_eq!(of(REQUEST, &endless).1.unwrap_err().kind, Kind::ExcessiveLoad);
    let endless = [get(&[]), frame(0x21, b"abc").repeat(1_000)].concat();
    assert_eq!(of(REQUEST, &endless).1.unwrap_err().kind, Kind::ExcessiveLoad);
    let interim = headers(&[(":status", "103")]).repeat(1_000);
    assert_eq!(of(RESPONSE, &interim).1.unwrap_err().kind, Kind::FieldsTooLarge);
}

#[test]
fn blocked_sections_continue_after_the_insertion() {
    // A required insert count of 1 and a base of 1; entry 0 is relative index 0.
    let section = b"\x02\x00\xd1\xd7\x50\x01a\xc1\x80";
    let stream = [frame(frame::HEADERS, section), b"\0\x01x".to_vec()].concat();
    for chunk in [1, 5, 100] {
        let mut decoder = qpack::Decoder::new(220, 1);
        let mut reader = MessageReader::new(REQUEST, LIMITS);
        let (mut fields, mut seen) = (FieldSection::new(), Vec::new());
        for chunk in stream.chunks(chunk) {
            let mut input = Bytes::copy_from_slice(chunk);
            while let Some(event) = reader
                .next(&mut input, &mut fields, |kind, payload, section| {
                    let decoded = decoder.decode(0, payload, LIMITS.section, section)?;
                    match decoded {
                        qpack::Decoded::Whole => fields::check(kind, section).map(Read::Fields),
                        qpack::Decoded::Blocked(required) => Ok(Read::Blocked(required)),
                    }
                })
                .unwrap()
            {
                if event == Event::Blocked(1) {
                    decoder.encoder_stream(b"\x3f\xbd\x01\x41a\x01b").unwrap();
                }
                seen.push(event);
            }
        }
        assert_eq!(reader.end(), Ok(()));
        assert_eq!(seen[0], Event::Blocked(1));
        assert!(matches!(seen[1], Event::Head(_)));
        assert_eq!(seen[2], Event::Data(Bytes::from_static(b"x")));
        assert_eq!(fields.get(b"a"), Some(&b"b"[..]));
    }
}

#[test]
fn events_do_not_depend_on_chunks() {
    let mut noise = Noise::new(18);
    for case in 0..cases() {
        let mut stream = match case % 3 {
            0 => Vec::new(),
            1 => get(&[]),
            _ => headers(&[(":status", "200")]),
        };
        for _ in 0..noise.below(6) {
            let kind = [frame::DATA, frame::HEADERS, 0x21, noise.below(64) as u64];
            let kind = kind[noise.below(4)];
            match noise.below(3) {
                0 if kind == frame::HEADERS => stream.extend(headers(&[("a", "b")])),
                _ => stream.extend(frame(kind, &noise.bytes(20))),
            }
        }
        if noise.below(2) == 0 {
            stream.extend(noise.bytes(20));
        }
        let to_connect = Message::Response { to: Method::Connect };
        for message in [REQUEST, RESPONSE, Message::Response { to: Method::Head }, to_connect] {
            let whole = events(message, [&stream[..]]);
            assert_eq!(whole, events(message, noise.cut(&stream)), "{stream:?}");
        }
    }
}
