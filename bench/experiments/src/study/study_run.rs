//! Runs of a study. Each run has a fingerprint of everything that its outcome depends on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fathom_cc::Invalid;
use fathom_netsim::hash::{StableHash, mix};
use serde::{Deserialize, Serialize};

use super::own_code::own_code_text;
use super::{RESULTS_VERSION, Study, key_text};
use crate::scenario::{MaxWindow, Outcome, Scenario, Stop, Traffic, Workload};
use crate::stack::Stack;

/// Smallest number of responses to which a scale may shorten a run.
const FEWEST_RESPONSES: u64 = 50;
/// Version bit of runs that end after a given number of responses: only completed responses now
/// count. Runs without failed requests have the same outcome under both rules.
const COMPLETED_ONLY: u32 = 1 << 16;
/// Version bit of runs whose TCP has SACK: SACK blocks now count on every ACK, also on a cumulative
/// or reordered one (RFC 6675 §5).
const SACK_ON_EVERY_ACK: u32 = 1 << 17;
/// Version bit of shortened runs whose open-ended flows start over a period: the scale now shortens
/// this period, too.
const SHORTER_STARTS: u32 = 1 << 18;
/// Version bit of runs with uploads, or with traffic during the warm-up. Datagrams, requests,
/// timeouts and packet-level flows now count from the end of the warm-up, as links already did.
/// Datagrams now count in the direction of the bodies.
const ALL_AFTER_WARM_UP: u32 = 1 << 21;
/// Version bit of runs on the topology `path` with a QUIC stack that has no window limit. Flow
/// control now never limits these runs. It used to limit paths with a bandwidth-delay product above
/// 0.6 MB on quiche and above 1.25 MB on the other stacks. The networks of the papers are below
/// these limits.
const UNLIMITED: u32 = 1 << 20;
/// Smallest counted time of a run that ends at a time.
const SHORTEST_COUNT: Duration = Duration::from_secs(1);

/// One run of a study.
#[derive(Clone, Debug)]
pub struct StudyRun {
    /// Values by axis. The value of a variant is its name.
    pub key: BTreeMap<String, String>,
    /// Seed of all random numbers of the run.
    pub seed: u64,
    /// Scenario, shortened by the scale.
    pub scenario: Scenario,
    /// Fingerprint of sixteen hexadecimal digits, which also name the file of the result. Two runs
    /// have the same fingerprint if they have the same scenario, scale, seed and version of results
    /// (`RESULTS_VERSION`). With user-defined controllers, the program must be the same, too.
    pub fingerprint: String,
}

impl StudyRun {
    /// Returns the name of the run in messages: `flows=10, system=SDC, seed 1`.
    pub fn label(&self) -> String {
        format!("{}, seed {}", key_text(&self.key), self.seed)
    }
}

impl Study {
    /// Returns the runs: every combination in the order of the axes, with every seed.
    ///
    /// `scale` (above 0, at most 1) shortens runs for a quick look. It multiplies the end, the
    /// warm-up, the times at which flows start, and the periods of web traffic. Uploads and flows
    /// with a size keep the period over which they start. At least 50 responses remain, and at
    /// least one second after the warm-up and the last start, unless the study itself has less.
    ///
    /// # Errors
    /// Returns an error if the scale is out of range, or if this build lacks the stack of the
    /// study.
    pub fn runs(&self, scale: f64) -> Result<Vec<StudyRun>, Invalid> {
        self.check_built_in()?;
        if !(scale > 0.0 && scale <= 1.0) {
            return Err(Invalid::because(format!(
                "{scale} is out of range; write a number above 0, at most 1, such as 0.1"
            ))
            .in_field("scale"));
        }
        let mut runs = Vec::new();
        for point in &self.points {
            let text = toml::to_string(&point.spec).map_err(|e| Invalid::because(e.to_string()))?;
            let scenario = scaled(&point.scenario, scale);
            let text = text + &path_text(&scenario) + &own_code_text(&scenario);
            for seed in self.seed..self.seed + self.seeds {
                runs.push(StudyRun {
                    key: point.key.clone(),
                    seed,
                    scenario: scenario.clone(),
                    fingerprint: fingerprint(
                        &text,
                        seed,
                        scale,
                        version(&scenario) + shorter_starts(&point.scenario, scale),
                    ),
                });
            }
        }
        Ok(runs)
    }
}

