//! Reads a study from TOML and checks the scenario of every combination before any run begins.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use fathom_cc::Invalid;
use fathom_netsim::backend::Backend;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, Deserializer};

use super::axes::{Values, all_used, axes, combinations, skips};
use super::key_text;
use super::report::ReportSpec;
use super::substitute::{SpannedError, Variables};
use crate::scenario::{Scenario, ScenarioSpec, check_used, renamed_field};
use crate::stack::Stack;

/// Fields of a study.
const FIELDS: &[&str] =
    &["question", "source", "seeds", "seed", "stack", "sweep", "skip", "report", "scenario"];
/// Fields of a scenario that users may write outside `[scenario]` by mistake.
pub(super) const OF_SCENARIO: &[&str] = &[
    "stop",
    "warm-up",
    "backend",
    "timestamps",
    "shaping",
    "tcp",
    "network",
    "traffic",
    "background",
    "keep",
];
/// Fields of the plans of `fathom compare` before such plans became studies.
const OLD_PLAN: &[&str] = &[
    "study",
    "reference",
    "controllers",
    "stacks",
    "backends",
    "worlds",
    "link",
    "load",
    "workload",
    "responses",
    "connections",
    "outlet",
    "max-window",
    "server-delay",
];
/// Largest number of seeds.
pub const MOST_SEEDS: u64 = 10_000;
/// Name of the stack that a build may lack.
const OPTIONAL_STACK: &str = "quiche";

/// A study that has been read and checked.
#[derive(Clone, Debug)]
pub struct Study {
    /// Name under which results are stored.
    pub name: String,
    /// Question that the study answers, in one line.
    pub question: String,
    /// Source of the question, for example a paper.
    pub source: Option<String>,
    /// Number of seeds for each combination.
    pub seeds: u64,
    /// First seed; the other seeds follow it.
    pub seed: u64,
    /// Axes of the sweep, in the order of the text.
    pub axes: Vec<Axis>,
    /// Settings of the report: compared axes, and the axis over which measures are drawn.
    pub report: ReportSpec,
    /// Number of combinations that `[[skip]]` leaves out.
    pub skipped: usize,
    /// Number of combinations on a stack that this build lacks. These combinations have no runs.
    pub absent: usize,
    pub(super) points: Vec<Point>,
    /// Reason why [`Study::runs`] returns an error: this build lacks the stack of the study.
    pub(super) lacks: Option<String>,
}

/// An axis of the sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Name of the axis.
    pub name: String,
    /// Values of the axis, or the names of its variants.
    pub values: Vec<String>,
}

/// A combination of values and its scenario.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) key: BTreeMap<String, String>,
    pub(super) spec: ScenarioSpec,
    pub(super) scenario: Scenario,
}

