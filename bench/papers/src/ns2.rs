//! Results of ns-2 on the papers' scenarios with TCP (`bench/ns2`), in the form of the laboratory's
//! results, so that the same predicates can be asked of them. An outcome has only the numbers that
//! ns-2's scripts measure.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use fathom_experiments::scenario::{GroupOutcome, LinkOutcome, Outcome, TcpOutcome};
use fathom_experiments::study::StudyRunResult;
use fathom_metrics::{Distribution, Fairness, ShareDistribution, WindowFairness};

use crate::Results;

/// Key and outcome of a run.
type KeyedOutcome = (BTreeMap<String, String>, Outcome);

/// Stored results of a scenario of `bench/ns2`, and the study whose runs they stand beside.
struct Source {
    study: &'static str,
    csv: &'static str,
    /// Returns the key and the outcome of a row in the study; `None` for rows of other settings.
    read: fn(&Row<'_>) -> Option<KeyedOutcome>,
}

const SOURCES: [Source; 3] = [
    Source {
        study: "validation-sync-tcp",
        csv: include_str!("../../results/ns2/web.csv"),
        read: web,
    },
    Source {
        study: "validation-sdc",
        csv: include_str!("../../results/ns2/ecn-flows.csv"),
        read: ecn_flows,
    },
    Source {
        study: "validation-packet-size",
        csv: include_str!("../../results/ns2/starved-flows.csv"),
        read: starved_flows,
    },
];

/// A row of a CSV file.
struct Row<'a>(BTreeMap<&'a str, &'a str>);

impl Row<'_> {
    fn text(&self, column: &str) -> Option<String> {
        self.0.get(column).map(|text| (*text).to_owned())
    }

    fn number(&self, column: &str) -> Option<f64> {
        self.0.get(column)?.parse().ok()
    }
}

/// Returns ns-2's results by the laboratory's study. The numbers of seeds differ from the study's.
pub(crate) fn results() -> &'static Results {
    static RESULTS: LazyLock<Results> = LazyLock::new(|| {
        let mut results = Results::default();
        for source in &SOURCES {
            results.add(source.study, source.runs());
        }
        results
    });
    &RESULTS
}

impl Source {
    fn runs(&self) -> Vec<StudyRunResult> {
        let mut lines = self.csv.lines().map(|line| line.split(','));
        let head: Vec<&str> = lines.next().into_iter().flatten().collect();
        let run = |line| {
            let row = Row(head.iter().copied().zip(line).collect());
            let (key, outcome) = (self.read)(&row)?;
            let seed = row.text("seed")?.parse().ok()?;
            Some(StudyRunResult { key, seed, fingerprint: String::new(), outcome })
        };
        lines.filter_map(run).collect()
    }
}

fn key<const N: usize>(axes: [(&str, String); N]) -> BTreeMap<String, String> {
    axes.map(|(axis, value)| (axis.to_owned(), value)).into()
}

fn outcome(link: &str, row: &Row<'_>, name: &str, group: GroupOutcome) -> Option<Outcome> {
    let link_outcome = LinkOutcome {
        drops_percent: row.number("drops_percent")?,
        mean_queue: row.number("queue_packets")?,
        throughput_bps: row.number("throughput_mbps")? * 1e6,
        ..LinkOutcome::default()
    };
    Some(Outcome {
        links: [(link.to_owned(), link_outcome)].into(),
        groups: [(name.to_owned(), group)].into(),
        ..Outcome::default()
    })
}

fn web(row: &Row<'_>) -> Option<KeyedOutcome> {
    // This rate loads the links with 90 %.
    if row.text("rate")? != "126" {
        return None;
    }
    let times = Distribution {
        median_ms: row.number("median_ms")?,
        mean_ms: row.number("mean_ms")?,
        ..Distribution::default()
    };
    let group = GroupOutcome {
        times: Some(times),
        mean_size: row.number("size_bytes")?,
        ..GroupOutcome::default()
    };
    let key = key([("load", "90".to_owned()), ("system", row.text("system")?)]);
    Some((key, outcome("r0-r1", row, "forward", group)?))
}

fn ecn_flows(row: &Row<'_>) -> Option<KeyedOutcome> {
    if row.text("ecn")? != "on" {
        return None;
    }
    let key = key([("flows", row.text("flows")?), ("system", "TCP with ECN".to_owned())]);
    Some((key, outcome("left-right", row, "flows", flows(row)?)?))
}

fn starved_flows(row: &Row<'_>) -> Option<KeyedOutcome> {
    let key = key([("flows", row.text("flows")?), ("packet", row.text("packet")?)]);
    let window = |seconds: f64, column: &str| {
        let shares = ShareDistribution {
            flows: row.number("flows")? as usize,
            // Not measured.
            mean_percent: f64::NAN,
            starved_percent: row.number(column)?,
            cdf: Vec::new(),
        };
        let windows = (100.0 / seconds) as usize;
        let (jain, min_max, groups) = (None, None, Vec::new());
        Some(WindowFairness { seconds, windows, jain, min_max, all: shares, groups })
    };
    let windows = vec![window(1.0, "starved_1s_percent")?, window(10.0, "starved_10s_percent")?];
    let outcome = outcome("left-right", row, "flows", flows(row)?)?;
    Some((key, Outcome { fairness: Some(Fairness { windows }), ..outcome }))
}

/// Returns the group of long flows.
fn flows(row: &Row<'_>) -> Option<GroupOutcome> {
    let tcp = TcpOutcome { timeouts: row.number("timeouts")? as u64, ..TcpOutcome::default() };
    Some(GroupOutcome {
        connections: row.number("flows")? as u64,
        tcp: Some(tcp),
        ..GroupOutcome::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{packet_size, sdc, sync_tcp};

    #[test]
    fn ns2_results_have_the_measures_of_the_bands() {
        let r = results();
        let many = |study: &str, key: &[(&str, &str)], of: crate::results::Measure| {
            r.by_seed(study, key, of).estimate().map(|e| (e.n, e.mean))
        };
        let reno = [("load", "90"), ("system", "Reno")];
        for of in [sync_tcp::drops, sync_tcp::queue, sync_tcp::median, sync_tcp::mean] {
            assert!(many("validation-sync-tcp", &reno, of).is_some_and(|(n, v)| n >= 5 && v > 0.0));
        }
        let ecn = [("flows", "200"), ("system", "TCP with ECN")];
        let timeouts = many("validation-sdc", &ecn, sdc::timeouts);
        assert!(timeouts.is_some_and(|(n, v)| n >= 5 && v > 10.0), "{timeouts:?}");
        let large = [("flows", "400"), ("packet", "1500")];
        let starved = |o: &Outcome| packet_size::starved(o, 1.0);
        let starved = r.by_seed("validation-packet-size", &large, starved).estimate();
        assert!(starved.is_some_and(|e| e.n >= 5 && e.mean > 10.0), "{starved:?}");
        assert!(many("validation-sync-tcp", &[("system", "Sync-TCP")], sync_tcp::drops).is_none());
    }
}
