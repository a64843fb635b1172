//! What a run says in the end: data only, so that it can be stored, merged and looked at later.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measure::{Distribution, WindowPoint};

/// One run. Nothing in it depends on the machine or the wall clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Virtual seconds it took.
    pub seconds: f64,
    /// Router links by name, `left-right` and `right-left`.
    pub links: BTreeMap<String, LinkOutcome>,
    /// Groups of traffic by name. A group with several controllers has an entry per controller besides, `group/controller`.
    pub groups: BTreeMap<String, GroupOutcome>,
    /// Hash over every step of every packet.
    pub trace_hash: String,
}

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkOutcome {
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets marked.
    pub marked: u64,
    /// Dropped, percent of those that arrived.
    pub drops_percent: f64,
    /// Mean queue in packets over time.
    pub mean_queue: f64,
    /// Largest queue in packets.
    pub max_queue: usize,
    /// Time it was sending, percent.
    pub utilisation_percent: f64,
    /// Bits per second over it, headers included.
    pub throughput_bps: f64,
    /// Width of the bins below in seconds; 0 where the queue was not kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bin_seconds: f64,
    /// Mean queue in packets per bin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_mean: Vec<f64>,
    /// Largest queue in packets per bin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_max: Vec<f64>,
}

// The signature is serde's.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(x: &f64) -> bool {
    *x == 0.0
}

/// A group of traffic, or those of its connections that have one controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupOutcome {
    /// Connections opened.
    pub connections: u64,
    /// Responses completed.
    pub responses: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Bytes of completed bodies.
    pub body_bytes: u64,
    /// Mean size of the completed responses in bytes.
    pub mean_size: f64,
    /// Mean over responses of size / time, in kbit/s (Sync-TCP table 1).
    pub goodput_per_response_kbps: f64,
    /// Response times.
    pub times: Option<Distribution>,
    /// Response times of responses larger than 25 kB (Sync-TCP figure 9).
    pub times_large: Option<Distribution>,
    /// Bits per second that reached the group's clients, UDP payload, from the end of the warm-up on.
    pub throughput_bps: f64,
    /// The same for each flow, where the group's flows last as long as the run; in the order of their starts.
    pub flows: Vec<FlowOutcome>,
    /// Datagrams its servers sent.
    pub sent: u64,
    /// Datagrams of them that were dropped on the way.
    pub lost: u64,
    /// Probe timeouts that ran out at its senders, as far as the stack tells.
    pub probe_timeouts: u64,
    /// Early (delay-based) window reductions of its senders.
    pub early_reductions: u64,
    /// Window reductions after loss or mark.
    pub loss_reductions: u64,
    /// Senders whose peer agreed to tell them one-way delays.
    pub hears_one_way: u64,
    /// Size in bytes of the response, or number of the flow, whose window is traced.
    pub traced: u64,
    /// That sender's window over time, where it was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub window: Vec<WindowPoint>,
    /// Round-trip times and the losses after them, where they were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt: Option<RttOutcome>,
}

/// A flow that lasts as long as the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowOutcome {
    /// Bits per second that reached its client, UDP payload, from the end of the warm-up on.
    pub throughput_bps: f64,
    /// Datagrams its server sent.
    pub sent: u64,
    /// Datagrams of them that were dropped.
    pub lost: u64,
    /// Probe timeouts that ran out.
    pub probe_timeouts: u64,
}

/// The tcpRTT series of the group's one flow (DCA §3.1).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RttOutcome {
    /// Seconds of world time, round-trip time in seconds, and whether the next packet sent after it was lost.
    pub samples: Vec<(f64, f64, bool)>,
}