impl Study {
    /// Reads a study from TOML and checks the scenario of every combination.
    ///
    /// A study may set its stack (`stack = "quiche"`). A build without this stack checks the study
    /// without this setting, and [`Study::runs`] returns an error until [`Study::with_stack`] sets
    /// another stack. If only some combinations use the missing stack, they are left out and
    /// counted in [`Study::absent`].
    ///
    /// # Errors
    /// Returns the first error in the text as one line, with its line number if it has one.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, Invalid> {
        let at_line = |error: SpannedError| {
            let line = 1 + text.as_bytes()[..error.span.start.min(text.len())]
                .iter()
                .filter(|b| **b == b'\n')
                .count();
            Invalid::because(format!("line {line}: {}", error.message.replace('\n', "; ")))
        };
        let table = DeTable::parse(text).map_err(|e| at_line(toml_error(&e)))?;
        let head = Head::read(&table).map_err(at_line)?;
        let Points { points, skipped, absent } = head.points(at_line)?;
        let axes = head
            .axes
            .iter()
            .map(|axis| Axis {
                name: axis.name.clone(),
                values: axis.values.iter().map(|(value, _)| value.clone()).collect(),
            })
            .collect();
        check_points(&points)?;
        let study = Self {
            name: name.to_owned(),
            question: head.question,
            source: head.source,
            seeds: head.seeds,
            seed: head.seed,
            axes,
            report: head.report,
            skipped,
            absent,
            points,
            lacks: None,
        };
        match head.stack.map(|stack| (stack.parse::<Stack>(), stack)) {
            None => Ok(study),
            Some((Ok(stack), _)) => study.with_stack(stack),
            // A build without the stack checks everything except whether the runs can use the
            // stack.
            Some((Err(e), stack)) if stack == OPTIONAL_STACK => {
                Ok(Self { lacks: Some(format!("stack: {e}")), ..study })
            }
            Some((Err(e), _)) => Err(e.in_field("stack")),
        }
    }

    /// Returns a study with these combinations and one seed.
    ///
    /// # Errors
    /// Returns the error of the first invalid scenario.
    pub(crate) fn from_specs(
        name: &str,
        question: &str,
        axes: Vec<Axis>,
        points: Vec<(BTreeMap<String, String>, ScenarioSpec)>,
    ) -> Result<Self, Invalid> {
        let mut checked_points: Vec<Point> = Vec::new();
        for (key, spec) in points {
            let before = checked_points.last().filter(|before| before.spec.network == spec.network);
            let scenario = match before {
                Some(before) => spec.check_over(before.scenario.chain.clone()),
                None => spec.check(),
            };
            checked_points.push(Point { key, spec, scenario: scenario? });
        }
        Ok(Self {
            name: name.to_owned(),
            question: question.to_owned(),
            source: None,
            seeds: 1,
            seed: 1,
            axes,
            report: ReportSpec::default(),
            skipped: 0,
            absent: 0,
            points: checked_points,
            lacks: None,
        })
    }

    /// Checks that this build has the stack of the study.
    pub(crate) fn check_built_in(&self) -> Result<(), Invalid> {
        self.lacks.as_ref().map_or(Ok(()), |lacks| Err(Invalid::because(lacks.clone())))
    }

    /// Returns the scenario of the first combination as written.
    pub(crate) fn first_spec(&self) -> Option<&ScenarioSpec> {
        self.points.first().map(|point| &point.spec)
    }

    /// Returns the scenarios of all combinations as written.
    pub(crate) fn specs(&self) -> Vec<&ScenarioSpec> {
        self.points.iter().map(|point| &point.spec).collect()
    }

    /// Returns the scenarios of all combinations.
    pub(crate) fn scenarios(&self) -> Vec<&Scenario> {
        self.points.iter().map(|point| &point.scenario).collect()
    }

    /// Returns the same study with this number of seeds.
    ///
    /// # Errors
    /// Returns an error if the number of seeds or the last seed is out of range.
    pub fn with_seeds(mut self, seeds: u64) -> Result<Self, Invalid> {
        check_seeds(self.seed, seeds)?;
        self.seeds = seeds;
        Ok(self)
    }

    /// Returns the same study with another first seed.
    ///
    /// # Errors
    /// Returns an error if the last seed is out of range.
    pub fn with_seed(mut self, seed: u64) -> Result<Self, Invalid> {
        check_seeds(seed, self.seeds)?;
        self.seed = seed;
        Ok(self)
    }

    /// Returns the same study on another stack.
    ///
    /// # Errors
    /// Returns an error if the study compares stacks itself, or if a scenario is invalid on this
    /// stack, for example because a controller does not run on it.
    pub fn with_stack(mut self, stack: Stack) -> Result<Self, Invalid> {
        let own = |p: &Point| p.spec.traffic.iter().any(|traffic| traffic.stack.is_some());
        if self.absent > 0
            || self.points.iter().any(|p| p.spec.stack != self.points[0].spec.stack || own(p))
        {
            return Err(Invalid::because("this study already compares stacks; leave --stack out")
                .in_field("stack"));
        }
        for point in &mut self.points {
            point.spec.stack = stack;
            point.scenario = checked(&point.key, &point.spec)?;
        }
        check_points(&self.points)?;
        self.lacks = None;
        Ok(self)
    }

    /// Returns the same study on another backend.
    ///
    /// # Errors
    /// Returns an error if a scenario is invalid on this backend, for example because of its queue
    /// or GSO.
    pub fn with_backend(mut self, backend: Backend) -> Result<Self, Invalid> {
        for point in &mut self.points {
            point.spec.backend = backend;
            point.scenario = checked(&point.key, &point.spec)?;
        }
        check_points(&self.points)?;
        Ok(self)
    }

    /// Returns the same study on another backend, without the combinations that are invalid there,
    /// for example because of their queues. The study may then have no runs.
    pub fn as_far_as(mut self, backend: Backend) -> Self {
        self.points.retain_mut(|point| {
            point.spec.backend = backend;
            point.spec.check().is_ok_and(|scenario| {
                point.scenario = scenario;
                true
            })
        });
        self
    }
}

