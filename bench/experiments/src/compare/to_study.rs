//! Conversion of a comparison to a study. Its sweep combines every backend, stack and controller.
//!
//! The scenario is Sync-TCP's network with one bottleneck, or the path that the plan describes.

use std::collections::BTreeMap;

use fathom_cc::units::duration_text;
use fathom_cc::{Invalid, Rate};
use fathom_netsim::backend::Backend;
use fathom_netsim::sim::WIRE_OVERHEAD;
use fathom_traffic::Arrivals;
use serde::{Serialize, Serializer};
use toml::{Table, Value};

use super::plan::{Checked, FORWARD, Plan, REVERSE};
use crate::scenario::{
    AccessSpec, KeepSpec, NetworkSpec, ScenarioSpec, TcpSpec, TrafficSpec, Workload, check_used,
};
use crate::stack::{Controller, DATAGRAM, IDLE, Stack};
use crate::study::{Axis, Study};

/// Names of the sweep's axes. The last axis varies fastest.
const AXES: [&str; 3] = ["backend", "stack", "controller"];

/// Left and right router of every network of a comparison. The servers of the forward group are on
/// the left, its clients on the right.
const ENDS: (&str, &str) = ("left", "right");

impl Plan {
    /// Returns the study that runs this plan. `checked` comes from the same plan.
    ///
    /// # Errors
    /// Returns the first error of a scenario.
    pub(super) fn study(&self, checked: &Checked) -> Result<Study, Invalid> {
        let written = self.written_controllers(checked);
        let of_backend = |backend: &Backend| {
            let runs = checked.runs.iter().zip(written.iter().cycle());
            runs.map(|((stack, _), controller)| (*backend, *stack, controller)).collect::<Vec<_>>()
        };
        let points = self.backends.iter().flat_map(of_backend).map(|run| {
            let (backend, stack, controller) = run;
            let key = [backend.to_string(), stack.to_string(), controller.clone()];
            let key = AXES.iter().map(|name| (*name).to_owned()).zip(key).collect();
            (key, self.scenario(checked, run, checked.link))
        });
        let points: Vec<_> = points.collect();
        let values = [
            self.backends.iter().map(Backend::to_string).collect(),
            self.stacks.iter().map(Stack::to_string).collect(),
            written,
        ];
        let axes = AXES
            .iter()
            .zip(values)
            .map(|(name, values): (_, Vec<String>)| Axis { name: (*name).to_owned(), values });
        Study::from_specs("compare", QUESTION, axes.collect(), points)?
            .with_seeds(self.seeds)?
            .with_seed(self.seed)
            .and_then(|study| check_used(&study.scenarios(), "path").map(|()| study))
    }

    /// Returns the controllers in one spelling. A name such as `native:bbr` that means another
    /// controller on each stack stays as it is.
    pub(super) fn written_controllers(&self, checked: &Checked) -> Vec<String> {
        let n = self.controllers.len();
        let written = |i: usize| {
            let mut specs = checked.runs.iter().skip(i).step_by(n).map(|(_, of)| of.spec());
            let first = specs.next().unwrap_or_default();
            if specs.all(|spec| spec == first) { first } else { self.controllers[i].clone() }
        };
        (0..n).map(written).collect()
    }

    /// Returns the study that runs this plan as a text in TOML, for `fathom compare`, for
    /// `fathom plan run` and for editing. Its runs have the fingerprints of the comparison's runs.
    ///
    /// # Errors
    /// Returns an error if the plan is wrong.
    pub fn study_text(&self) -> Result<String, Invalid> {
        toml::to_string(&study_document(self)?).map_err(|e| Invalid::because(e.to_string()))
    }

