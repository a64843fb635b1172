//! HTTP/3 over any stack: a server of synthetic bodies and a client that checks them.

mod client;
mod live;
mod priority;
mod server;
mod tls;

use bytes::Bytes;
use fathom_http3::error::Code;
use fathom_http3::{Config, Error};
use fathom_stacks::{Close, CloseKind};

pub use client::{Ask, Fetched, Requests};
pub use fathom_http3::priority::Priority;
pub use live::{LiveRequest, Piece};
pub(crate) use live::{available, push, send_buffer};
pub use server::serve;
pub(crate) use tls::Sessions;
pub use tls::{Identity, IdentityError};

/// ALPN token of HTTP/3 (RFC 9114 §3.1).
pub const ALPN: &[u8] = b"h3";

/// Error code H3_NO_ERROR (RFC 9114 §8.1).
pub(crate) const NO_ERROR: u32 = Code::H3_NO_ERROR.0 as u32;

/// Largest size of a header in bytes. Cookies pad requests to the sizes that a workload asks for.
const LARGEST_HEADER: u64 = 1 << 28;

/// A piece of any synthetic body. Its 64 KiB are as many bytes as stacks buffer for a new stream
/// anyway.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Returns the configuration of both ends.
fn config() -> Config {
    let mut config = Config::default();
    config.message.section.bytes = LARGEST_HEADER;
    config.message.overhead = LARGEST_HEADER;
    config
}

/// Returns the next piece of a synthetic body of `left` bytes, and the number of bytes after it.
fn zeros(left: u64) -> (Bytes, u64) {
    let piece = left.min(ZEROS.len() as u64);
    (Bytes::from_static(&ZEROS[..piece as usize]), left - piece)
}

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
    Http(Error),
    /// The HTTP/3 stream failed.
    #[error("HTTP/3 stream: {0}")]
    Stream(Error),
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

impl From<Error> for HttpError {
    fn from(error: Error) -> Self {
        let of_connection = match &error {
            Error::Protocol(violation) => violation.ends_connection(),
            Error::Connection(_) | Error::GoAway => true,
            _ => false,
        };
        if of_connection { Self::Http(error) } else { Self::Stream(error) }
    }
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
