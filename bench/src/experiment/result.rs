//! What runs and comparisons bring, as reports and JSON have it. Nothing here depends on the machine or the wall clock: the same plan
//! gives the same bytes.

use fathom_metrics::{Distribution, WindowPoint};
use fathom_netsim::backend::{Backend, Punctuality};
use serde::{Deserialize, Serialize};

use super::plan::Plan;
use crate::scenario::SharesOverTime;
use crate::stack::Stack;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Controller and, where several are compared, stack and backend: its name in reports.
    pub label: String,
    /// Controller and options.
    pub controller: String,
    /// Stack of both ends.
    pub stack: Stack,
    /// Where it ran.
    #[serde(rename = "world", default, skip_serializing_if = "Backend::is_virtual")]
    pub backend: Backend,
    /// Rate of the links.
    pub link: String,
    /// Virtual seconds until the last response counted.
    pub seconds: f64,
    /// Responses completed in the forward direction.
    pub responses: u64,
    /// Requests that failed in the forward direction.
    pub failed: u64,
    /// Packets dropped at the forward bottleneck, percent of those that arrived there.
    pub drops_percent: f64,
    /// Packets that arrived there.
    pub arrived: u64,
    /// Packets dropped there.
    pub dropped: u64,
    /// Packets marked there, percent of those that arrived.
    pub marks_percent: f64,
    /// Mean queue there in packets, over time.
    pub mean_queue: f64,
    /// Largest queue there in packets.
    pub max_queue: usize,
    /// Time the forward bottleneck was sending, percent.
    pub utilisation_percent: f64,
    /// Bits per second over the forward bottleneck, headers included.
    pub throughput_bps: f64,
    /// The same for the reverse bottleneck.
    pub reverse_throughput_bps: f64,
    /// Bytes of completed response bodies per second, in bits per second.
    pub goodput_bps: f64,
    /// Mean size of the completed responses in bytes.
    pub mean_size: f64,
    /// Mean over responses of size / time, in kbit/s.
    pub goodput_per_response_kbps: f64,
    /// Response times.
    pub times: Distribution,
    /// Response times of responses larger than 25 kB.
    pub times_large: Distribution,
    /// Forward senders whose peer agreed to tell them one-way delays, percent of all.
    pub one_way_percent: f64,
    /// Early (delay-based) window reductions of all forward senders.
    pub early_reductions: u64,
    /// Window reductions after loss of all forward senders.
    pub loss_reductions: u64,
    /// Width of the bins below, in seconds.
    pub bin_seconds: f64,
    /// Mean queue in packets, per bin.
    pub queue_mean: Vec<f64>,
    /// Largest queue in packets, per bin.
    pub queue_max: Vec<f64>,
    /// Size in bytes of the response whose window is traced: the largest of the first half.
    pub traced_bytes: u64,
    /// Its sender's window over time.
    pub window: Vec<WindowPoint>,
    /// What each flow got of the forward bottleneck, where flows are few and long enough to ask.
    pub shares: Option<SharesOverTime>,
    /// How punctual the machine was, in a real-time run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub punctuality: Option<Punctuality>,
    /// Hash over the requests this run made, as far as the comparison's own: equal when it was asked the same.
    pub request_hash: String,
    /// Hash over every step of every packet: the regression test of determinism.
    pub trace_hash: String,
}

/// The same requests on a network that is not congested.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// New connections per second, forward and reverse.
    pub rates: [f64; 2],
    /// Load offered to the link, percent, forward and reverse: throughput on the uncongested network / rate of the link.
    pub offered_percent: [f64; 2],
    /// Runs it took to calibrate the rates.
    pub calibration_runs: u32,
    /// The run itself.
    pub run: RunResult,
}

/// A comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The plan that was run.
    pub plan: Plan,
    /// Hash over the request sequence, the same for every run.
    pub request_hash: String,
    /// One run per controller, in the plan's order.
    pub runs: Vec<RunResult>,
    /// The uncongested network (web traffic only).
    pub reference: Option<Reference>,
    /// Runs of the plan that have no result, as the comparison was interrupted or they failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<Missing>,
}

/// A run that has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// What reports would call it.
    pub label: String,
    /// Its controller.
    pub controller: String,
    /// Why it has none.
    pub why: String,
}

impl Comparison {
    /// Adds the runs of the same plan from other backends, and sorts the backends by `order`.
    pub fn merge(&mut self, other: Self, order: &[Backend]) {
        let place = |backend: Backend| order.iter().position(|w| *w == backend);
        self.plan.backends.extend(other.plan.backends);
        self.plan.backends.sort_by_key(|backend| place(*backend));
        self.runs.extend(other.runs);
        self.runs.sort_by_key(|run| place(run.backend));
        self.incomplete.extend(other.incomplete);
        for run in &mut self.runs {
            run.label = name(&self.plan, &run.controller, run.stack, run.backend);
        }
    }
}

/// A run's label: its controller, and its stack and backend where the plan has several.
pub(super) fn name(plan: &Plan, controller: &str, stack: Stack, backend: Backend) -> String {
    let mut name = controller.to_owned();
    if plan.stacks.len() > 1 {
        name += &format!(" on {stack}");
    }
    if plan.backends.len() > 1 {
        name += &format!(", {backend}");
    }
    name
}
