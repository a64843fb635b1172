//! Figures of SDC §3, and tables for statements of its text without a figure.

use fathom_experiments::scenario::Outcome;
use fathom_report::{Axis, Entry, Row, Series};

use super::{
    ALONE, DATAGRAM, FIGURE_4, FIGURE_9, FIGURE_10, FIGURE_11, FIGURE_12, LATENCY, SDC, SETTLED,
    TCP, WINDOWS, above_four, alone_mbps, backoff, drops, eight_or_more, mean_latency,
    near_over_far, sdc_percent, timeouts, worst_latency,
};
use crate::results::{Key, Measure, with};
use crate::{Artefact, ArtefactSpec, Results, spec};

pub(super) const ARTEFACTS: &[ArtefactSpec] = &[
    spec("figure 4", "timeouts per connection over the number of flows", &[FIGURE_4], |r| {
        let title = "Timeouts per connection over the number of flows";
        let note = "Up to 100 flows, the number of flows increases in steps of 10, as in the \
                    paper. Above 100 flows, the steps are 50. Probe timeouts stand for TCP's \
                    timeouts.";
        over_flows(r, FIGURE_4, title, "timeouts per connection", note, timeouts)
    }),
    spec("figure 5", "length of TCP's timeouts over the number of flows", &[FIGURE_4], |r| {
        let line = r.curve(FIGURE_4, "flows", &[("system", TCP)], TCP, backoff);
        let note = "The length of a timeout is the length of a backoff. A backoff lasts from the \
                    last packet before a probe timeout to the first acknowledgement after the \
                    timeout. If no backoff occurred with a number of flows, the figure has no \
                    point for this number.";
        let axes = [Axis::linear("flows"), Axis::linear("seconds").over(0.0, 1.5)];
        figure("Mean length of timeouts over the number of flows, TCP", axes, [line], note)
    }),
    spec("figure 6", "packets dropped over the number of flows", &[FIGURE_4], |r| {
        let title = "Packets dropped per connection over the number of flows";
        let note = "Our number of drops is per connection. The paper does not say whether its \
                    number is per connection.";
        over_flows(r, FIGURE_4, title, "packets dropped per connection", note, drops)
    }),
    spec("figure 7", "packet delivery latency, 100 flows", &[LATENCY], |r| {
        latencies(r, "100", 1.0)
    }),
    spec("figure 8", "packet delivery latency, 500 flows", &[LATENCY], |r| {
        latencies(r, "500", 3.0)
    }),
    spec("latency", "average and worst latencies, as in the text of §3.3", &[LATENCY], |r| {
        let rows = [("100", ["0.10", "0.03"]), ("500", ["0.30", "0.09"])].map(|(flows, means)| {
            let of = |label, of, paper| {
                row(r, LATENCY, &[("flows", flows)], format!("{flows} flows: {label}"), of, paper)
            };
            [
                of("mean, seconds", mean_latency, means),
                of("longest, seconds", worst_latency, [""; 2]),
            ]
        });
        table(
            "Packet delivery latency (SDC §3.3)",
            rows.into_iter().flatten(),
            "Latencies are \
                                                                                 those of one \
                                                                                 flow.",
        )
    }),
    spec("figure 9", "bandwidths over the ratio of round trips, 10 flows", &[FIGURE_9], |r| {
        over_ratio(r, FIGURE_9, "10 flows, five in each group")
    }),
    spec("figure 10", "bandwidths over the ratio of round trips, 100 flows", &[FIGURE_10], |r| {
        over_ratio(r, FIGURE_10, "100 flows, 50 in each group")
    }),
    spec("figure 11", "50 SDC flows beside 50 TCP flows", &[FIGURE_11], |r| {
        let by_factor = r.curve(FIGURE_11, "factor", &[], "D to a share of itself", sdc_percent);
        let equation = r.estimate(FIGURE_11, &[("factor", "equation")], sdc_percent);
        let equation =
            equation.map(|e| Series::of_estimates("SDC's own equation (2)", [(0.1, e), (0.9, e)]));
        let paper = Series::marks("the paper's text", vec![(0.1, 90.0), (0.9, 30.0)]);
        let lines: Vec<Series> = [by_factor].into_iter().chain(equation).chain([paper]).collect();
        let axes = [
            Axis::linear("share of D that an unmarked ACK leaves"),
            Axis::linear("SDC's bandwidth, percent of TCP's"),
        ];
        let note = "The marks show the statements of SDC §3.5 for the factors 0.1 and 0.9. The \
                    horizontal line shows the result with equation (2).";
        figure("50 SDC flows beside 50 TCP flows", axes, lines, note)
    }),
    spec("figure 12", "timeouts per connection with AVQ", &[FIGURE_12], |r| {
        let title = "Timeouts per connection over the number of flows, with AVQ";
        let note = "The figure is the same as figure 4, but the queue is AVQ with alpha 0.12 and \
                    gamma 0.98.";
        over_flows(r, FIGURE_12, title, "timeouts per connection", note, timeouts)
    }),
    spec("windows", "how large one sender's window is, of the text of §3.1", &[WINDOWS], |r| {
        let flows = r.axis(WINDOWS, "flows");
        let rows = flows.iter().flat_map(|n| {
            let of = |label, of, paper| {
                row(r, WINDOWS, &[("flows", n)], format!("{n} flows: {label}"), of, paper)
            };
            [
                of("window above four packets, percent of time", above_four, ["hardly ever", ""]),
                of(
                    "window of eight packets or more, percent of time",
                    eight_or_more,
                    ["", "can be kept there"],
                ),
            ]
        });
        let note = format!(
            "The first sender's window in packets of {DATAGRAM} bytes, from second {SETTLED:.0} on."
        );
        table("One sender's window (SDC §3.1)", rows, &note)
    }),
    spec("alone", "one flow without competition, of the text of §3.5", &[ALONE], |r| {
        let cases = [
            ("20p", "window of 24 kB, no congestion: Mbps"),
            ("none", "no limit, filling the link: Mbps"),
        ];
        let rows = cases.map(|(window, label)| {
            row(r, ALONE, &[("window", window)], label.into(), alone_mbps, ["", "as TCP"])
        });
        table("One flow without competition (SDC §3.5)", rows, "Throughput is that of UDP payload.")
    }),
];

