//! Data of a comparison for programs: a row per run, the points of distributions, a row per
//! response, and the JSON document.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use fathom_metrics::{Completed, Distribution, Estimate, round};
use fathom_netsim::path::PathSpec;
use fathom_report::{Dataset, Kind, Record, RowWriter, Value};
use serde::Serialize;
use serde_json::json;

use crate::compare::plan::FORWARD;
use crate::compare::{ComparedRun, Comparison, Plan, ResponseLog};
use crate::json::as_json;
use crate::measures::{Change, MEASURES};
use crate::provenance::{SCHEMA, VERSION, stack_versions};

/// Returns the parameters that all runs of a plan share, as numbers if possible.
fn parameters(plan: &Plan) -> Record {
    let checked = plan.check().ok();
    let of = |value: Option<f64>| Value::measured(value);
    let bps = |rate: fn(&crate::compare::plan::Checked) -> fathom_cc::Rate| {
        checked.as_ref().map_or(Value::Missing, |checked| Value::from(rate(checked).bits_per_sec()))
    };
    let text = |text: &dyn ToString| Value::Text(text.to_string());
    let load = plan.has_load().then(|| crate::scenario::parse_load(&plan.load).ok()).flatten();
    let window = checked.as_ref().and_then(|checked| checked.max_window.packets());
    let fields = [
        ("link_bps", bps(|checked| checked.link)),
        ("queue", text(&plan.queue)),
        ("workload", text(&plan.workload)),
        ("load_fraction", of(load)),
        ("responses_wanted", Value::from(plan.responses)),
        ("connections", named(&plan.connections)),
        ("timestamps", named(&plan.timestamps)),
        ("shaping", named(&plan.shaping)),
        ("reference_bps", bps(|checked| checked.reference)),
        (
            "max_window_packets",
            window.map_or(Value::Missing, |packets| Value::from(u64::from(packets))),
        ),
        ("server_delay", Value::Whole(i64::from(plan.server_delay))),
    ];
    let mut all: Record =
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    all.extend(others(plan));
    all
}

/// Returns the name of a setting in plans.
fn named(setting: &impl Serialize) -> Value {
    let name = serde_json::to_value(setting).ok();
    name.and_then(|name| name.as_str().map(Value::from)).unwrap_or(Value::Missing)
}

/// Other parameters of a plan, as written. A field without a value has no column.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
struct Others<'a> {
    topology: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    mtu_discovery: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    gso: Option<u32>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    beside: &'a [String],
    /// Every field of a path, including fields that paths gain later.
    #[serde(flatten)]
    path: &'a PathSpec,
}

fn others(plan: &Plan) -> Record {
    let topology = if plan.path.is_empty() { "one-bottleneck" } else { "path" };
    let others = Others {
        topology,
        mtu_discovery: plan.mtu_discovery,
        gso: plan.gso,
        beside: &plan.beside,
        path: &plan.path,
    };
    let fields = match serde_json::to_value(others) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let typed = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => Value::typed(&text),
        other => Value::typed(&other.to_string()),
    };
    // `parameters` already has the queue, whether the plan or the path sets it.
    let fields = fields.into_iter().filter(|(name, value)| name != "queue" && !value.is_null());
    let mut found: Record =
        fields.map(|(name, value)| (name.replace('-', "_"), typed(value))).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// Returns the columns that identify a run.
