//! Limits of the senders of a group, as data.

use fathom_metrics::round;
use serde::{Deserialize, Serialize};

use super::Traffic;
use super::sender_watch::SenderTimes;
use crate::stack::SenderReport;

/// Limits of the senders of a group of traffic after the warm-up. The first windows and early
/// losses also include senders that began during the warm-up. Figures that a stack does not report
/// are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitOutcome {
    /// Senders that were observed.
    pub senders: u64,
    /// Seconds by limit, summed over all senders. `None` for uploads, because the application that
    /// sends an upload is not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<LimitTimes>,
    /// Packets that senders sent, and packets that they declared lost (RFC 9002 §6.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<SentPackets>,
    /// Packets declared lost that were acknowledged later. `None` for stacks that do not count such
    /// packets; quiche does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spurious_losses: Option<u64>,
    /// Window reductions after loss or marks that were undone in one step.
    pub undone_reductions: u64,
    /// Bytes declared lost within ten round trips of the start of a connection.
    pub lost_early_bytes: u64,
    /// Mean of the senders' first windows in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_window_bytes: Option<f64>,
    /// Mean in milliseconds of the round-trip times that acknowledgements measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_mean_ms: Option<f64>,
    /// Mean over senders of the last smoothed round-trip time, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_smoothed_ms: Option<f64>,
    /// Mean over acknowledgements of the controller's pacing rate in bits per second; `None` if the
    /// controller sets no pacing rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing_mean_bps: Option<f64>,
    /// Last pacing rate of the controller in bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing_last_bps: Option<f64>,
    /// Bytes of UDP payload that reached the receivers of bodies (clients; for uploads, servers)
    /// after the warm-up.
    pub delivered_bytes: u64,
}

/// Seconds under each limit of a sender. A sender has one limit at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitTimes {
    /// Time before the handshake was complete.
    pub handshake_seconds: f64,
    /// Time with a full congestion window, before the first loss, mark or early reduction.
    pub slow_start_seconds: f64,
    /// Time with a full congestion window, after the first loss, mark or early reduction.
    pub congestion_window_seconds: f64,
    /// Time in which the window was open and the stack had more to send, but pacing delayed it.
    pub pacing_seconds: f64,
    /// Time in which the window was open and the application had more than the stack accepted,
    /// because of flow control or the stack's send buffer.
    pub flow_control_seconds: f64,
    /// Time in which packets were in flight and the application had nothing more to send.
    pub application_seconds: f64,
    /// Time in which nothing was in flight and there was nothing to send.
    pub idle_seconds: f64,
}

/// Counts of packets by the stacks themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SentPackets {
    /// Packets sent.
    pub sent: u64,
    /// Packets declared lost.
    pub declared_lost: u64,
    /// Mean UDP payload in bytes.
    pub mean_bytes: f64,
}

impl LimitOutcome {
    /// Returns the limits of a group's senders, or `None` if no sender was observed.
    pub(super) fn of(
        traffic: &Traffic,
        did: &SenderReport,
        limited: &SenderTimes,
        delivered: u64,
    ) -> Option<Self> {
        let (stats, n) = (did.stats, limited.senders as f64);
        let seconds = |time: std::time::Duration| round(time.as_secs_f64(), 6);
        let ms = |time: std::time::Duration, count: u64| {
            (count > 0).then(|| round(time.as_secs_f64() * 1e3 / count as f64, 3))
        };
        let uploads = traffic.workload.goes_up();
        (limited.senders > 0).then(|| Self {
            senders: limited.senders,
            times: (!uploads).then(|| LimitTimes {
                handshake_seconds: seconds(limited.handshake),
                slow_start_seconds: seconds(limited.slow_start),
                congestion_window_seconds: seconds(limited.congestion_window),
                pacing_seconds: seconds(limited.pacing),
                flow_control_seconds: seconds(limited.flow_control),
                application_seconds: seconds(limited.application),
                idle_seconds: seconds(limited.idle),
            }),
            packets: (stats.told > 0).then(|| SentPackets {
                sent: stats.sent,
                declared_lost: stats.lost,
                mean_bytes: round(stats.sent_bytes as f64 / stats.sent.max(1) as f64, 1),
            }),
            spurious_losses: (stats.told > 0 && stats.tell_spurious == stats.told)
                .then_some(stats.spurious),
            undone_reductions: limited.undone,
            lost_early_bytes: limited.lost_early,
            first_window_bytes: (limited.first_windows > 0)
                .then(|| round(limited.first_windows as f64 / n, 0)),
            rtt_mean_ms: ms(limited.round_trips, limited.samples),
            rtt_smoothed_ms: ms(stats.smoothed, stats.round_trips),
            pacing_mean_bps: (limited.paces > 0)
                .then(|| round(limited.pace_sum / limited.paces as f64, 0)),
            pacing_last_bps: (limited.paces > 0).then(|| round(limited.last_pace, 0)),
            delivered_bytes: delivered,
        })
    }
}
