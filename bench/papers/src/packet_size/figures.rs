//! Figures of Packet size §4.3, and tables for questions that the section leaves open.

use fathom_experiments::scenario::Outcome;
use fathom_metrics::{Estimate, ShareDistribution};
use fathom_report::{Axis, Entry, Row, Series};

use super::formulas;
use super::{ADAPTIVE, ALIKE, BESIDE, MIXED, everyone, fairness, half_or_less, members, starved};
use crate::results::{Key, Measure};
use crate::{Artefact, ArtefactSpec, Results, spec};

/// Numbers of flows in figures 4.4 to 4.7 and again in 4.8 to 4.11.
pub(super) const FLOWS: [&str; 4] = ["50", "100", "200", "400"];
pub(crate) const SIZES: [&str; 4] = ["1500", "1000", "500", "278"];
pub(super) const LARGE_PERCENT: [&str; 3] = ["25", "50", "75"];
pub(super) const QUEUES: [&str; 4] = ["drop-tail", "RED", "Adaptive RED", "CoDel"];
const SEEDS: &str = "Means over the seeds with 95 % intervals.";

pub(super) const ARTEFACTS: &[ArtefactSpec] = &[
    spec("figure 1.1", "share of headers over the size of packets", &[], formulas::headers),
    spec("figure 1.2", "window over the round trip for a rate", &[], formulas::windows),
    spec("figure 4.4", "one packet size, 50 flows, windows of 1 s", &[ALIKE], |r| {
        of_one_size(r, "50", 1.0)
    }),
    spec("figure 4.5", "one packet size, 100 flows, windows of 1 s", &[ALIKE], |r| {
        of_one_size(r, "100", 1.0)
    }),
    spec("figure 4.6", "one packet size, 200 flows, windows of 1 s", &[ALIKE], |r| {
        of_one_size(r, "200", 1.0)
    }),
    spec("figure 4.7", "one packet size, 400 flows, windows of 1 s", &[ALIKE], |r| {
        of_one_size(r, "400", 1.0)
    }),
    spec("figure 4.8", "one packet size, 50 flows, windows of 10 s", &[ALIKE], |r| {
        of_one_size(r, "50", 10.0)
    }),
    spec("figure 4.9", "one packet size, 100 flows, windows of 10 s", &[ALIKE], |r| {
        of_one_size(r, "100", 10.0)
    }),
    spec("figure 4.10", "one packet size, 200 flows, windows of 10 s", &[ALIKE], |r| {
        of_one_size(r, "200", 10.0)
    }),
    spec("figure 4.11", "one packet size, 400 flows, windows of 10 s", &[ALIKE], |r| {
        of_one_size(r, "400", 10.0)
    }),
    spec("round one", "figures 4.4 to 4.11 and other windows in numbers", &[ALIKE], round_one),
    spec("figure 4.12", "two packet sizes, 50 flows, windows of 1 s", &[MIXED], |r| {
        of_two_sizes(r, "50", 1.0)
    }),
    spec("figure 4.13", "two packet sizes, 50 flows, windows of 10 s", &[MIXED], |r| {
        of_two_sizes(r, "50", 10.0)
    }),
    spec("figure 4.14", "two packet sizes, 200 flows, windows of 1 s", &[MIXED], |r| {
        of_two_sizes(r, "200", 1.0)
    }),
    spec("figure 4.15", "two packet sizes, 200 flows, windows of 10 s", &[MIXED], |r| {
        of_two_sizes(r, "200", 10.0)
    }),
    spec(
        "round two",
        "figures 4.12 to 4.15, and small packets of 500 bytes, in numbers",
        &[MIXED],
        round_two,
    ),
    spec("adaptive", "sizes that adapt, alone, under four queues", &[ADAPTIVE], adaptive),
    spec(
        "adaptive beside large",
        "sizes that adapt beside large ones, under four queues",
        &[BESIDE],
        beside_large,
    ),
];

