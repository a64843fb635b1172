//! Checks the fields of a message against RFC 9114 §4.2 and §4.3.

use std::borrow::Cow;

use h3::error::Code;

use super::PeerError;
use super::qpack::{SectionError, SectionReader};
use crate::authority::is_host_and_port;
use crate::request::is_token;

/// Kind of a field section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    /// The header of a request.
    Request,
    /// The header of a response.
    Response,
    /// The trailers of a request or a response.
    Trailers,
}

/// Contents of a well-formed section that affect the handling of its message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Length of the body in bytes. `None` if `content-length` is missing or invalid. A request
    /// with an invalid `content-length` gets a response that says so.
    pub(super) content_length: Option<u64>,
    /// Status of a response.
    status: Option<u16>,
}

impl Found {
    /// Returns whether another header follows this one, as after interim responses
    /// (RFC 9110 §15.2).
    pub(super) fn is_interim(&self) -> bool {
        self.status.is_some_and(|status| status < 200)
    }
}

/// Checks the field section of a HEADERS frame, whose fields may take `limit` bytes.
///
/// # Errors
/// Returns an error if the section takes more than the limit, if it is malformed, or if it cannot
/// be decoded. The last error ends the connection.
pub(super) fn check(section: Section, payload: &[u8], limit: u64) -> Result<Found, PeerError> {
    let mut checker = Checker::new(section);
    let mut reader = SectionReader::new(payload, limit).map_err(undecodable)?;
    let mut buffer = Vec::new();
    while let Some(checked) =
        reader.next(&mut buffer, |name, value| checker.field(name, value)).map_err(undecodable)?
    {
        checked?;
    }
    checker.end()
}

fn undecodable(error: SectionError) -> PeerError {
    match error {
        SectionError::TooLarge(limit) => PeerError::FieldsTooLarge(limit),
        error => PeerError::connection(Code::QPACK_DECOMPRESSION_FAILED, error.to_string()),
    }
}

fn malformed<T>(reason: impl Into<Cow<'static, str>>) -> Result<T, PeerError> {
    Err(PeerError::Malformed(reason.into()))
}

/// Returns the beginning of a peer's name or value for error messages, without control characters.
fn shown(text: &[u8]) -> String {
    text[..text.len().min(40)].escape_ascii().to_string()
}

/// Fields that belong to one connection (RFC 9114 §4.2). Another rule covers `te`.
const CONNECTION_SPECIFIC: [&[u8]; 5] =
    [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];

/// State of the check of one section.
struct Checker {
    section: Section,
    /// Whether a regular field was seen.
    regular: bool,
    method: Option<Method>,
    scheme: bool,
    path: Option<Path>,
    /// Value of `:authority`, or of the first `host` if there is no `:authority`.
    authority: Option<Vec<u8>>,
    /// Whether `:authority` was seen.
    has_authority: bool,
    host: bool,
    found: Found,
    /// Whether `content-length` is not a number, or occurs with values that differ.
    invalid_length: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Connect,
    Options,
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Path {
    /// The path `*`, which means the whole server.
    Asterisk,
    Absolute,
}

impl Checker {
    fn new(section: Section) -> Self {
        Self {
            section,
            regular: false,
            method: None,
            scheme: false,
            path: None,
            authority: None,
            has_authority: false,
            host: false,
            found: Found::default(),
            invalid_length: false,
        }
    }

    fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), PeerError> {
        // HTAB is the only control character that is allowed (RFC 9114 §10.3, RFC 9110 §5.5).
        if value.iter().any(|byte| matches!(byte, 0..=8 | 10..=31 | 127)) {
            return malformed(format!("the field '{}' has a control character", shown(name)));
        }
        match name.strip_prefix(b":") {
            Some(pseudo) => self.pseudo(pseudo, value),
            None => {
                self.regular = true;
                self.regular(name, value)
            }
        }
    }

