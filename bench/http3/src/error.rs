//! Error codes of HTTP/3 and QPACK, and errors with their scope.

use std::borrow::Cow;
use std::fmt;

/// An error code of HTTP/3 (RFC 9114 §8.1), QPACK (RFC 9204 §6) or HTTP datagrams
/// (RFC 9297 §5.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub u64);

/// Defines the codes and their names.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        impl Code {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// Returns the name of the code, if the RFCs define the code.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// Invalid HTTP datagram, or a capsule that is cut off.
    H3_DATAGRAM_ERROR = 0x33;
    /// No error.
    H3_NO_ERROR = 0x100;
    /// A violation of the protocol without a code of its own.
    H3_GENERAL_PROTOCOL_ERROR = 0x101;
    /// An internal error of this end.
    H3_INTERNAL_ERROR = 0x102;
    /// The peer opened a stream that is not accepted.
    H3_STREAM_CREATION_ERROR = 0x103;
    /// A stream that the connection needs was closed.
    H3_CLOSED_CRITICAL_STREAM = 0x104;
    /// A frame that is not permitted in the current state or on this stream.
    H3_FRAME_UNEXPECTED = 0x105;
    /// A frame that has an invalid layout or size.
    H3_FRAME_ERROR = 0x106;
    /// The peer's behaviour might cause excessive load.
    H3_EXCESSIVE_LOAD = 0x107;
    /// A stream ID or push ID that is not permitted.
    H3_ID_ERROR = 0x108;
    /// An invalid SETTINGS frame.
    H3_SETTINGS_ERROR = 0x109;
    /// The control stream does not begin with SETTINGS.
    H3_MISSING_SETTINGS = 0x10a;
    /// The request was rejected before any processing.
    H3_REQUEST_REJECTED = 0x10b;
    /// The request or its response is cancelled.
    H3_REQUEST_CANCELLED = 0x10c;
    /// The client's stream ended within its request.
    H3_REQUEST_INCOMPLETE = 0x10d;
    /// A malformed message.
    H3_MESSAGE_ERROR = 0x10e;
    /// The connection of a CONNECT request was reset.
    H3_CONNECT_ERROR = 0x10f;
    /// The response cannot be served over HTTP/3.
    H3_VERSION_FALLBACK = 0x110;
    /// A field section that cannot be decoded.
    QPACK_DECOMPRESSION_FAILED = 0x200;
    /// An invalid instruction on the encoder stream.
    QPACK_ENCODER_STREAM_ERROR = 0x201;
    /// An invalid instruction on the decoder stream.
    QPACK_DECODER_STREAM_ERROR = 0x202;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#x}", self.0),
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Part of a connection that an error ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Only the stream of the message.
    Stream,
    /// The whole connection.
    Connection,
}

/// Kinds of protocol error that callers handle differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A violation of the protocol that has no kind of its own.
    Violation,
    /// The request ended before its header was complete (RFC 9114 §4.1).
    Incomplete,
    /// The message is malformed (RFC 9114 §4.1.2).
    Malformed,
    /// The length of the body differs from `content-length` (RFC 9114 §4.1.2).
    ContentLength,
    /// The fields exceed this end's limit (RFC 9114 §4.2.2). A server may answer with status 431.
    FieldsTooLarge,
    /// The stream or connection exceeds another limit of this end.
    ExcessiveLoad,
}

/// A violation of the protocol by the peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} ({code})")]
pub struct ProtocolError {
    /// Code that the peer gets.
    pub code: Code,
    /// Part of the connection that the error ends.
    pub scope: Scope,
    /// Kind of the error.
    pub kind: Kind,
    /// Description of the error, with at most 40 bytes of the peer's data.
    pub reason: Cow<'static, str>,
}

impl ProtocolError {
    /// Returns an error that ends the connection.
    pub(crate) fn connection(code: Code, reason: impl Into<Cow<'static, str>>) -> Self {
        let kind = match code {
            Code::H3_EXCESSIVE_LOAD => Kind::ExcessiveLoad,
            _ => Kind::Violation,
        };
        Self { code, scope: Scope::Connection, kind, reason: reason.into() }
    }

    /// Returns an error that ends only the stream.
    pub(crate) fn stream(code: Code, kind: Kind, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { code, scope: Scope::Stream, kind, reason: reason.into() }
    }

    /// Returns the error of a malformed message.
    pub(crate) fn malformed(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::stream(Code::H3_MESSAGE_ERROR, Kind::Malformed, reason)
    }

    /// Returns the error of a stream that exceeds a limit.
    pub(crate) fn too_much(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::stream(Code::H3_EXCESSIVE_LOAD, Kind::ExcessiveLoad, reason)
    }

    /// Returns the error of fields that exceed a limit.
    pub(crate) fn fields_too_large(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::stream(Code::H3_EXCESSIVE_LOAD, Kind::FieldsTooLarge, reason)
    }

    /// Returns whether the error ends the whole connection.
    pub fn ends_connection(&self) -> bool {
        self.scope == Scope::Connection
    }
}

/// Returns the beginning of the peer's data for a message, without control characters.
pub(crate) fn shown(text: &[u8]) -> String {
    text[..text.len().min(40)].escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_written_with_their_names() {
        assert_eq!(Code::H3_FRAME_ERROR.to_string(), "H3_FRAME_ERROR");
        assert_eq!(Code(0x1234).to_string(), "0x1234");
        let error = ProtocolError::malformed("a field");
        assert_eq!(error.to_string(), "a field (H3_MESSAGE_ERROR)");
        assert!(!error.ends_connection());
    }
}
