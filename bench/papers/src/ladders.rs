//! Ladders from the papers' TCP to QUIC for each paper's headline result, one mechanism per step,
//! to show which step moves the number. Each step keeps the mechanisms of the previous steps. After
//! the last step come the stacks themselves. docs/validation.md interprets the results.

use fathom_experiments::scenario::{LinkOutcome, Outcome};
use fathom_metrics::Estimate;
use fathom_report::{Axis, Entry, Row, Series};

use crate::dca::throughput_change;
use crate::results::Measure;
use crate::{Artefact, ArtefactSpec, Paper, Results, ghstcp, packet_size, sdc, spec, sync_tcp};

pub(crate) const PAPER: Paper = Paper {
    name: "ladders",
    citation: "From the five papers' TCP to QUIC in steps; in the ladders of Sync-TCP and gHSTCP, some steps have \
               two mechanisms",
    artefacts: ARTEFACTS,
    claims: &[],
    departures: DEPARTURES,
    changes: &[],
};

const DEPARTURES: &[&str] = &[
    "The first step is the packet-level TCP of docs/validation.md, without some rules of ns-2. So \
     its numbers differ: Vegas has -41 instead of -25 %, SDC 18 instead of 15 timeouts, and 45 \
     instead of 52 % of the flows with 1500 bytes starve. Each later step adds a mechanism and keeps those of the previous steps. After the last step come the stacks \
     themselves. The difference between the last step and a stack is not attributed to a \
     mechanism.",
    "Runs that would take a stack several minutes are smaller than the papers' runs: Sync-TCP's \
     ladder has 60,000 responses, and gHSTCP's ladder has a tenth of the paper's rates.",
    "Ladders with bulk transfers have no steps for the size of the handshake and for the close of \
     a connection.",
];

const ARTEFACTS: &[ArtefactSpec] = &[
    spec(
        "figure sync-tcp",
        "drops of web traffic at 90 % load (Sync-TCP table 1)",
        SYNC_TCP.studies,
        |r| SYNC_TCP.figure(r),
    ),
    spec(
        "table sync-tcp",
        "drops, queue and response times of web traffic at 90 % load",
        SYNC_TCP.studies,
        |r| SYNC_TCP.table(r),
    ),
    spec(
        "table sync-tcp-without",
        "web traffic: the last step with mechanisms removed, and TCP with mechanisms added",
        &[WITHOUT],
        without,
    ),
    spec(
        "figure dca",
        "a delay-based connection beside Reno over Emory (DCA table 4-4)",
        DCA.studies,
        |r| DCA.figure(r),
    ),
    spec(
        "table dca",
        "throughput of the delay-based connection and of Reno over Emory",
        DCA.studies,
        |r| DCA.table(r),
    ),
    spec("figure sdc", "timeouts with 200 flows (SDC figure 4)", SDC.studies, |r| SDC.figure(r)),
    spec("table sdc", "timeouts, drops and queue with 200 flows", SDC.studies, |r| SDC.table(r)),
    spec(
        "figure ghstcp",
        "Reno beside HighSpeed TCP and gHSTCP (gHSTCP figures 2 and 3)",
        GHSTCP.studies,
        |r| GHSTCP.figure(r),
    ),
    spec("table ghstcp", "throughput of both groups, and drops", GHSTCP.studies, |r| {
        GHSTCP.table(r)
    }),
    spec(
        "figure packet-size",
        "starved flows of 400 (Packet size figure 4.7)",
        PACKET_SIZE.studies,
        |r| PACKET_SIZE.figure(r),
    ),
    spec(
        "table packet-size",
        "starved flows of 400 in windows of 1 and 10 s, and drops",
        PACKET_SIZE.studies,
        |r| PACKET_SIZE.table(r),
    ),
];

/// A curve: a value of the ladder's axis, and the name.
type Curve = (&'static str, &'static str);

/// A ladder from a paper's TCP to QUIC for its headline result.
struct Ladder {
    studies: &'static [&'static str],
    /// Title of the figure or table.
    title: &'static str,
    /// Axis of the study besides its steps, and the curves.
    axis: &'static str,
    curves: &'static [Curve],
    /// Columns with their units, the headline first.
    columns: &'static [(&'static str, Measure)],
}

const SYNC_TCP: Ladder = Ladder {
    studies: &["ladder-sync-tcp"],
    title: "Web traffic at 90 % load, 60,000 responses",
    axis: "controller",
    curves: &[("reno", "Reno"), ("sync:trust=full", "Sync-TCP")],
    columns: &[
        ("Packets dropped at R0 (%)", sync_tcp::drops),
        ("Queue (packets)", sync_tcp::queue),
        ("Median (ms)", sync_tcp::median),
        ("Mean (ms)", sync_tcp::mean),
    ],
};

const DCA: Ladder = Ladder {
    studies: &["ladder-dca"],
    title: "A delay-based connection beside Reno over Emory",
    axis: "controller",
    curves: &[("dca", "DCA, 50 %"), ("vegas", "Vegas-CAM"), ("dual", "DUAL")],
    columns: &[
        ("Change of throughput (%)", throughput_change),
        ("Reno (Mbps)", |o| Some(bps(o, "reno")? / 1e6)),
        ("Delay-based connection (Mbps)", |o| Some(bps(o, "delay-based")? / 1e6)),
    ],
};

