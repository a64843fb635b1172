//! Test cases, as the environment's TESTCASE names them.

use std::fmt;

/// What is tested. Several of the runner's tests reach an endpoint under one name: what happens to packets on the way is not its business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// One small file.
    Handshake,
    /// Files over one connection, at once.
    Transfer,
    /// As a handshake, over a long round trip.
    LongRtt,
    /// The server asks for a Retry.
    Retry,
    /// A second connection goes on from the first.
    Resumption,
    /// The same, and its requests leave in 0-RTT packets.
    ZeroRtt,
    /// Over HTTP/3.
    Http3,
    /// A connection for each file.
    MultiConnect,
    /// The client updates the keys.
    KeyUpdate,
    /// Both sides mark their packets, and report marks.
    Ecn,
    /// Only TLS_CHACHA20_POLY1305_SHA256 is offered.
    ChaCha20,
    /// How fast one file is.
    Goodput,
    /// The same beside another flow.
    CrossTraffic,
}

impl Case {
    /// All.
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

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, case)| *case)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, case)| *case == self).map_or("", |(name, _)| name)
    }

    /// The application protocol (ALPN).
    pub const fn protocol(self) -> &'static [u8] {
        match self {
            Self::Http3 => b"h3",
            _ => b"hq-interop",
        }
    }

    /// The first URL is fetched over a connection of its own, from which the next goes on.
    pub const fn resumes(self) -> bool {
        matches!(self, Self::Resumption | Self::ZeroRtt)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
