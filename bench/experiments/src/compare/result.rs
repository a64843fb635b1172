//! Results of runs and comparisons, as reports and JSON contain them. In virtual time, results
//! depend on neither the machine nor the wall clock: the same plan gives the same bytes, unless a
//! controller takes random numbers that no seed sets.

use std::sync::LazyLock;

use fathom_metrics::{Distribution, round};
use fathom_netsim::backend::Backend;
use fathom_netsim::path::PathEvent;
use serde::{Deserialize, Serialize};

use super::plan::{FORWARD, Plan, REVERSE};
use crate::scenario::{GroupOutcome, LinkOutcome, Outcome};
use crate::stack::Stack;

/// One run of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedRun {
    /// Name in reports: the controller, with its stack and backend if several are compared.
    pub label: String,
    /// Controller with its options.
    pub controller: String,
    /// Stack of both ends.
    pub stack: Stack,
    /// Backend of the run.
    #[serde(default, skip_serializing_if = "Backend::is_virtual")]
    pub backend: Backend,
    /// Seed of the run.
    pub seed: u64,
    /// Rate of the links; with a path, the rate from servers to clients.
    pub link: String,
    /// Link that the bodies of the forward group cross.
    #[serde(default = "forward_link", skip_serializing_if = "is_forward")]
    pub bottleneck: String,
    /// Outcome of the group `forward`, of the group `reverse` for web traffic on the built-in
    /// network, of cross traffic, and of the links.
    pub outcome: Outcome,
}

fn forward_link() -> String {
    FORWARD.1.to_owned()
}

fn is_forward(link: &str) -> bool {
    link == FORWARD.1
}

impl ComparedRun {
    /// Returns the outcome of the bottleneck: the link that the bodies of the forward group cross.
    pub fn forward(&self) -> &LinkOutcome {
        static NONE: LazyLock<LinkOutcome> = LazyLock::new(LinkOutcome::default);
        self.outcome.links.get(&self.bottleneck).unwrap_or(&NONE)
    }

    /// Returns the outcome of the forward group.
    pub fn group(&self) -> &GroupOutcome {
        static NONE: LazyLock<GroupOutcome> = LazyLock::new(GroupOutcome::default);
        self.outcome.groups.get(FORWARD.0).unwrap_or(&NONE)
    }

    /// Returns the response times of the forward group; `None` if no response was completed.
    pub fn times(&self) -> Option<&Distribution> {
        self.group().times.as_ref().filter(|times| times.count > 0)
    }

    /// Returns the response times of responses larger than 25 kB; `None` if no such response was
    /// completed.
    pub fn times_large(&self) -> Option<&Distribution> {
        self.group().times_large.as_ref().filter(|times| times.count > 0)
    }
}

/// A run with Reno and the first seed on a network that is not congested.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// Throughput of the uncongested network, forward and reverse, in percent of the bottleneck's
    /// rate: the offered load, as Sync-TCP §4.2 measures it.
    pub carried_percent: [f64; 2],
    /// The run on the uncongested network.
    pub run: ComparedRun,
}

impl Reference {
    /// Returns the reference for this run. `link` is the rate of the bottleneck in bits per second.
    pub(super) fn new(run: ComparedRun, link: u64) -> Self {
        let bits = |link: &str| run.outcome.links.get(link).map_or(0.0, |l| l.throughput_bps);
        let carried_percent =
            [FORWARD, REVERSE].map(|(_, name)| round(100.0 * bits(name) / link as f64, 2));
        Self { carried_percent, run }
    }
}

/// Plan and results of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The plan that was run.
    pub plan: Plan,
    /// Hash over the requests of the first seed, the same for every controller. Each run has the
    /// hash for its own seed.
    pub request_hash: String,
    /// A run per backend, stack, controller and seed, in the plan's order; the seed varies fastest.
    pub runs: Vec<ComparedRun>,
    /// Run on the uncongested network; only for web traffic on the built-in network.
    pub reference: Option<Reference>,
    /// Runs of the plan without a result, because they failed or were interrupted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<Missing>,
}

/// A run that has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Name that reports would use.
    pub label: String,
    /// Controller of the run.
    pub controller: String,
    /// Seed of the run.
    pub seed: u64,
    /// Reason why the run has no result.
    pub why: String,
}

/// A controller on a stack and a backend: its runs, one per seed.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    /// Name in reports.
    pub label: &'a str,
    /// Runs in the order of their seeds, at least one.
    pub runs: Vec<&'a ComparedRun>,
}

