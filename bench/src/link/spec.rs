//! Queues as users write them.

use std::fmt;
use std::str::FromStr;

use fathom_cc::Rate;

use super::adaptive::{self, AdaptiveRed};
use super::automatic::AutomaticRed;
use super::avq::{Avq, AvqSpec};
use super::codel::{Codel, CodelSpec};
use super::gentle::{self, GentleAred};
use super::options;
use super::queue::{DropTail, Limit, Queue};
use super::red::{Red, RedSpec};

/// Bytes of a typical packet on the wire, for averages that age by packet times (Sync-TCP §4.4: 1420).
const TYPICAL_PACKET: u64 = 1_420;

/// A queue as users write it: `droptail:136p`, `droptail:190kB`, `red:min=5p,max=50p`, `adaptive-red:target=5ms`, `gentle-ared`, `avq`,
/// `codel`. `ared` and `gared` are short for the adaptive two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QueueSpec {
    /// Drop-tail.
    DropTail(DropTail),
    /// Random Early Detection.
    Red(RedSpec),
    /// Adaptive RED.
    AdaptiveRed(AutomaticRed),
    /// gARED.
    GentleAred(AutomaticRed),
    /// Adaptive Virtual Queue.
    Avq(AvqSpec),
    /// Controlled Delay.
    Codel(CodelSpec),
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
            Self::AdaptiveRed(spec) => Box::new(AdaptiveRed::new(&spec, rate, seed)),
            Self::GentleAred(spec) => Box::new(GentleAred::new(&spec, rate, seed)),
            Self::Avq(spec) => Box::new(Avq::new(spec, rate)),
            Self::Codel(spec) => Box::new(Codel::new(spec)),
        }
    }

    /// The limit in bytes, where it is one.
    pub const fn byte_limit(&self) -> Option<u64> {
        match self {
            Self::DropTail(DropTail { limit: Limit::Bytes(n) }) => Some(*n),
            _ => None,
        }
    }

    /// The limit in packets in front of a link of this rate, where it is one.
    pub fn packet_limit(&self, rate: Rate) -> Option<usize> {
        match self {
            Self::DropTail(DropTail { limit: Limit::Packets(n) }) => Some(*n),
            Self::DropTail(DropTail { limit: Limit::Bytes(_) }) => None,
            Self::Red(spec) => Some(spec.limit),
            Self::AdaptiveRed(spec) | Self::GentleAred(spec) => Some(spec.red(rate).limit),
            Self::Avq(spec) => Some(spec.limit),
            Self::Codel(spec) => Some(spec.limit),
        }
    }
}

impl fmt::Display for QueueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DropTail(DropTail { limit: Limit::Packets(n) }) => write!(f, "droptail:{n}p"),
            Self::DropTail(DropTail { limit: Limit::Bytes(n) }) => write!(f, "droptail:{n}B"),
            Self::Red(spec) => spec.fmt(f),
            Self::AdaptiveRed(spec) => spec.write(adaptive::USAGE.kind, f),
            Self::GentleAred(spec) => spec.write(gentle::USAGE.kind, f),
            Self::Avq(spec) => spec.fmt(f),
            Self::Codel(spec) => spec.fmt(f),
        }
    }
}

impl FromStr for QueueSpec {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let (kind, options) = s.split_at(s.find(':').unwrap_or(s.len()));
        match kind {
            "droptail" => droptail(s, options),
            "red" => options.parse().map(Self::Red),
            "adaptive-red" | "ared" => {
                AutomaticRed::read(&adaptive::USAGE, options, adaptive::LEAST..=adaptive::MOST).map(Self::AdaptiveRed)
            }
            "gentle-ared" | "gared" => {
                AutomaticRed::read(&gentle::USAGE, options, f64::MIN_POSITIVE..=adaptive::MOST).map(Self::GentleAred)
            }
            "avq" => options.parse().map(Self::Avq),
            "codel" => options.parse().map(Self::Codel),
            _ => Err(no_queue(s)),
        }
    }
}

fn no_queue(s: &str) -> String {
    format!(
        "'{s}' is not a queue; write droptail:N with a unit: droptail:136p (packets) or droptail:190kB; or one of red, adaptive-red, \
         gentle-ared, avq, codel, with options: red:min=5p,max=50p"
    )
}