    /// Checks a pseudo-header field (RFC 9114 §4.3). Its name is given without the colon.
    fn pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), PeerError> {
        let wrong =
            |why: &str| malformed(format!("the pseudo-header field ':{}' {why}", shown(name)));
        let known = match self.section {
            Section::Request => matches!(name, b"method" | b"scheme" | b"authority" | b"path"),
            Section::Response => name == b"status",
            Section::Trailers => return wrong("is in the trailers"),
        };
        if !known {
            return wrong("is not allowed in this message");
        }
        if self.regular {
            return wrong("comes after a field");
        }
        let twice = match name {
            b"method" => self.method.replace(method(value)).is_some(),
            b"scheme" => std::mem::replace(&mut self.scheme, true),
            b"authority" => {
                self.has_authority = true;
                self.authority.replace(value.to_vec()).is_some()
            }
            b"path" => {
                let path = if value == b"*" { Path::Asterisk } else { Path::Absolute };
                self.path.replace(path).is_some()
            }
            _ => self.found.status.replace(status(value)).is_some(),
        };
        let valid = match name {
            b"method" => is_token(value),
            b"scheme" => is_scheme(value),
            b"authority" => is_host_and_port(value),
            b"path" => is_path(value),
            // HTTP/3 has no status 101 (RFC 9114 §4.5).
            _ => !matches!(status(value), 0 | 101),
        };
        match (twice, valid) {
            (true, _) => wrong("occurs twice"),
            (_, false) => wrong(&format!("has the invalid value '{}'", shown(value))),
            _ => Ok(()),
        }
    }

    fn regular(&mut self, name: &[u8], value: &[u8]) -> Result<(), PeerError> {
        if !is_token(name) || name.iter().any(u8::is_ascii_uppercase) {
            return malformed(format!("'{}' is not a field name", shown(name)));
        }
        if CONNECTION_SPECIFIC.contains(&name) {
            return malformed(format!(
                "the field '{}' is specific to connections of HTTP/1.1",
                shown(name)
            ));
        }
        match (name, self.section) {
            (b"te", Section::Request) if value.trim_ascii().eq_ignore_ascii_case(b"trailers") => {}
            (b"te", _) => {
                return malformed(format!("the field 'te' has the value '{}'", shown(value)));
            }
            (b"host", Section::Request) => return self.host(value),
            (b"content-length", Section::Request) => self.content_length(value),
            _ => {}
        }
        Ok(())
    }

    fn host(&mut self, value: &[u8]) -> Result<(), PeerError> {
        if std::mem::replace(&mut self.host, true) {
            return malformed("the field 'host' occurs twice");
        }
        if !is_host_and_port(value) {
            return malformed(format!("the field 'host' has the invalid value '{}'", shown(value)));
        }
        match &self.authority {
            // RFC 9114 §4.3.1: `:authority` and `host` must be equal.
            Some(authority) if authority != value => malformed(format!(
                "the field 'host' is '{}' but ':authority' is '{}'",
                shown(value),
                shown(authority)
            )),
            _ => Ok(()),
        }
    }

    fn content_length(&mut self, value: &[u8]) {
        let length = crate::request::content_length(value);
        let differs = self.found.content_length.is_some_and(|before| Some(before) != length);
        self.invalid_length |= length.is_none() || differs;
        self.found.content_length = length;
    }

    fn end(mut self) -> Result<Found, PeerError> {
        if self.invalid_length {
            self.found.content_length = None;
        }
        match self.section {
            Section::Request => self.request()?,
            Section::Response if self.found.status.is_none() => {
                return malformed("the pseudo-header field ':status' is missing");
            }
            Section::Response | Section::Trailers => {}
        }
        Ok(self.found)
    }

    /// Checks that a request has all necessary fields (RFC 9114 §4.3.1, §4.4).
    fn request(&self) -> Result<(), PeerError> {
        let missing = |name| malformed(format!("the pseudo-header field '{name}' is missing"));
        let Some(method) = self.method else { return missing(":method") };
        if method == Method::Connect {
            return match (self.scheme || self.path.is_some(), self.has_authority) {
                (true, _) => malformed(
                    "a CONNECT request has ':scheme' or ':path', which are not \
                    allowed",
                ),
                (_, false) => missing(":authority"),
                _ => Ok(()),
            };
        }
        if !self.scheme {
            return missing(":scheme");
        }
        if !self.has_authority && !self.host {
            return missing(":authority");
        }
        match self.path {
            None => missing(":path"),
            Some(Path::Asterisk) if method != Method::Options => {
                malformed("the path '*' is allowed only with the method OPTIONS")
            }
            Some(_) => Ok(()),
        }
    }
}

fn method(value: &[u8]) -> Method {
    match value {
        b"CONNECT" => Method::Connect,
        b"OPTIONS" => Method::Options,
        _ => Method::Other,
    }
}

/// Returns the value of a status with three digits and a value of at least 100, or 0 if the text is
/// not such a status.
fn status(value: &[u8]) -> u16 {
    match value {
        [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] => {
            value.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'))
        }
        _ => 0,
    }
}