/// Returns the distribution of shares, averaged point by point over the seeds.
fn distribution(
    r: &Results,
    study: &str,
    key: Key<'_>,
    name: &str,
    of: impl Fn(&Outcome) -> Option<&ShareDistribution>,
) -> Series {
    let seeds: Vec<&ShareDistribution> =
        r.outcomes(study, key).filter_map(|(_, o)| of(o)).collect();
    let xs = seeds.first().into_iter().flat_map(|first| &first.cdf).map(|(x, _)| *x);
    let points = xs.enumerate().filter_map(|(i, x)| {
        let ys: Vec<f64> = seeds.iter().filter_map(|s| s.cdf.get(i).map(|(_, y)| *y)).collect();
        Some((x, Estimate::of(&ys)?))
    });
    Series::of_estimates(name, points)
}

fn share_figure(what: &str, seconds: f64, series: Vec<Series>, note: &str) -> Artefact {
    let axes = [
        Axis::linear("percent of the fair share").over(0.0, 300.0),
        Axis::linear("percent of flows with at most this share").over(0.0, 100.0),
    ];
    let note = format!("{SEEDS} {note} Packets of 278 bytes stand for the thesis's 250 bytes.");
    Artefact::figure(format!("{what}, windows of {seconds:.0} s"), axes, series, note)
}

fn of_one_size(r: &Results, flows: &str, seconds: f64) -> Artefact {
    let lines = SIZES.map(|size| {
        let key = [("flows", flows), ("packet", size)];
        distribution(r, ALIKE, &key, &format!("{size} bytes"), |o| everyone(o, seconds))
    });
    let what = format!("{flows} flows with packets of one size");
    share_figure(&what, seconds, lines.into(), "With perfect sharing, a curve is a step at 100 %.")
}

fn of_two_sizes(r: &Results, flows: &str, seconds: f64) -> Artefact {
    let lines = LARGE_PERCENT.into_iter().flat_map(|percent| {
        let mix = mix(flows, percent);
        ["large", "small"].map(|group| {
            let name = format!("{group}, {percent} % large");
            distribution(r, MIXED, &[("mix", &mix), ("small", "278")], &name, |o| {
                members(o, seconds, group)
            })
        })
    });
    let what = format!("{flows} flows with packets of 1500 or 278 bytes");
    share_figure(
        &what,
        seconds,
        lines.collect(),
        "A group's fair share is its share at equal packet rates.",
    )
}

fn mix(flows: &str, percent: &str) -> String {
    format!("{flows} flows, {percent}% large")
}

/// Returns the names of all mixes of round two; each is run with every small size.
pub(super) fn mixes() -> Vec<String> {
    ["50", "200"]
        .iter()
        .flat_map(|flows| LARGE_PERCENT.map(|percent| mix(flows, percent)))
        .collect()
}

