//! Rules for the fields of a message (RFC 9114 §4.2, §4.3).

use std::borrow::Cow;

use crate::error::{ProtocolError, shown};
use crate::qpack::{FieldSection, NO_ENTRY, STATIC_TABLE};

/// Kind of a field section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The header of a request. Extended CONNECT is permitted if the flag is set (RFC 9220).
    Request {
        /// Whether the settings permit `:protocol`.
        extended_connect: bool,
    },
    /// The header of a response.
    Response,
    /// The trailers of a request or a response.
    Trailers,
}

/// Value of a message's `content-length`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentLength {
    /// The message has no such field.
    #[default]
    None,
    /// Length in bytes.
    Length(u64),
    /// The field is not a number, or several values differ. Such a request is not malformed in the
    /// sense of RFC 9114 §4.1.2; a server answers with status 400 (RFC 9110 §8.6).
    Invalid,
}

/// Contents of a well-formed section that matter for its message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Value of `content-length`.
    pub content_length: ContentLength,
    /// Status of a response; 0 in a request.
    pub status: u16,
    /// Whether the method is CONNECT.
    pub connect: bool,
}

impl Found {
    /// Returns whether a response is interim, so that another header follows (RFC 9110 §15.2).
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status)
    }
}

/// Checks the fields of a section.
///
/// # Errors
/// Returns an error of the stream if the section is malformed.
pub fn check(kind: Section, section: &FieldSection) -> Result<Found, ProtocolError> {
    let mut checker = Checker::new(kind);
    // Values of the static table are valid, and the text has all others, together with names.
    if has_control_character(section.text()) {
        return control_character(section);
    }
    for line in section.lines() {
        let (name, value) = section.field(line);
        let name_kind = match NAMES.get(usize::from(line.entry)) {
            Some(kind) => *kind,
            None => {
                debug_assert_eq!(line.entry, NO_ENTRY);
                name_kind(name)
            }
        };
        match name_kind {
            Name::Other => checker.regular = true,
            Name::Invalid => return invalid_name(name),
            name_kind => checker.field(name_kind, name, value)?,
        }
    }
    checker.end()
}

#[cold]
fn malformed<T>(reason: impl Into<Cow<'static, str>>) -> Result<T, ProtocolError> {
    Err(ProtocolError::malformed(reason))
}

/// Returns whether a text has control characters other than HTAB, which are allowed nowhere
/// (RFC 9114 §10.3, RFC 9110 §5.5). Looks at eight bytes at a time.
#[inline]
fn has_control_character(text: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGH: u64 = ONES << 7;
    let is_control = |byte: &u8| matches!(byte, 0..=8 | 10..=31 | 127);
    // Sets the highest bit of each byte that is less than `limit`, or of none. Bytes above ASCII
    // are not less.
    let less = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & HIGH;
    let (words, rest) = text.as_chunks::<8>();
    let suspicious = words.iter().fold(0, |found, word| {
        let word = u64::from_le_bytes(*word);
        found | less(word, 0x20) | less(word ^ (ONES * 0x7f), 1)
    });
    // HTAB is rare, so it takes the slow path.
    rest.iter().any(is_control) || (suspicious != 0 && text.iter().any(is_control))
}

#[cold]
fn control_character<T>(section: &FieldSection) -> Result<T, ProtocolError> {
    let faulty = section
        .iter()
        .find(|(name, value)| has_control_character(name) || has_control_character(value));
    let name = faulty.map(|(name, _)| shown(name)).unwrap_or_default();
    malformed(format!("the field '{name}' has a control character"))
}

#[cold]
fn invalid_name<T>(name: &[u8]) -> Result<T, ProtocolError> {
    if is_connection_specific(name) {
        let reason = format!("the field '{}' is specific to a connection of HTTP/1.1", shown(name));
        return malformed(reason);
    }
    malformed(format!("'{}' is not a field name", shown(name)))
}

/// Kinds of names by the rules that apply to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Method,
    Scheme,
    Authority,
    Path,
    Protocol,
    Status,
    /// A pseudo-header field that no RFC defines.
    UnknownPseudo,
    ContentLength,
    Host,
    Te,
    /// Any other name that is allowed.
    Other,
    /// A name with invalid characters, or one that is specific to HTTP/1.1.
    Invalid,
}