/// Returns an error if an option has no effect in any combination.
fn check_points(points: &[Point]) -> Result<(), Invalid> {
    let scenarios: Vec<&Scenario> = points.iter().map(|point| &point.scenario).collect();
    check_used(&scenarios, "scenario.network.path")
}

fn checked(key: &BTreeMap<String, String>, spec: &ScenarioSpec) -> Result<Scenario, Invalid> {
    spec.check().map_err(|e| if key.is_empty() { e } else { e.in_field(key_text(key)) })
}

fn toml_error(e: &toml::de::Error) -> SpannedError {
    SpannedError::new(e.span().unwrap_or(0..0), e.message())
}

/// Returns the seeds of a study with this first seed and this number of seeds.
///
/// # Errors
/// Returns an error if the number of seeds or the last seed is out of range.
pub(crate) fn check_seeds(first: u64, seeds: u64) -> Result<RangeInclusive<u64>, Invalid> {
    seeds_in_range(seeds).and_then(|_| check_last_seed(first, seeds))?;
    Ok(first..=first + (seeds - 1))
}

fn seeds_in_range(seeds: u64) -> Result<u64, Invalid> {
    if (1..=MOST_SEEDS).contains(&seeds) {
        Ok(seeds)
    } else {
        let wrong = Invalid::because(format!("{seeds} is out of range"));
        Err(wrong.hint(format!("write 1 to {MOST_SEEDS}")).in_field("seeds"))
    }
}

/// Checks that the last seed fits a signed 64-bit integer, the type of integers in TOML and of
/// seeds in data files.
fn check_last_seed(first: u64, seeds: u64) -> Result<(), Invalid> {
    if first.saturating_add(seeds - 1) > i64::MAX as u64 {
        let wrong = Invalid::because(format!("{first} is out of range"));
        return Err(wrong.hint(format!("write 0 to {}", i64::MAX)).in_field("seed"));
    }
    Ok(())
}

/// Fields of a study as read from the text.
struct Head<'i> {
    question: String,
    source: Option<String>,
    seeds: u64,
    seed: u64,
    stack: Option<String>,
    axes: Vec<Values<'i>>,
    /// Combinations to leave out. An entry has values for some of the axes. A combination is left
    /// out if it has one of the listed values on each of these axes.
    skips: Vec<BTreeMap<String, Vec<String>>>,
    report: ReportSpec,
    scenario: Spanned<DeTable<'i>>,
}

/// Combinations of a study's axes.
struct Points {
    points: Vec<Point>,
    /// Number of combinations that the study leaves out.
    skipped: usize,
    /// Number of combinations whose stack this build lacks.
    absent: usize,
}

