//! Causes of missed bands: settings of the validation's scenarios that a paper does not state,
//! changed one at a time. docs/validation.md interprets the results.

use fathom_report::{Entry, Row};

use crate::dca::throughput_change;
use crate::results::{Key, Measure};
use crate::{Artefact, ArtefactSpec, Paper, Results, packet_size, sdc, spec, sync_tcp};

pub(crate) const PAPER: Paper = Paper {
    name: "causes",
    citation: "Settings that the five papers do not state, changed one at a time, with TCP at packet \
               level",
    artefacts: ARTEFACTS,
    claims: &[],
    departures: &[
        "The scenarios are those of the paper 'validation'. The first row of each table has \
                   the validation's settings, as far as its name does not say otherwise.",
    ],
    changes: &[],
};

const ARTEFACTS: &[ArtefactSpec] = &[
    spec(
        "sync-tcp",
        "web traffic at 90 % load: drops, queue and response times of Reno",
        &["validation-sync-tcp-causes"],
        |r| SYNC_TCP.table(r),
    ),
    spec(
        "red",
        "web traffic at 90 % load: drops, queue and response times of SACK-ARED-ECN",
        &["validation-red-causes"],
        |r| RED.table(r),
    ),
    spec(
        "dca",
        "change of throughput beside Reno over Emory and ASU",
        &["validation-dca-causes"],
        |r| DCA.table(r),
    ),
    spec(
        "sdc",
        "timeouts per connection of TCP with ECN and of SDC",
        &["validation-sdc-causes"],
        sdc_table,
    ),
    spec(
        "packet-size",
        "starved flows of 400, by bytes per packet",
        &["validation-packet-size-causes"],
        |r| PACKET_SIZE.table(r),
    ),
];

/// A column: heading, values of further axes, and the number.
type Column = (&'static str, Key<'static>, Measure);

/// A study with an axis `change`.
struct Causes {
    study: &'static str,
    title: &'static str,
    columns: &'static [Column],
    note: &'static str,
}

const SYNC_TCP: Causes = Causes {
    study: "validation-sync-tcp-causes",
    title: "Reno at 90 % load",
    columns: WEB,
    note: "Means over the seeds with 95 % intervals, 250,000 responses.",
};

const RED: Causes = Causes {
    study: "validation-red-causes",
    title: "SACK-ARED-ECN at 90 % load",
    columns: WEB,
    note: SYNC_TCP.note,
};

const WEB: &[Column] = &[
    ("Packets dropped at R0 (%)", &[], sync_tcp::drops),
    ("Queue (packets)", &[], sync_tcp::queue),
    ("Median (ms)", &[], sync_tcp::median),
    ("Mean (ms)", &[], sync_tcp::mean),
];

const DCA: Causes = Causes {
    study: "validation-dca-causes",
    title: "Change of throughput",
    columns: &[
        ("Emory", &[("path", "emory")], throughput_change),
        ("ASU", &[("path", "asu")], throughput_change),
    ],
    note: "Change of throughput in percent, relative to a Reno connection at the same time. Changes \
           of TCP's rules also apply to the web users.",
};

const PACKET_SIZE: Causes = Causes {
    study: "validation-packet-size-causes",
    title: "Starved flows of 400 in windows of 1 s (%)",
    columns: &[
        ("1500 B", &[("packet", "1500")], |o| packet_size::starved(o, 1.0)),
        ("500 B", &[("packet", "500")], |o| packet_size::starved(o, 1.0)),
        ("278 B", &[("packet", "278")], |o| packet_size::starved(o, 1.0)),
    ],
    note: "Without delay at hosts, nothing in a run is random, so all seeds give the same run.",
};

impl Causes {
    fn table(&self, r: &Results) -> Artefact {
        let rows = r.axis(self.study, "change").into_iter().map(|change| {
            let entries = self.columns.iter().map(|(_, key, of)| {
                let key: Vec<_> =
                    key.iter().copied().chain([("change", change.as_str())]).collect();
                Entry::new(r.estimate(self.study, &key, of), "")
            });
            Row::new(change.clone(), entries.collect::<Vec<_>>())
        });
        let headings = self.columns.iter().map(|(heading, ..)| *heading);
        Artefact::table(self.title, headings, rows.collect::<Vec<_>>(), self.note)
    }
}

/// Returns the timeouts by change and system, with a column for each number of flows.
fn sdc_table(r: &Results) -> Artefact {
    const STUDY: &str = "validation-sdc-causes";
    let (flows, systems) = (r.axis(STUDY, "flows"), r.axis(STUDY, "system"));
    let mut rows = Vec::new();
    for change in r.axis(STUDY, "change") {
        for system in &systems {
            let entry = |flows: &String| {
                let key = [("change", change.as_str()), ("system", system), ("flows", flows)];
                Entry::new(r.estimate(STUDY, &key, sdc::timeouts), "")
            };
            rows.push(Row::new(format!("{change}: {system}"), flows.iter().map(entry)));
        }
    }
    let headings: Vec<String> = flows.iter().map(|flows| format!("{flows} flows")).collect();
    let headings = headings.iter().map(String::as_str);
    Artefact::table("Timeouts per connection in 100 s", headings, rows, "")
}