/// Kind of each name in the static table.
static NAMES: [Name; STATIC_TABLE.len()] = {
    let mut names = [Name::Other; STATIC_TABLE.len()];
    // :authority, :path, content-length, :method, :scheme, :status (RFC 9204 Appendix A).
    names[0] = Name::Authority;
    names[1] = Name::Path;
    names[4] = Name::ContentLength;
    let mut entry = 15;
    while entry <= 71 {
        match entry {
            15..=21 => names[entry] = Name::Method,
            22..=23 => names[entry] = Name::Scheme,
            24..=28 | 63..=71 => names[entry] = Name::Status,
            _ => {}
        }
        entry += 1;
    }
    names
};

fn name_kind(name: &[u8]) -> Name {
    match name {
        b":method" => Name::Method,
        b":scheme" => Name::Scheme,
        b":authority" => Name::Authority,
        b":path" => Name::Path,
        b":protocol" => Name::Protocol,
        b":status" => Name::Status,
        [b':', ..] => Name::UnknownPseudo,
        b"content-length" => Name::ContentLength,
        b"host" => Name::Host,
        b"te" => Name::Te,
        name if is_connection_specific(name) => Name::Invalid,
        name if !name.is_empty() && all(name, LOWER_TOKEN) => Name::Other,
        _ => Name::Invalid,
    }
}

/// Returns whether a field belongs to one connection (RFC 9114 §4.2). `te` has a separate rule.
fn is_connection_specific(name: &[u8]) -> bool {
    matches!(
        name,
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade"
    )
}

/// Sets of characters: a token (RFC 9110 §5.6.2), also without uppercase letters; a registered name except escapes (RFC 3986 §3.2.2); a path with a query and
/// without a fragment. Paths may have bytes above ASCII, because some clients do not encode them.
const TOKEN: u8 = 1;
const LOWER_TOKEN: u8 = 2;
const REGISTERED_NAME: u8 = 8;
const PATH: u8 = 16;
const SCHEME: u8 = 32;

static CHARACTERS: [u8; 256] = {
    let mut sets = [0; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        let token = byte.is_ascii_alphanumeric()
            || matches!(byte, b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.')
            || matches!(byte, b'^' | b'_' | b'`' | b'|' | b'~');
        if token {
            sets[at] |= TOKEN;
        }
        if token && !byte.is_ascii_uppercase() {
            sets[at] |= LOWER_TOKEN;
        }
        if byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')')
            || matches!(byte, b'*' | b'+' | b',' | b';' | b'=')
        {
            sets[at] |= REGISTERED_NAME;
        }
        if !matches!(byte, 0..=32 | b'#' | 127) {
            sets[at] |= PATH;
        }
        if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.') {
            sets[at] |= SCHEME;
        }
        at += 1;
    }
    sets
};

/// Returns whether all characters belong to a set.
#[inline]
fn all(text: &[u8], set: u8) -> bool {
    text.iter().fold(set, |sets, byte| sets & CHARACTERS[usize::from(*byte)]) != 0
}

/// State of the check of one section.
struct Checker<'a> {
    kind: Section,
    /// Whether a regular field was seen.
    regular: bool,
    method: Option<&'a [u8]>,
    scheme: bool,
    path: Option<&'a [u8]>,
    authority: Option<&'a [u8]>,
    protocol: bool,
    host: Option<&'a [u8]>,
    found: Found,
}

impl<'a> Checker<'a> {
    fn new(kind: Section) -> Self {
        Self {
            kind,
            regular: false,
            method: None,
            scheme: false,
            path: None,
            authority: None,
            protocol: false,
            host: None,
            found: Found::default(),
        }
    }

    fn field(&mut self, kind: Name, name: &[u8], value: &'a [u8]) -> Result<(), ProtocolError> {
        match kind {
            Name::ContentLength => self.content_length(value),
            Name::Host => return self.host(value),
            Name::Te => return self.te(value),
            Name::Other | Name::Invalid => {}
            _ => return self.pseudo(kind, name, value),
        }
        self.regular = true;
        Ok(())
    }