/// Refuses fields that a study does not have, with advice for those of a scenario and those of older
/// plans.
fn check_fields(root: &DeTable<'_>) -> Result<(), SpannedError> {
    if let Some(key) = root.keys().find(|key| OF_SCENARIO.contains(&key.get_ref().as_ref())) {
        let name = key.get_ref();
        let is_list = root.get(name.as_ref()).is_some_and(|value| value.get_ref().is_array());
        let is_table = root.get(name.as_ref()).is_some_and(|value| value.get_ref().is_table());
        let hint = match (is_list, is_table) {
            (true, _) => format!("write [[scenario.{name}]]"),
            (_, true) => format!("write [scenario.{name}]"),
            _ => "write this field below [scenario]".to_owned(),
        };
        return Err(SpannedError::new(
            key.span(),
            format!("'{name}' is a field of the scenario; {hint}"),
        ));
    }
    if let Some(key) = root.keys().find(|key| OLD_PLAN.contains(&key.get_ref().as_ref())) {
        let name = key.get_ref();
        return Err(SpannedError::new(
            key.span(),
            if *name == "reference" {
                "'reference' is not a field of a study; use 'fathom compare --reference'".to_owned()
            } else {
                format!(
                    "'{name}' is a field of plans of older versions; write a study instead, \
                     with 'fathom compare --study FILE' and the same options"
                )
            },
        ));
    }
    if let Some(key) = root.keys().find(|key| !FIELDS.contains(&key.get_ref().as_ref())) {
        return Err(SpannedError::new(
            key.span(),
            format!(
                "'{}' is not a field of a study; write one of {}",
                key.get_ref().escape_debug(),
                FIELDS.join(", ")
            ),
        ));
    }
    Ok(())
}

impl<'i> Head<'i> {
    fn read(table: &Spanned<DeTable<'i>>) -> Result<Self, SpannedError> {
        let root = table.get_ref();
        check_fields(root)?;
        let missing = |what: &str| SpannedError::new(0..0, what);
        let question = text_of(root, "question")?.ok_or_else(|| {
            missing(
                "question: the study has none; write its question as one sentence: question = \
                \"...?\"",
            )
        })?;
        let seeds =
            number_of(root, "seeds", 1, &format!("from 1 to {MOST_SEEDS}"), seeds_in_range)?;
        let seed = number_of(root, "seed", 1, &format!("from 0 to {}", i64::MAX), |first| {
            check_last_seed(first, seeds).map(|()| first)
        })?;
        let scenario = root
            .get("scenario")
            .ok_or_else(|| missing("scenario: the study has no [scenario] table; write one"))?;
        let Some(inner) = scenario.get_ref().as_table() else {
            return Err(SpannedError::new(scenario.span(), "scenario: write a [scenario] table"));
        };
        let axes = axes(root)?;
        let skips = skips(root, &axes)?;
        let names: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
        let report = root
            .get("report")
            .map(|value| ReportSpec::read(value, &names))
            .transpose()?
            .unwrap_or_default();
        let scenario = Spanned::new(scenario.span(), inner.clone());
        let stack = text_of(root, "stack")?;
        Ok(Self {
            question,
            source: text_of(root, "source")?,
            seeds,
            seed,
            stack,
            axes,
            skips,
            report,
            scenario,
        })
    }

