//! Counts of one controller, summed or averaged over its runs.

use super::{FEW, MOSTLY};
use crate::scenario::{GroupOutcome, LimitTimes, LinkOutcome};

/// Counts of one run: the counts of a group of traffic, and those of the link that carries the
/// bodies of this group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted<'a> {
    pub(crate) group: &'a GroupOutcome,
    pub(crate) link: &'a LinkOutcome,
    /// 99th percentile of the machine's lateness, in milliseconds, if the run was in real time.
    pub(crate) late_ms: Option<f64>,
}

/// Counts of one controller over all its runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) label: String,
    /// Senders that were followed.
    senders: u64,
    /// Time in seconds, by limit.
    times: Option<LimitTimes>,
    /// Whether the traffic is live media, whose idle time is time without a frame.
    live: bool,
    /// Whether packets of bodies may overtake each other on the path.
    pub(super) overtakes: bool,
    /// Window reductions: after loss or marks (`cuts`), undone in one step (`undone`), and after
    /// delay (`early`).
    pub(super) cuts: u64,
    pub(super) undone: u64,
    pub(super) early: u64,
    /// Numbers of packets: lost by the network (`lost`), declared lost by the senders (`declared`),
    /// and declared lost although they arrived (`spurious`).
    lost: u64,
    pub(super) declared: Option<u64>,
    spurious: Option<u64>,
    /// Packets that arrived at the path of the bottleneck, by the effect of the path on them.
    pub(super) arrived: u64,
    pub(super) path_lost: u64,
    pub(super) policed: u64,
    pub(super) cut_off: u64,
    pub(super) dropped: u64,
    pub(super) marked: u64,
    /// Mean utilisation of the link, in percent.
    pub(super) used_percent: f64,
    /// Means of the packet size in bytes, the RTT, the pacing rate and the initial window in bytes,
    /// followed by the bytes declared lost in the first ten round trips.
    pub(super) packet_bytes: Option<f64>,
    pub(super) rtt_ms: Option<f64>,
    pub(super) pace_bps: Option<f64>,
    pub(super) first_window: Option<f64>,
    pub(super) lost_early: u64,
    /// Bytes that reached clients (`delivered`), bytes of completed bodies (`body`), and the mean
    /// size of a body in bytes.
    delivered: u64,
    body: u64,
    pub(super) mean_size: f64,
    /// Worst lateness of the machine over the runs (99th percentile of each run), in milliseconds,
    /// if runs are in real time.
    pub(super) late_ms: Option<f64>,
}

/// Returns the mean of the values that exist; `None` if there are no values.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.flatten().collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn sum_of_times(all: impl Iterator<Item = LimitTimes>) -> Option<LimitTimes> {
    all.reduce(|a, b| LimitTimes {
        handshake_seconds: a.handshake_seconds + b.handshake_seconds,
        slow_start_seconds: a.slow_start_seconds + b.slow_start_seconds,
        congestion_window_seconds: a.congestion_window_seconds + b.congestion_window_seconds,
        pacing_seconds: a.pacing_seconds + b.pacing_seconds,
        flow_control_seconds: a.flow_control_seconds + b.flow_control_seconds,
        application_seconds: a.application_seconds + b.application_seconds,
        idle_seconds: a.idle_seconds + b.idle_seconds,
    })
}