/// Reads `:136p` or `:190kB`; `s` is all of the text.
fn droptail(s: &str, limit: &str) -> Result<QueueSpec, String> {
    let help = || no_queue(s);
    let limit = limit.strip_prefix(':').ok_or_else(help)?;
    let digits = limit.find(|c: char| !c.is_ascii_digit()).ok_or_else(help)?;
    let limit = match &limit[digits..] {
        "p" => Limit::Packets(limit[..digits].parse().map_err(|_| help())?),
        _ => Limit::Bytes(options::bytes(limit).map_err(|_| help())?),
    };
    let too_small = matches!(limit, Limit::Packets(n) if n < 2) || matches!(limit, Limit::Bytes(n) if n < 3_000);
    if too_small {
        return Err(format!("'{s}' holds fewer than two packets; write at least droptail:2p or droptail:3kB"));
    }
    Ok(QueueSpec::DropTail(DropTail { limit }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &[&str] = &[
        "droptail:136p",
        "droptail:190000B",
        "red:min=5p,max=50p,limit=100p,w=0.002,maxp=0.1,gentle=on,ecn=on",
        "red:min=5p,max=50p,limit=100p,w=0.002,maxp=0.1,gentle=on,ecn=on,wait=on,mark=p",
        "adaptive-red:target=5ms,packet=1420B,maxp=0.1,ecn=on,wait=on,mark=avg",
        "adaptive-red:target=2.5ms,packet=500B,min=6.25p,max=20p,w=0.001,limit=340p,maxp=0.02,ecn=off,wait=off,mark=p",
        "gentle-ared:target=5ms,packet=1500B,min=2500p,maxp=0.001,ecn=on,wait=on,mark=avg",
        "avq:a=0.12,g=0.98,buffer=142000B,limit=100p,ecn=on",
        "codel:target=5ms,interval=100ms,limit=1000p,ecn=on",
    ];

    #[test]
    fn queues_read_back_as_written() {
        for text in WRITTEN {
            assert_eq!(text.parse::<QueueSpec>().unwrap().to_string(), *text);
        }
        for (short, text) in [
            ("droptail:190kB", WRITTEN[1]),
            ("red", WRITTEN[2]),
            ("red:wait=off,mark=avg", WRITTEN[2]),
            ("adaptive-red", WRITTEN[4]),
            ("ared", WRITTEN[4]),
            ("gared:packet=1500B,min=2500p,maxp=0.001", WRITTEN[6]),
            ("avq:buffer=142kB", WRITTEN[7]),
            ("codel", WRITTEN[8]),
        ] {
            assert_eq!(short.parse::<QueueSpec>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn every_limit_in_packets_is_known() {
        let rate = Rate::from_bits_per_sec(10_000_000);
        let limits =
            [Some(136), None, Some(100), Some(100), Some(441), Some(340), Some(15_000), Some(100), Some(1_000)];
        for (text, limit) in WRITTEN.iter().zip(limits) {
            assert_eq!(text.parse::<QueueSpec>().unwrap().packet_limit(rate), limit, "{text}");
        }
    }

    #[test]
    fn bad_queues_name_the_hint() {
        for text in [
            "droptail",
            "droptail:",
            "droptail:0p",
            "droptail:136",
            "blue:5p",
            "redx",
            "droptail:99999999999999999999p",
        ] {
            let error = text.parse::<QueueSpec>().unwrap_err();
            assert!(error.contains("droptail:") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn bad_options_of_adaptive_queues_name_the_hint() {
        for kind in ["adaptive-red", "gentle-ared"] {
            for options in [
                ":target=0ms",
                ":target=5",
                ":packet=10B",
                ":packet=5p",
                ":min=15p,max=5p",
                ":min=0p",
                ":min=NaNp",
                ":w=0",
                ":w=2",
                ":limit=1p",
                ":limit=5",
                ":maxp=0.6",
                ":maxp=0",
                ":wait=maybe",
                ":mark=max",
                ":gentle=off",
                ":",
                ":ecn=on,ecn=on",
            ] {
                let error = format!("{kind}{options}").parse::<QueueSpec>().unwrap_err();
                assert!(error.contains(&format!("{kind}: and any of target=5ms")) && !error.contains('\n'), "{error}");
            }
        }
        // Only gARED may start below .01.
        assert!("ared:maxp=0.001".parse::<QueueSpec>().unwrap_err().contains("0.01 to 0.5"));
    }
}
