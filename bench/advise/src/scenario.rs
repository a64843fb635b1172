//! The scenario: classes of clients with shares and paths, their workload, and the controllers to
//! try. It is stored in a file that can be read and edited between the logs and the advice.

use std::time::Duration;

use fathom_cc::units::duration_text;
use fathom_cc::{Invalid, Rate};
use fathom_experiments::compare::Plan;
use fathom_experiments::scenario::Timestamps;
use fathom_experiments::study::MOST_SEEDS;
use fathom_netsim::path::PathSpec;
use fathom_stacks::{Controller, ControllerSpec, Stack};
use serde::{Deserialize, Serialize};

use crate::profile::{Class, MOST_CLASSES, Profile};
use crate::workload::{self, Objects};

/// Load of a client's link while in use (our choice). A client mostly has its link to itself, and
/// logs do not contain the other traffic of the link.
const LOAD: &str = "10%";
/// Bytes per run (our choice), which bounds the duration of the simulation.
const BYTES_PER_RUN: f64 = 50e6;
/// Minimum and maximum number of views in a run: enough for a mean, few enough to wait for.
const VIEWS: (f64, f64) = (2.0, 100.0);
/// Fraction of lost packets below which loss is ignored, because a run would not show its effect.
const LEAST_LOSS: f64 = 0.0002;
/// Bytes of a full packet on the wire, to express queues in packets.
const PACKET: f64 = 1_420.0;
/// Default queue of a path, in packets (docs/paths.md).
const DEFAULT_QUEUE: f64 = 136.0;
/// Fathom's controllers tried by default, in addition to the stack's own: those that need no
/// support from clients.
const TRIED: [&str; 3] = ["cubic", "vegas", "sync:signal=either"];

/// Scenario that is simulated to give advice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// Stack of servers and clients.
    pub stack: Stack,
    /// Clients' current controller, with which every other one is compared.
    pub current: String,
    /// Controllers to try.
    pub controllers: Vec<String>,
    /// Transport of one-way delays: `off`, unless clients are known to have the extension.
    pub timestamps: Timestamps,
    /// Workload of the clients: a workload of `fathom compare`, or `objects:` with the objects of a
    /// connection.
    pub workload: String,
    /// Load of each path in percent, if the workload does not set it.
    pub load: String,
    /// Connections or responses of each run.
    pub responses: u64,
    /// Number of seeds for every controller on every path.
    pub seeds: u64,
    /// First seed.
    pub seed: u64,
    /// Classes of clients.
    #[serde(rename = "class")]
    pub classes: Vec<ClassPath>,
}

/// Clients with similar paths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClassPath {
    /// Name in reports.
    pub name: String,
    /// Share of the clients, relative to the sum of all shares.
    pub share: f64,
    /// Path, in the notation of all commands.
    pub path: PathSpec,
}

impl Default for Scenario {
    fn default() -> Self {
        let stack = Stack::default();
        Self {
            stack,
            current: default_controller(stack),
            controllers: Vec::new(),
            timestamps: Timestamps::Off,
            workload: "page".into(),
            load: LOAD.into(),
            responses: 40,
            seeds: 5,
            seed: 1,
            classes: Vec::new(),
        }
    }
}

/// Returns the default controller of a stack, which is CUBIC for all of them.
pub fn default_controller(stack: Stack) -> String {
    let natives = stack.natives();
    let name = natives.iter().find(|name| **name == "cubic").or(natives.first());
    ControllerSpec::Native((*name.unwrap_or(&"cubic")).to_owned()).to_string()
}

/// Returns the controllers available on a stack: its own, and Fathom's (`all` of them, or only
/// those that need no support from clients).
pub fn available(stack: Stack, timestamps: Timestamps, all: bool) -> Vec<String> {
    let own = stack.natives().iter().map(|name| Controller::Native(name).spec());
    let fathoms: Vec<String> = if all {
        let with_fallback =
            |name: &str| if name == "sync" { "sync:signal=either".into() } else { name.to_owned() };
        fathom_cc::catalogue::CATALOGUE.iter().map(|entry| with_fallback(entry.name)).collect()
    } else {
        TRIED.map(str::to_owned).to_vec()
    };
    let runs = |name: &String| {
        Plan { controllers: vec![name.clone()], stacks: vec![stack], timestamps, ..Plan::default() }
            .validate()
            .is_ok()
    };
    own.chain(fathoms).filter(runs).collect()
}

