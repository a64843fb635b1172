//! One request of a run, and the reason why it failed.

use std::time::{Duration, Instant};

use http::Uri;
use strum::VariantArray as _;

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
    /// The body's length differs from `content-length`.
    #[strum(serialize = "short body")]
    Body,
    /// The body's digest differs from the server's, or the server sent none.
    Digest,
}

impl FailureKind {
    /// Every kind.
    pub const ALL: &[Self] = Self::VARIANTS;
}

/// Reason why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) kind: FailureKind,
    pub(super) why: String,
}

impl Failure {
    pub(super) fn new(kind: FailureKind, why: impl std::fmt::Display) -> Self {
        Self { kind, why: why.to_string() }
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
