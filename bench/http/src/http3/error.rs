//! Errors of the peer, each with its scope: the request, the stream or the connection.

use std::borrow::Cow;
use std::sync::Arc;

use h3::error::{Code, ConnectionError, StreamError};
use h3::quic::{ConnectionErrorIncoming, StreamErrorIncoming};

/// An error of the peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PeerError {
    /// The error ends the connection (RFC 9114 §8).
    #[error("{1} ({0})")]
    Connection(Code, Cow<'static, str>),
    /// The request ended before its header was complete (RFC 9114 §4.1).
    #[error("the request ended before its header was complete (H3_REQUEST_INCOMPLETE)")]
    Incomplete,
    /// The message is malformed (RFC 9114 §4.1.2).
    #[error("malformed: {0} (H3_MESSAGE_ERROR)")]
    Malformed(Cow<'static, str>),
    /// The length of the body differs from `content-length` (RFC 9114 §4.1.2).
    #[error("malformed message: content-length is {declared} bytes but the body has {} \
        (H3_MESSAGE_ERROR)", body_length(*.received, *.over))]
    Length {
        /// Length in bytes according to `content-length`.
        declared: u64,
        /// Bytes of the DATA frames so far.
        received: u64,
        /// Whether the stream has ended, so that no more bytes of the body follow.
        over: bool,
    },
    /// The header or trailer fields take more bytes than this limit (RFC 9114 §4.2.2).
    #[error("the stream exceeds its limit of {0} bytes for header fields (H3_EXCESSIVE_LOAD)")]
    FieldsTooLarge(u64),
    /// The frames other than DATA take more bytes than the limit of a stream.
    #[error("the stream exceeds its limit for frames other than DATA frames (H3_EXCESSIVE_LOAD)")]
    TooMuch,
}

fn body_length(received: u64, over: bool) -> String {
    if over { received.to_string() } else { format!("at least {received}") }
}

impl PeerError {
    /// Returns an error that ends the connection.
    pub(super) fn connection(code: Code, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Connection(code, reason.into())
    }

    /// Returns the code that is sent to the peer.
    pub(crate) const fn code(&self) -> Code {
        match self {
            Self::Connection(code, _) => *code,
            Self::Incomplete => Code::H3_REQUEST_INCOMPLETE,
            Self::Malformed(_) | Self::Length { .. } => Code::H3_MESSAGE_ERROR,
            Self::FieldsTooLarge(_) | Self::TooMuch => Code::H3_EXCESSIVE_LOAD,
        }
    }

    /// Returns whether the error ends the whole connection rather than only the stream.
    pub(crate) const fn ends_connection(&self) -> bool {
        matches!(self, Self::Connection(..))
    }

    /// Returns the peer's error that caused an error of `h3`, if there is one.
    pub(crate) fn of(error: &StreamError) -> Option<&Self> {
        // Whether the variants can be matched without `..` depends on a feature of `h3`, which
        // other crates of a build may enable.
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
