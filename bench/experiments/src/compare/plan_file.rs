//! A comparison as written in TOML: the fields of a study, as far as a comparison has them.

use fathom_cc::Rate;
use fathom_netsim::backend::Backend;
use fathom_netsim::path::PathSpec;
use fathom_netsim::queue::QueueSpec;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::plan::{Plan, named_options};
use crate::scenario::{
    Connections, PlanError, Shaping, Timestamps, parse_load, parse_responses, read_toml,
    split_options,
};
use crate::stack::Stack;

/// What a file says of `study` to be a comparison.
const STUDY: &str = "compare";
/// The topology of all comparisons.
const TOPOLOGY: &str = "one-bottleneck";
/// The topology of comparisons that say a path.
const PATH: &str = "path";
/// The other workload whose load is a field of its own.
const PAGES: &str = "pages";
/// Load of pages where nothing is said: more than half of the link is busy, and views still load beside each other.
pub const PAGE_LOAD: &str = "50%";
/// The workload of a [`Plan`] whose load is a field of its own.
const WEB: &str = "packmime";

/// A comparison as written. Every field has a default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct PlanFile {
    /// `compare`: the scenario is the built-in one, and fields that are left out are its defaults.
    study: String,
    /// Repetitions of each combination, as studies have them.
    seeds: u64,
    /// The first seed.
    seed: u64,
    /// Rate of the uncongested network that load is measured on and that the results are set beside.
    reference: String,
    sweep: Sweep,
    scenario: Scenario,
}

/// What is compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Sweep {
    controller: Vec<String>,
    stack: Vec<Stack>,
    #[serde(skip_serializing_if = "only_virtual")]
    backend: Vec<Backend>,
}

fn only_virtual(backends: &[Backend]) -> bool {
    backends == [Backend::Virtual]
}

/// What all runs have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Scenario {
    stop: String,
    timestamps: Timestamps,
    shaping: Shaping,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    mtu_discovery: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    gso: Option<u32>,
    network: Network,
    traffic: Traffic,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Network {
    topology: String,
    /// Of the built-in network, or of a path that says no rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    /// What the path is, where that is the topology.
    #[serde(skip_serializing_if = "PathSpec::is_empty")]
    path: PathSpec,
}

/// Of both directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Traffic {
    /// `web:90%` of the link in each direction, or `bulk:COUNTxSIZE@INTERVAL`.
    workload: String,
    connections: Connections,
    server_delay: bool,
    /// Left out: that of the paper on its own network, none on a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_window: Option<String>,
    /// Cross traffic: `cubic:2`, `tcp:1`, `udp:2Mbps`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    beside: Vec<String>,
}

impl Default for PlanFile {
    fn default() -> Self {
        Plan::default().into()
    }
}

impl Default for Sweep {
    fn default() -> Self {
        PlanFile::default().sweep
    }
}

impl Default for Scenario {
    fn default() -> Self {
        let scenario = PlanFile::default().scenario;
        // That of the built-in network, or none on a path.
        Self { traffic: Traffic { max_window: None, ..scenario.traffic }, ..scenario }
    }
}

impl Default for Network {
    fn default() -> Self {
        Self { topology: TOPOLOGY.to_owned(), link: None, queue: None, path: PathSpec::default() }
    }
}

impl Network {
    /// Refuses a link and a queue beside a path that has its own. Results have both: what the path came to.
    fn check_used(&self) -> Result<(), PlanError> {
        let path =
            self.path.expanded().ok().filter(|path| path.rate.is_some() || path.trace.is_some());
        let Some(path) = path.and_then(|path| path.check().ok()) else { return Ok(()) };
        let ways = || [&path.down, &path.up].into_iter().filter_map(|way| way.link.as_ref());
        let link = |text: &String| {
            text.parse().map_or_else(|_| text.clone(), |rate: Rate| rate.to_string())
        };
        let queue = |text: &String| {
            text.parse().map_or_else(|_| text.clone(), |queue: QueueSpec| queue.to_string())
        };
        let unused = [
            (
                "link",
                "rate",
                self.link.as_ref().map(link),
                ways().map(|way| way.0.nominal().to_string()).collect(),
            ),
            (
                "queue",
                "queue",
                self.queue.as_ref().map(queue),
                ways().map(|way| way.1.to_string()).collect::<Vec<_>>(),
            ),
        ];
        let unused = unused
            .into_iter()
            .find(|(.., said, own)| said.as_ref().is_some_and(|said| !own.contains(said)));
        unused.map_or(Ok(()), |(field, of_path, ..)| {
            Err(PlanError(format!(
                "scenario.network.{field}: the path has its own; leave it out, or write it as {of_path} of [scenario.network.path]"
            )))
        })
    }
}

impl Default for Traffic {
    fn default() -> Self {
        Scenario::default().traffic
    }
}

impl Plan {
    /// Reads a plan written in TOML.
    ///
    /// # Errors
    /// The error in the file with its line, in one line.
    pub fn from_toml(text: &str) -> Result<Self, PlanError> {
        read_toml::<PlanFile>(text, MOVED)?.try_into()
    }

    /// As [`Plan::from_toml`] reads it.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a plan holds texts, numbers and lists only")
    }
}

impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        PlanFile::from(self.clone()).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Plan {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        PlanFile::deserialize(from)?.try_into().map_err(D::Error::custom)
    }
}