fn scaled(scenario: &Scenario, scale: f64) -> Scenario {
    let warm_up = scenario.warm_up.mul_f64(scale);
    let stop = match scenario.stop {
        Stop::Responses(n) => {
            Stop::Responses(((n as f64 * scale).round() as u64).max(FEWEST_RESPONSES).min(n))
        }
        Stop::At(end) => {
            let starts = scenario.traffic.iter().map(|t| t.workload.model().starts(scale));
            let begun = starts.max().unwrap_or_default().max(warm_up);
            Stop::At(end.mul_f64(scale).max(begun.saturating_add(SHORTEST_COUNT)).min(end))
        }
    };
    let mut scaled = Scenario { stop, warm_up, ..scenario.clone() };
    for t in &mut scaled.traffic {
        t.workload.model_mut().scale(scale);
    }
    scaled
}

fn shorter_starts(scenario: &Scenario, scale: f64) -> u32 {
    let is = |t: &Traffic| t.workload.model().has_scaled_starts();
    if scale < 1.0 && scenario.traffic.iter().any(is) { SHORTER_STARTS } else { 0 }
}

/// Returns the version of the results of a scenario: the common version plus the changes that
/// affect scenarios like this one.
fn version(scenario: &Scenario) -> u32 {
    let completed = if matches!(scenario.stop, Stop::Responses(_)) { COMPLETED_ONLY } else { 0 };
    let sack = scenario.traffic.iter().any(|t| t.stack == Stack::Tcp && t.tcp.options.has_sack())
        || scenario.background.iter().any(|b| b.tcp.is_some_and(|tcp| tcp.options.has_sack()));
    let background = !scenario.background.is_empty();
    let early = |workload: Workload| workload.model().begins() < scenario.warm_up;
    let otherwise = scenario.traffic.iter().any(|t| t.workload.goes_up() || early(t.workload));
    let datagrams = if otherwise || (background && !scenario.warm_up.is_zero()) {
        ALL_AFTER_WARM_UP
    } else {
        0
    };
    let quic = |t: &Traffic| t.stack != Stack::Tcp && t.max_window == MaxWindow::Unlimited;
    let on_path = scenario.chain.path.is_some() && scenario.traffic.iter().any(quic);
    let unlimited = if on_path { UNLIMITED } else { 0 };
    RESULTS_VERSION + completed + datagrams + unlimited + if sack { SACK_ON_EVERY_ACK } else { 0 }
}

/// Returns the resolved path as text for the fingerprint, because a preset, trace or model may
/// change without changing its name.
fn path_text(scenario: &Scenario) -> String {
    scenario.chain.path.as_ref().map(|path| format!("{path:?}")).unwrap_or_default()
}

/// Returns the fingerprint of a run. `scenario` is written with every default, so comments, the
/// order of fields and the use of variables do not affect the fingerprint.
fn fingerprint(scenario: &str, seed: u64, scale: f64, version: u32) -> String {
    let mut hash = StableHash::default();
    hash.add_bytes(scenario);
    // No byte has the value 256, so this word marks the end of the text.
    for word in [256, seed, scale.to_bits(), u64::from(version)] {
        hash.add(word);
    }
    format!("{:016x}", hash.value())
}

/// A part of the runs, to share the work between machines: `2/5` is the second of five. The
/// fingerprint of a run determines its part. Therefore no run moves to another machine when the
/// study gets more seeds or more values of an axis, and the same machine executes all runs with
/// equal fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    index: usize,
    of: usize,
}

impl Part {
    /// Returns part `index` of `of`, counted from 1; `None` if there is no such part.
    pub fn new(index: usize, of: usize) -> Option<Self> {
        (1..=of).contains(&index).then_some(Self { index, of })
    }

    fn has(self, run: &StudyRun) -> bool {
        // Mix the digits, because the low bits of a fingerprint depend on the low bits of its
        // inputs.
        let number = u64::from_str_radix(&run.fingerprint, 16).unwrap_or_default();
        mix(&[number]) % self.of as u64 == self.index as u64 - 1
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl FromStr for Part {
    type Err = Invalid;

    fn from_str(s: &str) -> Result<Self, Invalid> {
        let read = || {
            let (index, of) = s.split_once('/')?;
            Self::new(index.parse().ok()?, of.parse().ok()?)
        };
        read().ok_or_else(|| {
            Invalid::value(s, "is not a part")
                .hint("write the part and the number of parts: 2/5 is the second of five")
        })
    }
}

/// Returns the runs of a part. Each run is in exactly one part.
pub fn part(runs: Vec<StudyRun>, part: Part) -> Vec<StudyRun> {
    runs.into_iter().filter(|run| part.has(run)).collect()
}

/// Selector of runs: a value of an axis, such as `stack=quinn`, or a fingerprint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunFilter {
    /// Runs with this value of this axis.
    Axis {
        /// Name of the axis.
        axis: String,
        /// Value, or name of the variant.
        value: String,
    },
    /// The run with this fingerprint.
    Fingerprint(String),
}

impl fmt::Display for RunFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Axis { axis, value } => write!(f, "{axis}={value}"),
            Self::Fingerprint(fingerprint) => f.write_str(fingerprint),
        }
    }
}

