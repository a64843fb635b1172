//! Queues that schedule. They keep the packets of a link, choose which packet goes next, and may
//! drop or mark a packet when they choose it.

use std::collections::VecDeque;
use std::fmt;

use fathom_units::Time;

use crate::ecn::Ecn;

/// A packet as a scheduler stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Number of the packet, assigned by the link's owner, which stores the packet's contents.
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
    /// Adds `packet` while `in_transmission` packets (0 or 1) are being sent. Appends the packets
    /// that are dropped to make room to `dropped`. If `packet` itself is dropped, appends it, too.
    fn enqueue(&mut self, packet: Queued, in_transmission: usize, dropped: &mut Vec<Queued>);

    /// Removes the packet to send next when the link becomes free at `now`. Returns this packet and
    /// whether to mark it. Appends packets that are dropped during the choice to `dropped`. Returns
    /// `None` if no packet is left.
    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Queued>) -> Option<(Queued, bool)>;

    /// Returns the number of waiting packets.
    fn queued_packets(&self) -> usize;

    /// Returns the total bytes of the waiting packets.
    fn queued_bytes(&self) -> u64;
}

/// Packets in order of arrival, and their total bytes.
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
