//! Figures of Packet size §4.3, and tables of what it leaves open.

use fathom_experiments::scenario::Outcome;
use fathom_metrics::{Estimate, ShareDistribution};
use fathom_report::{Axis, Entry, Figure, Row, Series, Table};

use super::super::claims::values::{series, with};
use super::super::{Artefact, Body, Results};
use super::{ADAPTIVE, ALIKE, BESIDE, MIXED, everyone, fairness, half_or_less, members};

/// Flows of figures 4.4 to 4.7 and again 4.8 to 4.11.
const FLOWS: [&str; 4] = ["50", "100", "200", "400"];
pub(super) const SIZES: [&str; 4] = ["1500", "1000", "500", "278"];
pub(super) const LARGE_PERCENT: [&str; 3] = ["25", "50", "75"];
pub(super) const QUEUES: [&str; 4] = ["drop-tail", "RED", "Adaptive RED", "CoDel"];
const SEEDS: &str = "Means over the seeds with 95 % intervals.";

pub(super) fn artefacts(results: &Results) -> Vec<Artefact> {
    let mut made = Vec::new();
    if results.have(&[ALIKE]) {
        for (first, seconds) in [(4, 1.0), (8, 10.0)] {
            made.extend(FLOWS.iter().zip(first..).map(|(flows, number)| of_one_size(results, number, flows, seconds)));
        }
        made.push(round_one(results));
    }
    if results.have(&[MIXED]) {
        for (number, flows, seconds) in [(12, "50", 1.0), (13, "50", 10.0), (14, "200", 1.0), (15, "200", 10.0)] {
            made.push(of_two_sizes(results, number, flows, seconds));
        }
        made.push(round_two(results));
    }
    if results.have(&[ADAPTIVE]) {
        made.push(adaptive(results));
    }
    if results.have(&[BESIDE]) {
        made.push(beside_large(results));
    }
    made
}

/// The distribution of shares, point by point over the seeds.
fn distribution(
    results: &Results,
    study: &str,
    key: &[(&str, &str)],
    name: &str,
    of: impl Fn(&Outcome) -> Option<&ShareDistribution>,
) -> Series {
    let seeds: Vec<&ShareDistribution> = results.outcomes(study, key).filter_map(|(_, o)| of(o)).collect();
    let Some(first) = seeds.first() else { return series(name, &[]) };
    let points = first.cdf.iter().enumerate().filter_map(|(i, (x, _))| {
        let ys: Vec<f64> = seeds.iter().filter_map(|s| s.cdf.get(i).map(|(_, y)| *y)).collect();
        Some((*x, Estimate::of(&ys)?))
    });
    series(name, &points.collect::<Vec<_>>())
}

fn share_figure(number: u32, title: String, series: Vec<Series>, note: &str) -> Artefact {
    let axis = |label: &str, most: f64| Axis { label: label.into(), log: false, range: Some((0.0, most)) };
    let (x, y) = (axis("percent of the fair share", 300.0), axis("percent of flows with at most this", 100.0));
    let body = Body::Figure(Figure { x, y, series });
    Artefact { id: format!("figure 4.{number}"), title, body, note: format!("{SEEDS} {note}") }
}

fn of_one_size(results: &Results, number: u32, flows: &str, seconds: f64) -> Artefact {
    let lines = SIZES.map(|size| {
        let key = [("flows", flows), ("packet", size)];
        distribution(results, ALIKE, &key, &format!("{size} bytes"), |o| everyone(o, seconds))
    });
    let title = format!("{flows} flows with packets of one size, windows of {seconds:.0} s");
    share_figure(
        number,
        title,
        lines.into(),
        "Perfect sharing is a step at 100 %. 278 bytes stand for the thesis's 250.",
    )
}

fn mix(flows: &str, percent: &str) -> String {
    format!("{flows} flows, {percent}% large")
}

