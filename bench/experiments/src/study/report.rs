//! Results of a study as a page, as a row per run for programs, and as a JSON document.

use std::collections::{BTreeMap, BTreeSet};

use fathom_metrics::Estimate;
use fathom_report::{Axis as PlotAxis, Dataset, Figure, Grid, Record, Series, Value, figure};
use maud::{Markup, html};
use serde::Serialize;

use super::table::{busiest, by_key, grid};
use super::{Axis, Study, StudyRun, StudyRunResult};
use crate::compare::report::as_json;
use crate::compare::{MEASURES, Measure};
use crate::provenance::{SCHEMA, VERSION, stack_versions};
use crate::stack::Stack;

/// A row per run: the values of the axes, and every measure of every group and link, as `group.measure`.
pub fn dataset(axes: &[Axis], results: &[StudyRunResult]) -> Dataset {
    let row = |result: &StudyRunResult| {
        let value = |axis: &Axis| result.key.get(&axis.name).map_or(Value::Missing, |text| Value::typed(text));
        let mut row: Record = axes.iter().map(|axis| (axis.name.clone(), value(axis))).collect();
        row.push(("seed".into(), Value::from(result.seed)));
        let mut add = |of: &str, measure: &Measure, value: Option<f64>| {
            row.push((format!("{of}.{}", measure.key), Value::measured(value)));
        };
        for (name, group) in &result.outcome.groups {
            MEASURES.iter().filter(|m| m.is_of_group()).for_each(|m| add(name, m, m.of_group(group)));
        }
        for (name, link) in &result.outcome.links {
            MEASURES.iter().filter(|m| !m.is_of_group()).for_each(|m| add(name, m, m.of_link(link)));
        }
        row.push(("duration_seconds".into(), Value::Number(result.outcome.seconds)));
        row.push(("fingerprint".into(), Value::from(&*result.fingerprint)));
        row.push(("trace_hash".into(), Value::from(&*result.outcome.trace_hash)));
        row.push(("fathom_version".into(), Value::from(VERSION)));
        row
    };
    Dataset::new(results.iter().map(row).collect())
}

/// The JSON document of a study: what made it, the plan with its values as they are written, and every run.
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
    results: Vec<TypedResult<'a>>,
}

/// A run with the values of its axes as numbers where they are numbers.
#[derive(Serialize)]
struct TypedResult<'a> {
    parameters: BTreeMap<&'a str, serde_json::Value>,
    #[serde(flatten)]
    result: &'a StudyRunResult,
}

impl<'a> Document<'a> {
    /// Of the results of `runs`; `toml` is the study as written.
    pub fn new(study: &'a Study, toml: &str, scale: f64, runs: &[StudyRun], results: &'a [StudyRunResult]) -> Self {
        let stacks: Vec<Stack> = runs.iter().flat_map(|run| run.scenario.traffic.iter().map(|t| t.stack)).collect();
        let typed = |result: &'a StudyRunResult| TypedResult {
            parameters: result.key.iter().map(|(axis, text)| (&**axis, as_json(Value::typed(text)))).collect(),
            result,
        };
        Self {
            schema: SCHEMA,
            fathom: VERSION,
            stack_versions: stack_versions(&stacks),
            name: &study.name,
            question: &study.question,
            source: study.source.as_deref(),
            scale,
            plan: toml::from_str(toml).unwrap_or_default(),
            results: results.iter().map(typed).collect(),
        }
    }
}

/// Measures that a page draws over an axis of numbers.
const DRAWN: [&str; 6] = [
    "response_time_mean_ms",
    "throughput_bps",
    "datagrams_lost_percent",
    "drops_percent",
    "queue_mean_packets",
    "utilisation_percent",
];

