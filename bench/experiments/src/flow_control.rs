//! The largest window of a sender, as plans write it. Flow control enforces it.

use std::fmt;
use std::str::FromStr;

use fathom_cc::Invalid;

/// Largest window of a group's senders, which the receivers' flow control enforces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MaxWindow {
    /// No limit: on every stack, the window is larger than the content of the path and its queues,
    /// so that flow control never limits a controller that reacts to the path.
    #[default]
    Unlimited,
    /// The default windows and buffers of each stack. TCP at packet level has none.
    Stack,
    /// Limit in packets, at least 2.
    Packets(u32),
}

impl MaxWindow {
    /// Returns the limit in packets, or `None` if there is no such limit.
    pub const fn packets(self) -> Option<u32> {
        match self {
            Self::Packets(packets) => Some(packets),
            Self::Unlimited | Self::Stack => None,
        }
    }
}

impl FromStr for MaxWindow {
    type Err = Invalid;

    /// Parses `none`, `stack`, or a number of packets such as `68p`.
    fn from_str(s: &str) -> Result<Self, Invalid> {
        let packets = || s.strip_suffix('p')?.parse().ok().filter(|n| (2..=1_000_000).contains(n));
        match s {
            "none" => Ok(Self::Unlimited),
            "stack" => Ok(Self::Stack),
            _ => packets().map(Self::Packets).ok_or_else(|| {
                Invalid::value(s, "is not a window").hint(
                    "write a number of packets such as 68p (2p to 1000000p), 'none', or 'stack' \
                     for the default of each stack",
                )
            }),
        }
    }
}

impl fmt::Display for MaxWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("none"),
            Self::Stack => f.write_str("stack"),
            Self::Packets(packets) => write!(f, "{packets}p"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MaxWindow;

    #[test]
    fn max_window_values_round_trip_through_text() {
        for text in ["none", "stack", "2p", "68p", "1000000p"] {
            assert_eq!(text.parse::<MaxWindow>().unwrap().to_string(), text);
        }
        for wrong in ["", "68", "p", "1p", "1000001p", "-2p", "Stack", "unlimited"] {
            let line = wrong.parse::<MaxWindow>().unwrap_err().to_string();
            assert!(line.contains(&format!("'{wrong}'")) && line.contains("68p"), "{line}");
        }
    }
}
