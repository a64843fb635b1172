//! Well-formed and malformed sections.

use super::*;
use crate::error::{Kind, Scope};
use crate::noise::{Noise, cases};
use crate::qpack::{Limits, decode, encode};

const REQUEST: Section = Section::Request { extended_connect: false };
const LIMITS: Limits = Limits { bytes: 16_384, fields: 100 };

fn checked(kind: Section, fields: &[(&str, &str)]) -> Result<Head, ProtocolError> {
    let (mut bytes, mut section) = (Vec::new(), FieldSection::new());
    encode(fields, &mut bytes);
    decode(&bytes, LIMITS, &mut section).unwrap();
    let head = check(kind, &section);
    // Without the static table.
    let pairs: Vec<_> = fields.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
    let bytes = crate::qpack::section_of_literals(&pairs, true);
    decode(&bytes, LIMITS, &mut section).unwrap();
    assert_eq!(check(kind, &section), head, "the representation does not matter");
    head
}

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "localhost:4433"), (":path", "/a?b")];

fn get_with(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    [&GET[..], more].concat()
}

#[test]
fn well_formed_requests_pass() {
    for more in [
        &[][..],
        &[("te", "trailers")],
        &[("te", " Trailers ")],
        &[("host", "localhost:4433")],
        &[("cookie", "a=b"), ("cookie", "c=d")],
        &[("x-any", "tab\tand\u{e9}")],
        &[("x-empty", "")],
    ] {
        assert_eq!(checked(REQUEST, &get_with(more)), Ok(Head::default()), "{more:?}");
    }
    let without = [(":scheme", "http"), (":path", "/"), (":method", "GET"), ("host", "[::1]:443")];
    assert!(checked(REQUEST, &without).is_ok(), "host stands for :authority, in any order");
    assert!(checked(REQUEST, &[(":method", "CONNECT"), (":authority", "a:1")]).is_ok());
    let options =
        [(":method", "OPTIONS"), (":scheme", "https"), (":authority", "a"), (":path", "*")];
    assert!(checked(REQUEST, &options).is_ok());
    for (values, length) in [
        (&["7"][..], ContentLength::Length(7)),
        (&["7", "7"], ContentLength::Length(7)),
        (&["7", "8"], ContentLength::Invalid),
        (&["7", "8", "8"], ContentLength::Invalid),
        (&["x"], ContentLength::Invalid),
        (&[""], ContentLength::Invalid),
        (&["+7"], ContentLength::Invalid),
        (&["7, 7"], ContentLength::Invalid),
        (&["99999999999999999999999"], ContentLength::Invalid),
    ] {
        let fields: Vec<_> = values.iter().map(|value| ("content-length", *value)).collect();
        let head = checked(REQUEST, &get_with(&fields)).unwrap();
        assert_eq!(head.content_length, length, "{values:?}");
    }
}

#[test]
fn malformed_requests_are_refused_with_the_reason() {
    for (fields, reason) in [
        (get_with(&[("connection", "close")]), "'connection'"),
        (get_with(&[("keep-alive", "timeout=5")]), "'keep-alive'"),
        (get_with(&[("proxy-connection", "close")]), "'proxy-connection'"),
        (get_with(&[("transfer-encoding", "chunked")]), "'transfer-encoding'"),
        (get_with(&[("upgrade", "h2c")]), "'upgrade'"),
        (get_with(&[("te", "gzip")]), "'te'"),
        (get_with(&[("te", "trailers, gzip")]), "'te'"),
        (get_with(&[("X-Upper", "a")]), "X-Upper"),
        (get_with(&[("", "a")]), "not a field name"),
        (get_with(&[("a b", "a")]), "'a b'"),
        (get_with(&[("a", "b\r\nc")]), "control"),
        (get_with(&[("a", "b\0c")]), "control"),
        (get_with(&[(":path", "/b")]), "':path' occurs twice"),
        (get_with(&[(":method", "GET")]), "':method' occurs twice"),
        (get_with(&[(":scheme", "https")]), "':scheme' occurs twice"),
        (get_with(&[(":authority", "localhost:4433")]), "':authority' occurs twice"),
        (get_with(&[(":status", "200")]), "':status'"),
        (get_with(&[(":protocol", "websocket")]), "':protocol'"),
        (get_with(&[(":foo", "a")]), "':foo'"),
        (get_with(&[("host", "other")]), "'host'"),
        (
            get_with(&[("host", "localhost:4433"), ("host", "localhost:4433")]),
            "'host' occurs twice",
        ),
        ([&GET[..3], &[("a", "b"), GET[3]]].concat(), "':path' comes after"),
        (GET[1..].to_vec(), "':method' is missing"),
        ([&GET[..1], &GET[2..]].concat(), "':scheme' is missing"),
        ([&GET[..2], &GET[3..]].concat(), "':authority' is missing"),
        (GET[..3].to_vec(), "':path' is missing"),
        ([&GET[..3], &[(":path", "")]].concat(), "':path' has the invalid"),
        ([&GET[..3], &[(":path", "a")]].concat(), "':path' has the invalid"),
        ([&GET[..3], &[(":path", "/a#b")]].concat(), "':path' has the invalid"),
        ([&GET[..3], &[(":path", "/a b")]].concat(), "':path' has the invalid"),
        ([&GET[..3], &[(":path", "*")]].concat(), "OPTIONS"),
        (vec![GET[0], GET[1], (":authority", ""), GET[3]], "':authority' has the invalid"),
        (
            vec![GET[0], GET[1], (":authority", "me@localhost"), GET[3]],
            "':authority' has the invalid",
        ),
        (vec![(":method", ""), GET[1], GET[2], GET[3]], "':method' has the invalid"),
        (vec![GET[0], (":scheme", ""), GET[2], GET[3]], "':scheme' has the invalid"),
        (vec![(":method", "CONNECT"), GET[1], GET[2], GET[3]], "CONNECT"),
        (vec![(":method", "CONNECT")], "':authority' is missing"),
        (vec![], "':method' is missing"),
    ] {
        match checked(REQUEST, &fields) {
            Err(ProtocolError {
                kind: Kind::Malformed,
                scope: Scope::Stream,
                reason: found,
                ..
            }) => {
                assert!(found.contains(reason), "{fields:?}: {found}")
            }
            other => panic!("{fields:?}: {other:?}"),
        }
    }
}

