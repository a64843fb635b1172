//! Drop-tail: first in, first out, with a limit in packets or bytes.

use std::fmt;

use fathom_units::{Invalid, Rate};

use super::discipline::{Admission, AnyQueue, Arrival, Discipline, Kind, Queue};
use super::options;
use super::tc::Qdisc;

/// A first-in first-out queue that drops an arriving packet if the packet does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropTail {
    limit: Limit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Packets(usize),
    Bytes(u64),
}

impl DropTail {
    /// Returns a queue of at most `limit` packets, including the one in transmission.
    pub const fn packets(limit: usize) -> Self {
        Self { limit: Limit::Packets(limit) }
    }

    /// Returns a queue of at most `limit` bytes, including the packet in transmission.
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

impl Discipline for DropTail {
    const KIND: Kind = Kind {
        name: "droptail",
        short: None,
        example: "droptail with a limit in packets (droptail:136p) or bytes (droptail:190kB)",
        module: Some("sch_netem"),
    };

    fn read(text: &str) -> Result<Self, Invalid> {
        let name = Self::KIND.name;
        let wrong = |problem: &'static str| Invalid::value(&format!("{name}{text}"), problem);
        let help = || wrong("is not a queue").hint(format!("write {}", Self::KIND.example));
        let limit = text.strip_prefix(':').ok_or_else(help)?;
        let digits = limit.find(|c: char| !c.is_ascii_digit()).ok_or_else(help)?;
        let limit = match &limit[digits..] {
            "p" => Limit::Packets(limit[..digits].parse().map_err(|_| help())?),
            _ => Limit::Bytes(options::bytes(limit).map_err(|_| help())?),
        };
        let too_small = matches!(limit, Limit::Packets(n) if n < 2)
            || matches!(limit, Limit::Bytes(n) if n < 3_000);
        if too_small {
            return Err(wrong("holds fewer than two packets")
                .hint("write at least droptail:2p or droptail:3kB"));
        }
        Ok(Self { limit })
    }

    fn build(&self, _rate: Rate, _seed: u64) -> AnyQueue {
        AnyQueue::fifo(*self)
    }

    fn packet_limit(&self, _rate: Rate) -> Option<usize> {
        match self.limit {
            Limit::Packets(n) => Some(n),
            Limit::Bytes(_) => None,
        }
    }

    fn byte_limit(&self) -> Option<u64> {
        match self.limit {
            Limit::Packets(_) => None,
            Limit::Bytes(n) => Some(n),
        }
    }

    fn qdisc(&self, _rate: Rate) -> Option<Qdisc> {
        Some(match self.limit {
            Limit::Packets(limit) => Qdisc::Netem { limit },
            Limit::Bytes(limit) => Qdisc::Bucket { limit },
        })
    }
}

impl fmt::Display for DropTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            Limit::Packets(n) => write!(f, "droptail:{n}p"),
            Limit::Bytes(n) => write!(f, "droptail:{n}B"),
        }
    }
}