impl Scenario {
    /// Builds the scenario from a profile.
    pub fn of(profile: &Profile, objects: &Objects, stack: Stack) -> Self {
        let views =
            (BYTES_PER_RUN / objects.bytes_per_connection().max(1.0)).clamp(VIEWS.0, VIEWS.1);
        Self {
            stack,
            current: default_controller(stack),
            controllers: available(stack, Timestamps::Off, false),
            workload: objects.text(),
            responses: views.round() as u64,
            classes: profile.classes.iter().map(class_path).collect(),
            ..Self::default()
        }
    }

    /// Parses a scenario.
    ///
    /// # Errors
    /// Returns the error in the file and its line number, in one line.
    pub fn from_toml(text: &str) -> Result<Self, Invalid> {
        toml::from_str(text).map_err(|e| {
            let line = e.span().map_or(1, |s| 1 + text[..s.start].matches('\n').count());
            Invalid::because(format!("line {line}: {}", e.message().replace('\n', " ")))
        })
    }

    /// Formats the scenario for [`Scenario::from_toml`], with `about` as comments in front.
    pub fn to_toml(&self, about: &[String]) -> String {
        let comments: String =
            about.iter().map(|line| format!("# {}\n", line.replace(['\n', '\r'], " "))).collect();
        comments + &toml::to_string(self).expect("a scenario holds texts, numbers and lists only")
    }

    /// Returns every controller to run, the current one first.
    pub fn all_controllers(&self) -> Vec<String> {
        let others = self.controllers.iter().filter(|name| **name != self.current).cloned();
        std::iter::once(self.current.clone()).chain(others).collect()
    }

    /// Returns the checked comparison of each class, with its share of all clients.
    ///
    /// # Errors
    /// Returns an error for the first invalid field.
    pub fn plans(&self) -> Result<Vec<(f64, Plan)>, Invalid> {
        let wrong = |field: &'static str, what: String| Err(Invalid::because(what).in_field(field));
        if self.classes.is_empty() || self.classes.len() > MOST_CLASSES {
            let n = self.classes.len();
            return wrong(
                "class",
                format!(
                    "the scenario has {n} classes; write 1 to {MOST_CLASSES} [[class]] tables, \
                     each with name, share and path"
                ),
            );
        }
        if self.controllers.iter().all(|name| *name == self.current) {
            return wrong(
                "controllers",
                format!(
                    "'{}' is the only controller; add another one to compare it with",
                    self.current
                ),
            );
        }
        if !(1..=MOST_SEEDS).contains(&self.seeds) {
            return wrong(
                "seeds",
                format!("{} is out of range; write 1 to {MOST_SEEDS}", self.seeds),
            );
        }
        let all: f64 = self.classes.iter().map(|class| class.share).sum();
        let plan = |class: &ClassPath| {
            let named = |e: Invalid| e.in_field(format!("class '{}'", class.name.escape_debug()));
            if !(class.share > 0.0 && class.share <= 1e9) {
                let problem = Invalid::value(&class.share.to_string(), "is not a share");
                let problem = problem.hint("write a number above 0, such as 0.4");
                return Err(named(problem.in_field("share")));
            }
            let plan = self.plan(class).map_err(named)?;
            plan.validate().map_err(named)?;
            Ok((class.share / all, plan))
        };
        self.classes.iter().map(plan).collect()
    }

    fn plan(&self, class: &ClassPath) -> Result<Plan, Invalid> {
        let mut plan = Plan {
            controllers: self.all_controllers(),
            stacks: vec![self.stack],
            path: class.path.clone(),
            timestamps: self.timestamps,
            responses: self.responses,
            seeds: self.seeds,
            seed: self.seed,
            max_window: "none".into(),
            load: self.load.clone(),
            ..Plan::default()
        };
        if class.path.is_empty() {
            let none = Invalid::because("no path is given").hint("write rate and rtt, or preset");
            return Err(none.in_field("path"));
        }
        match self.workload.strip_prefix(workload::PREFIX) {
            None => plan.set_workload(&self.workload),
            Some(objects) => {
                let path = class
                    .path
                    .expanded()
                    .and_then(|spec| spec.check_simulated())
                    .map_err(|e| e.in_table("path"))?;
                let Some((capacity, _)) = &path.down.link else {
                    let none = Invalid::because("no rate is given").hint("add rate = \"20Mbps\"");
                    return Err(none.in_field("path.rate"));
                };
                plan.workload = format!(
                    "pages:{} of {} with {}",
                    self.load,
                    capacity.nominal(),
                    objects.trim()
                );
            }
        }
        Ok(plan)
    }
}

/// Rounds to three significant digits, because data from logs are no more exact.
fn rounded(value: f64) -> f64 {
    let scale = 10f64.powi(2 - value.abs().max(1e-300).log10().floor() as i32);
    (value * scale).round() / scale
}

