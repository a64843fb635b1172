//! Queues that schedule: they keep a link's packets, choose which packet goes next, and may drop or
//! mark it at that time.

use std::collections::VecDeque;
use std::fmt;

use fathom_units::Time;

use crate::ecn::Ecn;

/// A packet as a scheduler keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Number of the packet, assigned by the link's owner, which keeps the packet's contents.
    pub packet: u32,
    /// Size in bytes, headers included.
    pub bytes: u32,
    /// Flow identifier: equal for all packets of a flow, and different for different flows.
    pub flow: u64,
    /// ECN field of the packet.
    pub ecn: Option<Ecn>,
    /// Arrival time.
    pub arrived: Time,
}

/// A queue discipline that keeps the packets waiting for a link. The packet in transmission has
/// left the scheduler, but counts towards its limit.
pub trait Scheduler: fmt::Debug + Send {
    /// Adds `packet` while `in_transmission` packets (0 or 1) are being sent. Packets dropped to
    /// make room are appended to `dropped`, as is `packet` itself if it is dropped.
    fn enqueue(&mut self, packet: Queued, in_transmission: usize, dropped: &mut Vec<Queued>);

    /// Removes the packet to send next when the link becomes free at `now`, and returns it and
    /// whether to mark it. Packets dropped while choosing are appended to `dropped`. Returns `None`
    /// if no packet is left.
    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Queued>) -> Option<(Queued, bool)>;

    /// Returns the number of waiting packets.
    fn queued_packets(&self) -> usize;

    /// Returns the bytes of the waiting packets.
    fn queued_bytes(&self) -> u64;
}

/// Packets in arrival order, and the sum of their bytes.
#[derive(Debug, Default)]
pub(super) struct Packets {
    packets: VecDeque<Queued>,
    bytes: u64,
}

impl Packets {
    pub(super) fn push(&mut self, packet: Queued) {
        self.bytes += u64::from(packet.bytes);
        self.packets.push_back(packet);
    }

    pub(super) fn pop(&mut self) -> Option<Queued> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.bytes);
        Some(packet)
    }

    /// Returns the packet that goes first.
    pub(super) fn head(&self) -> Option<&Queued> {
        self.packets.front()
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
}
