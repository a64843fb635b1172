//! The answer of a study: the system that ranks first at each point of the sweep, and the points at
//! which two systems cross.
//!
//! `measures/standings.rs` explains how systems are compared, as in `fathom compare`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::measures::{Asked, asked};
use super::swept::Swept;
use crate::measures::{Better, Entrant, Measure, Standings};
use crate::study::{Axis, Study, StudyRunResult};

/// A combination of values: axis and value, in the order of the axes.
pub(super) type Key<'a> = Vec<(&'a str, &'a str)>;

/// A point of the sweep: its values of the axes that are neither compared nor swept, and its value
/// of the swept axis. The latter is given as text and as a number in the unit of the axis.
type Place<'a> = (Key<'a>, Option<(&'a str, f64)>);

/// Systems of a study at all its points, ranked by one measure of one group or link.
#[derive(Clone, Debug)]
pub(super) struct Ranking<'a> {
    /// Name of the group of traffic, or of the link.
    pub(super) of: String,
    /// Measure of the ranking.
    pub(super) measure: &'static Measure,
    /// Names of the compared systems, in the order of the study; one empty name if nothing is
    /// compared.
    pub(super) systems: Vec<String>,
    /// Points in the order of the study; values of the swept axis ascend.
    pub(super) points: Vec<PointRanking<'a>>,
    /// Crossings of two systems along the swept axis.
    pub(super) crossings: Vec<Crossing<'a>>,
}

/// Systems at one point.
#[derive(Clone, Debug)]
pub(super) struct PointRanking<'a> {
    /// Values of the axes that are neither compared nor swept.
    pub(super) beside: Key<'a>,
    /// Value of the swept axis, as text and as a number in the unit of the axis.
    pub(super) x: Option<(&'a str, f64)>,
    /// Order of the systems.
    pub(super) standings: Standings,
}

impl PointRanking<'_> {
    /// Returns the mean change from `b` to `a` on the scale on which crossings are interpolated:
    /// the logarithm of the ratio, or percentage points.
    fn distance(&self, a: usize, b: usize) -> Option<f64> {
        let change = self.standings.change(b, a)?;
        Some(if change.points { change.percent } else { (1.0 + change.percent / 100.0).ln() })
    }
}

/// A crossing of two systems along the swept axis.
#[derive(Clone, Debug)]
pub(super) struct Crossing<'a> {
    /// Values of the axes that are neither compared nor swept.
    pub(super) beside: Key<'a>,
    /// System that ranks higher before the crossing, and system that ranks higher after it.
    pub(super) systems: (usize, usize),
    /// Values of the swept axis on both sides of the crossing, as written in the study.
    pub(super) between: (&'a str, &'a str),
    /// Position of the crossing on the axis, interpolated linearly between the mean changes; NaN if
    /// it cannot be interpolated.
    pub(super) near: f64,
    /// Whether the crossing is decided: the first system is significantly better at the first of
    /// these values, and the second system at the last.
    pub(super) is_decided: bool,
}

/// Returns the swept axis and the rankings: one for each group of traffic, or one for the busiest
/// link if the plan ranks by a link measure.
pub(super) fn answer<'a>(
    study: &'a Study,
    results: &'a [StudyRunResult],
) -> (Option<Swept<'a>>, Vec<Ranking<'a>>) {
    let swept = Swept::choose(&study.axes, &study.report, results);
    let compared = compared(study, swept.as_ref());
    let asked = asked(study, results);
    let rankings = asked
        .into_iter()
        .map(|asked| ranking(study, results, swept.as_ref(), &compared, asked))
        .collect();
    (swept, rankings)
}

/// Returns the axes whose values are compared. These are the axes that the plan names. If the plan
/// names none, they are the axes that change a controller, a stack or TCP options. If no axis does,
/// they are all axes except the swept one.
fn compared<'a>(study: &'a Study, swept: Option<&Swept<'_>>) -> Vec<&'a Axis> {
    let others =
        || study.axes.iter().filter(|axis| swept.is_none_or(|swept| swept.name != axis.name));
    if let Some(named) = &study.report.compare {
        return study.axes.iter().filter(|axis| named.contains(&axis.name)).collect();
    }
    let chosen: Vec<&Axis> = others().filter(|axis| changes_senders(study, axis)).collect();
    if chosen.is_empty() { others().collect() } else { chosen }
}

/// Returns whether points that differ only in this axis differ in controllers, stacks or TCP
/// options.
fn changes_senders(study: &Study, axis: &Axis) -> bool {
    let mut seen: BTreeMap<Vec<(&str, &str)>, BTreeSet<String>> = BTreeMap::new();
    for point in &study.points {
        let others = point.key.iter().filter(|(name, _)| **name != axis.name);
        let others = others.map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let senders: Vec<String> = (point.spec.traffic.iter())
            .map(|t| {
                format!(
                    "{:?} {} {:?}",
                    t.stack.unwrap_or(point.spec.stack),
                    t.controller,
                    (&t.tcp, &point.spec.tcp)
                )
            })
            .collect();
        seen.entry(others).or_default().insert(senders.join("\n"));
    }
    seen.values().any(|senders| senders.len() > 1)
}