const SEEDS: &str = "Values are means over the seeds with 95 % intervals.";

fn figure(title: &str, axes: [Axis; 2], series: impl Into<Vec<Series>>, note: &str) -> Artefact {
    Artefact::figure(title, axes, series, format!("{SEEDS} {note}"))
}

fn over_flows(r: &Results, study: &str, title: &str, y: &str, note: &str, of: Measure) -> Artefact {
    let lines = [TCP, SDC].map(|system| r.curve(study, "flows", &[("system", system)], system, of));
    figure(title, [Axis::linear("flows"), Axis::linear(y)], lines, note)
}

/// Number of latency budgets at which a curve is evaluated.
const BUDGETS: u32 = 100;

fn latencies(r: &Results, flows: &str, last: f64) -> Artefact {
    let lines = [TCP, SDC].map(|system| {
        let budgets = (0..=BUDGETS).map(|step| last * f64::from(step) / f64::from(BUDGETS));
        let read = |seconds: f64| {
            let of = |o: &Outcome| Some(super::latency(o)?.within_ms(seconds * 1e3));
            Some((seconds, r.estimate(LATENCY, &[("flows", flows), ("system", system)], of)?))
        };
        Series::of_estimates(system, budgets.filter_map(read))
    });
    let axes = [
        Axis::linear("latency budget (s)").over(0.0, last),
        Axis::linear("fraction of packets delivered within the budget").over(0.0, 1.0),
    ];
    let title = format!("Packet delivery latency of one of {flows} flows");
    figure(&title, axes, lines, "A curve further to the left means that packets arrive sooner.")
}

fn over_ratio(r: &Results, study: &str, which: &str) -> Artefact {
    let lines = [TCP, SDC]
        .map(|system| r.curve(study, "ratio", &[("system", system)], system, near_over_far));
    let title = format!(
        "Bandwidth of group 1 over that of group 2, over the ratio of their round trips: {which}"
    );
    let axes = [Axis::linear("RTT2 / RTT1"), Axis::logarithmic("bandwidth 1 / bandwidth 2")];
    figure(&title, axes, lines, "The vertical axis is logarithmic. A ratio of 1 is fair.")
}

/// Builds a table with the two systems as columns.
fn table(title: &str, rows: impl IntoIterator<Item = Row>, note: &str) -> Artefact {
    Artefact::table(title, [TCP, SDC], rows, format!("{note} {SEEDS}"))
}

fn row(
    r: &Results,
    study: &str,
    fixed: Key<'_>,
    label: String,
    of: Measure,
    paper: [&str; 2],
) -> Row {
    let entry =
        |(system, paper)| Entry::new(r.estimate(study, &with(fixed, "system", system), of), paper);
    Row::new(label, [TCP, SDC].into_iter().zip(paper).map(entry))
}
