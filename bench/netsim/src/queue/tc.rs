//! Queues as qdiscs of Linux's tc.

/// Returns tc's option for a queue that marks packets (`ecn`) or only drops them (`noecn`).
pub(super) const fn ecn_word(ecn: bool) -> &'static str {
    if ecn { "ecn" } else { "noecn" }
}

/// A queue as a tc qdisc, and its place relative to the qdisc that limits the rate (netem or a
/// token bucket).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Qdisc {
    /// The limit of netem itself. It counts packets, including the one in transmission.
    Netem {
        /// Limit in packets.
        limit: usize,
    },
    /// The token bucket's own queue.
    Bucket {
        /// Limit in bytes.
        limit: u64,
    },
    /// A qdisc inside the token bucket, given by its name and options.
    Within(String),
}
