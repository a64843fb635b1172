//! Queues as users write them.

use std::fmt;
use std::str::FromStr;

use fathom_cc::Rate;

use super::queue::{DropTail, Limit, Queue};
use super::red::{Red, RedSpec};

/// Bytes of a typical packet on the wire, for averages that age by packet times (Sync-TCP §4.4: 1420).
const TYPICAL_PACKET: u64 = 1_420;

/// A queue as users write it: `droptail:136p`, `droptail:190kB`, `red:min=5p,max=50p`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QueueSpec {
    /// Drop-tail.
    DropTail(DropTail),
    /// Random Early Detection.
    Red(RedSpec),
}

impl QueueSpec {
    /// Drop-tail with a limit in packets.
    pub const fn droptail_packets(limit: usize) -> Self {
        Self::DropTail(DropTail::packets(limit))
    }

    /// A fresh queue in front of a link of this rate; `seed` is for what it draws by lot.
    pub fn build(&self, rate: Rate, seed: u64) -> Box<dyn Queue> {
        match *self {
            Self::DropTail(queue) => Box::new(queue),
            Self::Red(spec) => Box::new(Red::new(spec, rate.time_for(TYPICAL_PACKET).as_nanos() as u64, seed)),
        }
    }

    /// The limit in packets, where it is one.
    pub const fn packet_limit(&self) -> Option<usize> {
        match self {
            Self::DropTail(DropTail { limit: Limit::Packets(n) }) => Some(*n),
            Self::DropTail(DropTail { limit: Limit::Bytes(_) }) => None,
            Self::Red(spec) => Some(spec.limit),
        }
    }
}

impl fmt::Display for QueueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DropTail(DropTail { limit: Limit::Packets(n) }) => write!(f, "droptail:{n}p"),
            Self::DropTail(DropTail { limit: Limit::Bytes(n) }) => write!(f, "droptail:{n}B"),
            Self::Red(spec) => spec.fmt(f),
        }
    }
}

impl FromStr for QueueSpec {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        if let Some(options) = s.strip_prefix("red") {
            return options.parse().map(Self::Red);
        }
        let help = || {
            format!(
                "'{s}' is not a queue; write droptail:N with a unit: droptail:136p (packets) or droptail:190kB; or red:min=5p,max=50p"
            )
        };
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
        Ok(Self::DropTail(DropTail { limit }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_read_back_as_written() {
        for text in
            ["droptail:136p", "droptail:190000B", "red:min=5p,max=50p,limit=100p,w=0.002,maxp=0.1,gentle=on,ecn=on"]
        {
            assert_eq!(text.parse::<QueueSpec>().unwrap().to_string(), text);
        }
        assert_eq!("droptail:190kB".parse::<QueueSpec>().unwrap().to_string(), "droptail:190000B");
    }

    #[test]
    fn bad_queues_name_the_mend() {
        for text in
            ["droptail", "droptail:", "droptail:0p", "droptail:136", "blue:5p", "droptail:99999999999999999999p"]
        {
            let error = text.parse::<QueueSpec>().unwrap_err();
            assert!(error.contains("droptail:"), "{error}");
        }
    }
}