fn identity(run: &ComparedRun) -> Record {
    let fields = [
        ("label", Value::from(&*run.label)),
        ("controller", Value::from(&*run.controller)),
        ("stack", Value::from(run.stack.name())),
        ("backend", Value::Text(run.backend.to_string())),
        ("seed", Value::from(run.seed)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns a row per run: its identity, every parameter, every measure, and its hashes.
pub fn runs(c: &Comparison) -> Dataset {
    let common = parameters(&c.plan);
    let row = |run: &ComparedRun| {
        let measures = MEASURES.iter().map(|measure| {
            (
                measure.key.to_owned(),
                Value::measured(measure.of(&run.outcome, FORWARD.0, &run.bottleneck)),
            )
        });
        let more = [
            ("duration_seconds".to_owned(), Value::Number(run.outcome.seconds)),
            ("request_hash".to_owned(), Value::from(&*run.group().request_hash)),
            ("trace_hash".to_owned(), Value::from(&*run.outcome.trace_hash)),
            ("fathom_version".to_owned(), Value::from(VERSION)),
        ];
        identity(run).into_iter().chain(common.clone()).chain(measures).chain(more).collect()
    };
    Dataset::new(c.runs.iter().map(row).collect())
}

/// Returns a row per point of each run's distributions of response times: a time, and the fraction
/// of responses that took no longer. A distribution has about 400 points at most.
pub fn distributions(c: &Comparison) -> Dataset {
    let points =
        |run: &ComparedRun, of: &str, distribution: Option<&Distribution>| -> Vec<Record> {
            let row = |(ms, fraction): &(f64, f64)| {
                let point = [
                    ("responses".to_owned(), Value::from(of)),
                    ("response_time_ms".to_owned(), Value::Number(*ms)),
                    ("fraction_no_slower".to_owned(), Value::Number(*fraction)),
                ];
                identity(run).into_iter().chain(point).collect()
            };
            distribution.iter().flat_map(|distribution| distribution.cdf.iter().map(row)).collect()
        };
    let of_run = |run: &ComparedRun| {
        [points(run, "all", run.times()), points(run, "above 25 kB", run.times_large())].concat()
    };
    Dataset::new(c.runs.iter().flat_map(of_run).collect())
}

/// Columns of a row per response. The first five are those of [`identity`], in the same order.
const RESPONSE_COLUMNS: [(&str, Kind); 12] = [
    ("label", Kind::Text),
    ("controller", Kind::Text),
    ("stack", Kind::Text),
    ("backend", Kind::Text),
    ("seed", Kind::Whole),
    ("group", Kind::Text),
    ("kind", Kind::Text),
    ("result", Kind::Text),
    ("start_seconds", Kind::Number),
    ("first_byte_ms", Kind::Number),
    ("response_time_ms", Kind::Number),
    ("body_bytes", Kind::Whole),
];

/// Maximum number of rows in memory.
const PIECE: usize = 10_000;

/// Writes a row per response, run by run, in the order in which the responses of a run ended.
/// `open` creates the writer for these columns.
///
/// # Errors
/// Returns an error of `open`, of its writer, or of the file that contains the responses.
pub fn write_responses<'a>(
    c: &Comparison,
    log: &ResponseLog,
    open: impl FnOnce(&[(&str, Kind)]) -> io::Result<Box<dyn RowWriter + 'a>>,
) -> io::Result<()> {
    let mut writer = open(&RESPONSE_COLUMNS)?;
    let mut rows = Vec::with_capacity(PIECE);
    for run in &c.runs {
        let identity: Vec<Value> = identity(run).into_iter().map(|(_, value)| value).collect();
        log.of_run(run, |group, row| {
            let ms = |time: fn(&Completed) -> Duration| {
                Value::measured(
                    row.completed.as_ref().map(|completed| time(completed).as_secs_f64() * 1e3),
                )
            };
            let of_row = [
                Value::from(group),
                Value::Text(row.kind.to_string()),
                Value::Text(row.result.to_string()),
                Value::Number(row.start.as_nanos() as f64 / 1e9),
                ms(|completed| completed.first_byte),
                ms(|completed| completed.took),
                row.completed.map_or(Value::Missing, |completed| Value::from(completed.bytes)),
            ];
            rows.push(identity.iter().cloned().chain(of_row).collect());
            if rows.len() == PIECE {
                writer.write(&rows)?;
                rows.clear();
            }
            Ok(())
        })?;
    }
    writer.write(&rows)?;
    writer.finish()
}

/// JSON document of a comparison: versions, the plan as written and as numbers, the summary with
/// the ranking, and every run.
#[derive(Serialize)]
pub struct Document<'a> {
    schema: u32,
    fathom: &'static str,
    stack_versions: BTreeMap<String, String>,
    parameters: BTreeMap<String, serde_json::Value>,
    summary: serde_json::Value,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

impl<'a> Document<'a> {
    /// Returns the document of a comparison.
    pub fn new(comparison: &'a Comparison) -> Self {
        let typed = parameters(&comparison.plan)
            .into_iter()
            .map(|(name, value)| (name, as_json(value)))
            .collect();
        Self {
            schema: SCHEMA,
            fathom: VERSION,
            stack_versions: stack_versions(&comparison.plan.stacks),
            parameters: typed,
            summary: summary(comparison),
            comparison,
        }
    }
}

/// Returns the ranking, every measure with its interval, the conclusion, failures, notes and
/// limits.
fn summary(c: &Comparison) -> serde_json::Value {
    let ranking = c.ranking();
    let candidates = c.candidates();
    let limits: BTreeMap<String, serde_json::Value> = (c.limits().into_iter())
        .map(|of| {
            let shares: BTreeMap<&str, f64> =
                of.shares.iter().map(|(name, share)| (*name, round(*share, 4))).collect();
            (of.label, json!({ "line": of.line, "shares": shares }))
        })
        .collect();
    let of_estimate =
        |e: &Estimate| json!({ "mean": e.mean, "half_width_95": e.half_width, "seeds": e.n });
    let of_change = |change: &Change| {
        let (low, high) = change.interval_percent.unzip();
        json!({ "percent": change.percent, "low_percent": low, "high_percent": high, "seeds": change.seeds })
    };
    let entries: Vec<serde_json::Value> = (ranking.entries.iter())
        .map(|entry| {
            let of = &entry.candidate;
            let base = c.baseline_of(of, &candidates).filter(|base| base.label != of.label);
            let estimates =
                MEASURES.iter().filter_map(|m| Some((m.key, of_estimate(&of.estimate(m)?))));
            let differences = MEASURES.iter().filter_map(|m| {
                let difference = of.estimate(m).and(of.difference_from(base?, m))?;
                Some((m.key, of_estimate(&difference)))
            });
            json!({
                "label": of.label,
                "rank": entry.place,
                "not_ranked_as_requests_failed": entry.misses_failures,
                "cannot_be_told_from_best": entry.tied,
                "change": entry.change.as_ref().map(of_change),
                "outlying_seeds": c.outlying_seeds_of(of),
                "measures": estimates.collect::<BTreeMap<_, _>>(),
                "differences": differences.collect::<BTreeMap<_, _>>(),
            })
        })
        .collect();
    json!({
        "measure": ranking.measure.key,
        "baseline": ranking.baseline,
        "conclusion": ranking.conclusion(),
        "seeds_are_one_run": ranking.one_run.is_some(),
        "failed": c.failed_requests(),
        "notes": c.notes(),
        "limits": limits,
        "ranking": entries,
    })
}
