//! A comparison read back from its study, and written as one.
//!
//! A study is a comparison if `fathom compare` would run the same study. To check this, the plan
//! that the study's scenarios describe is written as a study again, which must have the same
//! scenarios.

use std::str::FromStr;

use fathom_cc::{Invalid, Rate};
use fathom_netsim::backend::Backend;
use fathom_netsim::queue::QueueSpec;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::{Table, Value};

use super::beside;
use super::plan::{AUTO, Checked, FORWARD, Plan};
use super::to_study::study_document;
use crate::scenario::{
    KeepSpec, ScenarioSpec, Workload, parse_load, parse_responses, split_options,
};
use crate::stack::{Controller, Stack};
use crate::study::{ReportSpec, Study};

/// Default load of page views. With this load, the link is more than half busy, and views overlap.
pub const PAGE_LOAD: &str = "50%";

impl Plan {
    /// Reads a plan from a study in TOML, as [`Plan::study_text`] writes it.
    ///
    /// # Errors
    /// Returns the first error in the text with its line number, or an error that names the part of
    /// the study that `fathom compare` does not run. Both are one line.
    pub fn from_toml(text: &str) -> Result<Self, Invalid> {
        let study = Study::from_toml("compare", text)?;
        if study.absent > 0 {
            let absent = study.absent;
            return Err(Invalid::because(format!(
                "this build lacks the stack that {absent} combinations need; leave these \
                 combinations out, or build with --features quiche"
            ))
            .in_field("sweep"));
        }
        if study.report != ReportSpec::default() {
            return Err(Invalid::because(
                "'fathom compare' has its own report and ignores [report]; leave the table out, or \
                 run the study with 'fathom plan run'",
            )
            .in_field("report"));
        }
        study.check_built_in()?;
        let specs = study.specs();
        let plan = specs.first().and_then(|first| Self::described(&study, first, &specs));
        let mut plan = plan.ok_or_else(|| {
            Invalid::because("'fathom compare' needs a [[traffic]] group; write one")
                .in_field("scenario.traffic")
        })?;
        let checked = plan.check().map_err(|e| {
            Invalid::because(format!(
                "'fathom compare' cannot run this study: {e}; run it with 'fathom plan run'"
            ))
        })?;
        plan.check_same(&specs, &checked)?;
        plan.set_path_figures(&checked);
        Ok(plan)
    }

    /// Returns the plan that the scenarios of a study describe; `None` if they have no traffic.
    fn described(study: &Study, first: &ScenarioSpec, specs: &[&ScenarioSpec]) -> Option<Self> {
        let default = Self::default();
        let group = first.traffic.first()?;
        let (load, workload) = load_and_workload(&group.workload);
        let flows = first.traffic.iter().filter_map(beside::of_traffic);
        let sources = first.background.iter().filter_map(beside::of_background);
        let controllers = specs.iter().filter_map(|spec| Some(&spec.traffic.first()?.controller));
        Some(Self {
            controllers: distinct(controllers),
            stacks: distinct(specs.iter().map(|spec| &spec.stack)),
            backends: distinct(specs.iter().map(|spec| &spec.backend)),
            link: first.network.link.clone().unwrap_or(default.link),
            queue: first.network.queue.clone().unwrap_or(default.queue),
            path: first.network.path.clone(),
            beside: flows.chain(sources).collect(),
            load: load.unwrap_or(default.load),
            workload,
            // Some workloads end by themselves, whatever the plan says.
            responses: match group.workload.parse::<Workload>().ok()?.requests() {
                Some(_) => default.responses,
                None => parse_responses(&first.stop).unwrap_or(default.responses),
            },
            seeds: study.seeds,
            seed: study.seed,
            connections: group.connections,
            timestamps: first.timestamps,
            shaping: first.shaping,
            mtu_discovery: first.mtu_discovery,
            gso: first.gso,
            // A study does not include the run on the uncongested network.
            reference: AUTO.into(),
            max_window: group.max_window.clone(),
            server_delay: group.server_delay,
        })
    }

