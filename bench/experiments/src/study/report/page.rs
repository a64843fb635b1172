//! HTML page of a study: the answer, a ranking at each point, measures over the swept axis, then
//! all numbers.

use std::collections::{BTreeMap, BTreeSet};

use fathom_metrics::Estimate;
use fathom_report::{
    Axis as PlotAxis, Column, Figure, Grid, NOTHING, Series, Unit, estimate_within, figure,
};
use maud::{Markup, html};

use super::crossings::{Ranking, answer};
use super::swept::Swept;
use super::words::{of_seeds, sentences};
use crate::measures::Measure;
use crate::provenance::VERSION;
use crate::study::table::{busiest, by_key, grid};
use crate::study::{Axis, Study, StudyRun, StudyRunResult, notes};

/// Measures that a page draws over the swept axis, in addition to the measure that ranks.
const DRAWN: [&str; 7] = [
    "response_time_mean_ms",
    "throughput_bps",
    "deadline_misses_percent",
    "datagrams_lost_percent",
    "drops_percent",
    "queue_mean_packets",
    "utilisation_percent",
];
/// Largest number of systems for which the table of points has one column per system.
const MOST_COLUMNS: usize = 12;

/// Returns the HTML page of the results of `runs`; `scale` is the scale of the runs.
pub fn html(study: &Study, scale: f64, runs: &[StudyRun], results: &[StudyRunResult]) -> String {
    let seeds: BTreeSet<u64> = results.iter().map(|result| result.seed).collect();
    let (swept, rankings) = answer(study, results);
    let table = Grid { labels: combinations(&study.axes, results), ..grid(&study.axes, results) };
    let body = html! {
        @if let Some(source) = &study.source { p.note { (source) } }
        @for line in notes(runs, results).lines() { p { strong { (line) } } }
        @if scale < 1.0 { p { strong { "Runs have only " (scale) " of their full length: this is a \
            preview, not a result." } } }
        @if let Some(line) = of_seeds(results) { p { strong { (line) } } }
        @for line in rankings.iter().flat_map(|ranking| sentences(ranking, swept.as_ref())) { p.answer { (line) } }
        @for ranking in rankings.iter().filter(|ranking| ranking.systems.len() > 1) { (points(ranking, swept.as_ref())) }
        @if let Some(swept) = &swept { (plots(&study.axes, results, swept, &rankings)) }
        h2 { "All combinations" }
        p.note {
            "Means over " (seeds.len()) " seeds"
            @if seeds.len() > 1 {
                ", with 95 % intervals. Intervals stay within the possible values of a measure (no \
                 rate below zero, no percentage above 100 %)"
            }
            "."
        }
        (table.html())
        h2 { "How this was made" }
        ul {
            li { (results.len()) " runs of the study " code { (study.name) } "; fathom " (VERSION) "." }
            li { "Runs with the same seed have the same requests under every controller and queue." }
            li {
                "A system is ahead of another if the 95 % interval of the change between them \
                 excludes \"no change\". Otherwise their order is undecided. Changes are paired by \
                 seed. Intervals are Student's t, computed from logarithms of ratios or, if the \
                 measure is a percentage, from differences."
            }
        }
    };
    fathom_report::page(&study.question, "", &body)
}

/// Returns the table of points: the system that ranks first at each point, and the values of all
/// systems.
fn points(ranking: &Ranking<'_>, swept: Option<&Swept<'_>>) -> Markup {
    let measure = ranking.measure;
    let means = ranking
        .points
        .iter()
        .map(|point| &point.standings)
        .flat_map(|of| of.order.iter().filter_map(|i| of.estimate(*i)));
    let unit = Unit::suiting(measure.unit, means.map(|e| e.mean).fold(0.0, f64::max));
    let labels = ranking.points.iter().map(|point| {
        let x = swept.zip(point.x).map(|(swept, x)| format!("{} {}", swept.name, x.0));
        let beside = point.beside.iter().map(|(axis, value)| format!("{axis} {value}"));
        x.into_iter().chain(beside).collect::<Vec<_>>().join(", ")
    });
    let first = ranking.points.iter().map(|point| {
        let of = &point.standings;
        let names: Vec<&str> = of.first.iter().map(|i| ranking.systems[*i].as_str()).collect();
        match (names.len(), of.is_decided()) {
            (0, _) => NOTHING.to_owned(),
            (_, true) => names[0].to_owned(),
            (4.., false) => format!("undecided: {} of them", names.len()),
            _ => format!("undecided: {}", names.join(", ")),
        }
    });
    let mut columns =
        vec![Column { name: "first".into(), cells: first.collect(), ..Column::default() }];
    if ranking.systems.len() <= MOST_COLUMNS {
        columns.extend(ranking.systems.iter().enumerate().map(|(i, name)| {
            let cell = |e: Estimate| estimate_within(&unit.of_estimate(&e), &measure.bounds());
            let cells = ranking
                .points
                .iter()
                .map(|point| point.standings.estimate(i).map_or_else(|| NOTHING.to_owned(), cell));
            Column { name: name.clone(), cells: cells.collect(), ..Column::default() }
        }));
    }
    let corner = if unit.name.is_empty() {
        measure.name.to_owned()
    } else {
        format!("{} ({})", measure.name, unit.name)
    };
    html! {
        h2 { (ranking.of) ": first at each point" }
        (Grid { corner, labels: labels.collect(), columns }.html())
    }
}

