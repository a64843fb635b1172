//! A request whose fields repeat allocates nothing in the protocol layer.

use bytes::Bytes;
use fathom_http3::message::{Event, Message, MessageLimits, MessageReader, read_section};
use fathom_http3::qpack::{Cache, FieldSection};
use fathom_http3::repeated::Repeated;

const REQUEST: [(&str, &str); 5] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "localhost:4433"),
    (":path", "/bytes/1000"),
    ("user-agent", "fathom-load/0.1.0"),
];

/// Reads a message from one chunk. Returns the number of bytes of its body.
fn read(
    message: Message,
    mut input: Bytes,
    section: &mut FieldSection,
    repeated: Option<&mut Repeated>,
) -> usize {
    let limits = MessageLimits::default();
    let (mut reader, mut body) = (MessageReader::new(message, limits), 0);
    let mut repeated = repeated;
    let mut next = |input: &mut Bytes| {
        reader.next(input, section, |kind, payload, section| match &mut repeated {
            Some(repeated) => repeated.read(kind, payload, limits.section, section),
            None => read_section(kind, payload, limits.section, section),
        })
    };
    while let Some(event) = next(&mut input).unwrap() {
        if let Event::Data(data) = event {
            body += data.len();
        }
    }
    reader.end().unwrap();
    body
}

#[test]
fn steady_state_requests_allocate_nothing() {
    let (mut cache, mut repeated) = (Cache::new(), Repeated::default());
    let mut section = FieldSection::new();
    let message = Message::Request { extended_connect: false };
    let mut exchange = |repeats: bool| {
        let frame = cache.frame(&REQUEST, None);
        let repeated = repeats.then_some(&mut repeated);
        assert_eq!(read(message, frame, &mut section, repeated), 0);
        assert_eq!(section.get(b":path"), Some(&b"/bytes/1000"[..]));
    };
    for _ in 0..3 {
        exchange(true);
        exchange(false);
    }
    let allocated = allocation_counter::measure(|| {
        for _ in 0..100 {
            exchange(true);
            exchange(false);
        }
    });
    assert_eq!(allocated.count_total, 0);
}

#[test]
fn announced_lengths_allocate_nothing() {
    // HEADERS of 16,383 bytes, of which one has arrived.
    let input = Bytes::from_static(&[1, 0x7f, 0xff, 0]);
    let limits = MessageLimits::default();
    let message = Message::Request { extended_connect: false };
    let (mut reader, mut section) = (MessageReader::new(message, limits), FieldSection::new());
    let allocated = allocation_counter::measure(|| {
        let next = reader.next(&mut input.clone(), &mut section, |kind, payload, section| {
            read_section(kind, payload, limits.section, section)
        });
        assert_eq!(next, Ok(None));
    });
    assert!(allocated.bytes_total < 100, "{}", allocated.bytes_total);
}
