//! Queues in words of Linux's tc.

/// Whether a queue marks, in tc's word.
pub(super) const fn ecn_word(ecn: bool) -> &'static str {
    if ecn { "ecn" } else { "noecn" }
}

/// A queue in words of tc, behind what holds packets to the link's rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Qdisc {
    /// netem itself, whose limit counts packets, the one in transmission included.
    Netem {
        /// Packets.
        limit: usize,
    },
    /// The token bucket's own queue.
    Bucket {
        /// Bytes.
        limit: u64,
    },
    /// A qdisc within the token bucket: its name and options.
    Within(String),
}