/// Returns the labels of the rows of the table: the values of all axes. Labels stay visible when
/// the table is scrolled.
fn combinations(axes: &[Axis], results: &[StudyRunResult]) -> Vec<String> {
    let of_key = |key: &BTreeMap<String, String>| {
        let values: Vec<&str> =
            axes.iter().filter_map(|axis| key.get(&axis.name)).map(String::as_str).collect();
        values.join(", ")
    };
    by_key(results).iter().map(|(key, _)| of_key(key)).collect()
}

/// Returns the plot of a measure over the swept axis, with a line per combination of the other
/// axes.
fn plot(
    results: &[StudyRunResult],
    swept: &Swept<'_>,
    (group, link): (&str, &str),
    measure: &Measure,
) -> Figure {
    let mut lines: Vec<(String, Vec<(f64, Estimate)>)> = Vec::new();
    for (key, of) in by_key(results) {
        let values: Vec<f64> =
            of.iter().filter_map(|r| measure.of(&r.outcome, group, link)).collect();
        let at = key.get(swept.name).and_then(|text| swept.value(text));
        let (Some(at), Some(value)) = (at, Estimate::of(&values)) else { continue };
        let others =
            key.iter().filter(|(axis, _)| **axis != swept.name).map(|(_, value)| value.as_str());
        let name = others.collect::<Vec<_>>().join(", ");
        match lines.iter_mut().find(|line| line.0 == name) {
            Some(line) => line.1.push((at, value)),
            None => lines.push((name, vec![(at, value)])),
        }
    }
    let bounds = measure.bounds();
    let ends = lines
        .iter()
        .flat_map(|line| &line.1)
        .map(|(_, e)| e.interval_within(&bounds).map_or(e.mean, |ends| ends.1));
    let unit = Unit::suiting(measure.unit, ends.fold(0.0, f64::max));
    let series = lines.into_iter().map(|(name, mut points)| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series::of_estimates(name, points.into_iter().map(|(at, e)| (at, unit.of_estimate(&e))))
    });
    let in_unit = if unit.name.is_empty() { String::new() } else { format!(" ({})", unit.name) };
    let y = PlotAxis::linear(format!("{}{in_unit}", measure.name)).within(bounds);
    Figure { x: swept.axis.clone(), y, series: series.collect() }
}

fn plots(
    axes: &[Axis],
    results: &[StudyRunResult],
    swept: &Swept<'_>,
    rankings: &[Ranking<'_>],
) -> Markup {
    let groups: BTreeSet<&String> =
        results.iter().flat_map(|result| result.outcome.groups.keys()).collect();
    let link = busiest(&results.iter().collect::<Vec<_>>()).unwrap_or_default();
    let measures = |of: &str, is_of_group: bool| {
        let ranking =
            rankings.iter().filter(|ranking| ranking.of == *of).map(|ranking| ranking.measure);
        let mut all: Vec<&'static Measure> = ranking.collect();
        for drawn in DRAWN
            .iter()
            .filter_map(|key| Measure::named(key))
            .filter(|m| m.is_of_group() == is_of_group)
        {
            if all.iter().all(|known| known.key != drawn.key) {
                all.push(drawn);
            }
        }
        all
    };
    let of_groups = groups
        .iter()
        .flat_map(|group| measures(group, true).into_iter().map(|m| (group.as_str(), m)));
    let of_link = measures(&link, false).into_iter().map(|m| (link.as_str(), m));
    let all = of_groups
        .chain(of_link)
        .map(|(of, m)| (format!("{of}: {}", m.name), plot(results, swept, (of, &link), m)));
    let moves = |figure: &Figure| {
        let values: Vec<f64> =
            figure.series.iter().flat_map(|s| s.points.iter().map(|p| p.1)).collect();
        values.iter().any(|value| *value != values[0])
    };
    let others = axes.iter().filter(|axis| axis.name != swept.name).map(|axis| axis.name.as_str());
    let others = others.collect::<Vec<_>>().join(", ");
    html! {
        @for (title, of) in all.filter(|(_, of)| moves(of)) {
            h2 { (title) }
            (figure(&title, &of))
        }
        p.note {
            @if !others.is_empty() { "The plots have one line for each combination of: " (others) ". " }
            @if swept.axis.log { "The axis of " (swept.name) " is logarithmic, because its values \
                span a decade or more (x-scale in [report] changes this). " }
            "Bars are 95 % intervals over the seeds, within the possible values of the measure."
        }
    }
}