#[test]
fn responses_and_trailers_have_their_own_rules() {
    assert!(
        checked(Section::Response, &[(":status", "200"), ("content-length", "3")])
            .is_ok_and(|f| !f.is_interim())
    );
    assert!(checked(Section::Response, &[(":status", "103")]).is_ok_and(|head| head.is_interim()));
    assert!(checked(Section::Trailers, &[("content-digest", "a")]).is_ok());
    assert!(checked(Section::Trailers, &[]).is_ok());
    for (kind, fields) in [
        (Section::Response, &[][..]),
        (Section::Response, &[("a", "b")]),
        (Section::Response, &[(":status", "20")]),
        (Section::Response, &[(":status", "2000")]),
        (Section::Response, &[(":status", "099")]),
        (Section::Response, &[(":status", "101")]),
        (Section::Response, &[(":status", "200"), (":status", "200")]),
        (Section::Response, &[("a", "b"), (":status", "200")]),
        (Section::Response, &[(":status", "200"), (":path", "/")]),
        (Section::Response, &[(":status", "200"), ("connection", "close")]),
        (Section::Response, &[(":status", "200"), ("transfer-encoding", "chunked")]),
        (Section::Response, &[(":status", "200"), ("te", "trailers")]),
        (Section::Trailers, &[(":status", "200")]),
        (Section::Trailers, &[(":path", "/")]),
        (Section::Trailers, &[("upgrade", "a")]),
    ] {
        assert!(
            matches!(checked(kind, fields), Err(ProtocolError { kind: Kind::Malformed, .. })),
            "{kind:?} {fields:?}"
        );
    }
}

#[test]
fn extended_connect_needs_the_setting_and_all_fields() {
    let connect = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", "/chat"),
    ];
    let permitted = Section::Request { extended_connect: true };
    assert!(checked(permitted, &connect).is_ok_and(|head| head.connect));
    assert!(checked(REQUEST, &connect).is_err());
    for missing in 0..5 {
        let mut fields = connect.to_vec();
        fields.remove(missing);
        assert!(checked(permitted, &fields).is_err(), "{fields:?}");
    }
    let get = [&[(":method", "GET")], &connect[1..]].concat();
    assert!(checked(permitted, &get).is_err());
}

#[test]
fn classes_of_static_names_match_their_text() {
    for (entry, (name, _)) in STATIC_TABLE.iter().enumerate() {
        assert_eq!(NAMES[entry], name_kind(name.as_bytes()), "{name}");
    }
}

#[test]
fn well_formed_arbitrary_sections_have_only_valid_names_and_values() {
    let mut noise = Noise::new(14);
    for case in 0..cases() {
        let mut fields: Vec<(Vec<u8>, Vec<u8>)> = (0..noise.below(5))
            .map(|_| {
                let name = if noise.below(3) == 0 { noise.bytes(6) } else { noise.text(6) };
                (name, if noise.below(3) == 0 { noise.bytes(9) } else { noise.text(9) })
            })
            .collect();
        if case % 2 == 0 {
            fields.insert(0, (b":status".to_vec(), b"200".to_vec()));
        }
        let pairs: Vec<_> = fields.iter().map(|(n, v)| (&n[..], &v[..])).collect();
        let mut section = FieldSection::new();
        let bytes = crate::qpack::section_of_literals(&pairs, false);
        decode(&bytes, LIMITS, &mut section).unwrap();
        for kind in [REQUEST, Section::Response, Section::Trailers] {
            if check(kind, &section).is_ok() {
                for (name, value) in section.iter() {
                    let name = name.strip_prefix(b":").unwrap_or(name);
                    assert!(http::HeaderName::from_lowercase(name).is_ok(), "{name:?}");
                    assert!(http::HeaderValue::from_bytes(value).is_ok(), "{value:?}");
                }
            }
        }
    }
}