fn ranking<'a>(
    study: &'a Study,
    results: &'a [StudyRunResult],
    swept: Option<&Swept<'_>>,
    compared: &[&Axis],
    Asked { of, measure, link }: Asked,
) -> Ranking<'a> {
    let is_compared = |name: &str| compared.iter().any(|axis| axis.name == name);
    let is_swept = |name: &str| swept.is_some_and(|swept| swept.name == name);
    let system = |result: &StudyRunResult| {
        let values =
            compared.iter().filter_map(|axis| result.key.get(&axis.name)).map(String::as_str);
        values.collect::<Vec<_>>().join(", ")
    };
    let mut systems: Vec<String> = Vec::new();
    let mut points: Vec<(Place<'a>, Vec<Entrant>)> = Vec::new();
    for result in results {
        let name = system(result);
        let system = systems.iter().position(|known| *known == name).unwrap_or_else(|| {
            systems.push(name);
            systems.len() - 1
        });
        let of_axes = study
            .axes
            .iter()
            .filter_map(|axis| Some((axis.name.as_str(), result.key.get(&axis.name)?.as_str())));
        let beside: Key<'a> =
            of_axes.filter(|(name, _)| !is_compared(name) && !is_swept(name)).collect();
        let x = swept.and_then(|swept| {
            let text = result.key.get(swept.name)?.as_str();
            Some((text, swept.value(text)?))
        });
        let place = (beside, x);
        let at = points.iter().position(|(of, _)| *of == place).unwrap_or_else(|| {
            points.push((place, Vec::new()));
            points.len() - 1
        });
        let entrants = &mut points[at].1;
        entrants.resize_with(entrants.len().max(system + 1), Entrant::default);
        let entrant = &mut entrants[system];
        if let Some(group) = result.outcome.groups.get(&of) {
            entrant.failed += group.failed;
            entrant.completed += group.responses;
        }
        if let Some(value) = measure.of(&result.outcome, &of, &link) {
            entrant.values.insert(result.seed, value);
        }
    }
    let mut order: Vec<Key<'a>> = Vec::new();
    for ((beside, _), _) in &points {
        if !order.contains(beside) {
            order.push(beside.clone());
        }
    }
    let curve = |beside: &Key<'_>| order.iter().position(|of| of == beside);
    points.sort_by(|((a, x), _), ((b, y), _)| {
        let value = |x: &Option<(&str, f64)>| x.map_or(0.0, |x| x.1);
        curve(a).cmp(&curve(b)).then(value(x).total_cmp(&value(y)))
    });
    let point = |((beside, x), mut entrants): (Place<'a>, Vec<Entrant>)| {
        entrants.resize_with(systems.len(), Entrant::default);
        PointRanking { beside, x, standings: Standings::new(measure, entrants) }
    };
    let points: Vec<PointRanking<'a>> = points.into_iter().map(point).collect();
    let crossings = swept.map_or_else(Vec::new, |swept| crossings(&points, measure, swept));
    Ranking { of, measure, systems, points, crossings }
}

/// Returns the crossings of all pairs of systems, decided ones first.
fn crossings<'a>(
    points: &[PointRanking<'a>],
    measure: &Measure,
    swept: &Swept<'_>,
) -> Vec<Crossing<'a>> {
    let systems = points.first().map_or(0, |point| point.standings.len());
    let mut all = Vec::new();
    for curve in points.chunk_by(|a, b| a.beside == b.beside) {
        for a in 0..systems {
            for b in a + 1..systems {
                all.extend(of_pair(curve, measure, (a, b), swept));
            }
        }
    }
    all.sort_by_key(|crossing| !crossing.is_decided);
    all
}

fn of_pair<'a>(
    curve: &[PointRanking<'a>],
    measure: &Measure,
    (a, b): (usize, usize),
    swept: &Swept<'_>,
) -> Vec<Crossing<'a>> {
    // Points at which both systems have a value: the point, the mean change from `b` to `a`, and
    // the sign of the change if one system is significantly better.
    let known: Vec<(&PointRanking<'a>, f64, Option<f64>)> = curve
        .iter()
        .filter_map(|point| Some((point, point.distance(a, b)?, point.standings.sign(a, b))))
        .collect();
    let mut found = Vec::new();
    let mut last_certain: Option<(usize, f64)> = None;
    for (i, (_, _, sign)) in known.iter().enumerate() {
        let Some(sign) = *sign else { continue };
        if let Some((from, before)) = last_certain.filter(|(_, before)| *before != sign) {
            found.extend(crossing(
                &known,
                (from, i),
                if before > 0.0 { (a, b) } else { (b, a) },
                true,
                swept,
            ));
        }
        last_certain = Some((i, sign));
    }
    if found.is_empty() {
        let changes = known.windows(2).position(|pair| pair[0].1 * pair[1].1 < 0.0);
        if let Some(i) = changes {
            let a_first = (known[i].1 > 0.0) == (measure.better == Better::Higher);
            found.extend(crossing(
                &known,
                (i, i + 1),
                if a_first { (a, b) } else { (b, a) },
                false,
                swept,
            ));
        }
    }
    found
}