/// Returns whether the value is a scheme (RFC 3986 §3.1).
fn is_scheme(value: &[u8]) -> bool {
    value.first().is_some_and(u8::is_ascii_alphabetic)
        && value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
}

/// Returns whether the value is `*`, or a path with an optional query and without a fragment. Bytes
/// above ASCII are accepted, because some clients do not encode them.
fn is_path(value: &[u8]) -> bool {
    value == b"*"
        || (value.first() == Some(&b'/')
            && !value.iter().any(|byte| matches!(byte, 0..=32 | b'#' | 127)))
}

#[cfg(test)]
mod tests {
    use super::super::qpack::tests::section;
    use super::*;

    use proptest::collection::vec;
    use proptest::prelude::*;

    fn checked(kind: Section, fields: &[(&str, &str)]) -> Result<Found, PeerError> {
        let fields: Vec<_> =
            fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        let plain = check(kind, &section(&fields, false), 16_384);
        assert_eq!(
            check(kind, &section(&fields, true), 16_384),
            plain,
            "Huffman strings say the same"
        );
        plain
    }

    const GET: [(&str, &str); 4] = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "localhost:4433"),
        (":path", "/a?b"),
    ];

    fn get_with(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
        [&GET[..], more].concat()
    }

    #[test]
    fn well_formed_header_fields_of_requests_are_accepted() {
        for more in [
            &[][..],
            &[("te", "trailers")],
            &[("te", " Trailers ")],
            &[("host", "localhost:4433")],
            &[("cookie", "a=b"), ("cookie", "c=d")],
            &[("x-any", "tab\tand\u{e9}")],
            &[("x-empty", "")],
        ] {
            assert_eq!(
                checked(Section::Request, &get_with(more)),
                Ok(Found::default()),
                "{more:?}"
            );
        }
        let without =
            [(":scheme", "http"), (":path", "/"), (":method", "GET"), ("host", "[::1]:443")];
        assert!(
            checked(Section::Request, &without).is_ok(),
            "host stands for :authority, in any order"
        );
        assert!(
            checked(Section::Request, &[(":method", "CONNECT"), (":authority", "a:1")]).is_ok()
        );
        let options =
            [(":method", "OPTIONS"), (":scheme", "https"), (":authority", "a"), (":path", "*")];
        assert!(checked(Section::Request, &options).is_ok());
        for (values, length) in
            [(&["7"][..], Some(7)), (&["7", "7"], Some(7)), (&["7", "8"], None), (&["x"], None)]
        {
            let fields: Vec<_> = values.iter().map(|value| ("content-length", *value)).collect();
            let found = checked(Section::Request, &get_with(&fields)).unwrap();
            assert_eq!(found.content_length, length, "{values:?}");
        }
    }

    #[test]
    fn malformed_header_fields_are_refused_with_the_reason() {
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
            match checked(Section::Request, &fields) {
                Err(PeerError::Malformed(found)) => {
                    assert!(found.contains(reason), "{fields:?}: {found}")
                }
                other => panic!("{fields:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn fields_of_responses_and_trailers_are_checked_by_own_rules() {
        assert!(
            checked(Section::Response, &[(":status", "200"), ("content-length", "3")])
                .is_ok_and(|f| !f.is_interim())
        );
        assert!(
            checked(Section::Response, &[(":status", "103")]).is_ok_and(|found| found.is_interim())
        );
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
                matches!(checked(kind, fields), Err(PeerError::Malformed(_))),
                "{kind:?} {fields:?}"
            );
        }
    }

    #[test]
    fn only_undecodable_field_sections_close_the_connection() {
        let error = check(Section::Request, b"\0\0\x80", 100).unwrap_err();
        assert!(error.ends_connection());
        assert_eq!(error.code(), Code::QPACK_DECOMPRESSION_FAILED);
        let large = section(&[(b"a", &[b'b'; 100])], false);
        assert_eq!(check(Section::Request, &large, 100), Err(PeerError::FieldsTooLarge(100)));
    }

    proptest! {
        #[test]
        fn header_field_checks_never_panic(fields in vec((vec(any::<u8>(), 0..12), vec(any::<u8>(), 0..12)), 0..8)) {
            let fields: Vec<_> = fields.iter().map(|(name, value)| (&name[..], &value[..])).collect();
            for kind in [Section::Request, Section::Response, Section::Trailers] {
                let _ = check(kind, &section(&fields, false), 16_384);
            }
        }
    }
}
