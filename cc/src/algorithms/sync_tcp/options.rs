//! The configuration `sync`: a named option for each point that the paper leaves open.

use std::time::Duration;

use crate::aimd::Aimd;
use crate::algorithm::{Algorithm, Page};
use crate::capabilities::Capabilities;
use crate::options::{Values, option_values};
use crate::rule::RuleConfig;
use crate::rule::rule_options;
use crate::sync_tcp::SyncTcp;
use crate::units::Time;

/// Largest value of `floor`.
pub const MAX_FLOOR: Duration = Duration::from_secs(10);

option_values! {
    /// Delay signal that Sync-TCP uses.
    pub enum Signal {
        /// Forward one-way delays, as in the paper.
        OneWay = "one-way",
        /// Round-trip times, always: the alternative that the paper argues against (Sync-TCP §3.1).
        Rtt = "rtt",
        /// Round-trip times until the first one-way delay arrives, then one-way delays.
        Either = "either",
    }
}

option_values! {
    /// Control of growth while the window is below the slow-start threshold.
    pub enum SlowStart {
        /// Verdicts control growth, from the first verdict on.
        Steer = "steer",
        /// Reno controls growth; verdicts have no effect until slow start is over.
        Reno = "reno",
    }
}

option_values! {
    /// Effect of a verdict during fast recovery.
    pub enum Recovery {
        /// No effect.
        Hold = "hold",
        /// Cuts apply as usual; the window never grows in recovery.
        Steer = "steer",
    }
}