const SDC: Ladder = Ladder {
    studies: &["ladder-sdc"],
    title: "Timeouts and drops with 200 flows in 100 s",
    axis: "controller",
    curves: &[("reno", "TCP with ECN"), ("sdc", "SDC")],
    columns: &[
        ("Timeouts per connection", sdc::timeouts),
        ("Packets dropped (%)", drops),
        ("Queue (packets)", |o| Some(bottleneck(o)?.mean_queue)),
    ],
};

const GHSTCP: Ladder = Ladder {
    studies: &["ladder-ghstcp"],
    title: "Reno beside HighSpeed TCP and gHSTCP, at a tenth of the paper's rates",
    axis: "controller",
    curves: &[("reno", "Reno"), ("highspeed", "HighSpeed TCP"), ("gentle", "gHSTCP")],
    columns: &[
        ("Reno's group S1 (Mbps)", ghstcp::s1),
        ("The other group S2 (Mbps)", ghstcp::s2),
        ("Packets dropped (%)", drops),
    ],
};

const PACKET_SIZE: Ladder = Ladder {
    studies: &["ladder-packet-size"],
    title: "Starved flows and drops with 400 flows",
    axis: "packet",
    curves: &[("1500", "1500 bytes"), ("278", "278 bytes")],
    columns: &[
        ("Flows starved in 1 s (%)", |o| packet_size::starved(o, 1.0)),
        ("Flows starved in 10 s (%)", |o| packet_size::starved(o, 10.0)),
        ("Packets dropped (%)", drops),
    ],
};

/// The last step of Sync-TCP's ladder without one of its mechanisms, and single mechanisms on TCP.
const WITHOUT: &str = "ladder-sync-tcp-without";

fn without(r: &Results) -> Artefact {
    let steps = r.axis(WITHOUT, "step");
    let rows = steps
        .iter()
        .map(|step| SYNC_TCP.row(step.clone(), |of| r.estimate(WITHOUT, &[("step", step)], of)));
    let note = "All rows are for Reno. The row \"all of them\" is the ladder's last step before \
                the stacks. In the rows after it, one or two mechanisms are removed. From \"TCP \
                with SACK\" on, the rows add mechanisms to the ladder's second step.";
    Artefact::table(
        "The last step with mechanisms removed, and TCP with mechanisms added",
        SYNC_TCP.heads(),
        rows,
        note,
    )
}

/// Returns the only queue of a dumbbell.
fn bottleneck(o: &Outcome) -> Option<&LinkOutcome> {
    o.links.get("left-right")
}

fn drops(o: &Outcome) -> Option<f64> {
    Some(bottleneck(o)?.drops_percent)
}

fn bps(o: &Outcome, name: &str) -> Option<f64> {
    Some(o.groups.get(name)?.flows.first()?.throughput_bps)
}

impl Ladder {
    fn heads(&self) -> impl Iterator<Item = &'static str> {
        self.columns.iter().map(|(head, _)| *head)
    }

    /// Returns a row of the table, with an estimate for the measure of each column.
    fn row(&self, label: String, estimate: impl Fn(Measure) -> Option<Estimate>) -> Row {
        Row::new(label, self.columns.iter().map(|(_, of)| Entry::new(estimate(*of), "")))
    }

    fn estimate(&self, r: &Results, step: &str, curve: &str, of: Measure) -> Option<Estimate> {
        r.estimate(self.studies[0], &[("step", step), (self.axis, curve)], of)
    }

    fn figure(&self, r: &Results) -> Artefact {
        let (headline, of) = self.columns[0];
        let steps = r.axis(self.studies[0], "step");
        let series = self.curves.iter().map(|(value, name)| {
            let points = (1_u32..).zip(&steps);
            let at = |(n, step): (u32, &String)| {
                Some((f64::from(n), self.estimate(r, step, value, of)?))
            };
            Series::of_estimates(*name, points.filter_map(at))
        });
        let names: Vec<String> = (1..).zip(&steps).map(|(n, step)| format!("{n} {step}")).collect();
        let note =
            format!("Means over the seeds with 95 % intervals. Steps: {}.", names.join("; "));
        let axes = [Axis::linear("Step"), Axis::linear(headline)];
        Artefact::figure(self.title, axes, series.collect::<Vec<_>>(), note)
    }

    fn table(&self, r: &Results) -> Artefact {
        let steps = r.axis(self.studies[0], "step");
        let rows = self.curves.iter().flat_map(|(value, name)| {
            steps.iter().map(move |step| {
                self.row(format!("{name}, {step}"), |of| self.estimate(r, step, value, of))
            })
        });
        let note = "Each step keeps the mechanisms of the previous steps. The stacks (quinn, noq \
                    and quiche) are not steps.";
        Artefact::table(self.title, self.heads(), rows, note)
    }
}