impl FromStr for RunFilter {
    type Err = Invalid;

    fn from_str(s: &str) -> Result<Self, Invalid> {
        match s.split_once('=').map(|(axis, value)| (axis.trim(), value.trim())) {
            Some((axis, value)) if !axis.is_empty() && !value.is_empty() => {
                Ok(Self::Axis { axis: axis.to_owned(), value: value.to_owned() })
            }
            None if s.trim().len() == 16 && s.trim().bytes().all(|b| b.is_ascii_hexdigit()) => {
                Ok(Self::Fingerprint(s.trim().to_ascii_lowercase()))
            }
            _ => Err(Invalid::value(s, "is neither a value of an axis nor a fingerprint").hint(
                "write AXIS=VALUE, such as stack=quinn, or the 16 digits that 'fathom plan runs' prints",
            )),
        }
    }
}

/// Returns the selected runs: those that have one of the wanted values for each named axis and, if
/// fingerprints are given, one of these fingerprints.
///
/// # Errors
/// Returns an error if no run has the axis, the value or the fingerprint. The error lists the valid
/// axes or values.
pub fn only(runs: Vec<StudyRun>, wanted: &[RunFilter]) -> Result<Vec<StudyRun>, Invalid> {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut fingerprints: BTreeSet<&str> = BTreeSet::new();
    for filter in wanted {
        match filter {
            RunFilter::Axis { axis, value } => {
                check_value(&runs, axis, value)?;
                values.entry(axis).or_default().insert(value);
            }
            RunFilter::Fingerprint(wanted) => {
                fingerprints.insert(wanted);
            }
        }
    }
    let there: BTreeSet<&str> = runs.iter().map(|run| run.fingerprint.as_str()).collect();
    if let Some(unknown) = fingerprints.iter().find(|wanted| !there.contains(*wanted)) {
        return Err(Invalid::because(format!(
            "no run has the fingerprint {unknown}; list the fingerprints with 'fathom plan runs' \
             and the same --scale, --seeds, --stack and --backend"
        ))
        .in_field("only"));
    }
    let fits = |run: &StudyRun| {
        values
            .iter()
            .all(|(axis, of)| run.key.get(*axis).is_some_and(|value| of.contains(value.as_str())))
            && (fingerprints.is_empty() || fingerprints.contains(run.fingerprint.as_str()))
    };
    let chosen: Vec<bool> = runs.iter().map(fits).collect();
    Ok(runs.into_iter().zip(chosen).filter_map(|(run, chosen)| chosen.then_some(run)).collect())
}

fn check_value(runs: &[StudyRun], axis: &str, value: &str) -> Result<(), Invalid> {
    let mut values: Vec<&str> =
        runs.iter().filter_map(|run| run.key.get(axis)).map(String::as_str).collect();
    if values.is_empty() {
        let axes: Vec<&str> =
            runs.first().into_iter().flat_map(|run| run.key.keys()).map(String::as_str).collect();
        let hint = if axes.is_empty() {
            "this study has no axes".into()
        } else {
            format!("write one of {}", axes.join(", "))
        };
        return Err(
            Invalid::because(format!("the study has no axis '{axis}'; {hint}")).in_field("only")
        );
    }
    if !values.contains(&value) {
        values.sort_unstable();
        values.dedup();
        return Err(Invalid::because(format!(
            "axis {axis} has no value '{value}'; write one of {}",
            values.join(", ")
        ))
        .in_field("only"));
    }
    Ok(())
}

/// Result of a run. In virtual time, the result does not depend on the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyRunResult {
    /// Values by axis. The value of a variant is its name.
    pub key: BTreeMap<String, String>,
    /// Seed of the run.
    pub seed: u64,
    /// Fingerprint of the run.
    pub fingerprint: String,
    /// Measurements of the run.
    pub outcome: Outcome,
}