option_values! {
    /// Event that makes the controller forget the delays seen so far, besides a change of path.
    pub enum Reset {
        /// No event.
        Never = "never",
        /// An idle time.
        Idle = "idle",
        /// Persistent congestion.
        Timeout = "timeout",
        /// An idle time or persistent congestion.
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
    /// How often verdicts may cut the window.
    pub enum Cut {
        /// Every verdict may cut.
        Verdict = "verdict",
        /// At most one cut per round trip.
        Round = "round",
    }
}

option_values! {
    /// Trust in the one-way delays that the peer reports.
    pub enum Trust {
        /// The window never grows beyond the window that Reno would have reached since the last
        /// loss or mark with the same acknowledged bytes, and a verdict expires with its delays.
        Limited = "limited",
        /// Full trust, as in the paper; for known peers.
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
        /// delay to use; 'either' uses RTT until the peer reports one-way delays
        pub(super) signal: Signal,
        /// ignore verdicts until the largest queueing delay reaches this; smaller queues are noise
        pub(super) floor: Duration = "0ms" in Values::Duration { min: Duration::ZERO, max: MAX_FLOOR },
        /// below the slow-start threshold, after the first verdict: verdicts control the growth, or
        /// Reno does
        pub(super) slow_start: SlowStart,
        /// whether verdicts cut the window during fast recovery
        pub(super) recovery: Recovery,
        /// when to forget the smallest and the largest delay, in addition to a change of path
        pub(super) reset: Reset,
        /// early cuts: with every verdict (every three ACKs), or at most once per round trip
        pub(super) cut: Cut,
        /// trust in the peer's delay reports: limited never grows beyond Reno since the last loss;
        /// full follows the paper
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
    about: "Sync-TCP (Weigle, Jeffay, Smith) is Reno controlled by the forward one-way queueing delay. It
computes the average of this delay, the position of the average between the smallest and the largest
delay seen (the level), and the trend over nine samples. Every three ACKs, level and trend give a
verdict: grow as Reno, grow faster, hold, or cut by 10, 25 or 50 %.",
    departures: "The verdicts also control slow start, unless `slow-start=reno`. Verdicts do
nothing in fast recovery, unless `recovery=steer`. The smallest and the largest delay are never
forgotten, unless `reset` says so. An early cut sets the slow-start threshold. `sync` needs one-way
delays from the peer; use `signal=rtt` or `signal=either` to run without them.

The window never exceeds the window that Reno would have reached since the last loss. Otherwise a
receiver could get more than its share by reporting false times. `trust=full` removes this limit, as
in the paper: use it with peers that you know. `fathom reproduce sync-tcp` runs with `trust=full`.

The limit costs nothing on web traffic. With `fathom compare --controllers reno,sync,sync:trust=full`
the mean response time is 529 ms with the limit and 534 ms without it (five seeds; the two cannot be
told apart), and drops are 2.8 and 3.0 %. Beside a Reno flow, a receiver that reports an empty
queue is 23 % faster than Reno without the limit, and 20 % slower with it (mean of three seeds,
`bench/experiments/tests/hostile.rs`).

**A receiver that misreports gets more than an honest one, but never more than with Reno.** With an
honest receiver, `sync` yields to a Reno flow that fills the queue. Its rate, relative to that of
Reno in its place, is 0.63 on quinn, 0.57 on noq and 0.49 on quiche (10 Mbps, 40 ms, a queue of 60
packets), and 0.10 to 0.30 in three other networks. With a receiver that reports an empty queue, it
is 0.80, 0.76 and 0.59, and 0.42 to 0.81 in the other networks. With the laboratory's packet-level
senders the difference is larger: 0.08 with an honest receiver and 1.0 with one that misreports on a
drop-tail link, and 0.56 and 1.0 if the queue marks.

So a receiver can gain by misreporting, and only the bound at Reno's window limits its gain. The
next table has other misreports, with rates relative to those of Reno with an honest receiver in the
same place:

| the receiver | drop-tail: `sync`, `signal=rtt`, Reno with the same misreport | queue that marks |
|---|---|---|
| tells the truth | 0.08, 0.08, 1 | 0.56, 0.56, 1 |
| acknowledges packets that have not arrived, or never will | 1.57, 1.57, 1.57 | 2.07, 2.07, 2.07 |
| sends stamps that report an empty queue | 1.00, 0.08, 1.00 | 1.00, 0.56, 1.00 |
| never reports a mark | 0.08, 0.08, 1.00 | 0.96, 0.96, 2.05 |
| reports a mark for every packet | 0.08, 0.08, 1.00 | 0.08, 0.08, 0.08 |
| says that it held every acknowledgement for 25 ms | 0.08, 0.18, 1.01 | 0.56, 1.00, 1.00 |
| holds every acknowledgement for 25 ms and does not say so | 0.06, 0.06, 0.71 | 0.15, 0.15, 0.55 |

No misreport gains more with `sync` than with Reno. The stack has to detect the misreports that gain
with both (false acknowledgements, unreported marks). quinn, noq and quiche skip a packet number now
and then, and close the connection if the peer acknowledges it. They also check ECN counts
(RFC 9000 §13.4.2), which detects counts that are too small, but not marked packets that are reported as
unmarked.
`cargo test --release -p fathom-experiments --features quiche --test experiments-tests hostile -- --nocapture`
prints these figures.",
    figure: "Sync-TCP and the scripted queue",
    to_see: "By default `sync` may cut with every verdict, that is, every three ACKs. At the
plateau its average delay still rises slowly, so the window stays at its minimum. Once the average
falls, the window grows by half a window per round trip, up to Reno's window.",
    weakness: "A lone bulk flow of `sync` as in the paper uses only 58 % of the link, because it makes
several cuts per round trip, although no cut has an effect before a round trip is over. With
`cut=round` it uses 98 %, with two thirds of Reno's queue. If queues are well below a millisecond,
the largest delay seen is noise: set `floor`.

Beside flows that fill the queue, `sync` gets little bandwidth. The table has the rates in Mbps of
one `sync` flow and one competing flow, over 10 Mbps and a round trip of 20 ms
(`fathom plan run sync-beside`, five seeds, 60 s; `trust` and `cut` change only the last digit):

| buffer | beside Reno | beside CUBIC |
|---|---|---|
| 25 packets | 0.92 and 8.9 | 0.58 and 9.2 |
| 136 packets | 0.17 and 9.6 | 0.14 and 9.7 |",
};
