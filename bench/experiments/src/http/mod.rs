//! HTTP/3 over any transport of the `h3` crate: a server of synthetic bodies and a client that
//! checks them.

mod client;
mod live;
mod priority;
mod server;
mod tls;

use fathom_stacks::{Close, CloseKind};

pub use client::{Ask, Fetched, Requests};
pub use live::{LiveRequest, Piece};
pub(crate) use live::{push, send_buffer};
pub use priority::Priority;
pub use server::serve;
pub(crate) use tls::Sessions;
pub use tls::{Identity, IdentityError};

/// ALPN token of HTTP/3 (RFC 9114 §3.1).
pub const ALPN: &[u8] = b"h3";

/// Error code H3_NO_ERROR (RFC 9114 §8.1).
pub(crate) const NO_ERROR: u32 = 0x100;

/// Reason why a connection was lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Lost {
    /// The reason in the stack's words.
    pub text: String,
    /// Whether the connection was idle or got no answer for too long.
    pub timed_out: bool,
}

impl From<Close> for Lost {
    fn from(close: Close) -> Self {
        Self { timed_out: close.kind == CloseKind::Timeout, text: close.text }
    }
}

/// Error of a request.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The QUIC connection could not be started.
    #[error("connect: {0}")]
    Connect(String),
    /// The QUIC handshake failed or the connection was lost.
    #[error("connection: {0}")]
    Connection(Lost),
    /// The HTTP/3 connection failed.
    #[error("HTTP/3 connection: {0}")]
    Http(#[from] h3::error::ConnectionError),
    /// The HTTP/3 stream failed.
    #[error("HTTP/3 stream: {0}")]
    Stream(#[from] h3::error::StreamError),
    /// The request is not valid HTTP.
    #[error("request: {0}")]
    Request(#[from] http::Error),
    /// The server responded with a status other than 200.
    #[error("status {0}")]
    Status(u16),
    /// The user gave up waiting for the response.
    #[error("the user gave up")]
    Abandoned,
    /// The body does not have the requested length.
    #[error("{got} bytes arrived instead of {wanted}")]
    Length {
        /// Bytes that arrived.
        got: u64,
        /// Bytes requested.
        wanted: u64,
    },
}

impl HttpError {
    /// Returns the class of failures under which this one is counted: the text without numbers that
    /// differ from request to request.
    pub fn reason(&self) -> String {
        match self {
            Self::Length { .. } => "the body does not have the requested length".into(),
            Self::Connection(lost) => lost.text.clone(),
            other => other.to_string(),
        }
    }

    /// Returns whether the connection of the request timed out.
    pub fn timed_out(&self) -> bool {
        matches!(self, Self::Connection(lost) if lost.timed_out)
    }
}