    /// Returns the study of the single run on the uncongested network: Reno on the first stack,
    /// with the first seed (Sync-TCP §4.2). `None` if the results are not compared with such a
    /// network.
    ///
    /// # Errors
    /// Returns the first error of its scenario.
    pub(super) fn reference_study(&self, checked: &Checked) -> Result<Option<Study>, Invalid> {
        let first = checked.runs.first().filter(|_| checked.has_reference());
        let Some((stack, _)) = first else { return Ok(None) };
        let reno = Controller::reference(*stack).map_err(Invalid::from)?.spec();
        // This run is virtual, whatever the backends of the plan.
        let run = (Backend::Virtual, *stack, &reno);
        let points = vec![(BTreeMap::new(), self.scenario(checked, run, checked.reference))];
        Study::from_specs("uncongested", QUESTION, Vec::new(), points)?
            .with_seed(self.seed)
            .map(Some)
    }

    /// Returns the scenario of one combination, on links of this rate.
    fn scenario(
        &self,
        checked: &Checked,
        (backend, stack, controller): (Backend, Stack, &String),
        link: Rate,
    ) -> ScenarioSpec {
        let (left, right) = ENDS;
        let forward = self.group(checked, FORWARD.0, (left, right), controller);
        // On the built-in network, web traffic runs in both directions (Sync-TCP §4.1).
        let both_ways = checked.path.is_none() && matches!(checked.workload, Workload::Web(_));
        let reverse = both_ways.then(|| TrafficSpec {
            counted: false,
            ..self.group(checked, REVERSE.0, (right, left), controller)
        });
        // The uncongested network has no cross traffic.
        let beside = if link == checked.link { &checked.beside[..] } else { &[] };
        let flows = beside.iter().filter_map(|beside| beside.traffic(&forward));
        let background = beside.iter().filter_map(|beside| beside.background(ENDS)).collect();
        let others: Vec<TrafficSpec> = reverse.into_iter().chain(flows).collect();
        // Shares of the link are useful for a few long flows, but not for thousands of short ones.
        let bulk = checked.workload.model().is_long();
        ScenarioSpec {
            stop: format!("{} responses", checked.responses),
            warm_up: "0s".to_owned(),
            stack,
            backend,
            timestamps: self.timestamps,
            shaping: self.shaping,
            mtu_discovery: self.mtu_discovery,
            gso: self.gso,
            tcp: TcpSpec::default(),
            network: self.network(checked, link),
            traffic: [vec![forward], others].concat(),
            background,
            keep: KeepSpec {
                queue: vec![checked.bottleneck().to_owned()],
                window: vec![FORWARD.0.to_owned()],
                shares: bulk.then(|| FORWARD.1.to_owned()),
                ..KeepSpec::default()
            },
        }
    }

    fn network(&self, checked: &Checked, link: Rate) -> NetworkSpec {
        let built_in = checked.path.is_none();
        NetworkSpec {
            topology: if built_in { "one-bottleneck" } else { "path" }.to_owned(),
            path: self.filled_path(),
            link: built_in.then(|| link.to_string()),
            delay: None,
            queue: built_in.then(|| checked.queue.to_string()),
            back_queue: None,
        }
    }

    /// Returns a group with the plan's workload, with servers at router `from` and clients at
    /// router `to`.
    fn group(
        &self,
        checked: &Checked,
        name: &str,
        (from, to): (&str, &str),
        controller: &str,
    ) -> TrafficSpec {
        // With a computed load, all stacks get the requests of the first stack.
        let computed = checked.workload.has_computed_load();
        TrafficSpec {
            name: name.to_owned(),
            stack: None,
            load_stack: checked.runs.first().filter(|_| computed).map(|(stack, _)| *stack),
            tcp: TcpSpec::default(),
            from: from.to_owned(),
            to: to.to_owned(),
            workload: checked.words.clone(),
            controller: controller.to_owned(),
            connections: self.connections,
            server_delay: self.server_delay,
            access: AccessSpec::default(),
            acks_queue: true,
            packet: DATAGRAM + WIRE_OVERHEAD as u16,
            max_window: self.max_window.clone(),
            drift: 0,
            misreport: None,
            streams: None,
            arrivals: Arrivals::default(),
            priorities: None,
            in_flight: None,
            patience: "none".to_owned(),
            idle_timeout: duration_text(IDLE),
            counted: true,
        }
    }
}

