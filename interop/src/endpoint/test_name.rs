//! The values of TESTCASE.

use std::fmt;

/// The test that an endpoint runs. Several test cases of the runner share one name, as they differ only in what happens to packets on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestName {
    /// One small file.
    Handshake,
    /// Several files at once over one connection.
    Transfer,
    /// A handshake with a long round-trip time.
    LongRtt,
    /// The server sends a Retry.
    Retry,
    /// The second connection resumes the session of the first.
    Resumption,
    /// The same with requests in 0-RTT packets.
    ZeroRtt,
    /// HTTP/3.
    Http3,
    /// A connection for each file.
    MultiConnect,
    /// The client initiates a key update.
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
    /// All names and values.
    pub const ALL: [(&'static str, Self); 13] = [
        ("handshake", Self::Handshake),
        ("transfer", Self::Transfer),
        ("longrtt", Self::LongRtt),
        ("retry", Self::Retry),
        ("resumption", Self::Resumption),
        ("zerortt", Self::ZeroRtt),
        ("http3", Self::Http3),
        ("multiconnect", Self::MultiConnect),
        ("keyupdate", Self::KeyUpdate),
        ("ecn", Self::Ecn),
        ("chacha20", Self::ChaCha20),
        ("goodput", Self::Goodput),
        ("crosstraffic", Self::CrossTraffic),
    ];

    /// Parses a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, test_name)| *test_name)
    }

    /// The name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, test_name)| *test_name == self).map_or("", |(name, _)| name)
    }

    /// The application protocol (ALPN).
    pub const fn protocol(self) -> &'static [u8] {
        match self {
            Self::Http3 => b"h3",
            _ => b"hq-interop",
        }
    }

    /// Whether the first URL gets its own connection, whose session the second connection resumes.
    pub const fn resumes(self) -> bool {
        matches!(self, Self::Resumption | Self::ZeroRtt)
    }
}

impl fmt::Display for TestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
