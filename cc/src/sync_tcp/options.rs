//! The configuration `sync`: what the paper leaves open, as named options.

use std::time::Duration;

use crate::aimd::Aimd;
use crate::config::Capabilities;
use crate::options::{Algorithm, Options as _, Values, choices, rule_options};
use crate::rule::{self, RuleConfig};
use crate::sync_tcp::SyncTcp;
use crate::units::Time;

/// Largest `floor`.
pub const MAX_FLOOR: Duration = Duration::from_secs(10);

choices! {
    /// The delay that Sync-TCP runs on.
    pub enum Signal {
        /// Forward one-way delays, as in the paper.
        OneWay = "one-way",
        /// Round-trip times, always: the ablation the paper argues against (Sync-TCP §3.1).
        Rtt = "rtt",
        /// One-way delays from the first one that comes, round-trip times until then.
        Either = "either",
    }
}

choices! {
    /// Who grows the window while it lies below the slow-start threshold.
    pub enum SlowStart {
        /// The verdict, from the first one on.
        Steer = "steer",
        /// Reno, verdicts count for nothing until slow start is over.
        Reno = "reno",
    }
}

choices! {
    /// What a verdict does during fast recovery.
    pub enum Recovery {
        /// Nothing.
        Hold = "hold",
        /// Cuts apply as at any time; the window never grows in recovery.
        Steer = "steer",
    }
}

choices! {
    /// When the delays seen so far are forgotten, besides a change of path.
    pub enum Reset {
        /// Never.
        Never = "never",
        /// After an idle time.
        Idle = "idle",
        /// On persistent congestion.
        Timeout = "timeout",
        /// On both.
        Both = "both",
    }
}

impl Reset {
    pub(super) const fn on_idle(self) -> bool {
        matches!(self, Self::Idle | Self::Both)
    }

    pub(super) const fn on_timeout(self) -> bool {
        matches!(self, Self::Timeout | Self::Both)
    }
}

choices! {
    /// How often verdicts may cut.
    pub enum Cut {
        /// With every verdict.
        Verdict = "verdict",
        /// At most once per round trip.
        Round = "round",
    }
}

choices! {
    /// How far the word of the peer counts, on which one-way delays rest.
    pub enum Trust {
        /// Never for a larger window than Reno would have grown to since the last loss or mark, by the same acknowledged bytes; and no
        /// verdict outlives its delays.
        Limited = "limited",
        /// In everything: the paper, for peers that are known.
        Full = "full",
    }
}

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "sync",
    summary: "Sync-TCP: Reno that steers by level and trend of the forward queueing delay",
    source: "Sync-TCP §3",
    options: SyncTcpConfig::OPTIONS,
    required: Capabilities { one_way: true, ..Capabilities::NONE },
    build: rule::build::<SyncTcpConfig>,
};

rule_options! {
    /// The configuration `sync`. The default is the paper's rules, with `trust=limited`.
    pub struct SyncTcpConfig {
        /// delay to run on; 'either' runs on RTT until the peer reports one-way delays
        pub(super) signal: Signal,
        /// verdicts count only once the largest queueing delay reaches this; smaller queues are noise
        pub(super) floor: Duration = "0ms" in Values::Duration { min: Duration::ZERO, max: MAX_FLOOR },
        /// who grows the window below the slow-start threshold, once there are verdicts
        pub(super) slow_start: SlowStart,
        /// whether verdicts cut the window during fast recovery
        pub(super) recovery: Recovery,
        /// when smallest and largest delay are forgotten, besides a change of path
        pub(super) reset: Reset,
        /// early cuts: with every verdict (every three ACKs), or at most once per round trip
        pub(super) cut: Cut,
        /// in what the peer says of delays: limited never grows beyond Reno since the last loss; full is the paper
        pub(super) trust: Trust,
    }
}

impl RuleConfig for SyncTcpConfig {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = SyncTcp;

    fn rule(&self, window: &Aimd, now: Time) -> SyncTcp {
        SyncTcp::new(*self, window, now)
    }

    fn required(&self) -> Capabilities {
        Capabilities { one_way: self.signal == Signal::OneWay, ..Capabilities::NONE }
    }

    fn optional(&self) -> Capabilities {
        Capabilities { one_way: self.signal != Signal::Rtt, ..Capabilities::NONE }
    }

    fn hint(&self) -> &'static str {
        "negotiate a timestamp extension with the peer, or run on round-trip times with sync:signal=rtt"
    }
}
