//! Queue disciplines: pure verdicts on an arriving packet, and what every kind of queue declares.

use std::fmt;

use fathom_units::Rate;

use super::scheduler::AnyQueue;
use super::tc::Qdisc;

/// Bytes of a typical packet on the wire, for averages that age by packet times (Sync-TCP §4.4: 1420).
pub(super) const TYPICAL_PACKET: u32 = 1_420;

/// An arriving packet and the queue it finds, as a queue discipline sees them.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Nanoseconds of simulated time.
    pub now: u64,
    /// Size, headers included.
    pub bytes: u32,
    /// The packet may be marked instead of dropped.
    pub ecn_capable: bool,
    /// Packets before it, the one in transmission included.
    pub queued_packets: usize,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Nanoseconds since the link went idle; 0 while it sends.
    pub idle: u64,
    /// Nanoseconds until its own transmission would start; 0 on an idle link.
    pub wait: u64,
}

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

/// What users call a kind of queue.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// A shorter name that is read as well.
    pub short: Option<&'static str>,
    /// An example that names every option.
    pub example: &'static str,
    /// The kernel's module of its like in tc ([`Discipline::qdisc`]), where there is one.
    pub module: Option<&'static str>,
}

impl Kind {
    /// Whether it has this name, long or short.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.short == Some(name)
    }
}

/// A kind of queue with its parameters: what each file of this folder declares. Written out ([`fmt::Display`]), it is what
/// [`Discipline::read`] reads, the name before it.
pub trait Discipline: Copy + fmt::Debug + fmt::Display {
    /// Its name and options.
    const KIND: Kind;

    /// Reads what comes after the name: nothing, or `:option=value,...`.
    ///
    /// # Errors
    /// One line that says what is wrong and what to write instead.
    fn read(options: &str) -> Result<Self, String>;

    /// A fresh queue in front of a link of this rate; `seed` is for its random drops and marks.
    fn build(&self, rate: Rate, seed: u64) -> AnyQueue;

    /// The limit in packets in front of a link of this rate, where it is one.
    fn packet_limit(&self, rate: Rate) -> Option<usize>;

    /// The limit in bytes, where it is one.
    fn byte_limit(&self) -> Option<u64> {
        None
    }

    /// The same queue in words of tc, where it has its like.
    fn qdisc(&self, _rate: Rate) -> Option<Qdisc> {
        None
    }
}