impl From<Plan> for PlanFile {
    fn from(plan: Plan) -> Self {
        Self {
            study: STUDY.to_owned(),
            seeds: plan.seeds,
            seed: plan.seed,
            reference: plan.reference,
            sweep: Sweep {
                controller: plan.controllers,
                stack: plan.stacks,
                backend: plan.backends,
            },
            scenario: Scenario {
                stop: format!("{} responses", plan.responses),
                timestamps: plan.timestamps,
                shaping: plan.shaping,
                mtu_discovery: plan.mtu_discovery,
                gso: plan.gso,
                network: Network {
                    topology: if plan.path.is_empty() { TOPOLOGY } else { PATH }.to_owned(),
                    link: Some(plan.link),
                    queue: Some(plan.queue),
                    path: plan.path,
                },
                traffic: Traffic {
                    workload: match named_options(&plan.workload) {
                        ("web" | WEB, options) => with(format!("web:{}", plan.load), &options),
                        ("page" | PAGES, options) => {
                            with(format!("{PAGES}:{}", plan.load), &options)
                        }
                        _ => plan.workload,
                    },
                    connections: plan.connections,
                    server_delay: plan.server_delay,
                    max_window: Some(plan.max_window),
                    beside: plan.beside,
                },
            },
        }
    }
}

impl TryFrom<PlanFile> for Plan {
    type Error = PlanError;

    fn try_from(file: PlanFile) -> Result<Self, PlanError> {
        let PlanFile { study, seeds, seed, reference, sweep, scenario } = file;
        let Scenario { stop, timestamps, shaping, mtu_discovery, gso, network, traffic } = scenario;
        let only = |field: &str, given: &str, known: &str| {
            if given == known {
                return Ok(());
            }
            let given = given.escape_debug();
            Err(PlanError(format!(
                "{field}: '{given}' is not what 'fathom compare' runs; write {known}"
            )))
        };
        only("study", &study, STUDY)?;
        let on_path = !network.path.is_empty();
        if network.topology == PATH && !on_path {
            return Err(PlanError(
                "scenario.network.path: there is none; write [scenario.network.path] with preset, rate or trace".into(),
            ));
        }
        let topology = if on_path { PATH } else { TOPOLOGY };
        only("scenario.network.topology", &network.topology, topology)?;
        network.check_used()?;
        let default = Self::default();
        let (link, queue) =
            (network.link.unwrap_or(default.link), network.queue.unwrap_or(default.queue));
        let of_link =
            |load: &str| load.strip_suffix(&format!(" of {link}")).unwrap_or(load).to_owned();
        let (words, options) = split_options(&traffic.workload);
        let (name, named) = named_options(words);
        let pages = ["pages:", "page:"].iter().find_map(|name| words.strip_prefix(name));
        let pages = pages.filter(|load| parse_load(load).is_ok());
        let (workload, load) =
            match (words.strip_prefix("web:").filter(|_| named.is_empty()), pages) {
                (Some(load), _) => (with_options(WEB, &options), of_link(load)),
                (None, Some(load)) => (with_options(PAGES, &options), load.to_owned()),
                (None, None) if [PAGES, "page"].contains(&name) => {
                    (with_options(PAGES, &[named, options].concat()), PAGE_LOAD.to_owned())
                }
                (None, None) => (traffic.workload, Self::default().load),
            };
        let responses =
            parse_responses(&stop).map_err(|e| PlanError(format!("scenario.stop: {e}")))?;
        Ok(Self {
            controllers: sweep.controller,
            stacks: sweep.stack,
            backends: sweep.backend,
            link,
            queue,
            path: network.path,
            beside: traffic.beside,
            load,
            workload,
            responses,
            seeds,
            seed,
            connections: traffic.connections,
            timestamps,
            shaping,
            mtu_discovery,
            gso,
            reference,
            max_window: traffic.max_window.unwrap_or_else(|| {
                if on_path { "none".into() } else { Self::default().max_window }
            }),
            server_delay: traffic.server_delay,
        })
    }
}

/// A workload with options behind: `pages:50% resume=0rtt tickets=40%`.
fn with(words: String, options: &[&str]) -> String {
    options.iter().fold(words, |words, option| words + " " + option)
}

/// A workload's name with its options: `pages:resume=0rtt,tickets=40%`.
fn with_options(name: &str, options: &[&str]) -> String {
    if options.is_empty() { name.to_owned() } else { format!("{name}:{}", options.join(",")) }
}

/// Fields that a plan had, and where their values stand now.
const MOVED: &[(&str, &str)] = &[
    ("controllers", "sweep.controller"),
    ("stacks", "sweep.stack"),
    ("backends", "sweep.backend"),
    ("worlds", "sweep.backend"),
    ("link", "scenario.network.link"),
    ("queue", "scenario.network.queue"),
    ("load", "scenario.traffic.workload"),
    ("workload", "scenario.traffic.workload"),
    ("responses", "scenario.stop"),
    ("connections", "scenario.traffic.connections"),
    ("timestamps", "scenario.timestamps"),
    ("shaping", "scenario.shaping"),
    ("outlet", "scenario.shaping"),
    ("max-window", "scenario.traffic.max-window"),
    ("server-delay", "scenario.traffic.server-delay"),
];