    /// Checks that this plan has the scenarios that it was read from.
    fn check_same(&self, specs: &[&ScenarioSpec], checked: &Checked) -> Result<(), Invalid> {
        let own = self.study(checked)?;
        let own: Vec<_> = own.specs().into_iter().map(|spec| (candidate(spec), spec)).collect();
        let wrong = |what: String| {
            Invalid::because(format!("{what}; change it, or run the study with 'fathom plan run'"))
        };
        for theirs in specs {
            let which = candidate(theirs);
            let Some((_, ours)) = own.iter().find(|(of, _)| *of == which) else {
                return Err(wrong("scenario.traffic: the group has no controller".to_owned()));
            };
            let theirs = adapted(theirs, ours, self.stacks.len() == 1);
            let [theirs, ours] = [&theirs, ours].map(|spec| Value::try_from(spec).ok());
            if let Some(difference) = first_difference("scenario", theirs.as_ref(), ours.as_ref()) {
                return Err(wrong(difference));
            }
        }
        if specs.len() == own.len() {
            return Ok(());
        }
        Err(wrong(
            "sweep: the axes do not combine every controller with every stack and backend"
                .to_owned(),
        ))
    }
}

/// Returns the backend, the stack and the controller of a scenario.
fn candidate(spec: &ScenarioSpec) -> Option<(Backend, Stack, String)> {
    let written = &spec.traffic.first()?.controller;
    Some((spec.backend, spec.stack, canonical(written, spec.stack)))
}

/// Returns a controller as reports call it.
fn canonical(controller: &str, stack: Stack) -> String {
    Controller::read(controller, stack).map_or_else(|_| controller.to_owned(), |of| of.spec())
}

/// Returns a scenario with the values that a comparison fills in if they are left out: the name of
/// the group, the data to keep and, with one stack, the stack that a load is computed for. Values
/// that `own` spells differently get the spelling of `own`.
fn adapted(spec: &ScenarioSpec, own: &ScenarioSpec, one_stack: bool) -> ScenarioSpec {
    let mut spec = spec.clone();
    if spec.keep == KeepSpec::default() {
        spec.keep = own.keep.clone();
        if let Some(group) = spec.traffic.first_mut() {
            FORWARD.0.clone_into(&mut group.name);
        }
    }
    if let Some((link, own)) = spec.network.link.as_mut().zip(own.network.link.as_ref()) {
        respell::<Rate>(link, own);
    }
    if let Some((queue, own)) = spec.network.queue.as_mut().zip(own.network.queue.as_ref()) {
        respell::<QueueSpec>(queue, own);
    }
    let stack = spec.stack;
    for (group, own) in spec.traffic.iter_mut().zip(&own.traffic) {
        if one_stack {
            group.load_stack = group.load_stack.or(own.load_stack);
        }
        respell::<Workload>(&mut group.workload, &own.workload);
        let stack = group.stack.unwrap_or(stack);
        if canonical(&group.controller, stack) == canonical(&own.controller, stack) {
            own.controller.clone_into(&mut group.controller);
        }
    }
    spec
}

/// Replaces a text by another spelling of the same value.
fn respell<T: FromStr + PartialEq>(text: &mut String, own: &str) {
    if let (Ok(theirs), Ok(ours)) = (text.parse::<T>(), own.parse::<T>())
        && theirs == ours
    {
        own.clone_into(text);
    }
}

impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        use serde::ser::Error;
        study_document(self).map_err(S::Error::custom)?.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Plan {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = toml::to_string(&Table::deserialize(from)?).map_err(D::Error::custom)?;
        Self::from_toml(&text).map_err(D::Error::custom)
    }
}

/// Returns the load if it is a field of a plan, and the workload as a plan writes it: `90%` and
/// `packmime:resume=1rtt` for `web:90% of 10Mbps resume=1rtt`.
fn load_and_workload(written: &str) -> (Option<String>, String) {
    let (words, options) = split_options(written);
    let of_link = words.split_once(':').and_then(|(kind, load)| {
        let name = [("web", "packmime"), ("pages", "pages")].into_iter().find(|of| of.0 == kind)?.1;
        let (load, _) = load.split_once(" of ")?;
        parse_load(load).is_ok().then_some((name, load))
    });
    match of_link {
        Some((name, load)) if options.is_empty() => (Some(load.to_owned()), name.to_owned()),
        Some((name, load)) => (Some(load.to_owned()), format!("{name}:{}", options.join(","))),
        None => (None, written.to_owned()),
    }
}