fn of_two_sizes(results: &Results, number: u32, flows: &str, seconds: f64) -> Artefact {
    let lines = LARGE_PERCENT.into_iter().flat_map(|percent| {
        ["large", "small"].map(|group| {
            let mix = mix(flows, percent);
            let key = [("mix", mix.as_str()), ("small", "278")];
            let name = format!("{group}, {percent} % large");
            distribution(results, MIXED, &key, &name, |o| members(o, seconds, group))
        })
    });
    let title = format!("{flows} flows with packets of 1500 or 278 bytes, windows of {seconds:.0} s");
    let note = "The fair share of a group is that of equal packet rates. 278 bytes stand for the thesis's 250.";
    share_figure(number, title, lines.collect(), note)
}

/// A column: its head, what it takes from an outcome.
type Column = (&'static str, fn(&Outcome) -> Option<f64>);

/// A row of these columns; `paper` gives what the thesis says in a column.
fn row(
    results: &Results,
    study: &str,
    key: &[(&str, &str)],
    label: String,
    columns: &[Column],
    paper: impl Fn(usize) -> Option<&'static str>,
) -> Row {
    let entry = |(i, (_, of)): (usize, &Column)| Entry {
        ours: results.estimate(study, key, of),
        paper: paper(i).map(Into::into),
    };
    Row { label, entries: columns.iter().enumerate().map(entry).collect() }
}

fn table(id: &str, title: &str, columns: &[Column], rows: Vec<Row>, note: &str) -> Artefact {
    let body = Body::Table(Table { columns: columns.iter().map(|(head, _)| (*head).into()).collect(), rows });
    Artefact { id: id.into(), title: title.into(), body, note: format!("{SEEDS} {note}") }
}

fn starved(outcome: &Outcome, seconds: f64) -> Option<f64> {
    Some(everyone(outcome, seconds)?.starved_percent)
}

fn link_busy(outcome: &Outcome) -> Option<f64> {
    Some(outcome.links.get("left-right")?.utilisation_percent)
}

/// UDP payload that reached the clients, in Mbps.
pub(super) fn delivered_mbps(outcome: &Outcome) -> Option<f64> {
    Some(outcome.groups.get("flows")?.throughput_bps / 1e6)
}

fn round_one(results: &Results) -> Artefact {
    let columns: [Column; 9] = [
        ("at most half, 0.1 s, %", |o| half_or_less(everyone(o, 0.1)?)),
        ("at most half, 1 s, %", |o| half_or_less(everyone(o, 1.0)?)),
        ("at most half, 10 s, %", |o| half_or_less(everyone(o, 10.0)?)),
        ("at most half, 100 s, %", |o| half_or_less(everyone(o, 100.0)?)),
        ("starved, 1 s, %", |o| starved(o, 1.0)),
        ("starved, 10 s, %", |o| starved(o, 10.0)),
        ("Jain, 1 s", |o| fairness(o, 1.0)?.jain),
        ("min/max, 1 s", |o| fairness(o, 1.0)?.min_max),
        ("link busy, %", link_busy),
    ];
    let printed = |flows: &str, size: &str, column: usize| match (flows, size, column) {
        ("50", "1500", 1) => Some("about 30"),
        ("400", "1500", 4) => Some("about 50"),
        ("200", "1500", 5) => Some("10"),
        ("400", "1500" | "1000", 5) => Some("over 20"),
        _ => None,
    };
    let rows = FLOWS.into_iter().flat_map(|flows| {
        SIZES.map(|size| {
            let label = format!("{flows} flows, {size} bytes");
            row(results, ALIKE, &[("flows", flows), ("packet", size)], label, &columns, |i| printed(flows, size, i))
        })
    });
    let note = "At most half: flows that got half their fair share or less. Starved: below 5 % of it.";
    table("round one", "Flows with packets of one size", &columns, rows.collect(), note)
}

fn round_two(results: &Results) -> Artefact {
    let columns: [Column; 8] = [
        ("large: at most half, 1 s, %", |o| half_or_less(members(o, 1.0, "large")?)),
        ("small: at most half, 1 s, %", |o| half_or_less(members(o, 1.0, "small")?)),
        ("large: at most half, 10 s, %", |o| half_or_less(members(o, 10.0, "large")?)),
        ("small: at most half, 10 s, %", |o| half_or_less(members(o, 10.0, "small")?)),
        ("large: mean share, %", |o| Some(members(o, 1.0, "large")?.mean_percent)),
        ("small: mean share, %", |o| Some(members(o, 1.0, "small")?.mean_percent)),
        ("Jain of shares, 1 s", |o| fairness(o, 1.0)?.jain),
        ("link busy, %", link_busy),
    ];
    let mixes = ["50", "200"].into_iter().flat_map(|flows| LARGE_PERCENT.map(|percent| mix(flows, percent)));
    let rows = mixes.flat_map(|mix| {
        ["278", "500"].map(|small| {
            let label = format!("{mix}, small {small} bytes");
            row(results, MIXED, &[("mix", &mix), ("small", small)], label, &columns, |_| None)
        })
    });
    let note = "A group's fair share is that of equal packet rates: a mean share below 100 % is a penalty beyond the natural one.";
    table("round two", "Flows with large and small packets", &columns, rows.collect(), note)
}

fn adaptive(results: &Results) -> Artefact {
    let columns: [Column; 6] = [
        ("at most half, 1 s, %", |o| half_or_less(everyone(o, 1.0)?)),
        ("starved, 1 s, %", |o| starved(o, 1.0)),
        ("starved, 10 s, %", |o| starved(o, 10.0)),
        ("Jain, 1 s", |o| fairness(o, 1.0)?.jain),
        ("delivered, Mbps", delivered_mbps),
        ("dropped, %", |o| Some(o.links.get("left-right")?.drops_percent)),
    ];
    let rows = QUEUES.into_iter().flat_map(|queue| {
        FLOWS.into_iter().flat_map(move |flows| {
            ["1500", "278", "adaptive"].map(|size| {
                let key = with(&[("queue", queue), ("flows", flows)], "size", size);
                row(results, ADAPTIVE, &key, format!("{queue}, {flows} flows, {size}"), &columns, |_| None)
            })
        })
    });
    let note = "Delivered is UDP payload: what headers of IP and UDP cost is not in it.";
    table("adaptive", "Sizes that adapt, and fixed ones, under four queues", &columns, rows.collect(), note)
}

/// Bandwidth of the other half of the flows in percent of that of the large half.
pub(super) fn beside_percent(outcome: &Outcome) -> Option<f64> {
    let rate = |name: &str| outcome.groups.get(name).map(|g| g.throughput_bps);
    let large = rate("large").filter(|bps| *bps > 0.0)?;
    Some(100.0 * rate("other")? / large)
}

fn beside_large(results: &Results) -> Artefact {
    let columns: [Column; 4] = [
        ("their bandwidth, % of the large ones'", beside_percent),
        ("large: at most half, 1 s, %", |o| half_or_less(members(o, 1.0, "large")?)),
        ("they: at most half, 1 s, %", |o| half_or_less(members(o, 1.0, "other")?)),
        ("link busy, %", link_busy),
    ];
    let rows = QUEUES.into_iter().flat_map(|queue| {
        ["50", "200"].into_iter().flat_map(move |flows| {
            ["1500", "278", "adaptive"].map(|other| {
                let key = with(&[("queue", queue), ("flows", flows)], "beside", other);
                row(results, BESIDE, &key, format!("{queue}, {flows} flows, half of them {other}"), &columns, |_| None)
            })
        })
    });
    let note = "Bandwidth is UDP payload. The share of 278-byte flows is that of equal packet rates, which is 18.5 % of a large flow's.";
    table(
        "adaptive beside large",
        "Half of the flows large, half otherwise, under four queues",
        &columns,
        rows.collect(),
        note,
    )
}
