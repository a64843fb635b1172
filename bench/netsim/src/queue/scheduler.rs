//! Queues that schedule: they keep the packets of a link, choose which goes next, and may drop or mark it then.

use std::collections::VecDeque;
use std::fmt;

use super::discipline::Queue;
use crate::sim::Ecn;

/// A packet as a scheduler keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Its number with the link's owner, which keeps its contents.
    pub packet: u32,
    /// Size, headers included.
    pub bytes: u32,
    /// What all packets of its flow and no others have in common.
    pub flow: u64,
    /// Its ECN field.
    pub ecn: Option<Ecn>,
    /// When it arrived, in nanoseconds of simulated time.
    pub arrived: u64,
}

/// A queue discipline that keeps the packets that wait for a link. The one in transmission is no longer with it, but counts for its limit.
pub trait Scheduler: fmt::Debug + Send {
    /// `packet` arrives while `in_transmission` packets, none or one, are being sent. What is dropped for it, or itself, is added to
    /// `dropped`.
    fn enqueue(&mut self, packet: Queued, in_transmission: usize, dropped: &mut Vec<Queued>);

    /// The link is free at `now`: which packet goes next, and whether it is marked. What is dropped on the way is added to `dropped`.
    fn dequeue(&mut self, now: u64, dropped: &mut Vec<Queued>) -> Option<(Queued, bool)>;

    /// Packets that wait.
    fn queued_packets(&self) -> usize;

    /// Their bytes.
    fn queued_bytes(&self) -> u64;
}

/// A queue of either kind, for [`Link::new`](crate::link::Link::new).
#[derive(Debug)]
pub enum AnyQueue {
    /// First in, first out.
    Fifo(Box<dyn Queue>),
    /// It schedules.
    Scheduler(Box<dyn Scheduler>),
}

impl From<Box<dyn Queue>> for AnyQueue {
    fn from(queue: Box<dyn Queue>) -> Self {
        Self::Fifo(queue)
    }
}

impl From<Box<dyn Scheduler>> for AnyQueue {
    fn from(scheduler: Box<dyn Scheduler>) -> Self {
        Self::Scheduler(scheduler)
    }
}

impl<Q: Queue + 'static> From<Box<Q>> for AnyQueue {
    fn from(queue: Box<Q>) -> Self {
        Self::Fifo(queue)
    }
}

impl AnyQueue {
    /// A queue that is first in first out.
    pub fn fifo(queue: impl Queue + 'static) -> Self {
        Self::Fifo(Box::new(queue))
    }

    /// A queue that schedules.
    pub fn scheduler(scheduler: impl Scheduler + 'static) -> Self {
        Self::Scheduler(Box::new(scheduler))
    }
}

/// Packets in order, and their bytes.
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

    /// The one that goes first.
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