fn distinct<'a, T: Clone + PartialEq + 'a>(all: impl Iterator<Item = &'a T>) -> Vec<T> {
    let mut found: Vec<T> = Vec::new();
    for value in all {
        if !found.contains(value) {
            found.push(value.clone());
        }
    }
    found
}

/// Returns the first field in which two documents differ, and both of its values, in words.
fn first_difference(at: &str, theirs: Option<&Value>, ours: Option<&Value>) -> Option<String> {
    match (theirs, ours) {
        (Some(Value::Table(theirs)), Some(Value::Table(ours))) => {
            let names = theirs.keys().chain(ours.keys().filter(|name| !theirs.contains_key(*name)));
            let mut differences = names.filter_map(|name| {
                first_difference(&format!("{at}.{name}"), theirs.get(name), ours.get(name))
            });
            differences.next()
        }
        (Some(Value::Array(theirs)), Some(Value::Array(ours))) => {
            let numbers = 0..theirs.len().max(ours.len());
            let mut differences = numbers.filter_map(|i| {
                let name = [theirs, ours].into_iter().find_map(|all| all.get(i)?.get("name"));
                let name = name.and_then(Value::as_str).map_or(i.to_string(), str::to_owned);
                first_difference(&format!("{at}[{name}]"), theirs.get(i), ours.get(i))
            });
            differences.next()
        }
        (theirs, ours) if theirs == ours => None,
        (theirs, ours) => {
            let words = |value: Option<&Value>| match value {
                None => "left out".to_owned(),
                Some(Value::Table(_) | Value::Array(_)) => "written".to_owned(),
                Some(value) => value.to_string(),
            };
            Some(format!(
                "{at}: it is {}, and 'fathom compare' runs it {}",
                words(theirs),
                match ours {
                    None | Some(Value::Table(_) | Value::Array(_)) => words(ours),
                    Some(_) => format!("with {}", words(ours)),
                }
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use fathom_netsim::path::PathSpec;

    use super::super::all_runs::effective;
    use super::*;

    #[test]
    fn comparison_plan_is_read_back_from_its_study() {
        let path = PathSpec { preset: Some("lte".into()), ..PathSpec::default() };
        let plans = [
            Plan::default(),
            Plan {
                controllers: vec!["reno".into(), "sync:signal=rtt,floor=1ms".into()],
                link: "5Mbps".into(),
                queue: "red:min=5p,max=50p,limit=100p,w=0.002,maxp=0.1,gentle=on,ecn=on".into(),
                load: "80%".into(),
                responses: 300,
                seeds: 3,
                seed: 7,
                connections: crate::scenario::Connections::Persistent,
                server_delay: true,
                ..Plan::default()
            },
            Plan {
                stacks: vec![Stack::Quinn, Stack::Noq, Stack::Tcp],
                backends: vec![Backend::Virtual, Backend::Loopback],
                workload: "bulk:4x1MB@100ms".into(),
                beside: vec!["cubic:2".into(), "tcp-reno:1".into(), "udp:1Mbps".into()],
                ..Plan::default()
            },
            Plan {
                path,
                workload: "pages:resume=0rtt,tickets=20%".into(),
                load: PAGE_LOAD.into(),
                max_window: "none".into(),
                ..Plan::default()
            },
            Plan { workload: "packmime:resume=1rtt".into(), ..Plan::default() },
            Plan {
                path: PathSpec {
                    rate: Some("5Mbps".into()),
                    rtt: Some("40ms".into()),
                    queue: Some("codel".into()),
                    ..PathSpec::default()
                },
                max_window: "none".into(),
                ..Plan::default()
            },
            // The name `native:bbr` means a different controller on each stack.
            Plan {
                stacks: vec![Stack::Noq, Stack::Quinn],
                controllers: vec!["native:bbr".into(), "reno".into()],
                ..Plan::default()
            },
            Plan {
                stacks: vec![Stack::Noq],
                controllers: vec!["native:bbr".into(), "reno".into()],
                seed: 5,
                ..Plan::default()
            },
        ];
        for plan in plans {
            let text = plan.study_text().unwrap();
            let read = Plan::from_toml(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!(read.study_text().unwrap(), text);
            let checked = plan.check().unwrap();
            let wanted = effective(&plan, &checked);
            assert_eq!(effective(&read, &checked), wanted, "{text}");
            let json = serde_json::to_value(&wanted).unwrap();
            assert_eq!(effective(&serde_json::from_value(json).unwrap(), &checked), wanted);
        }
    }

    /// A hand-written study need not contain the values that a comparison fills in.
    #[test]
    fn handwritten_study_may_omit_values_that_comparison_fills_in() {
        let text = r#"
            question = "Is it?"
            seed = 3
            [sweep]
            cc = ["reno", "vegas"]
            [scenario]
            stop = "300 responses"
            network = { topology = "one-bottleneck", link = "5000kbps", queue = "codel" }
            [[scenario.traffic]]
            name = "web"
            from = "left"
            to = "right"
            workload = "web:80% of 5Mbps"
            controller = "$cc"
            [[scenario.traffic]]
            name = "reverse"
            from = "right"
            to = "left"
            workload = "web:80% of 5Mbps"
            controller = "$cc"
            counted = false
        "#;
        let plan = Plan::from_toml(text).unwrap();
        let wanted = Plan {
            controllers: vec!["reno".into(), "vegas".into()],
            link: "5000kbps".into(),
            queue: "codel".into(),
            load: "80%".into(),
            responses: 300,
            seeds: 1,
            seed: 3,
            max_window: "none".into(),
            ..Plan::default()
        };
        assert_eq!(plan, wanted);
        for (old, new, says) in [
            ("300 responses", "10s", "scenario.stop: it is \"10s\""),
            ("counted = false", "counted = true", "scenario.traffic[reverse].counted: it is true"),
            (
                "right\"\n            to",
                "right\"\n            drift = 5\n            to",
                "drift: it is 5",
            ),
            ("web:80% of 5Mbps", "web:80% of 6Mbps", "workload: it is \"web:80% of 6Mbps\""),
            ("300 responses", "300 responses\"\n            warm-up = \"1s", "warm-up: "),
            ("web:80% of 5Mbps", "media:1 at 1Mbps 30fps deadline 90ms", "fathom plan run"),
            ("[scenario]", "[[skip]]\ncc = 'reno'\n[scenario]", ""),
            ("[scenario]", "[report]\nrank-by = 'lost'\n[scenario]", "report: "),
        ] {
            let text = text.replace(old, new);
            let error = match Plan::from_toml(&text) {
                // The study skips the other controller. A comparison of the one that is left is
                // valid, too.
                Ok(plan) => {
                    assert!(says.is_empty(), "{text}");
                    assert_eq!(plan.controllers, ["vegas"]);
                    continue;
                }
                Err(e) => e.to_string(),
            };
            assert!(error.contains(says) && !error.contains('\n'), "{says}: {error}");
        }
    }

    #[test]
    fn comparison_refuses_study_with_skipped_combinations() {
        let plan = Plan { stacks: vec![Stack::Quinn, Stack::Noq], ..Plan::default() };
        let text = plan.study_text().unwrap();
        let text = text
            .replace("[scenario]", "[[skip]]\nstack = 'noq'\ncontroller = 'reno'\n\n[scenario]");
        let error = Plan::from_toml(&text).unwrap_err().to_string();
        assert!(error.starts_with("sweep: ") && error.contains("fathom plan run"), "{error}");
    }

    #[test]
    fn comparison_plan_errors_name_the_line() {
        for (text, says) in [
            ("question = 'Is it?'\nlnik = '1Mbps'\n", "line 2: 'lnik'"),
            ("study = 'compare'\n", "fathom compare --study"),
        ] {
            let error = Plan::from_toml(text).unwrap_err().to_string();
            assert!(error.starts_with("line ") && error.contains(says), "{error}");
        }
    }
}
