//! Results of a study: sentences that answer it, an HTML page, one row per run, and a JSON
//! document.
//!
//! | file | contents |
//! |---|---|
//! | `spec.rs` | the table `[report]` of a study |
//! | `swept.rs` | the axis over which measures are drawn |
//! | `measures.rs` | the measure that answers a study |
//! | `crossings.rs` | ranks at each point, and crossings |
//! | `words.rs` | ranks and crossings in sentences |
//! | `page.rs` | the HTML page |

mod crossings;
mod measures;
mod page;
mod spec;
mod swept;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;

use fathom_report::{Dataset, Record, Value};
use serde::Serialize;

use super::{Axis, Study, StudyRun, StudyRunResult, notes};
use crate::json::as_json;
use crate::measures::{MEASURES, Measure};
use crate::provenance::{SCHEMA, VERSION, stack_versions};
use crate::stack::Stack;
use crossings::{RankingRecord, answer};
use words::{of_seeds, sentences};

pub use page::html;
pub use spec::{AxisScale, ReportSpec};

/// Returns one row per run: the values of the axes, and every measure of every group and link, as
/// `group.measure`.
pub fn dataset(axes: &[Axis], results: &[StudyRunResult]) -> Dataset {
    let row = |result: &StudyRunResult| {
        let value = |axis: &Axis| {
            result.key.get(&axis.name).map_or(Value::Missing, |text| Value::typed(text))
        };
        let mut row: Record = axes.iter().map(|axis| (axis.name.clone(), value(axis))).collect();
        row.push(("seed".into(), Value::from(result.seed)));
        let mut add = |of: &str, measure: &Measure, value: Option<f64>| {
            row.push((format!("{of}.{}", measure.key), Value::measured(value)));
        };
        for (name, group) in &result.outcome.groups {
            MEASURES
                .iter()
                .filter(|m| m.is_of_group())
                .for_each(|m| add(name, m, m.of_group(group)));
        }
        for (name, link) in &result.outcome.links {
            MEASURES
                .iter()
                .filter(|m| !m.is_of_group())
                .for_each(|m| add(name, m, m.of_link(link)));
        }
        row.push(("duration_seconds".into(), Value::Number(result.outcome.seconds)));
        row.push(("fingerprint".into(), Value::from(&*result.fingerprint)));
        row.push(("trace_hash".into(), Value::from(&*result.outcome.trace_hash)));
        row.push(("fathom_version".into(), Value::from(VERSION)));
        row
    };
    Dataset::new(results.iter().map(row).collect())
}

/// JSON document of a study: the versions of Fathom and of the stacks, the plan as written, and
/// every run.
#[derive(Serialize)]
pub struct Document<'a> {
    schema: u32,
    fathom: &'static str,
    stack_versions: BTreeMap<String, String>,
    name: &'a str,
    question: &'a str,
    source: Option<&'a str>,
    scale: f64,
    plan: serde_json::Value,
    /// Lines on failed requests.
    failed: Vec<String>,
    /// Lines on influences other than the controllers.
    notes: Vec<String>,
    /// Answer in sentences.
    headline: Vec<String>,
    /// Rankings as numbers, one for each group or for the busiest link.
    ranking: Vec<RankingRecord>,
    results: Vec<TypedResult<'a>>,
}

/// A run. Values of axes that are numbers are written as numbers.
#[derive(Serialize)]
struct TypedResult<'a> {
    parameters: BTreeMap<&'a str, serde_json::Value>,
    #[serde(flatten)]
    result: &'a StudyRunResult,
}

impl<'a> Document<'a> {
    /// Returns the document of the results of `runs`; `toml` is the study as written.
    pub fn new(
        study: &'a Study,
        toml: &str,
        scale: f64,
        runs: &[StudyRun],
        results: &'a [StudyRunResult],
    ) -> Self {
        let stacks: Vec<Stack> =
            runs.iter().flat_map(|run| run.scenario.traffic.iter().map(|t| t.stack)).collect();
        let typed = |result: &'a StudyRunResult| TypedResult {
            parameters: result
                .key
                .iter()
                .map(|(axis, text)| (&**axis, as_json(Value::typed(text))))
                .collect(),
            result,
        };
        let (swept, rankings) = answer(study, results);
        let said = notes(runs, results);
        Self {
            schema: SCHEMA,
            fathom: VERSION,
            stack_versions: stack_versions(&stacks),
            name: &study.name,
            question: &study.question,
            source: study.source.as_deref(),
            scale,
            plan: toml::from_str(toml).unwrap_or_default(),
            failed: said.failed,
            notes: said.notes,
            headline: headline(study, results),
            ranking: rankings
                .iter()
                .map(|ranking| RankingRecord::new(ranking, swept.as_ref()))
                .collect(),
            results: results.iter().map(typed).collect(),
        }
    }
}

/// Returns the answer of a study in sentences: the system that ranks first at each point of the
/// sweep, the crossings of systems, and the undecided points.
pub fn headline(study: &Study, results: &[StudyRunResult]) -> Vec<String> {
    let (swept, rankings) = answer(study, results);
    let sentences = rankings.iter().flat_map(|ranking| sentences(ranking, swept.as_ref()));
    of_seeds(results).into_iter().chain(sentences).collect()
}
