//! The configuration `sync`: what the paper leaves open, as named options.

use std::sync::Arc;
use std::time::Duration;

use crate::config::{Capabilities, ControllerConfig, Missing};
use crate::controller::Controller;
use crate::event::Start;
use crate::hystart;
use crate::options::{Algorithm, OptionInfo, ParsedOptions, Values, choices, spec_text};
use crate::rule::RuleConfig;
use crate::units::duration_text;

/// Largest `floor`.
pub const MAX_FLOOR: Duration = Duration::from_secs(10);

choices! {
    /// The delay that Sync-TCP runs on.
    pub enum Signal {
        /// Forward one-way delays, as in the paper.
        #[default]
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
        #[default]
        Steer = "steer",
        /// Reno, verdicts count for nothing until slow start is over.
        Reno = "reno",
    }
}

choices! {
    /// What a verdict does during fast recovery.
    pub enum Recovery {
        /// Nothing.
        #[default]
        Hold = "hold",
        /// Cuts apply as at any time; the window never grows in recovery.
        Steer = "steer",
    }
}

choices! {
    /// When the delays seen so far are forgotten, besides a change of path.
    pub enum Reset {
        /// Never.
        #[default]
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
        #[default]
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
        #[default]
        Limited = "limited",
        /// In everything: the paper, for peers that are known.
        Full = "full",
    }
}

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "sync",
    summary: "Sync-TCP: Reno that steers by level and trend of the forward queueing delay",
    source: "Sync-TCP §3",
    options: &[
        OptionInfo {
            name: "signal",
            default: "one-way",
            values: Values::Choice(Signal::NAMES),
            about: "delay to run on; 'either' runs on RTT until the peer reports one-way delays",
        },
        OptionInfo {
            name: "floor",
            default: "0ms",
            values: Values::Duration { min: Duration::ZERO, max: MAX_FLOOR },
            about: "verdicts count only once the largest queueing delay reaches this; smaller queues are noise",
        },
        OptionInfo {
            name: "slow-start",
            default: "steer",
            values: Values::Choice(SlowStart::NAMES),
            about: "who grows the window below the slow-start threshold, once there are verdicts",
        },
        OptionInfo {
            name: "recovery",
            default: "hold",
            values: Values::Choice(Recovery::NAMES),
            about: "whether verdicts cut the window during fast recovery",
        },
        OptionInfo {
            name: "reset",
            default: "never",
            values: Values::Choice(Reset::NAMES),
            about: "when smallest and largest delay are forgotten, besides a change of path",
        },
        OptionInfo {
            name: "cut",
            default: "verdict",
            values: Values::Choice(Cut::NAMES),
            about: "early cuts: with every verdict (every three ACKs), or at most once per round trip",
        },
        OptionInfo {
            name: "trust",
            default: "limited",
            values: Values::Choice(Trust::NAMES),
            about: "in what the peer says of delays: limited never grows beyond Reno since the last loss; full is the paper",
        },
        hystart::OPTION,
    ],
    required: Capabilities { one_way: true, ..Capabilities::NONE },
    build: |parsed| Arc::new(SyncTcpConfig::from_chosen(parsed)),
};

/// The configuration `sync`. The default is the paper's rules, with `trust=limited`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncTcpConfig {
    pub(super) signal: Signal,
    pub(super) floor: Duration,
    pub(super) slow_start: SlowStart,
    pub(super) recovery: Recovery,
    pub(super) reset: Reset,
    pub(super) cut: Cut,
    pub(super) trust: Trust,
    pub(super) hystart: hystart::Use,
}

impl SyncTcpConfig {
    /// Sets the delay to run on.
    pub fn signal(mut self, signal: Signal) -> Self {
        self.signal = signal;
        self
    }

    /// Sets the largest queueing delay that must be seen before verdicts count; at most [`MAX_FLOOR`].
    pub fn floor(mut self, floor: Duration) -> Self {
        self.floor = floor.min(MAX_FLOOR);
        self
    }

    /// Sets who grows the window in slow start.
    pub fn slow_start(mut self, slow_start: SlowStart) -> Self {
        self.slow_start = slow_start;
        self
    }

    /// Sets what verdicts do during fast recovery.
    pub fn recovery(mut self, recovery: Recovery) -> Self {
        self.recovery = recovery;
        self
    }

    /// Sets when delays are forgotten.
    pub fn reset(mut self, reset: Reset) -> Self {
        self.reset = reset;
        self
    }

    /// Sets how often verdicts may cut.
    pub fn cut(mut self, cut: Cut) -> Self {
        self.cut = cut;
        self
    }

    /// Sets how far the word of the peer counts.
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// Sets whether HyStart++ watches the first slow start (it matters with [`SlowStart::Reno`]).
    pub fn hystart(mut self, hystart: hystart::Use) -> Self {
        self.hystart = hystart;
        self
    }

    fn from_chosen(parsed: &ParsedOptions<'_>) -> Self {
        Self {
            signal: parsed.choice("signal", Signal::ALL),
            floor: parsed.duration("floor"),
            slow_start: parsed.choice("slow-start", SlowStart::ALL),
            recovery: parsed.choice("recovery", Recovery::ALL),
            reset: parsed.choice("reset", Reset::ALL),
            cut: parsed.choice("cut", Cut::ALL),
            trust: parsed.choice("trust", Trust::ALL),
            hystart: parsed.choice(hystart::OPTION.name, hystart::Use::ALL),
        }
    }
}

impl ControllerConfig for SyncTcpConfig {
    fn name(&self) -> &'static str {
        ALGORITHM.name
    }

    fn spec(&self) -> String {
        spec_text(
            &ALGORITHM,
            &[
                ("signal", self.signal.name().to_owned()),
                ("floor", duration_text(self.floor)),
                ("slow-start", self.slow_start.name().to_owned()),
                ("recovery", self.recovery.name().to_owned()),
                ("reset", self.reset.name().to_owned()),
                ("cut", self.cut.name().to_owned()),
                ("trust", self.trust.name().to_owned()),
                (hystart::OPTION.name, self.hystart.name().to_owned()),
            ],
        )
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

    fn start(&self, start: &Start) -> Result<Box<dyn Controller>, Missing> {
        self.start_rule(start, self.hystart)
    }
}