impl Comparison {
    /// Returns the candidates in the plan's order, one per label. If the seeds change nothing, each
    /// candidate has only its first run.
    pub fn candidates(&self) -> Vec<Candidate<'_>> {
        let mut candidates = self.by_label();
        if self.seeds_are_one_run() {
            candidates.iter_mut().for_each(|of| of.runs.truncate(1));
        }
        candidates
    }

    /// Returns the candidates with all of their runs.
    pub(super) fn by_label(&self) -> Vec<Candidate<'_>> {
        let mut candidates: Vec<Candidate<'_>> = Vec::new();
        for run in &self.runs {
            match candidates.iter_mut().find(|candidate| candidate.label == run.label) {
                Some(candidate) => candidate.runs.push(run),
                None => candidates.push(Candidate { label: &run.label, runs: vec![run] }),
            }
        }
        candidates
    }

    /// Returns a sentence for the runs without a result, for each label and reason.
    pub fn missing(&self) -> Vec<String> {
        let mut all: Vec<(&str, &str)> = Vec::new();
        for run in &self.incomplete {
            let of = (&*run.label, &*run.why);
            if !all.contains(&of) {
                all.push(of);
            }
        }
        let missing = |label: &str| self.incomplete.iter().filter(|run| run.label == label).count();
        let line = |(label, why): (&str, &str)| match self
            .plan
            .seeds
            .saturating_sub(missing(label) as u64)
        {
            0 => format!("INCOMPLETE: no results of {label} ({why})"),
            there => {
                format!(
                    "INCOMPLETE: {label} has results of only {there} of {} seeds ({why})",
                    self.plan.seeds
                )
            }
        };
        all.into_iter().map(line).collect()
    }

    /// Returns a sentence for each event of the path that came after the end of at least one run
    /// and had no effect there. The first part of each pair says whether the event came after the
    /// end of every run.
    pub fn late_events(&self) -> Vec<(bool, String)> {
        let events = self.plan.path.events().unwrap_or_default();
        let ends = || self.runs.iter().map(|run| run.outcome.seconds);
        let line = |event: &PathEvent| {
            let at = event.at()?.as_secs_f64();
            let late = ends().filter(|end| *end <= at).count();
            let all = self.runs.len();
            if late == 0 {
                return None;
            }
            let words = if late == all {
                let longest = ends().fold(0.0, f64::max);
                format!("came after the end of every run (the longest run took {longest:.1} s)")
            } else {
                let shortest = ends().fold(f64::INFINITY, f64::min);
                format!(
                    "came after the end of {late} of {all} runs (the shortest run took \
                     {shortest:.1} s)"
                )
            };
            let hint = "write an earlier time, or make runs longer";
            Some((
                late == all,
                format!("event '{event}' {words}, so it had no effect in these runs; {hint}"),
            ))
        };
        events.iter().filter_map(line).collect()
    }

    /// Returns a note if the direction opposite to the bodies was full or dropped packets, on
    /// average over the runs. Its queue affects the ranking, too, and no measure of the bottleneck
    /// shows it. `None` if bodies travel in both directions.
    pub fn full_other_direction(&self) -> Option<String> {
        /// Minimum mean utilisation, in percent, of a direction that counts as full.
        const USED_PERCENT: f64 = 90.0;
        const DROPPED_PERCENT: f64 = 1.0;
        // With bodies in both directions, each is the other's bottleneck.
        if self.runs.iter().any(|run| run.outcome.groups.contains_key(REVERSE.0)) {
            return None;
        }
        let back = |run: &ComparedRun| {
            let other = if is_forward(&run.bottleneck) { REVERSE } else { FORWARD };
            run.outcome
                .links
                .get(other.1)
                .filter(|link| link.arrived > 0)
                .map(|l| (l.utilisation_percent, l.drops_percent))
        };
        let all: Vec<(f64, f64)> = self.runs.iter().filter_map(back).collect();
        let mean =
            |of: fn(&(f64, f64)) -> f64| all.iter().map(of).sum::<f64>() / all.len().max(1) as f64;
        let (used, dropped) = (mean(|back| back.0), mean(|back| back.1));
        let said = if used >= USED_PERCENT {
            format!("was full (utilisation {used:.0} %, {dropped:.0} % of its packets dropped)")
        } else if dropped >= DROPPED_PERCENT {
            format!("dropped {dropped:.0} % of its packets at a utilisation of {used:.0} %")
        } else {
            return None;
        };
        Some(format!(
            "the direction of requests and acknowledgements {said}. No column of the table shows \
             this queue, but the ranking depends on it. To keep the queue empty, lower --load, or \
             use --workload page, which opens fewer connections"
        ))
    }

    /// Adds the runs of the same plan on other backends, and sorts backends and runs by `order`.
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

/// Returns the label of a run: its controller, with its stack and backend if the plan has several.
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
