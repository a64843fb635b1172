//! Counts of a controller's runs together.

use super::{FEW, MOSTLY};
use crate::scenario::{GroupOutcome, LimitTimes, LinkOutcome};

/// What one run counts: of a group of traffic, and of the link that its bodies cross.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted<'a> {
    pub(crate) group: &'a GroupOutcome,
    pub(crate) link: &'a LinkOutcome,
    /// How late the machine was, where the run is in real time: 99th percentile.
    pub(crate) late_ms: Option<f64>,
}

/// What the runs of one controller count, together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) label: String,
    /// Senders that were followed.
    senders: u64,
    /// Seconds by limit.
    times: Option<LimitTimes>,
    /// Live media: idle time is time without a frame.
    live: bool,
    /// Packets of bodies may overtake each other.
    pub(super) overtakes: bool,
    /// Reductions of the window for loss or marks; those taken back at once; those for delay.
    pub(super) cuts: u64,
    pub(super) undone: u64,
    pub(super) early: u64,
    /// Packets that the network lost of the senders', and that senders declared lost; those that arrived after all.
    lost: u64,
    pub(super) declared: Option<u64>,
    spurious: Option<u64>,
    /// Packets that came to the bottleneck's path, and what became of them.
    pub(super) arrived: u64,
    pub(super) path_lost: u64,
    pub(super) policed: u64,
    pub(super) cut_off: u64,
    pub(super) dropped: u64,
    pub(super) marked: u64,
    /// Mean part of the link that was used, percent.
    pub(super) used_percent: f64,
    /// Mean bytes of a packet, round-trip time, pacing rate, first window.
    pub(super) packet_bytes: Option<f64>,
    pub(super) rtt_ms: Option<f64>,
    pub(super) pace_bps: Option<f64>,
    pub(super) first_window: Option<f64>,
    pub(super) lost_early: u64,
    /// Bytes that reached clients, and of completed bodies; the mean body.
    delivered: u64,
    body: u64,
    pub(super) mean_size: f64,
    /// How late the machine was at worst, where runs are in real time: 99th percentile.
    pub(super) late_ms: Option<f64>,
}

/// The mean of what runs have.
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
    /// Of runs; bodies may overtake each other on the path, and are live media, or not.
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
            marked: links().map(|link| link.marked).sum::<u64>()
                + did().map(|did| did.ce_set).sum::<u64>(),
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

    /// Parts of the time that senders had something to send, or had it on its way.
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

    /// The part of the time that this limit held.
    pub(super) fn share(&self, name: &str) -> f64 {
        self.shares().iter().find(|(of, _)| *of == name).map_or(0.0, |(_, share)| *share)
    }

    /// Returns the packets that were declared lost and arrived: at least those beyond what the network lost. A stack's own count is
    /// smaller where it forgets packets before they are acknowledged.
    pub(super) fn spurious(&self) -> Option<u64> {
        let beyond = self.declared.map(|declared| declared.saturating_sub(self.lost));
        self.spurious.max(beyond)
    }

    /// Most of its losses were none.
    pub(super) fn is_mostly_spurious(&self) -> bool {
        let (Some(spurious), Some(declared)) = (self.spurious(), self.declared) else {
            return false;
        };
        declared >= FEW && spurious as f64 >= MOSTLY * declared as f64
    }

    /// Most of what the path took was taken by blackouts or the MTU.
    pub(super) fn is_mostly_cut_off(&self) -> bool {
        self.cut_off > self.path_lost.max(self.policed).max(self.dropped)
    }

    /// The network lost nothing of what it sent.
    pub(super) const fn lost_nothing(&self) -> bool {
        self.lost == 0
    }

    /// Most reductions were taken back though the network lost packets.
    pub(super) fn is_mostly_undone(&self) -> bool {
        // BBR's windows follow its estimate of the bandwidth, not cuts.
        !self.label.contains("bbr")
            && !self.lost_nothing()
            && self.cuts >= FEW
            && self.undone as f64 >= MOSTLY * self.cuts as f64
    }

    /// Bytes of bodies, percent of the bytes that reached clients; `None` where bodies are so small that headers count.
    pub(super) fn of_use_percent(&self) -> Option<f64> {
        /// From here on handshakes and headers are below a tenth.
        const LARGE: f64 = 100_000.0;
        /// UDP payload and stream bytes of a full packet (`DATAGRAM` and its overhead in `stack/mod.rs`).
        const PAYLOAD: f64 = 1_392.0 / 1_357.0;
        (self.mean_size >= LARGE && self.delivered > 0)
            .then(|| (100.0 * self.body as f64 * PAYLOAD / self.delivered as f64).min(100.0))
    }
}
