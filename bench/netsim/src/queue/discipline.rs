//! Queue disciplines: first-in first-out disciplines, which decide on an arriving packet; the type
//! of any queue; and the declaration of a kind of queue.

use std::fmt;
use std::time::Duration;

use fathom_units::{Invalid, Rate, Time};

use super::scheduler::Scheduler;
use super::tc::Qdisc;

/// Size of a typical packet on the wire in bytes (Sync-TCP §4.4: 1420), for averages that decay by
/// packet times.
pub(super) const TYPICAL_PACKET: u32 = 1_420;

/// An arriving packet, and the state of the queue at its arrival.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Time of the arrival.
    pub now: Time,
    /// Size of the packet in bytes, headers included.
    pub bytes: u32,
    /// Whether the packet may be marked instead of dropped.
    pub ecn_capable: bool,
    /// Number of packets ahead of this one, including the one in transmission.
    pub queued_packets: usize,
    /// Total bytes of the packets ahead of this one.
    pub queued_bytes: u64,
    /// Time at which the link has sent all packets ahead of this one. If this time is past, the
    /// link has been idle since then.
    pub free_at: Time,
}

impl Arrival {
    /// Returns the time at which this packet's own transmission would start.
    pub fn starts(&self) -> Time {
        self.now.max(self.free_at)
    }

    /// Returns the time until this packet's own transmission would start; zero on an idle link.
    pub fn wait(&self) -> Duration {
        self.free_at.since(self.now)
    }
}

/// Verdict of a queue on an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The packet joins the queue.
    Forward,
    /// The packet joins the queue, marked Congestion Experienced (CE).
    Mark,
    /// The packet is dropped.
    Drop,
}

/// A first-in first-out queue discipline. It sees each arrival and keeps only the averages that it
/// needs. The link keeps the queue itself.
pub trait Queue: fmt::Debug + Send {
    /// Returns the verdict on `arrival`.
    fn admit(&mut self, arrival: &Arrival) -> Admission;
}

/// A queue of any type, for [`Link::new`](crate::link::Link::new).
#[derive(Debug)]
pub enum AnyQueue {
    /// A first-in first-out queue.
    Fifo(Box<dyn Queue>),
    /// A queue that schedules.
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
    /// Wraps a first-in first-out queue.
    pub fn fifo(queue: impl Queue + 'static) -> Self {
        Self::Fifo(Box::new(queue))
    }

    /// Wraps a queue that schedules.
    pub fn scheduler(scheduler: impl Scheduler + 'static) -> Self {
        Self::Scheduler(Box::new(scheduler))
    }
}

/// Name, options and tc module of a kind of queue.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Name as users write it.
    pub name: &'static str,
    /// Alternative name that is also accepted.
    pub short: Option<&'static str>,
    /// Example that names every option.
    pub example: &'static str,
    /// Kernel module of the equivalent tc qdisc ([`Discipline::qdisc`]); `None` if tc has none.
    pub module: Option<&'static str>,
}

impl Kind {
    /// Returns whether `name` is the name or the alternative name of this kind.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.short == Some(name)
    }
}

/// A kind of queue with its parameters. Each file of this folder declares one kind.
///
/// The `Display` output ([`fmt::Display`]) is the name, followed by options that
/// [`Discipline::read`] accepts.
pub trait Discipline: Copy + fmt::Debug + fmt::Display {
    /// Name and options of this kind.
    const KIND: Kind;

    /// Parses the text after the name, which is empty or has the form `:option=value,...`.
    ///
    /// # Errors
    /// Returns an error that says what is wrong and what to write instead.
    fn read(options: &str) -> Result<Self, Invalid>;

    /// Returns an empty queue for a link of this rate. `seed` is the seed of the queue's random
    /// drops and marks.
    fn build(&self, rate: Rate, seed: u64) -> AnyQueue;

    /// Returns the limit in packets for a link of this rate; `None` if the limit is in bytes.
    fn packet_limit(&self, rate: Rate) -> Option<usize>;

    /// Returns the limit in bytes; `None` if the limit is in packets.
    fn byte_limit(&self) -> Option<u64> {
        None
    }

    /// Returns the equivalent tc qdisc; `None` if tc has none.
    fn qdisc(&self, _rate: Rate) -> Option<Qdisc> {
        None
    }
}
