//! Figures of SDC §3, and tables of what its text says without a figure.

use fathom_experiments::scenario::Outcome;
use fathom_report::{Axis, Entry, Figure, Row, Series, Table};

use super::super::claims::values::{curve, marks, series, with};
use super::super::{Artefact, Body, Results};
use super::{
    ALONE, DATAGRAM, FIGURE_4, FIGURE_9, FIGURE_10, FIGURE_11, FIGURE_12, LATENCY, SDC, SETTLED, TCP, WINDOWS,
    above_four, alone_mbps, backoff, drops, eight_or_more, mean_latency, near_over_far, sdc_percent, timeouts,
    worst_latency,
};

/// The study that a figure needs, and what makes it.
type Maker = (&'static str, fn(&Results) -> Artefact);

pub(super) fn artefacts(results: &Results) -> Vec<Artefact> {
    let makers: [Maker; 12] = [
        (FIGURE_4, |r| {
            let title = "Timeouts per connection over the number of flows";
            let note = "Ten to 100 flows in steps of ten as in the paper, 50 above. Probe timeouts stand for timeouts.";
            over_flows(r, FIGURE_4, "figure 4", title, "timeouts per connection", note, timeouts)
        }),
        (FIGURE_4, figure_5),
        (FIGURE_4, |r| {
            let title = "Packets dropped per connection over the number of flows";
            let note = "The paper does not say whether its number is per connection; here it is.";
            over_flows(r, FIGURE_4, "figure 6", title, "packets dropped per connection", note, drops)
        }),
        (LATENCY, |r| latencies(r, "figure 7", "100", 1.0)),
        (LATENCY, |r| latencies(r, "figure 8", "500", 3.0)),
        (LATENCY, latency),
        (FIGURE_9, |r| over_ratio(r, FIGURE_9, "figure 9", "10 flows, five in each group")),
        (FIGURE_10, |r| over_ratio(r, FIGURE_10, "figure 10", "100 flows, 50 in each group")),
        (FIGURE_11, figure_11),
        (FIGURE_12, |r| {
            let title = "Timeouts per connection over the number of flows, with AVQ";
            let note = "As figure 4, with alpha .12 and gamma .98.";
            over_flows(r, FIGURE_12, "figure 12", title, "timeouts per connection", note, timeouts)
        }),
        (WINDOWS, windows),
        (ALONE, alone),
    ];
    makers.iter().filter(|(study, _)| results.have(&[study])).map(|(_, make)| make(results)).collect()
}

fn figure(id: &str, title: &str, x: Axis, y: Axis, series: Vec<Series>, note: String) -> Artefact {
    Artefact { id: id.into(), title: title.into(), body: Body::Figure(Figure { x, y, series }), note }
}

fn axis(label: &str, log: bool) -> Axis {
    Axis { label: label.into(), log, range: None }
}

fn over_flows(
    results: &Results,
    study: &str,
    id: &str,
    title: &str,
    y: &str,
    note: &str,
    of: impl Fn(&Outcome) -> Option<f64> + Copy,
) -> Artefact {
    let lines = [TCP, SDC].map(|system| curve(results, study, "flows", &[("system", system)], system, of));
    let (x, y) = (axis("flows", false), axis(y, false));
    figure(id, title, x, y, lines.into(), format!("Means over the seeds with 95 % intervals. {note}"))
}

fn figure_5(results: &Results) -> Artefact {
    let line = curve(results, FIGURE_4, "flows", &[("system", TCP)], TCP, backoff);
    let note = "Means over the seeds with 95 % intervals. A backoff: from the last packet before a probe timeout to the first \
                acknowledgement after it. Where nobody backs off there is no point.";
    let title = "Mean length of timeouts over the number of flows, TCP";
    figure("figure 5", title, axis("flows", false), axis("seconds", false), vec![line], note.into())
}

/// Latency budgets at which a curve is read.
const BUDGETS: u32 = 100;

fn latencies(results: &Results, id: &str, flows: &'static str, last: f64) -> Artefact {
    let lines = [TCP, SDC].map(|system| {
        let budgets = (0..=BUDGETS).map(|step| last * f64::from(step) / f64::from(BUDGETS));
        let read = |seconds: f64| {
            let of = |o: &Outcome| Some(super::latency(o)?.within_ms(seconds * 1e3));
            Some((seconds, results.estimate(LATENCY, &[("flows", flows), ("system", system)], of)?))
        };
        series(system, &budgets.filter_map(read).collect::<Vec<_>>())
    });
    let x = Axis { label: "latency budget (s)".into(), log: false, range: Some((0.0, last)) };
    let y = Axis { label: "part of packets delivered within it".into(), log: false, range: Some((0.0, 1.0)) };
    let title = format!("Packet delivery latency of one of {flows} flows");
    let note = "Means over the seeds with 95 % intervals. Further to the left is sooner.";
    figure(id, &title, x, y, lines.into(), note.into())
}

fn latency(results: &Results) -> Artefact {
    let paper = [("100", ["0.10", "0.03"]), ("500", ["0.30", "0.09"])];
    let rows = paper.iter().flat_map(|(flows, [tcp, sdc])| {
        let of = |label: &str, of, paper| {
            row(results, LATENCY, &[("flows", flows)], format!("{flows} flows: {label}"), of, paper)
        };
        [of("mean, seconds", mean_latency, [Some(*tcp), Some(*sdc)]), of("longest, seconds", worst_latency, [None; 2])]
    });
    let note = "Of one flow. Means over the seeds with 95 % intervals.";
    table("latency", "Packet delivery latency (SDC §3.3)".into(), rows.collect(), note.into())
}

fn over_ratio(results: &Results, study: &str, id: &str, which: &str) -> Artefact {
    let lines = [TCP, SDC].map(|system| curve(results, study, "ratio", &[("system", system)], system, near_over_far));
    let title = format!("Bandwidth of group 1 over that of group 2, over the ratio of their round trips: {which}");
    let (x, y) = (axis("RTT2 / RTT1", false), axis("bandwidth 1 / bandwidth 2", true));
    let note = "Means over the seeds with 95 % intervals. The vertical axis is logarithmic; 1 is fair.";
    figure(id, &title, x, y, lines.into(), note.into())
}

fn figure_11(results: &Results) -> Artefact {
    let by_factor = curve(results, FIGURE_11, "factor", &[], "D to a share of itself", sdc_percent);
    let mut lines = vec![by_factor];
    if let Some(e) = results.estimate(FIGURE_11, &[("factor", "equation")], sdc_percent) {
        lines.push(series("SDC's own equation (2)", &[(0.1, e), (0.9, e)]));
    }
    lines.push(marks("the paper's text", &[(0.1, 90.0), (0.9, 30.0)]));
    let (x, y) =
        (axis("share of D that an unmarked ACK leaves", false), axis("SDC's bandwidth, percent of TCP's", false));
    let note = "Means over the seeds with 95 % intervals. The marks are what SDC §3.5 says of .1 and .9. What equation (2) gives is \
                drawn as a level line.";
    figure("figure 11", "50 SDC flows beside 50 TCP flows", x, y, lines, note.into())
}

/// A table with the two systems as columns.
fn table(id: &str, title: String, rows: Vec<Row>, note: String) -> Artefact {
    let body = Body::Table(Table { columns: vec![TCP.into(), SDC.into()], rows });
    Artefact { id: id.into(), title, body, note }
}

fn row(
    results: &Results,
    study: &str,
    fixed: &[(&str, &str)],
    label: String,
    of: fn(&Outcome) -> Option<f64>,
    paper: [Option<&str>; 2],
) -> Row {
    let entry = |system: &str, paper: Option<&str>| Entry {
        ours: results.estimate(study, &with(fixed, "system", system), of),
        paper: paper.map(Into::into),
    };
    Row { label, entries: vec![entry(TCP, paper[0]), entry(SDC, paper[1])] }
}

fn windows(results: &Results) -> Artefact {
    let flows = results.axis(WINDOWS, "flows");
    let rows = flows.iter().flat_map(|n| {
        let of =
            |label: &str, of, paper| row(results, WINDOWS, &[("flows", n)], format!("{n} flows: {label}"), of, paper);
        [
            of("window above four packets, percent of time", above_four, [Some("hardly ever"), None]),
            of("window of eight packets or more, percent of time", eight_or_more, [None, Some("can be kept there")]),
        ]
    });
    let note = format!(
        "The first sender's window in packets of {DATAGRAM} bytes, from second {SETTLED:.0} on. Means over the seeds with 95 % intervals."
    );
    table("windows", "One sender's window (SDC §3.1)".into(), rows.collect(), note)
}

fn alone(results: &Results) -> Artefact {
    let cases = [("20p", "window of 24 kB, no congestion: Mbps"), ("none", "no limit, filling the link: Mbps")];
    let rows = cases.map(|(window, label)| {
        row(results, ALONE, &[("window", window)], label.into(), alone_mbps, [None, Some("as TCP")])
    });
    let note = "UDP payload. Means over the seeds with 95 % intervals.";
    table("alone", "One flow without competition (SDC §3.5)".into(), rows.into(), note.into())
}