/// The page.
pub fn html(study: &Study, scale: f64, results: &[StudyRunResult]) -> String {
    let seeds: BTreeSet<u64> = results.iter().map(|result| result.seed).collect();
    let table = Grid { labels: combinations(&study.axes, results), ..grid(&study.axes, results) };
    let body = html! {
        @if let Some(source) = &study.source { p.note { (source) } }
        @if scale < 1.0 { p { strong { "Runs have " (scale) " of their length: a look, no result." } } }
        @if seeds.len() < 2 { p { strong { "One seed is no result: nothing says how far another would differ (--seeds 5)." } } }
        (plots(&study.axes, results))
        h2 { "All combinations" }
        p.note { "Means over " (seeds.len()) " seeds" @if seeds.len() > 1 { ", with 95 % intervals" } "." }
        (table.html())
        h2 { "How this was made" }
        ul {
            li { (results.len()) " runs of the study " code { (study.name) } "; fathom " (VERSION) "." }
            li { "Every run of one seed brings the same requests under every controller and queue." }
        }
    };
    fathom_report::page(&study.question, "", &body)
}

/// The values of all axes, at the left of each row: there when the table is moved.
fn combinations(axes: &[Axis], results: &[StudyRunResult]) -> Vec<String> {
    let of_key = |key: &BTreeMap<String, String>| {
        let values: Vec<&str> = axes.iter().filter_map(|axis| key.get(&axis.name)).map(String::as_str).collect();
        values.join(", ")
    };
    by_key(results).iter().map(|(key, _)| of_key(key)).collect()
}

/// The last axis whose values are numbers, at least three: what measures are drawn over.
fn numeric<'a>(axes: &'a [Axis], results: &[StudyRunResult]) -> Option<&'a Axis> {
    let values = |axis: &Axis| {
        let of: Option<BTreeSet<u64>> = results
            .iter()
            .map(|result| Some(result.key.get(&axis.name)?.parse::<f64>().ok().filter(|x| x.is_finite())?.to_bits()))
            .collect();
        of.map_or(0, |of| of.len())
    };
    axes.iter().rev().find(|axis| values(axis) >= 3)
}

fn plots(axes: &[Axis], results: &[StudyRunResult]) -> Markup {
    let Some(x) = numeric(axes, results) else { return html! {} };
    let groups: BTreeSet<&String> = results.iter().flat_map(|result| result.outcome.groups.keys()).collect();
    let link = busiest(&results.iter().collect::<Vec<_>>()).unwrap_or_default();
    let plot = |group: &str, measure: &Measure| {
        // A line per combination of the other axes.
        let mut lines: Vec<(String, Vec<(f64, Estimate)>)> = Vec::new();
        for (key, of) in by_key(results) {
            let values: Vec<f64> = of.iter().filter_map(|r| measure.of(&r.outcome, group, &link)).collect();
            let at = key.get(&x.name).and_then(|text| text.parse().ok());
            let (Some(at), Some(value)) = (at, Estimate::of(&values)) else { continue };
            let others = key.iter().filter(|(axis, _)| **axis != x.name).map(|(_, value)| value.as_str());
            let name = others.collect::<Vec<_>>().join(", ");
            match lines.iter_mut().find(|line| line.0 == name) {
                Some(line) => line.1.push((at, value)),
                None => lines.push((name, vec![(at, value)])),
            }
        }
        lines.iter_mut().for_each(|line| line.1.sort_by(|a, b| a.0.total_cmp(&b.0)));
        let unit = if measure.unit.is_empty() { String::new() } else { format!(" ({})", measure.unit) };
        let series = lines.into_iter().map(|(name, points)| Series::of_estimates(name, points)).collect();
        let (x, y) = (PlotAxis::linear(&x.name), PlotAxis::linear(format!("{}{unit}", measure.name)));
        Figure { x, y, series }
    };
    let measures = || DRAWN.iter().filter_map(|key| Measure::named(key));
    let of_groups = groups.iter().flat_map(|group| {
        measures().filter(|m| m.is_of_group()).map(move |m| (format!("{}: {}", group, m.name), plot(group, m)))
    });
    let of_link = measures().filter(|m| !m.is_of_group()).map(|m| (format!("{link}: {}", m.name), plot("", m)));
    let all: Vec<(String, Figure)> = of_groups.chain(of_link).collect();
    let moves = |figure: &Figure| {
        let values: Vec<f64> = figure.series.iter().flat_map(|s| s.points.iter().map(|p| p.1)).collect();
        values.iter().any(|value| *value != values[0])
    };
    html! {
        @for (title, of) in all.iter().filter(|(_, of)| moves(of)) {
            h2 { (title) }
            (figure(title, of))
        }
    }
}
