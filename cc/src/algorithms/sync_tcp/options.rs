//! The configuration `sync`: a named option for each point that the paper leaves open.

use std::time::Duration;

use crate::aimd::{Aimd, Threshold};
use crate::algorithm::{Algorithm, Page};
use crate::capabilities::Capabilities;
use crate::options::{Values, option_values};
use crate::rule::RuleConfig;
use crate::rule::rule_options;
use crate::signal::{Signal, capabilities_by_signal};
use crate::sync_tcp::SyncTcp;
use crate::units::Time;

/// Largest value of `floor`.
pub const MAX_FLOOR: Duration = Duration::from_secs(10);

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
        /// delay to use: one-way, RTT, or (either) RTT until the peer reports one-way delays
        pub(super) signal: Signal,
        /// ignore verdicts until the largest queueing delay reaches this value, because smaller
        /// delays are noise
        pub(super) floor: Duration = "0ms" in Values::Duration { min: Duration::ZERO, max: MAX_FLOOR },
        /// control of the growth in slow start after the first verdict: by verdicts (steer), or by
        /// Reno's rule (reno)
        pub(super) slow_start: SlowStart,
        /// verdicts during fast recovery: ignore them (hold), or let them cut the window (steer)
        pub(super) recovery: Recovery,
        /// when to forget the smallest and the largest delay, in addition to a change of path
        pub(super) reset: Reset,
        /// how often verdicts may cut the window: every time (after three ACKs), or at most once
        /// per round trip
        pub(super) cut: Cut,
        /// slow-start threshold at a cut because of delay: the reduced window, or as before
        pub(super) threshold: Threshold,
        /// trust in the peer's delay reports: limited never lets the window exceed Reno's since the
        /// last loss; full has no limit, as in the paper
        pub(super) trust: Trust,
    }
}

impl RuleConfig for SyncTcpConfig {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = SyncTcp;

    fn rule(&self, window: &Aimd, now: Time) -> SyncTcp {
        SyncTcp::new(*self, window, now)
    }

    capabilities_by_signal!("sync");
}