    /// Checks a pseudo-header field (RFC 9114 §4.3).
    fn pseudo(&mut self, kind: Name, name: &[u8], value: &'a [u8]) -> Result<(), ProtocolError> {
        let wrong =
            |why: &str| malformed(format!("the pseudo-header field '{}' {why}", shown(name)));
        let known = match (self.kind, kind) {
            (Section::Trailers, _) => return wrong("is in the trailers"),
            (Section::Response, kind) => kind == Name::Status,
            (Section::Request { extended_connect }, Name::Protocol) => extended_connect,
            (Section::Request { .. }, kind) => {
                matches!(kind, Name::Method | Name::Scheme | Name::Authority | Name::Path)
            }
        };
        if !known {
            return wrong("is not allowed in this message");
        }
        if self.regular {
            return wrong("comes after a field");
        }
        let (twice, valid) = match kind {
            Name::Method => {
                (self.method.replace(value).is_some(), !value.is_empty() && all(value, TOKEN))
            }
            Name::Scheme => (std::mem::replace(&mut self.scheme, true), is_scheme(value)),
            Name::Authority => (self.authority.replace(value).is_some(), is_host_and_port(value)),
            Name::Path => (self.path.replace(value).is_some(), is_path(value)),
            Name::Protocol => (
                std::mem::replace(&mut self.protocol, true),
                !value.is_empty() && all(value, TOKEN),
            ),
            _ => {
                let before = std::mem::replace(&mut self.found.status, status(value));
                // HTTP/3 has no 101 (RFC 9114 §4.5).
                (before != 0, !matches!(self.found.status, 0 | 101))
            }
        };
        match (twice, valid) {
            (true, _) => wrong("occurs twice"),
            (_, false) => wrong(&format!("has the invalid value '{}'", shown(value))),
            _ => Ok(()),
        }
    }

    fn te(&mut self, value: &[u8]) -> Result<(), ProtocolError> {
        self.regular = true;
        let trailers = value.trim_ascii().eq_ignore_ascii_case(b"trailers");
        if trailers && matches!(self.kind, Section::Request { .. }) {
            return Ok(());
        }
        malformed(format!("the field 'te' has the value '{}'", shown(value)))
    }

    fn host(&mut self, value: &'a [u8]) -> Result<(), ProtocolError> {
        self.regular = true;
        if !matches!(self.kind, Section::Request { .. }) {
            return Ok(());
        }
        if self.host.replace(value).is_some() {
            return malformed("the field 'host' occurs twice");
        }
        if !is_host_and_port(value) {
            return malformed(format!("the field 'host' has the invalid value '{}'", shown(value)));
        }
        match self.authority {
            // RFC 9114 §4.3.1: both must be equal.
            Some(authority) if authority != value => malformed(format!(
                "the field 'host' is '{}' and ':authority' is '{}'",
                shown(value),
                shown(authority)
            )),
            _ => Ok(()),
        }
    }

    fn content_length(&mut self, value: &[u8]) {
        let length = content_length(value).map_or(ContentLength::Invalid, ContentLength::Length);
        self.found.content_length = match self.found.content_length {
            ContentLength::None => length,
            before if before == length => length,
            _ => ContentLength::Invalid,
        };
    }

    fn end(mut self) -> Result<Found, ProtocolError> {
        match self.kind {
            Section::Request { .. } => self.request()?,
            Section::Response if self.found.status == 0 => {
                return malformed("the pseudo-header field ':status' is missing");
            }
            Section::Response | Section::Trailers => {}
        }
        Ok(self.found)
    }

    /// Checks that a request has all necessary fields (RFC 9114 §4.3.1, §4.4, RFC 9220 §3).
    fn request(&mut self) -> Result<(), ProtocolError> {
        let missing = |name| malformed(format!("the pseudo-header field '{name}' is missing"));
        let Some(method) = self.method else { return missing(":method") };
        self.found.connect = method == b"CONNECT";
        if self.found.connect && !self.protocol {
            return match (self.scheme || self.path.is_some(), self.authority) {
                (true, _) => malformed("CONNECT has neither ':scheme' nor ':path'"),
                (_, None) => missing(":authority"),
                _ => Ok(()),
            };
        }
        if self.protocol && !self.found.connect {
            return malformed("only CONNECT has the pseudo-header field ':protocol'");
        }
        if !self.scheme {
            return missing(":scheme");
        }
        if self.authority.is_none() && (self.host.is_none() || self.protocol) {
            return missing(":authority");
        }
        match self.path {
            None => missing(":path"),
            Some(b"*") if method != b"OPTIONS" => malformed("only OPTIONS has the path '*'"),
            Some(_) => Ok(()),
        }
    }
}