    /// Returns the combinations with their checked scenarios.
    ///
    /// # Errors
    /// Returns the first error in the text, or an error if no combination is left.
    fn points(&self, at_line: impl Fn(SpannedError) -> Invalid + Copy) -> Result<Points, Invalid> {
        let mut points = Vec::new();
        let (mut skipped, mut absent) = (0, None);
        let mut used = BTreeSet::new();
        for combination in combinations(&self.axes).map_err(at_line)? {
            let key: BTreeMap<String, String> = combination
                .iter()
                .map(|(axis, value, _)| ((*axis).to_owned(), (*value).to_owned()))
                .collect();
            let mut variables = Variables {
                axes: combination
                    .iter()
                    .map(|(axis, _, filling)| ((*axis).to_owned(), (*filling).clone()))
                    .collect(),
                used: std::mem::take(&mut used),
            };
            // Substitute in skipped combinations, too. Parameters that only skipped combinations
            // use then count as used, and errors in these combinations are reported.
            let spec = self.substitute(&mut variables).map_err(at_line)?;
            used = variables.used;
            if self
                .skips
                .iter()
                .any(|skip| skip.iter().all(|(axis, values)| values.contains(&key[axis])))
            {
                skipped += 1;
                continue;
            }
            let spec = match spec {
                Substituted::Spec(spec) => spec,
                Substituted::Lacks(why) => {
                    let (count, _) = absent.get_or_insert((0, why));
                    *count += 1;
                    continue;
                }
            };
            let scenario = checked(&key, &spec)?;
            points.push(Point { key, spec: *spec, scenario });
        }
        all_used(&self.axes, &used).map_err(at_line)?;
        let absent = match absent {
            Some((_, why)) if points.is_empty() => {
                return Err(Invalid::because(why).in_field("stack"));
            }
            Some((count, _)) => count,
            None => 0,
        };
        if points.is_empty() {
            return Err(Invalid::because("[[skip]] leaves out every combination; leave out fewer")
                .in_field("skip"));
        }
        Ok(Points { points, skipped, absent })
    }

    /// Returns the scenario of one combination.
    fn substitute(&self, variables: &mut Variables<'i>) -> Result<Substituted, SpannedError> {
        let filled = variables.substitute_table(self.scenario.get_ref())?;
        if let Some((span, error)) = renamed_field(&filled) {
            return Err(SpannedError::new(span, error.to_string()));
        }
        if let Some(why) = lacks(&filled) {
            return Ok(Substituted::Lacks(why));
        }
        ScenarioSpec::deserialize(Deserializer::from(Spanned::new(self.scenario.span(), filled)))
            .map(|spec| Substituted::Spec(Box::new(spec)))
            .map_err(|e| toml_error(&e))
    }
}

/// Returns a checked whole number, or `default` if the field is missing. `range` describes the
/// valid range in words.
fn number_of(
    root: &DeTable<'_>,
    name: &str,
    default: u64,
    range: &str,
    check: impl Fn(u64) -> Result<u64, Invalid>,
) -> Result<u64, SpannedError> {
    let Some(value) = root.get(name) else { return Ok(default) };
    let wrong = |e: Invalid| SpannedError::new(value.span(), e.to_string());
    let number = value.get_ref().as_integer();
    let number = number.and_then(|n| u64::from_str_radix(n.as_str(), n.radix()).ok());
    let none = || Invalid::because(format!("write a number {range}")).in_field(name.to_owned());
    number.ok_or_else(none).and_then(check).map_err(wrong)
}

/// Scenario of one combination, or the reason why this build lacks a stack for it.
enum Substituted {
    Spec(Box<ScenarioSpec>),
    Lacks(String),
}

/// Returns the reason why this build cannot run a scenario: it lacks the stack of the scenario or
/// of one of its groups of traffic. Returns `None` if no stack is missing.
fn lacks(scenario: &DeTable<'_>) -> Option<String> {
    let groups = scenario.get("traffic").and_then(|v| v.get_ref().as_array());
    let groups = groups
        .into_iter()
        .flat_map(|list| list.iter())
        .filter_map(|group| group.get_ref().as_table());
    std::iter::once(scenario)
        .chain(groups)
        .filter_map(|table| table.get("stack")?.get_ref().as_str())
        .find(|stack| *stack == OPTIONAL_STACK)
        .and_then(|stack| stack.parse::<Stack>().err())
        .map(|missing| missing.to_string())
}

fn text_of(root: &DeTable<'_>, field: &str) -> Result<Option<String>, SpannedError> {
    let Some(value) = root.get(field) else { return Ok(None) };
    match value.get_ref().as_str().map(str::trim) {
        Some(text) if !text.is_empty() && !text.contains('\n') => Ok(Some(text.to_owned())),
        _ => Err(SpannedError::new(value.span(), format!("{field}: write one line of text"))),
    }
}
