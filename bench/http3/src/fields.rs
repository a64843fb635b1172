//! Rules for the fields of a message (RFC 9114 §4.2, §4.3).

mod syntax;

use std::borrow::Cow;

use crate::error::{ProtocolError, shown};
use crate::qpack::{FieldSection, NO_ENTRY, STATIC_TABLE};

pub use syntax::is_host_and_port;

use syntax::{
    LOWER_TOKEN, TOKEN, all, content_length, has_control_character, is_path, is_scheme, status,
};

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

/// Values of a well-formed header that decide how its message continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Value of `content-length`.
    pub content_length: ContentLength,
    /// Status of a response; 0 in a request.
    pub status: u16,
    /// Whether the method is CONNECT.
    pub connect: bool,
}

impl Head {
    /// Returns whether a response is interim, so that another header follows (RFC 9110 §15.2).
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status)
    }
}

/// Checks the fields of a section.
///
/// # Errors
/// Returns an error of the stream if the section is malformed.
pub fn check(kind: Section, section: &FieldSection) -> Result<Head, ProtocolError> {
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
    head: Head,
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
            head: Head::default(),
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
                let before = std::mem::replace(&mut self.head.status, status(value));
                // HTTP/3 has no 101 (RFC 9114 §4.5).
                (before != 0, !matches!(self.head.status, 0 | 101))
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
        self.head.content_length = match self.head.content_length {
            ContentLength::None => length,
            before if before == length => length,
            _ => ContentLength::Invalid,
        };
    }

    fn end(mut self) -> Result<Head, ProtocolError> {
        match self.kind {
            Section::Request { .. } => self.request()?,
            Section::Response if self.head.status == 0 => {
                return malformed("the pseudo-header field ':status' is missing");
            }
            Section::Response | Section::Trailers => {}
        }
        Ok(self.head)
    }

    /// Checks that a request has all necessary fields (RFC 9114 §4.3.1, §4.4, RFC 9220 §3).
    fn request(&mut self) -> Result<(), ProtocolError> {
        let missing = |name| malformed(format!("the pseudo-header field '{name}' is missing"));
        let Some(method) = self.method else { return missing(":method") };
        self.head.connect = method == b"CONNECT";
        if self.head.connect && !self.protocol {
            return match (self.scheme || self.path.is_some(), self.authority) {
                (true, _) => malformed("CONNECT has neither ':scheme' nor ':path'"),
                (_, None) => missing(":authority"),
                _ => Ok(()),
            };
        }
        if self.protocol && !self.head.connect {
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

#[cfg(test)]
mod tests;
