//! What a peer did wrong, and how far the error reaches.

use std::borrow::Cow;
use std::sync::Arc;

use h3::error::{Code, ConnectionError, StreamError};
use h3::quic::{ConnectionErrorIncoming, StreamErrorIncoming};

/// An error of the peer's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PeerError {
    /// It ends the connection (RFC 9114 §8).
    #[error("{1} ({0})")]
    Connection(Code, Cow<'static, str>),
    /// The request ended before its header was complete (RFC 9114 §4.1).
    #[error("the request ended before its header was complete (H3_REQUEST_INCOMPLETE)")]
    Incomplete,
    /// The message is malformed (RFC 9114 §4.1.2).
    #[error("malformed: {0} (H3_MESSAGE_ERROR)")]
    Malformed(Cow<'static, str>),
    /// The body is not as long as `content-length` says (RFC 9114 §4.1.2).
    #[error("malformed: content-length says {declared} bytes and the body has {} (H3_MESSAGE_ERROR)", body_length(*.received, *.over))]
    Length {
        /// Bytes that `content-length` says.
        declared: u64,
        /// Bytes of the DATA frames so far.
        received: u64,
        /// The body is complete.
        over: bool,
    },
    /// The header or trailer fields take more bytes than this limit (RFC 9114 §4.2.2).
    #[error(
        "the stream brings more than its bound: fields of more than {0} bytes (H3_EXCESSIVE_LOAD)"
    )]
    FieldsTooLarge(u64),
    /// The frames other than DATA take more bytes than the limit of a stream.
    #[error("the stream brings more than its bound besides DATA frames (H3_EXCESSIVE_LOAD)")]
    TooMuch,
}

fn body_length(received: u64, over: bool) -> String {
    if over { received.to_string() } else { format!("at least {received}") }
}

impl PeerError {
    /// An error of the connection.
    pub(super) fn connection(code: Code, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Connection(code, reason.into())
    }

    /// The code that the peer is told.
    pub(crate) const fn code(&self) -> Code {
        match self {
            Self::Connection(code, _) => *code,
            Self::Incomplete => Code::H3_REQUEST_INCOMPLETE,
            Self::Malformed(_) | Self::Length { .. } => Code::H3_MESSAGE_ERROR,
            Self::FieldsTooLarge(_) | Self::TooMuch => Code::H3_EXCESSIVE_LOAD,
        }
    }

    /// Returns whether the connection is over, not only the stream.
    pub(crate) const fn ends_connection(&self) -> bool {
        matches!(self, Self::Connection(..))
    }

    /// Returns the peer's error that is behind an error of `h3`, if there is one.
    pub(crate) fn of(error: &StreamError) -> Option<&Self> {
        // Whether the variants may be named without their rest is up to a feature of h3's, which other crates of a build choose.
        match error {
            StreamError::Undefined(error, ..) => error.downcast_ref(),
            StreamError::ConnectionError(
                ConnectionError::Remote(ConnectionErrorIncoming::Undefined(error), ..),
                ..,
            ) => error.downcast_ref(),
            _ => None,
        }
    }
}

impl From<PeerError> for StreamErrorIncoming {
    fn from(error: PeerError) -> Self {
        if error.ends_connection() {
            Self::ConnectionErrorIncoming { connection_error: error.into() }
        } else {
            Self::Unknown(Box::new(error))
        }
    }
}

impl From<PeerError> for ConnectionErrorIncoming {
    fn from(error: PeerError) -> Self {
        Self::Undefined(Arc::new(error))
    }
}