/// A study as written in TOML.
#[derive(Serialize)]
pub(super) struct StudyDocument {
    question: &'static str,
    seeds: u64,
    seed: u64,
    /// Axes in the order in which they are written; the last axis varies fastest.
    #[serde(serialize_with = "in_order")]
    sweep: Vec<Axis>,
    scenario: Table,
}

fn in_order<S: Serializer>(axes: &[Axis], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(axes.iter().map(|axis| (&axis.name, &axis.values)))
}

/// Returns the study that runs a plan, as a document.
pub(super) fn study_document(plan: &Plan) -> Result<StudyDocument, Invalid> {
    let study = plan.study(&plan.check()?)?;
    let spec =
        study.first_spec().ok_or_else(|| Invalid::because("none").in_field("controllers"))?;
    let mut scenario = Table::try_from(spec).map_err(|e| Invalid::because(e.to_string()))?;
    scenario.iter_mut().for_each(|(_, value)| escape(value));
    for name in ["backend", "stack"] {
        scenario.insert(name.to_owned(), Value::String(format!("${name}")));
    }
    let groups = scenario.get_mut("traffic").and_then(Value::as_array_mut);
    let of_plan = [FORWARD.0, REVERSE.0].map(|name| Some(Value::String(name.to_owned())));
    let groups = groups.into_iter().flatten().filter_map(Value::as_table_mut);
    for group in groups.filter(|group| of_plan.contains(&group.get("name").cloned())) {
        group.insert("controller".into(), Value::String("$controller".into()));
    }
    Ok(StudyDocument {
        question: QUESTION,
        seeds: plan.seeds,
        seed: plan.seed,
        sweep: study.axes,
        scenario,
    })
}

/// Doubles every dollar sign, because a single one begins a variable of the study.
fn escape(value: &mut Value) {
    match value {
        Value::String(text) => *text = text.replace('$', "$$"),
        Value::Array(values) => values.iter_mut().for_each(escape),
        Value::Table(fields) => fields.iter_mut().for_each(|(_, value)| escape(value)),
        _ => {}
    }
}

/// Question of the study.
const QUESTION: &str = "Which controller serves these requests fastest?";

#[cfg(test)]
mod tests {
    use fathom_netsim::path::PathSpec;

    use super::*;

    #[test]
    fn comparison_and_its_study_text_give_the_same_runs() {
        let plans = [
            Plan::default(),
            Plan {
                stacks: vec![Stack::Quinn, Stack::Noq, Stack::Tcp],
                backends: vec![Backend::Virtual, Backend::Loopback],
                workload: "bulk:4x1MB@100ms".into(),
                seeds: 2,
                seed: 7,
                beside: vec!["cubic:2".into(), "tcp-reno:1".into(), "udp:1Mbps".into()],
                ..Plan::default()
            },
            Plan {
                path: PathSpec { preset: Some("lte".into()), ..PathSpec::default() },
                workload: "page:resume=0rtt".into(),
                max_window: "none".into(),
                controllers: vec!["native:cubic".into(), "sync:signal=either".into()],
                ..Plan::default()
            },
            Plan { workload: "uploads:2x1MB@1s".into(), ..Plan::default() },
            Plan {
                stacks: vec![Stack::Noq, Stack::Quinn],
                controllers: vec!["native:bbr".into(), "native:reno".into(), "sync".into()],
                load: "55%".into(),
                ..Plan::default()
            },
            Plan { workload: "media".into(), ..Plan::default() },
        ];
        for plan in plans {
            let text = plan.study_text().unwrap();
            let read = Study::from_toml("compare", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            let study = plan.study(&plan.check().unwrap()).unwrap();
            let fingerprints = |study: Study| {
                let runs = study.runs(1.0).unwrap();
                runs.into_iter().map(|run| (run.key, run.seed, run.fingerprint)).collect::<Vec<_>>()
            };
            assert_eq!(read.axes, study.axes);
            assert_eq!(fingerprints(read), fingerprints(study), "{text}");
        }
    }

    #[test]
    fn dollar_signs_in_plan_values_are_escaped() {
        let mut value = Value::Array(vec![Value::String("a $b".into())]);
        escape(&mut value);
        assert_eq!(value, Value::Array(vec![Value::String("a $$b".into())]));
    }
}