impl Evidence {
    /// Sums up the counts of runs. `overtakes` tells whether bodies may overtake each other on the
    /// path, and `live` whether the traffic is live media.
    pub(crate) fn of(label: &str, runs: &[Counted<'_>], overtakes: bool, live: bool) -> Self {
        let groups = || runs.iter().map(|run| run.group);
        let limits = || groups().filter_map(|group| group.limits.as_ref());
        let links = || runs.iter().map(|run| run.link);
        let did = || links().filter_map(|link| link.impairments);
        let declared = |group: &GroupOutcome| {
            let by_stack =
                group.limits.and_then(|limits| limits.packets).map(|packets| packets.declared_lost);
            group.tcp.map(|tcp| tcp.retransmitted).or(by_stack)
        };
        let arrived = links().map(|link| link.arrived).sum::<u64>();
        Self {
            label: label.to_owned(),
            senders: limits().map(|of| of.senders).sum(),
            times: sum_of_times(limits().filter_map(|of| of.times)),
            live,
            overtakes,
            cuts: groups().map(|group| group.loss_reductions).sum(),
            undone: limits().map(|of| of.undone_reductions).sum(),
            early: groups().map(|group| group.early_reductions).sum(),
            lost: groups().map(|group| group.lost).sum(),
            declared: groups().map(declared).sum(),
            spurious: limits()
                .map(|of| of.spurious_losses)
                .sum::<Option<u64>>()
                .filter(|_| limits().count() > 0),
            arrived: did().map(|did| did.arrived).sum::<u64>().max(arrived),
            path_lost: did().map(|did| did.lost).sum(),
            policed: did().map(|did| did.policed).sum(),
            cut_off: did().map(|did| did.cut_off).sum(),
            dropped: links().map(|link| link.dropped).sum(),
            marked: links()
                .map(|link| {
                    let did = link.impairments.as_ref();
                    let (set, hidden) = did.map_or((0, 0), |did| (did.ce_set, did.hidden));
                    link.marked.saturating_sub(hidden) + set
                })
                .sum(),
            used_percent: mean(links().map(|link| Some(link.utilisation_percent)))
                .unwrap_or_default(),
            packet_bytes: mean(limits().map(|of| of.packets.map(|packets| packets.mean_bytes))),
            rtt_ms: mean(limits().map(|of| of.rtt_mean_ms.or(of.rtt_smoothed_ms))),
            pace_bps: mean(limits().map(|of| of.pacing_mean_bps)),
            first_window: mean(limits().map(|of| of.first_window_bytes)),
            lost_early: limits().map(|of| of.lost_early_bytes).sum(),
            delivered: limits().map(|of| of.delivered_bytes).sum(),
            body: groups().map(|group| group.body_bytes).sum(),
            mean_size: mean(groups().map(|group| (group.responses > 0).then_some(group.mean_size)))
                .unwrap_or_default(),
            late_ms: runs.iter().filter_map(|run| run.late_ms).reduce(f64::max),
        }
    }

    pub(crate) const fn is_known(&self) -> bool {
        self.senders > 0
    }

    /// Returns each limit's share of the time in which senders had data to send or in flight.
    pub(crate) fn shares(&self) -> Vec<(&'static str, f64)> {
        let Some(times) = &self.times else { return Vec::new() };
        let idle = if self.live { times.idle_seconds } else { 0.0 };
        let all = [
            ("handshake", times.handshake_seconds),
            ("slow_start", times.slow_start_seconds),
            ("congestion_window", times.congestion_window_seconds),
            ("pacing", times.pacing_seconds),
            ("flow_control", times.flow_control_seconds),
            ("application", times.application_seconds + idle),
        ];
        let whole: f64 = all.iter().map(|(_, seconds)| seconds).sum();
        if whole <= 0.0 {
            return Vec::new();
        }
        all.iter().map(|(name, seconds)| (*name, seconds / whole)).collect()
    }

    /// Returns the share of the time in which this limit applied.
    pub(super) fn share(&self, name: &str) -> f64 {
        self.shares().iter().find(|(of, _)| *of == name).map_or(0.0, |(_, share)| *share)
    }

    /// Returns the number of packets that were declared lost but arrived. It is at least the number
    /// of declared losses minus the losses of the network. The stack's own count is lower if the
    /// stack forgets packets before they are acknowledged.
    pub(super) fn spurious(&self) -> Option<u64> {
        let beyond = self.declared.map(|declared| declared.saturating_sub(self.lost));
        self.spurious.max(beyond)
    }

    /// Returns whether most of the declared losses were spurious.
    pub(super) fn is_mostly_spurious(&self) -> bool {
        let (Some(spurious), Some(declared)) = (self.spurious(), self.declared) else {
            return false;
        };
        declared >= FEW && spurious as f64 >= MOSTLY * declared as f64
    }

    /// Returns whether blackouts and the MTU dropped more packets than any other cause.
    pub(super) fn is_mostly_cut_off(&self) -> bool {
        self.cut_off > self.path_lost.max(self.policed).max(self.dropped)
    }

    /// Returns whether the network lost none of the senders' packets.
    pub(super) const fn lost_nothing(&self) -> bool {
        self.lost == 0
    }

    /// Returns whether most window reductions were undone although the network lost packets.
    pub(super) fn is_mostly_undone(&self) -> bool {
        // BBR's window follows its bandwidth estimate instead of reductions.
        !self.label.contains("bbr")
            && !self.lost_nothing()
            && self.cuts >= FEW
            && self.undone as f64 >= MOSTLY * self.cuts as f64
    }

    /// Returns the bytes of bodies in percent of the bytes that reached clients. Returns `None` if
    /// bodies are so small that headers matter.
    pub(super) fn of_use_percent(&self) -> Option<f64> {
        /// Minimum mean size of bodies in bytes. Bodies of this size have handshakes and headers of
        /// less than a tenth of the bytes.
        const LARGE: f64 = 100_000.0;
        /// Ratio of UDP payload to stream bytes in a full packet (`DATAGRAM` and its overhead in
        /// `stack/mod.rs`).
        const PAYLOAD: f64 = 1_392.0 / 1_357.0;
        (self.mean_size >= LARGE && self.delivered > 0)
            .then(|| (100.0 * self.body as f64 * PAYLOAD / self.delivered as f64).min(100.0))
    }
}
