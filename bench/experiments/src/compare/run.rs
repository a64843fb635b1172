//! One run of a comparison as a scenario: one controller, Sync-TCP's network with one bottleneck, one sequence of requests.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fathom_cc::Rate;
use fathom_netsim::backend::Backend;
use parking_lot::Mutex;

use super::plan::Checked;
use super::responses::ResponseLog;
use super::result::{ComparedRun, FORWARD, REVERSE};
use crate::scenario::{
    Chain, Cost, KeepSpec, Outcome, Progress, ResponseSpool, RunControl, RunError, Scenario,
    ScenarioError, Stop, TcpSettings, Traffic, Workload, run_with,
};
use crate::stack::{Controller, DATAGRAM, IDLE, Stack};
use crate::study::StudyRun;

/// One run to be made.
pub(super) struct RunSpec<'a> {
    pub(super) plan: &'a Checked,
    /// What reports call it.
    pub(super) label: String,
    /// Controller of both ends of every connection.
    pub(super) controller: Controller,
    /// Stack of both ends.
    pub(super) stack: Stack,
    /// Rate of all links.
    pub(super) link: Rate,
    /// Of everything random.
    pub(super) seed: u64,
    /// Where it runs.
    pub(super) backend: Backend,
    /// Ends the run when it is set.
    pub(super) interrupt: Arc<AtomicBool>,
    /// Keeps every response.
    pub(super) response_log: Option<&'a ResponseLog>,
}

impl RunSpec<'_> {
    /// Runs `scenario`, which is its own, on the calling thread. `progress` counts its responses.
    ///
    /// # Errors
    /// The run could not be set up, did not end, or failed its own checks.
    pub(super) fn run(
        &self,
        scenario: &Scenario,
        progress: Progress,
    ) -> Result<(Outcome, Cost), ScenarioError> {
        let kept = |e: io::Error| ScenarioError::from(RunError::Responses(e.to_string()));
        let responses = self
            .response_log
            .map(|_| ResponseSpool::new().map(|spool| Arc::new(Mutex::new(spool))));
        let responses = responses.transpose().map_err(kept)?;
        let control = RunControl {
            progress,
            interrupt: Arc::clone(&self.interrupt),
            responses: responses.clone(),
        };
        match run_with(scenario, self.seed, &control) {
            Ok((outcome, cost)) => {
                if let Some((log, rows)) = self.response_log.zip(responses) {
                    let groups = scenario.traffic.iter().map(|group| group.name.clone()).collect();
                    let run = (self.controller.spec(), self.stack, self.backend, self.seed);
                    log.add(run, groups, &mut rows.lock()).map_err(kept)?;
                }
                Ok((outcome, cost))
            }
            Err(ScenarioError::Run(e)) => Err(e.named(&self.name()).into()),
            Err(e) => Err(e),
        }
    }

    /// Returns it as a run of a study.
    pub(super) fn study_run(&self) -> StudyRun {
        let key = [
            ("backend".to_owned(), self.backend.to_string()),
            ("controller".to_owned(), self.controller.spec()),
            ("stack".to_owned(), self.stack.to_string()),
        ];
        StudyRun::of_scenario(key.into(), self.seed, self.scenario())
    }

    /// As messages call it: its label, and its seed where there are several.
    pub(super) fn name(&self) -> String {
        let several = self.plan.seeds.start() != self.plan.seeds.end();
        if several { format!("{}, seed {}", self.label, self.seed) } else { self.label.clone() }
    }

    /// The link that bodies cross.
    fn bottleneck(&self) -> &'static str {
        if self.plan.workload.goes_up() { REVERSE.1 } else { FORWARD.1 }
    }

    pub(super) fn scenario(&self) -> Scenario {
        let plan = self.plan;
        let chain = match &plan.path {
            Some(path) => Chain::of_path(path.clone()),
            None => Chain::one_bottleneck(self.link, plan.queue),
        };
        let group = |name: &str, (from, to), workload| Traffic {
            name: name.to_owned(),
            stack: self.stack,
            // All stacks get the same requests.
            load_stack: plan.runs.first().map_or(self.stack, |(stack, _)| *stack),
            tcp: TcpSettings::default(),
            from,
            to,
            access: chain.access,
            acks_queue: true,
            mix: vec![(1.0, self.controller.clone())],
            workload,
            connections: plan.connections,
            datagram: DATAGRAM,
            max_window: plan.max_window,
            drift: 0,
            misreport: None,
            streams: 1,
            patience: None,
            idle: IDLE,
            counted: name == FORWARD.0,
        };
        let mut traffic = vec![group(FORWARD.0, (0, 1), plan.workload)];
        // On the built-in network web traffic goes both ways (Sync-TCP §4.1).
        if plan.path.is_none() && matches!(plan.workload, Workload::Web { .. }) {
            traffic.push(group(REVERSE.0, (1, 0), plan.workload));
        }
        // The uncongested network has nobody else on it.
        let uncongested = plan.path.is_none() && self.link != plan.link;
        let beside = if uncongested { &[][..] } else { &plan.beside[..] };
        let others: Vec<Traffic> =
            beside.iter().filter_map(|beside| beside.traffic(&traffic[0])).collect();
        let background =
            beside.iter().filter_map(|beside| beside.background(&traffic[0])).collect();
        traffic.extend(others);
        // Of few and long flows; thousands of short ones have no shares worth a look.
        let bulk = matches!(plan.workload, Workload::Bulk { .. });
        let keep = KeepSpec {
            queue: vec![self.bottleneck().to_owned()],
            window: vec![FORWARD.0.to_owned()],
            shares: bulk.then(|| FORWARD.1.to_owned()),
            ..KeepSpec::default()
        };
        Scenario {
            chain,
            traffic,
            background,
            stop: Stop::Responses(plan.responses),
            warm_up: Duration::ZERO,
            backend: self.backend,
            timestamps: plan.timestamps,
            shaping: plan.shaping,
            mtu_discovery: plan.mtu_discovery,
            gso: plan.gso,
            keep,
        }
    }

    pub(super) fn result(&self, outcome: Outcome) -> ComparedRun {
        ComparedRun {
            label: self.label.clone(),
            controller: self.controller.spec(),
            stack: self.stack,
            backend: self.backend,
            seed: self.seed,
            link: self.link.to_string(),
            bottleneck: self.bottleneck().to_owned(),
            outcome,
        }
    }
}

/// Returns the scenario of every stack and controller, whose settings all other runs share.
pub(super) fn scenarios(plan: &Checked) -> Vec<Scenario> {
    let spec = |(stack, controller): &(Stack, Controller)| RunSpec {
        plan,
        label: controller.spec(),
        controller: controller.clone(),
        stack: *stack,
        link: plan.link,
        seed: *plan.seeds.start(),
        backend: Backend::Virtual,
        interrupt: Arc::default(),
        response_log: None,
    };
    plan.runs.iter().map(|run| spec(run).scenario()).collect()
}
