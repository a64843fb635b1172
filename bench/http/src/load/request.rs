//! One request of a run, and the reason why it failed.

use std::time::{Duration, Instant};

use fathom_cc::units::duration_text;
use fathom_http3::Error;
use fathom_http3::error::{Code, Kind, ProtocolError};
use http::{StatusCode, Uri};
use strum::VariantArray as _;

use crate::digest::DigestError;
use crate::handshake_error::HandshakeError;

/// Kinds of request failure.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr, strum::VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum FailureKind {
    /// No connection could be established in time.
    Connect,
    /// The response was not complete in time.
    Timeout,
    /// The stream or connection ended before the response was complete.
    Reset,
    /// The response is malformed, or the server violated HTTP/3 in another way (RFC 9114 §4.1.2,
    /// §8).
    Protocol,
    /// The status was 400 or above.
    Status,
    /// The length of the body differs from `content-length`.
    #[strum(serialize = "short body")]
    Body,
    /// The body does not match the server's digest, or the server sent no digest.
    Digest,
}

impl FailureKind {
    /// Every kind.
    pub const ALL: &[Self] = Self::VARIANTS;
}

/// Reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The handshake failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The handshake failed after the request was sent in 0-RTT.
    #[error("the handshake failed")]
    EarlyHandshake,
    /// HTTP/3 could not be set up on the connection.
    #[error(transparent)]
    Setup(Error),
    /// No pooled connection is left.
    #[error("there is no connection")]
    NoConnection,
    /// A connection or a response took longer than `limit`.
    #[error("not complete within {}", duration_text(*limit))]
    TimedOut {
        /// Time limit.
        limit: Duration,
        /// Whether the request had a connection.
        connected: bool,
    },
    /// The server sent GOAWAY before the request (RFC 9114 §5.2).
    #[error("the server sent GOAWAY and accepts no more requests on this connection")]
    GoAway,
    /// The stream or connection ended.
    #[error(transparent)]
    Stream(Error),
    /// The server violated HTTP/3 or sent too much.
    #[error(transparent)]
    Peer(ProtocolError),
    /// The status was 400 or above.
    #[error("{0}")]
    Status(StatusCode),
    /// The body's length differs from `content-length`.
    #[error(transparent)]
    ContentLength(ProtocolError),
    /// The value of `content-length` is not a number.
    #[error("content-length is not a number")]
    InvalidLength,
    /// The body does not match its digest.
    #[error(transparent)]
    Digest(#[from] DigestError),
}

impl Failure {
    /// Returns the kind under which the failure is counted.
    pub(super) fn kind(&self) -> FailureKind {
        match self {
            Self::Handshake(_)
            | Self::EarlyHandshake
            | Self::Setup(_)
            | Self::NoConnection
            | Self::TimedOut { connected: false, .. } => FailureKind::Connect,
            Self::TimedOut { connected: true, .. } => FailureKind::Timeout,
            Self::GoAway | Self::Stream(_) => FailureKind::Reset,
            // A response that is larger than the client accepts does not violate a rule of HTTP/3.
            Self::Peer(error) if error.code == Code::H3_EXCESSIVE_LOAD => FailureKind::Reset,
            Self::Peer(_) => FailureKind::Protocol,
            Self::Status(_) => FailureKind::Status,
            Self::ContentLength(_) | Self::InvalidLength => FailureKind::Body,
            Self::Digest(_) => FailureKind::Digest,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::GoAway => Self::GoAway,
            Error::Protocol(error) => error.into(),
            error => Self::Stream(error),
        }
    }
}

impl From<ProtocolError> for Failure {
    fn from(error: ProtocolError) -> Self {
        match error.kind {
            Kind::ContentLength => Self::ContentLength(error),
            _ => Self::Peer(error),
        }
    }
}

/// Received part of a response.
#[derive(Debug, Default)]
pub(super) struct ResponseProgress {
    pub(super) status: Option<u16>,
    pub(super) first_byte: Option<Instant>,
    pub(super) last_byte: Option<Instant>,
    pub(super) bytes: u64,
}

/// A request and its progress.
#[derive(Debug)]
pub(super) struct Request {
    /// Scheduled start.
    pub(super) intended: Instant,
    /// Actual start.
    pub(super) start: Instant,
    /// Duration of the connection's handshake, if the request waited for one.
    pub(super) connect: Option<Duration>,
    pub(super) progress: ResponseProgress,
    /// Number of the connection, from 1; 0 before there is one.
    pub(super) connection: u64,
    pub(super) url: Uri,
}

impl Request {
    pub(super) fn new(intended: Instant, start: Instant, url: Uri) -> Self {
        Self {
            intended,
            start,
            connect: None,
            progress: ResponseProgress::default(),
            connection: 0,
            url,
        }
    }
}
