//! A policer: a token bucket that drops packets beyond a rate instead of queueing them.

use std::fmt;
use std::str::FromStr;

use fathom_units::{Invalid, Rate, Time};

use crate::nanos::nanos_between;
use crate::queue::options;

/// A policer as users write it: `10Mbps,burst=100kB`. It counts bytes on the wire, including
/// headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// Token rate.
    pub rate: Rate,
    /// Size of the bucket in bytes.
    pub burst: u64,
}

impl fmt::Display for Policer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},burst={}B", self.rate, self.burst)
    }
}

impl FromStr for Policer {
    type Err = Invalid;

    fn from_str(s: &str) -> Result<Self, Invalid> {
        let wrong = || Invalid::value(s, "is not a policer");
        let help = || wrong().hint("write a rate and a bucket, such as 10Mbps,burst=100kB");
        let (rate, burst) = s.split_once(",burst=").ok_or_else(help)?;
        let rate: Rate = rate.trim().parse().map_err(|_| help())?;
        let burst = options::bytes(burst).map_err(|_| help())?;
        // A bucket must hold a full packet, because otherwise no full packet would ever pass.
        let sound = rate.bits_per_sec() >= 10_000 && (1_500..=1_000_000_000).contains(&burst);
        if sound {
            Ok(Self { rate, burst })
        } else {
            Err(wrong().hint(
                "write a rate and a bucket of at least 10kbps and 1500B, such as 10Mbps,burst=100kB",
            ))
        }
    }
}

/// State of a policer. Tokens are counted in bits times nanoseconds per second, so that nothing is
/// rounded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    policer: Policer,
    /// Number of tokens in bits times nanoseconds per second. A byte takes 8e9 tokens.
    tokens: u128,
    at: Time,
}

/// Number of tokens for one byte.
const BYTE: u128 = 8_000_000_000;

impl Bucket {
    pub(super) fn new(policer: Policer) -> Self {
        Self { policer, tokens: u128::from(policer.burst) * BYTE, at: Time::ZERO }
    }

    /// Returns whether a packet of `bytes` bytes passes at `now`. If it passes, takes its tokens.
    pub(super) fn passes(&mut self, now: Time, bytes: u32) -> bool {
        let full = u128::from(self.policer.burst) * BYTE;
        let earned =
            u128::from(nanos_between(self.at, now)) * u128::from(self.policer.rate.bits_per_sec());
        self.tokens = (self.tokens + earned).min(full);
        self.at = self.at.max(now);
        let cost = u128::from(bytes) * BYTE;
        let passes = cost <= self.tokens;
        if passes {
            self.tokens -= cost;
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn policer_option_round_trips_through_text() {
        let read: Policer = "10Mbps,burst=100kB".parse().unwrap();
        assert_eq!(read.to_string(), "10Mbps,burst=100000B");
        assert_eq!(read.to_string().parse::<Policer>().unwrap(), read);
        for text in [
            "",
            "10Mbps",
            "10Mbps,burst=10",
            "10Mbps,burst=100B",
            "1bps,burst=9kB",
            "10Mbps,burst=é",
        ] {
            assert!(
                text.parse::<Policer>()
                    .unwrap_err()
                    .to_string()
                    .contains("write a rate and a bucket"),
                "{text}"
            );
        }
    }

    proptest! {
        /// Over any period, at most the bucket plus the tokens of that period pass.
        #[test]
        fn policed_traffic_never_exceeds_rate_and_burst(
            packets in prop::collection::vec((0u64..3_000_000, 40u32..1_500), 1..400),
            mbps in 1u64..100, burst in 1_500u64..50_000,
        ) {
            let policer = Policer { rate: Rate::from_bits_per_sec(mbps * 1_000_000), burst };
            let mut bucket = Bucket::new(policer);
            let (mut now, mut passed, mut refused) = (0, 0u64, false);
            for (gap, bytes) in packets {
                now += gap;
                if bucket.passes(Time::from_nanos(now), bytes) { passed += u64::from(bytes) } else { refused = true }
                let most = burst as f64 + now as f64 * 1e-9 * mbps as f64 * 1e6 / 8.0;
                prop_assert!(passed as f64 <= most + 1.0);
                // A refusal means that the bucket had less than a packet.
                prop_assert!(!refused || passed + 1_500 >= burst);
            }
        }
    }
}