/// Returns a status of three digits, at least 100, or 0 if the value is none.
fn status(value: &[u8]) -> u16 {
    match value {
        [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] => {
            value.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'))
        }
        _ => 0,
    }
}

/// Returns the value of a `content-length` field, or `None` if it is not a number (RFC 9110 §8.6).
fn content_length(value: &[u8]) -> Option<u64> {
    let mut length = (!value.is_empty()).then_some(0_u64)?;
    for digit in value {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        length = length.checked_mul(10)?.checked_add(digit.into())?;
    }
    Some(length)
}

/// Returns whether the value is a scheme (RFC 3986 §3.1).
fn is_scheme(value: &[u8]) -> bool {
    value == b"https" || (value.first().is_some_and(u8::is_ascii_alphabetic) && all(value, SCHEME))
}

/// Returns whether the value is `*`, or a path with an optional query and without a fragment.
fn is_path(value: &[u8]) -> bool {
    value == b"*" || (value.first() == Some(&b'/') && all(value, PATH))
}

/// Returns whether `authority` is `uri-host [ ":" port ]` (RFC 9110 §7.2, RFC 3986 §3.2.2) with a
/// non-empty host.
pub fn is_host_and_port(authority: &[u8]) -> bool {
    let (host, port) = match authority {
        [b'[', rest @ ..] => {
            let Some(end) = rest.iter().position(|byte| *byte == b']') else { return false };
            let literal = std::str::from_utf8(&rest[..end])
                .ok()
                .and_then(|text| text.parse::<std::net::Ipv6Addr>().ok());
            if literal.is_none() {
                return false;
            }
            (&b"ipv6"[..], &rest[end + 1..])
        }
        _ => authority
            .split_at(authority.iter().position(|byte| *byte == b':').unwrap_or(authority.len())),
    };
    let port = match port {
        [] => true,
        [b':', digits @ ..] => digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    port && !host.is_empty() && is_registered_name(host)
}

/// Returns whether `host` has only unreserved characters, sub-delimiters and escapes
/// (RFC 3986 §3.2.2).
fn is_registered_name(host: &[u8]) -> bool {
    if all(host, REGISTERED_NAME) {
        return true;
    }
    let mut rest = host;
    while let [byte, after @ ..] = rest {
        rest = match (byte, after) {
            (b'%', [a, b, after @ ..]) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => after,
            (byte, _) if all(&[*byte], REGISTERED_NAME) => after,
            _ => return false,
        };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Kind, Scope};
    use crate::noise::{Noise, cases};
    use crate::qpack::{Limits, decode, encode};

    const REQUEST: Section = Section::Request { extended_connect: false };
    const LIMITS: Limits = Limits { bytes: 16_384, fields: 100 };

    fn checked(kind: Section, fields: &[(&str, &str)]) -> Result<Found, ProtocolError> {
        let (mut bytes, mut section) = (Vec::new(), FieldSection::new());
        encode(fields, &mut bytes);
        decode(&bytes, LIMITS, &mut section).unwrap();
        let found = check(kind, &section);
        // Without the static table.
        let pairs: Vec<_> = fields.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
        let bytes = crate::qpack::section_of_literals(&pairs, true);
        decode(&bytes, LIMITS, &mut section).unwrap();
        assert_eq!(check(kind, &section), found, "the representation does not matter");
        found
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
            assert_eq!(checked(REQUEST, &get_with(more)), Ok(Found::default()), "{more:?}");
        }
        let without =
            [(":scheme", "http"), (":path", "/"), (":method", "GET"), ("host", "[::1]:443")];
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
            let found = checked(REQUEST, &get_with(&fields)).unwrap();
            assert_eq!(found.content_length, length, "{values:?}");
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
                matches!(checked(kind, fields), Err(ProtocolError { kind: Kind::Malformed, .. })),
                "{kind:?} {fields:?}"
            );
        }
    }

    #[test]
    fn control_characters_are_found_anywhere() {
        for length in 1..30 {
            for at in 0..length {
                for byte in 0..=255 {
                    let mut text = vec![b'a'; length];
                    text[at] = byte;
                    let wanted = matches!(byte, 0..=8 | 10..=31 | 127);
                    assert_eq!(has_control_character(&text), wanted, "{byte} of {length}");
                }
            }
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
        assert!(checked(permitted, &connect).is_ok_and(|found| found.connect));
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
}