/// A column: heading and function of an outcome.
type Column = (&'static str, Measure);

fn table<const N: usize>(
    title: &str,
    columns: [Column; N],
    rows: impl IntoIterator<Item = Row>,
    note: &str,
) -> Artefact {
    Artefact::table(title, columns.map(|(head, _)| head), rows, format!("{SEEDS} {note}"))
}

/// Returns a row of these columns.
fn row(r: &Results, study: &str, key: Key<'_>, label: String, columns: &[Column]) -> Row {
    Row::new(label, columns.iter().map(|(_, of)| Entry::new(r.estimate(study, key, of), "")))
}

fn link_busy(o: &Outcome) -> Option<f64> {
    Some(o.links.get("left-right")?.utilisation_percent)
}

/// Returns the UDP payload that reached the clients, in Mbps.
pub(super) fn delivered_mbps(o: &Outcome) -> Option<f64> {
    Some(o.groups.get("flows")?.throughput_bps / 1e6)
}

fn round_one(r: &Results) -> Artefact {
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
    // Numbers in the thesis, each with its column.
    let printed = |flows, size| match (flows, size) {
        ("50", "1500") => &[(1, "about 30")][..],
        ("200", "1500") => &[(5, "10")],
        ("400", "1500") => &[(4, "about 50"), (5, "over 20")],
        ("400", "1000") => &[(5, "over 20")],
        _ => &[],
    };
    let rows = FLOWS.into_iter().flat_map(|flows| {
        SIZES.map(|size| {
            let label = format!("{flows} flows, {size} bytes");
            let mut row = row(r, ALIKE, &[("flows", flows), ("packet", size)], label, &columns);
            printed(flows, size)
                .iter()
                .for_each(|(i, said)| row.entries[*i].paper = Some((*said).into()));
            row
        })
    });
    let note = "\"At most half\" is the percentage of flows that got at most half of their fair \
                share. \"Starved\" is the percentage of flows that got less than 5 % of it.";
    table("Flows with packets of one size", columns, rows, note)
}

fn round_two(r: &Results) -> Artefact {
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
    let rows = mixes().into_iter().flat_map(|mix| {
        ["278", "500"].map(|small| {
            let label = format!("{mix}, small {small} bytes");
            row(r, MIXED, &[("mix", &mix), ("small", small)], label, &columns)
        })
    });
    let note = "A group's fair share is its share at equal packet rates, so a mean share below 100 \
                % is a penalty beyond the natural one.";
    table("Flows with large and small packets", columns, rows, note)
}

fn adaptive(r: &Results) -> Artefact {
    let columns: [Column; 6] = [
        ("at most half, 1 s, %", |o| half_or_less(everyone(o, 1.0)?)),
        ("starved, 1 s, %", |o| starved(o, 1.0)),
        ("starved, 10 s, %", |o| starved(o, 10.0)),
        ("Jain, 1 s", |o| fairness(o, 1.0)?.jain),
        ("delivered, Mbps", delivered_mbps),
        ("dropped, %", |o| Some(o.links.get("left-right")?.drops_percent)),
    ];
    let rows = by_queue(r, ADAPTIVE, &FLOWS, "size", "", &columns);
    let note = "\"Delivered\" counts UDP payload, without IP and UDP headers.";
    table("Adaptive and fixed packet sizes under four queues", columns, rows, note)
}

/// Returns the bandwidth of the other half of the flows in percent of the large half's.
pub(super) fn beside_percent(o: &Outcome) -> Option<f64> {
    let rate = |name: &str| o.groups.get(name).map(|g| g.throughput_bps);
    let large = rate("large").filter(|bps| *bps > 0.0)?;
    Some(100.0 * rate("other")? / large)
}

fn beside_large(r: &Results) -> Artefact {
    let columns: [Column; 4] = [
        ("bandwidth of the other half, % of the large half's", beside_percent),
        ("large: at most half, 1 s, %", |o| half_or_less(members(o, 1.0, "large")?)),
        ("other half: at most half, 1 s, %", |o| half_or_less(members(o, 1.0, "other")?)),
        ("link busy, %", link_busy),
    ];
    let rows = by_queue(r, BESIDE, &["50", "200"], "beside", "half of them ", &columns);
    let note = "Bandwidth is UDP payload. The fair share of a 278-byte flow is its share at equal \
                packet rates, which is 18.5 % of a large flow's share.";
    table(
        "Half of the flows with large packets, half with another size, under four queues",
        columns,
        rows,
        note,
    )
}

/// Returns a row for every queue, number of flows, and size; `axis` names the axis of sizes.
fn by_queue(
    r: &Results,
    study: &str,
    flows: &[&str],
    axis: &str,
    of_them: &str,
    columns: &[Column],
) -> Vec<Row> {
    let mut rows = Vec::new();
    for queue in QUEUES {
        for n in flows {
            for size in ["1500", "278", "adaptive"] {
                let key = [("queue", queue), ("flows", *n), (axis, size)];
                let unit = if size == "adaptive" { "" } else { " bytes" };
                rows.push(row(
                    r,
                    study,
                    &key,
                    format!("{queue}, {n} flows, {of_them}{size}{unit}"),
                    columns,
                ));
            }
        }
    }
    rows
}
