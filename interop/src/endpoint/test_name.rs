//! Values of TESTCASE.

/// Test that an endpoint runs. Several test cases of the runner share a name, because they differ
/// only in what the link does to packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::AsRefStr, strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum TestName {
    /// A handshake and one small file.
    Handshake,
    /// Several files, requested concurrently over one connection.
    Transfer,
    /// A handshake with a long round-trip time.
    LongRtt,
    /// The server sends a Retry.
    Retry,
    /// A second connection, which resumes the session of the first one.
    Resumption,
    /// A second connection, which resumes the session of the first one and sends requests in 0-RTT
    /// packets.
    ZeroRtt,
    /// A transfer over HTTP/3.
    Http3,
    /// A separate connection for each file.
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

    /// Returns whether the first URL gets its own connection. The second connection then resumes
    /// its session.
    pub const fn resumes(self) -> bool {
        matches!(self, Self::Resumption | Self::ZeroRtt)
    }
}
