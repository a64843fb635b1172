//! The configuration `sync`: what the paper leaves open, as named options.

use std::time::Duration;

use crate::aimd::Aimd;
use crate::algorithm::{Algorithm, Page};
use crate::capabilities::Capabilities;
use crate::options::{Values, option_values};
use crate::rule::RuleConfig;
use crate::rule::rule_options;
use crate::sync_tcp::SyncTcp;
use crate::units::Time;

/// Largest `floor`.
pub const MAX_FLOOR: Duration = Duration::from_secs(10);

option_values! {
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

option_values! {
    /// Who grows the window while it lies below the slow-start threshold.
    pub enum SlowStart {
        /// The verdict, from the first one on.
        Steer = "steer",
        /// Reno, verdicts count for nothing until slow start is over.
        Reno = "reno",
    }
}

option_values! {
    /// What a verdict does during fast recovery.
    pub enum Recovery {
        /// Nothing.
        Hold = "hold",
        /// Cuts apply as at any time; the window never grows in recovery.
        Steer = "steer",
    }
}

option_values! {
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

option_values! {
    /// How often verdicts may cut.
    pub enum Cut {
        /// With every verdict.
        Verdict = "verdict",
        /// At most once per round trip.
        Round = "round",
    }
}

option_values! {
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
    required: Capabilities { one_way: true, ..Capabilities::NONE },
    page: PAGE,
    ..Algorithm::of_rule::<SyncTcpConfig>()
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

const PAGE: Page = Page {
    about: "Sync-TCP (Weigle, Jeffay, Smith): Reno that steers by the forward one-way queueing delay. An average of that delay, its level between the
smallest and the largest seen, and its trend over nine samples give a verdict every three ACKs: grow as Reno, grow faster, hold, or cut by
10, 25 or 50 %.",
    departures: "the verdicts rule slow start too, unless `slow-start=reno`; verdicts do nothing in fast recovery, unless
`recovery=steer`; smallest and largest delay are never forgotten, unless `reset` says so; an early cut sets the slow-start threshold; the
window never passes the one that Reno would have grown to since the last loss, or a receiver could ask for more than its share by false
times: `trust=full` is the paper, for peers that are known, and what `fathom reproduce sync-tcp` runs.
The limit costs nothing on web traffic, rather the other way: with `fathom compare --controllers reno,sync,sync:trust=full --seed N`, N from 1
to 5, the mean response time is 0.93, 1.01, 0.90, 0.94 and 0.86 of what it is without, and drops are 1.8, 5.7, 3.5, 1.2 and 1.3 % against
2.4, 5.1, 4.8, 1.6 and 2.2 %. Beside a Reno flow a receiver that calls the queue empty was 47 % faster than Reno without it, and is 4 % slower with it
(`bench/experiments/tests/hostile.rs`).
It needs one-way delays from the peer; `signal=rtt` and `signal=either` are the choice to go without.

**Lying pays against honesty, though never against Reno.** Beside a flow of Reno's that fills the queue an honest `sync` gives way: it had .68
of Reno's rate in the same place on quinn, .65 on noq, .57 on quiche (10 Mbps, 40 ms, 60 packets of queue), and .10 to .30 in three other
networks. A receiver that calls the queue empty had .96, .85 and .73, and .42 to .81 there. With the laboratory's packet-level senders the gap is wider: .08
of Reno's share of a drop-tail link when honest, 1.0 as a liar; where the queue marks, .56 and 1.0. So a receiver has a reason to lie, and what
holds it is the bound at Reno's window. Other misreports, of `sync` as share of what Reno has there:

| what the receiver says | drop-tail: `sync`, `signal=rtt`, Reno with the same lie | queue that marks |
|---|---|---|
| the truth | .08, .08, 1 | .56, .56, 1 |
| acknowledges what has not arrived, or never will | 1.57, 1.57, 1.57 | 2.07, 2.07, 2.07 |
| its stamps say that nothing waits | 1.00, .08, 1.00 | 1.00, .56, 1.00 |
| never reports a mark | .08, .08, 1.00 | .96, .96, 2.05 |
| reports a mark for every packet | .08, .08, 1.00 | .08, .08, .08 |
| says that it held every acknowledgement for 25 ms | .08, .18, 1.01 | .56, 1.00, 1.00 |
| holds every acknowledgement for 25 ms and does not say so | .06, .06, .71 | .15, .15, .55 |

None gains more with `sync` than with Reno. What gains with both (false acknowledgements, marks not reported) is for the stack to find: quinn,
noq and quiche skip packet numbers now and then and close on who acknowledges one, and check ECN counts (RFC 9000 §13.4.2), which finds counts that are too small, not marks reported as none.
`cargo test --release -p fathom-experiments --features quiche --test experiments-tests hostile -- --nocapture` prints these figures.",
    figure: "Sync-TCP and the scripted queue",
    to_see: "by default it cuts with every verdict, that is every three ACKs. At the plateau its average still creeps up, so the smallest window
stays; once the average falls it grows by half a window per round trip, up to where Reno would be.",
    weakness: "as a lone bulk flow by the letter of the paper. Several cuts per round trip, none of which can show before a round trip is
over, leave much of the link idle: 58 % of it is used. With `cut=round` it is 98 %, at two thirds of Reno's queue. Where queues are
well below a millisecond, the largest delay seen is noise: set `floor`.

Nor beside flows that fill the queue. One flow of `sync` beside one of another over 10 Mbps, 20 ms there and back, Mbps of the two (`fathom plan run
sync-beside`, five seeds, 60 s; `trust` and `cut` change the last digit only):

| buffer | beside Reno | beside CUBIC |
|---|---|---|
| 25 packets | .92 and 8.9 | .58 and 9.2 |
| 136 packets | .17 and 9.6 | .14 and 9.7 |",
};
