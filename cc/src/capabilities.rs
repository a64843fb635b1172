//! Signals that a controller may need and a stack may provide.

/// Signals that a controller may need and a stack may provide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Forward one-way delays (SYNC_TIMESTAMP or TIMESTAMP negotiated with the peer).
    pub one_way: bool,
    /// ECN counts per ACK frame.
    pub ecn: bool,
    /// The stack honours [`crate::Pacing::Rate`] and [`crate::Pacing::Delay`].
    pub pacing: bool,
    /// The stack honours [`crate::SendParams::datagram`].
    pub datagram: bool,
}

impl Capabilities {
    /// Nothing beyond acknowledgements and losses.
    pub const NONE: Self = Self { one_way: false, ecn: false, pacing: false, datagram: false };

    /// Names of the signals that are set, as users read them.
    pub fn names(self) -> Vec<&'static str> {
        [
            (self.one_way, "one-way delay"),
            (self.ecn, "ECN"),
            (self.pacing, "pacing"),
            (self.datagram, "datagram size"),
        ]
        .into_iter()
        .filter_map(|(set, name)| set.then_some(name))
        .collect()
    }

    /// Those of `self` that `offered` lacks.
    pub const fn lacking_in(self, offered: Self) -> Self {
        Self {
            one_way: self.one_way && !offered.one_way,
            ecn: self.ecn && !offered.ecn,
            pacing: self.pacing && !offered.pacing,
            datagram: self.datagram && !offered.datagram,
        }
    }

    /// No signal is set.
    pub const fn is_none(self) -> bool {
        !(self.one_way || self.ecn || self.pacing || self.datagram)
    }
}