/// Returns the crossing between two points. The crossing is at the first change of sign of the mean
/// change between the points.
fn crossing<'a>(
    known: &[(&PointRanking<'a>, f64, Option<f64>)],
    (from, to): (usize, usize),
    systems: (usize, usize),
    is_decided: bool,
    swept: &Swept<'_>,
) -> Option<Crossing<'a>> {
    let place = |i: usize| Some(swept.place(known[i].0.x?.1)).filter(|place| place.is_finite());
    let at = (from..to).find(|i| known[*i].1 * known[i + 1].1 <= 0.0)?;
    let (left, right) = (known[at].1, known[at + 1].1);
    let near = match (place(at), place(at + 1)) {
        (Some(x0), Some(x1)) if left != right => x0 + (x1 - x0) * left / (left - right),
        // A crossing close to zero on a logarithmic axis cannot be interpolated.
        _ => f64::NAN,
    };
    let between = (known[from].0.x?.0, known[to].0.x?.0);
    Some(Crossing { beside: known[from].0.beside.clone(), systems, between, near, is_decided })
}

/// Record of a ranking in the JSON document.
#[derive(Serialize)]
pub(super) struct RankingRecord {
    of: String,
    measure: &'static str,
    unit: &'static str,
    better: &'static str,
    points: Vec<PointRecord>,
    crossings: Vec<CrossingRecord>,
}

#[derive(Serialize)]
struct PointRecord {
    parameters: BTreeMap<String, String>,
    /// Systems that may be the best.
    first: Vec<String>,
    decided: bool,
    ranks: Vec<RankRecord>,
}

#[derive(Serialize)]
struct RankRecord {
    system: String,
    mean: f64,
    interval_95: Option<(f64, f64)>,
    seeds: usize,
    /// Change from the first system, in percent; in percentage points if the measure is a
    /// percentage.
    change_percent: Option<f64>,
    change_interval_95: Option<(f64, f64)>,
}

#[derive(Serialize)]
struct CrossingRecord {
    parameters: BTreeMap<String, String>,
    ahead_before: String,
    ahead_after: String,
    between: (String, String),
    near: Option<String>,
    decided: bool,
}

impl RankingRecord {
    pub(super) fn new(ranking: &Ranking<'_>, swept: Option<&Swept<'_>>) -> Self {
        let parameters =
            |key: &Key<'_>| key.iter().map(|(a, v)| ((*a).to_owned(), (*v).to_owned())).collect();
        let name = |i: usize| ranking.systems[i].clone();
        let point = |point: &PointRanking<'_>| {
            let mut parameters: BTreeMap<String, String> = parameters(&point.beside);
            parameters.extend(
                swept.zip(point.x).map(|(swept, x)| (swept.name.to_owned(), x.0.to_owned())),
            );
            let rank = |i: &usize| {
                let value = point.standings.estimate(*i)?;
                let change = point.standings.order.first().filter(|best| *best != i);
                let change = change.and_then(|best| point.standings.change(*best, *i));
                Some(RankRecord {
                    system: name(*i),
                    mean: value.mean,
                    interval_95: value.interval_within(&ranking.measure.bounds()),
                    seeds: value.n,
                    change_percent: change.map(|change| change.percent),
                    change_interval_95: change.and_then(|change| change.interval_percent),
                })
            };
            PointRecord {
                parameters,
                first: point.standings.first.iter().map(|i| name(*i)).collect(),
                decided: point.standings.is_decided(),
                ranks: point.standings.order.iter().filter_map(rank).collect(),
            }
        };
        let crossing = |c: &Crossing<'_>| CrossingRecord {
            parameters: parameters(&c.beside),
            ahead_before: name(c.systems.0),
            ahead_after: name(c.systems.1),
            between: (c.between.0.to_owned(), c.between.1.to_owned()),
            near: swept.filter(|_| c.near.is_finite()).map(|swept| swept.text_at(c.near)),
            decided: c.is_decided,
        };
        Self {
            of: ranking.of.clone(),
            measure: ranking.measure.key,
            unit: ranking.measure.unit,
            better: match ranking.measure.better {
                Better::Lower => "lower",
                Better::Higher => "higher",
                Better::Neither => "neither",
            },
            points: ranking.points.iter().map(point).collect(),
            crossings: ranking.crossings.iter().map(crossing).collect(),
        }
    }
}
