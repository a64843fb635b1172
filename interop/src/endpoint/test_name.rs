//! Values of TESTCASE.

/// Test that an endpoint runs. Several test cases of the runner share one name, because they differ
/// only in the treatment of packets on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::AsRefStr, strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum TestName {
    /// One small file.
    Handshake,
    /// Several files concurrently over one connection.
    Transfer,
    /// A handshake with a long round-trip time.
    LongRtt,
    /// The server sends a Retry.
    Retry,
    /// The second connection resumes the session of the first.
    Resumption,
    /// Like `Resumption`, with requests in 0-RTT packets.
    ZeroRtt,
    /// A transfer over HTTP/3.
    Http3,
    /// A connection for each file.
    MultiConnect,
    /// The client starts a key update.
    KeyUpdate,
    /// Both endpoints mark packets ECT and report ECN counts.
    Ecn,
    /// Only TLS_CHACHA20_POLY1305_SHA256 is enabled.
    ChaCha20,
    /// Goodput of one file.
    Goodput,
    /// Goodput of one file with cross traffic.
    CrossTraffic,
}

impl TestName {
    /// Returns the application protocol (ALPN).
    pub const fn protocol(self) -> &'static [u8] {
        match self {
            Self::Http3 => b"h3",
            _ => b"hq-interop",
        }
    }

    /// Returns whether the first URL gets its own connection, whose session the second connection
    /// resumes.
    pub const fn resumes(self) -> bool {
        matches!(self, Self::Resumption | Self::ZeroRtt)
    }
}
