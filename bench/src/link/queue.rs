//! Queue disciplines: pure verdicts on an arriving packet.

use std::fmt;

use super::Arrival;

/// A queue's verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Join the queue.
    Forward,
    /// Join the queue, marked congestion-experienced.
    Mark,
    /// Drop.
    Drop,
}

/// A queue discipline. It sees arrivals and keeps whatever averages it needs; the link keeps the queue itself.
pub trait Queue: fmt::Debug + Send {
    /// Verdict on `arrival`.
    fn admit(&mut self, arrival: &Arrival) -> Admission;
}

/// Drops what does not fit: first in, first out, no more than `limit` waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropTail {
    pub(super) limit: Limit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Packets(usize),
    Bytes(u64),
}

impl DropTail {
    /// At most `limit` packets, the one in transmission included.
    pub const fn packets(limit: usize) -> Self {
        Self { limit: Limit::Packets(limit) }
    }

    /// At most `limit` bytes, the packet in transmission included.
    pub const fn bytes(limit: u64) -> Self {
        Self { limit: Limit::Bytes(limit) }
    }
}

impl Queue for DropTail {
    fn admit(&mut self, a: &Arrival) -> Admission {
        let fits = match self.limit {
            Limit::Packets(limit) => a.queued_packets < limit,
            Limit::Bytes(limit) => a.queued_bytes + u64::from(a.bytes) <= limit,
        };
        if fits { Admission::Forward } else { Admission::Drop }
    }
}