fn class_path(class: &Class) -> ClassPath {
    let rate = Rate::from_bits_per_sec(rounded(class.rate_bps).clamp(1e5, 1e10) as u64);
    let rtt = Duration::from_micros(rounded(class.rtt_ms * 1e3).clamp(1.0, 60e6) as u64);
    let queue = class.queue_bytes.map(|bytes| rounded(bytes / PACKET).ceil().clamp(2.0, 100_000.0));
    let bdp = rate.bits_per_sec() as f64 / 8.0 * rtt.as_secs_f64() / PACKET;
    // A queue close to the default length need not be given.
    let queue = queue.filter(|packets| (packets / DEFAULT_QUEUE.max(bdp)).ln().abs() > 0.1);
    let loss = (class.loss >= LEAST_LOSS).then(|| format!("{}%", rounded(100.0 * class.loss)));
    let rtt = duration_text(rtt);
    ClassPath {
        name: format!("{rate}, {rtt}"),
        share: (class.share * 1e3).round() / 1e3,
        path: PathSpec {
            rate: Some(rate.to_string()),
            rtt: Some(rtt),
            loss,
            // Lost acknowledgements matter little, so all loss is on the way to the clients.
            up_loss: (class.loss >= LEAST_LOSS).then(|| "0%".into()),
            queue: queue.map(|packets| format!("droptail:{packets}p")),
            ..PathSpec::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class() -> Class {
        Class {
            share: 0.25,
            connections: 10,
            measured: 9,
            rtt_ms: 40.37,
            rate_bps: 9_873_211.0,
            loss: 0.0123,
            queue_bytes: Some(300e3),
        }
    }

    fn scenario() -> Scenario {
        let profile = Profile { classes: vec![class()], ..Profile::default() };
        Scenario::of(&profile, &Objects::of(&[1_000, 5_000, 90_000], 2.0), Stack::default())
    }

    #[test]
    fn written_scenario_parses_to_the_same_value() {
        let scenario = scenario();
        let text = scenario.to_toml(&["from 3 logs".into(), "two\nlines".into()]);
        assert!(text.starts_with("# from 3 logs\n# two lines\n"), "{text}");
        assert_eq!(Scenario::from_toml(&text).unwrap(), scenario);
        let path = &scenario.classes[0].path;
        assert_eq!((path.rate.as_deref(), path.rtt.as_deref()), (Some("9.87Mbps"), Some("40.4ms")));
        assert_eq!(
            (path.loss.as_deref(), path.queue.as_deref()),
            (Some("1.23%"), Some("droptail:211p"))
        );
        let plans = scenario.plans().unwrap();
        assert_eq!((plans.len(), plans[0].0), (1, 1.0));
        assert_eq!(plans[0].1.controllers[0], scenario.current);
    }

    #[test]
    fn invalid_scenarios_are_refused_in_one_line() {
        let of = |change: fn(&mut Scenario)| {
            let mut scenario = scenario();
            change(&mut scenario);
            scenario.plans().unwrap_err().to_string()
        };
        for (text, says) in [
            (of(|s| s.classes.clear()), "class: the scenario has 0 classes"),
            (of(|s| s.classes[0].share = 0.0), "share: '0'"),
            (of(|s| s.classes[0].share = f64::NAN), "share: 'NaN'"),
            (of(|s| s.classes[0].path.loss = Some("200%".into())), "path.loss: "),
            (of(|s| s.classes[0].path = PathSpec::default()), "path: no path is given"),
            (of(|s| s.controllers = vec![s.current.clone()]), "is the only controller"),
            (of(|s| s.current = "native:speed".into()), "no native controller 'speed'"),
            (of(|s| s.workload = "objects:many".into()), "workload"),
            (of(|s| s.seeds = 0), "seeds: 0"),
        ] {
            assert!(text.contains(says) && !text.contains('\n'), "{text}");
        }
        let error = Scenario::from_toml("stack = \"quinn\"\nloda = 1\n").unwrap_err().to_string();
        assert!(error.starts_with("line 2: ") && error.contains("loda"), "{error}");
    }

    #[test]
    fn every_stack_offers_native_and_fathom_controllers() {
        for stack in Stack::ALL {
            let few = available(*stack, Timestamps::Off, false);
            let all = available(*stack, Timestamps::Off, true);
            assert!(
                few.contains(&default_controller(*stack)) && few.contains(&"vegas".to_owned()),
                "{few:?}"
            );
            assert!(few.iter().all(|name| all.contains(name)) && all.len() > few.len(), "{all:?}");
        }
    }
}
