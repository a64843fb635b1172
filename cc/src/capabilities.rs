//! Capabilities: signals and parameters that a controller may need and a stack may provide.

/// Signals and parameters that a controller may need and a stack may provide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether forward one-way delays are available (SYNC_TIMESTAMP or TIMESTAMP negotiated with
    /// the peer).
    pub one_way: bool,
    /// Whether ECN counts come with ACK frames.
    pub ecn: bool,
    /// Whether the stack honours [`crate::Pacing::Rate`] and [`crate::Pacing::Delay`].
    pub pacing: bool,
    /// Whether the stack honours [`crate::SendParams::datagram`].
    pub datagram: bool,
    /// Whether the stack can send its packets as ECT(1), which asks a network for marks at a low
    /// threshold (L4S, RFC 9331).
    pub l4s: bool,
}

impl Capabilities {
    /// No capability: acknowledgements and losses only.
    pub const NONE: Self =
        Self { one_way: false, ecn: false, pacing: false, datagram: false, l4s: false };
    /// All capabilities.
    pub const ALL: Self =
        Self { one_way: true, ecn: true, pacing: true, datagram: true, l4s: true };

    /// Returns the names of the capabilities that are set, as shown to users.
    pub fn names(self) -> Vec<&'static str> {
        [
            (self.one_way, "one-way delay"),
            (self.ecn, "ECN"),
            (self.pacing, "pacing"),
            (self.datagram, "datagram size"),
            (self.l4s, "ECT(1)"),
        ]
        .into_iter()
        .filter_map(|(set, name)| set.then_some(name))
        .collect()
    }

    /// Returns the capabilities of `self` that `offered` lacks.
    pub const fn lacking_in(self, offered: Self) -> Self {
        Self {
            one_way: self.one_way && !offered.one_way,
            ecn: self.ecn && !offered.ecn,
            pacing: self.pacing && !offered.pacing,
            datagram: self.datagram && !offered.datagram,
            l4s: self.l4s && !offered.l4s,
        }
    }

    /// Returns whether no capability is set.
    pub const fn is_none(self) -> bool {
        !(self.one_way || self.ecn || self.pacing || self.datagram || self.l4s)
    }
}
