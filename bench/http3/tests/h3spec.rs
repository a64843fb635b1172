//! The cases of h3spec for HTTP/3 and QPACK, with its bytes
//! (<https://github.com/kazu-yamamoto/h3spec>, `HTTP3Error.hs`).

use fathom_http3::error::Code;

use super::malformed::{Outcome, of_request};
use super::violations::{Act, SETTINGS, frame};

/// Streams of a client in addition to the request.
#[derive(Clone, Copy)]
enum Sent<'a> {
    Request(&'a [u8]),
    Control(&'a [u8]),
    /// A control stream that ends.
    ClosedControl,
    Encoder(&'a [u8]),
    Decoder(&'a [u8]),
}

#[tokio::test]
async fn server_passes_the_cases_of_h3spec() {
    use Outcome::{Connection, Stream};
    use Sent::{ClosedControl, Control, Decoder, Encoder, Request};
    // GET of https://127.0.0.1/.
    let get = b"\x01\x10\0\0\xd1\xd7\x50\x09127.0.0.1\xc1";
    let [absent, prohibited, late, twice, entry_99] = [
        &b"\0\0\xd1\xd7\xc1"[..],
        b"\0\0\xd1\xd7\x27\x02:autority\x09127.0.0.1\xc1\x24:foo\x03bar",
        b"\0\0\xd1\xd7\x27\x02:autority\x09127.0.0.1\x23foo\x03bar\xc1",
        b"\0\0\xd1\xd7\x50\x09127.0.0.1\xc1\xd1",
        b"\0\0\xd1\xd7\x50\x09127.0.0.1\xc1\xff\x24",
    ]
    .map(|section| frame(1, section));
    let data_first = [b"\0\0", &get[..]].concat();
    let cancel_first = [b"\x03\0", &get[..]].concat();
    let max_push_id_first = [b"\0\x0d\x01\x01", &SETTINGS[1..]].concat();
    let control = |frames: &[u8]| [SETTINGS, frames].concat();
    let [data, head, settings] = [b"\0\0", b"\x01\0", b"\x04\0"].map(|frame| control(frame));
    let repeated = b"\0\x04\x0e\x07\x40\x64\x01\x50\0\x06\x80\0\x80\0\x07\x40\x64";
    let http2 = b"\0\x04\x0e\x07\x40\x64\x02\x40\xc8\x01\x50\0\x06\x80\0\x80\0";
    for (case, sent, wanted) in [
        ("DATA before HEADERS", Request(&data_first), Connection(Code::H3_FRAME_UNEXPECTED)),
        ("duplicate pseudo-header", Request(&twice), Stream(Code::H3_MESSAGE_ERROR)),
        ("absent pseudo-header", Request(&absent), Stream(Code::H3_MESSAGE_ERROR)),
        ("prohibited pseudo-header", Request(&prohibited), Stream(Code::H3_MESSAGE_ERROR)),
        ("pseudo-header after a field", Request(&late), Stream(Code::H3_MESSAGE_ERROR)),
        ("no SETTINGS", Control(&max_push_id_first), Connection(Code::H3_MISSING_SETTINGS)),
        ("DATA on the control stream", Control(&data), Connection(Code::H3_FRAME_UNEXPECTED)),
        ("HEADERS on the control stream", Control(&head), Connection(Code::H3_FRAME_UNEXPECTED)),
        ("second SETTINGS", Control(&settings), Connection(Code::H3_FRAME_UNEXPECTED)),
        // h3spec leaves this case out, because the RFC says MAY.
        ("repeated setting", Control(repeated), Connection(Code::H3_SETTINGS_ERROR)),
        ("setting of HTTP/2", Control(http2), Connection(Code::H3_SETTINGS_ERROR)),
        ("CANCEL_PUSH on a request", Request(&cancel_first), Connection(Code::H3_FRAME_UNEXPECTED)),
        ("static entry 99", Request(&entry_99), Connection(Code::QPACK_DECOMPRESSION_FAILED)),
        (
            "capacity above the limit",
            Encoder(b"\x02\x3f\xe1\xc7\xaf\xa0\x25"),
            Connection(Code::QPACK_ENCODER_STREAM_ERROR),
        ),
        ("closed control stream", ClosedControl, Connection(Code::H3_CLOSED_CRITICAL_STREAM)),
        ("increment of zero", Decoder(b"\x03\0"), Connection(Code::QPACK_DECODER_STREAM_ERROR)),
        ("a request without a violation", Request(get), Outcome::Accepted),
    ] {
        let (streams, request) = match sent {
            Request(request) => (vec![Act::Unidirectional(SETTINGS)], request),
            Control(stream) => (vec![Act::Unidirectional(stream)], &get[..]),
            ClosedControl => (vec![Act::Ended(SETTINGS)], &get[..]),
            Encoder(stream) | Decoder(stream) => {
                (vec![Act::Unidirectional(SETTINGS), Act::Unidirectional(stream)], &get[..])
            }
        };
        assert_eq!(of_request(&streams, request).await, wanted, "{case}");
    }
}