const PAGE: Page = Page {
    about: "Sync-TCP (Weigle, Jeffay, Smith) is Reno controlled by the queueing delay from the sender to the
receiver. Sync-TCP computes a moving average of this delay. The level is the position of the average
between the smallest and the largest delay seen. The trend says whether the average rose or fell
over nine samples. After every three ACKs, level and trend give a verdict: grow as Reno does, grow
faster, hold the window, or cut it by 10, 25 or 50 %.",
    departures: "The verdicts also control slow start, unless `slow-start=reno` is set. During
fast recovery, verdicts are ignored unless `recovery=steer` is set. `sync` never forgets the
smallest and the largest delay, unless `reset` is set. An early cut also sets the slow-start
threshold, unless `threshold=keep` is set. `sync` needs one-way delays that the peer reports. If the
peer does not report them, use `signal=rtt` or `signal=either`.

By default, the window never exceeds the window that Reno would have reached since the last loss.
Without this limit, a receiver could get more than its share by reporting false times. `trust=full`
removes the limit, because the paper has none. Use `trust=full` only with peers that you know.
`fathom reproduce sync-tcp` runs with `trust=full`.

The limit does not slow web traffic. With `fathom compare --controllers reno,sync,sync:trust=full`
and five seeds, the mean response time is 529 ms with the limit and 534 ms without it. The
difference is not significant. Drops are 2.8 % with the limit and 3.0 % without it. If a receiver in
competition with a Reno flow reports an empty queue, its flow is 23 % faster than Reno without the
limit, and 20 % slower than Reno with it (mean of three seeds,
`bench/experiments/tests/hostile.rs`).

**A receiver that misreports delay gets a higher rate than an honest receiver, but never a higher
rate than with Reno.** With an honest receiver, `sync` yields to a Reno flow that fills the queue.
The following numbers are the rate of the `sync` flow, divided by the rate that a second Reno flow
gets in the same place. On a link of 10 Mbps and 40 ms with a queue of 60 packets, the ratio with an
honest receiver is 0.63 on quinn, 0.57 on noq and 0.49 on quiche. If the receiver reports an empty
queue, the ratio is 0.80 on quinn, 0.76 on noq and 0.59 on quiche.

In three other networks, the ratio is 0.10 to 0.30 with an honest receiver, and 0.42 to 0.81 if the
receiver reports an empty queue. With the laboratory's packet-level senders the difference is
larger. On a drop-tail link, the ratio is 0.08 with an honest receiver and 1.0 with a receiver that
misreports. If the queue marks packets, the ratios are 0.56 and 1.0.

So a receiver can gain by misreporting, and only the limit at Reno's window bounds its gain. The
next table has the same ratio for other misreports. Each rate is divided by the rate of Reno with an
honest receiver in the same place. Each cell has three ratios: for `sync`, for `sync:signal=rtt`,
and for Reno with the same misreport.

| the receiver | drop-tail queue: `sync`, `sync:signal=rtt`, Reno | marking queue: `sync`, `sync:signal=rtt`, Reno |
|---|---|---|
| reports the truth | 0.08, 0.08, 1 | 0.56, 0.56, 1 |
| acknowledges packets that have not arrived yet or will never arrive | 1.57, 1.57, 1.57 | 2.07, 2.07, 2.07 |
| sends timestamps that report an empty queue | 1.00, 0.08, 1.00 | 1.00, 0.56, 1.00 |
| never reports an ECN mark | 0.08, 0.08, 1.00 | 0.96, 0.96, 2.05 |
| reports an ECN mark for every packet | 0.08, 0.08, 1.00 | 0.08, 0.08, 0.08 |
| reports an acknowledgement delay of 25 ms without delaying any acknowledgement | 0.08, 0.18, 1.01 | 0.56, 1.00, 1.00 |
| delays every acknowledgement by 25 ms without reporting the delay | 0.06, 0.06, 0.71 | 0.15, 0.15, 0.55 |

No misreport gains more with `sync` than with Reno. False acknowledgements and unreported marks also
gain with Reno, so the stack has to detect them. quinn, noq and quiche sometimes skip a packet
number, and close the connection if the peer acknowledges the skipped number. These stacks also
check ECN counts (RFC 9000 §13.4.2). The check detects counts that are too small, but not marked
packets that are reported as unmarked. The command
`cargo test --release -p fathom-experiments --features quiche --test experiments-tests hostile -- --nocapture`
prints the ratios in this section.",
    figure: "Sync-TCP and the scripted queue",
    to_see: "By default `sync` may cut the window with every verdict, that is, after every three
ACKs. While the queueing delay stays at 40 ms, the average delay still rises slowly, so the window
stays at its minimum. Once the average falls, the window grows by half per round trip, up to Reno's
window.",
    weakness: "With the paper's cuts (`cut=verdict`), a lone bulk flow uses only 58 % of the link. The
flow cuts its window several times per round trip, before the first cut can shorten the queue. With
`cut=round`, the flow uses 98 % of the link, and its queue is two thirds of Reno's. If queueing
delays are well below a millisecond, even the largest delay is only noise. In this case, set
`floor`.

In competition with flows that fill the queue, `sync` gets little bandwidth. The table has the rates
of one `sync` flow and one competing flow on a link of 10 Mbps with a round trip of 20 ms. The rates
are from `fathom plan run sync-beside`, with five seeds and runs of 60 s. The options `trust` and
`cut` change only the last digit.

| buffer of the link | `sync` and Reno, Mbps | `sync` and CUBIC, Mbps |
|---|---|---|
| 25 packets | 0.92 and 8.9 | 0.58 and 9.2 |
| 136 packets | 0.17 and 9.6 | 0.14 and 9.7 |",
};
