//! Queue disciplines: pure verdicts on an arriving packet.

use std::fmt;
use std::str::FromStr;

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
#[derive(Clone, Copy, Debug)]
pub struct DropTail {
    limit: Limit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
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

/// A queue as users write it: `droptail:136p`, `droptail:190kB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSpec {
    limit: Limit,
}

impl QueueSpec {
    /// Drop-tail with a limit in packets.
    pub const fn droptail_packets(limit: usize) -> Self {
        Self { limit: Limit::Packets(limit) }
    }

    /// A fresh queue.
    pub fn build(&self) -> Box<dyn Queue> {
        Box::new(DropTail { limit: self.limit })
    }

    /// The limit in packets, where it is one.
    pub const fn packet_limit(&self) -> Option<usize> {
        match self.limit {
            Limit::Packets(n) => Some(n),
            Limit::Bytes(_) => None,
        }
    }
}

impl fmt::Display for QueueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            Limit::Packets(n) => write!(f, "droptail:{n}p"),
            Limit::Bytes(n) => write!(f, "droptail:{n}B"),
        }
    }
}

impl FromStr for QueueSpec {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let help =
            || format!("'{s}' is not a queue; write droptail:N with a unit: droptail:136p (packets) or droptail:190kB");
        let (kind, limit) = s.split_once(':').ok_or_else(help)?;
        if kind != "droptail" {
            return Err(help());
        }
        let digits = limit.find(|c: char| !c.is_ascii_digit()).ok_or_else(help)?;
        let number: u64 = limit[..digits].parse().map_err(|_| help())?;
        let limit = match &limit[digits..] {
            "p" => Limit::Packets(usize::try_from(number).map_err(|_| help())?),
            "B" => Limit::Bytes(number),
            "kB" => Limit::Bytes(number.checked_mul(1_000).ok_or_else(help)?),
            "MB" => Limit::Bytes(number.checked_mul(1_000_000).ok_or_else(help)?),
            _ => return Err(help()),
        };
        let too_small = matches!(limit, Limit::Packets(n) if n < 2) || matches!(limit, Limit::Bytes(n) if n < 3_000);
        if too_small {
            return Err(format!("'{s}' holds fewer than two packets; write at least droptail:2p or droptail:3kB"));
        }
        Ok(Self { limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_read_back_as_written() {
        for text in ["droptail:136p", "droptail:190000B"] {
            assert_eq!(text.parse::<QueueSpec>().unwrap().to_string(), text);
        }
        assert_eq!("droptail:190kB".parse::<QueueSpec>().unwrap().to_string(), "droptail:190000B");
    }

    #[test]
    fn bad_queues_name_the_mend() {
        for text in ["droptail", "droptail:", "droptail:0p", "droptail:136", "red:5", "droptail:99999999999999999999p"]
        {
            let error = text.parse::<QueueSpec>().unwrap_err();
            assert!(error.contains("droptail:"), "{error}");
        }
    }
}
