//! Results of a load run, as a table and as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use fathom_http::load::{FailureKind, LatencyHistogram, LoadReport};
use fathom_metrics::percentile::samples_for;
use serde_json::{Value, json};

use crate::output;

/// Note in the results of every closed loop.
pub(super) const OMISSION: &str = "closed loop: a stalled server gets fewer requests, so percentiles suffer from coordinated omission; \
    use --rate to measure response times";

/// Quantiles that are columns of the table of times.
pub(super) const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

pub(super) fn ms(time: Option<Duration>) -> String {
    time.map_or_else(|| "-".into(), |time| format!("{:.2}", time.as_secs_f64() * 1e3))
}

/// Returns the results as a table. `waited` describes how long the run continued after its measured
/// time, if it did.
pub(super) fn table(load: &str, outcome: &LoadReport, waited: Option<&str>) -> String {
    let mut lines = Lines::default();
    lines.add("load", load);
    requests(&mut lines, outcome);
    if let Some(waited) = waited {
        lines.add("waited", waited);
    }
    let counts = &outcome.counts;
    lines.add(
        "rate",
        format!(
            "{:.1} responses/s, goodput {}, {} B of bodies",
            outcome.rate(),
            bits(outcome.goodput()),
            counts.bytes
        ),
    );
    lines.0 += &times(outcome);
    connections(&mut lines, outcome);
    lines.add("client", outcome.saturation);
    if counts.failed() + counts.unfinished > 0 {
        lines.add("note", "percentiles exclude failed and unfinished requests");
    }
    if !outcome.open_loop {
        lines.add("note", OMISSION);
    }
    if outcome.connections.server_blocked > 0 {
        let of = &outcome.connections;
        lines.add(
            "note",
            format!(
                "on {} of {} connections, the server reported that the client's flow control \
                 blocked it; use a larger --stream-window",
                of.server_blocked, of.opened
            ),
        );
    }
    lines.0
}

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, text: impl std::fmt::Display) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{name:14}{text}");
    }
}

fn requests(lines: &mut Lines, outcome: &LoadReport) {
    let counts = &outcome.counts;
    let unfinished = match counts.unfinished {
        0 => String::new(),
        n => format!(", {n} unfinished"),
    };
    let (whole, failed) = (counts.completed, counts.failed());
    let seconds = outcome.window.as_secs_f64();
    lines.add(
        "requests",
        format!(
            "{} in {seconds:.1} s: {whole} complete, {failed} failed{unfinished}",
            counts.started
        ),
    );
    for (kind, (count, first)) in FailureKind::ALL.iter().zip(&counts.failures) {
        if *count > 0 {
            let why = output::plain(first.as_deref().unwrap_or_default());
            lines.add("  failed", format!("{}: {count}, first: {why}", kind));
        }
    }
    let statuses: Vec<String> =
        counts.statuses.iter().map(|(status, count)| format!("{status}: {count}")).collect();
    if !statuses.is_empty() {
        lines.add("status", statuses.join(", "));
    }
}

pub(super) fn phases(outcome: &LoadReport) -> Vec<(&'static str, &LatencyHistogram)> {
    let phases = &outcome.phases;
    // A closed loop has no intended start times. Its response times would be the same as its
    // service times, under a name that promises more.
    let response = outcome.open_loop.then_some(("response", &phases.response));
    let others = [
        ("service", &phases.service),
        ("first byte", &phases.first_byte),
        ("connect", &phases.connect),
    ];
    response.into_iter().chain(others).collect()
}

/// Returns a percentile if at least ten samples lie beyond it, which is the rule of all tables.
pub(super) fn percentile(times: &LatencyHistogram, part: f64) -> Option<Duration> {
    times.quantile(part).filter(|_| times.count() >= samples_for(part))
}

fn times(outcome: &LoadReport) -> String {
    let mut text = format!("\n{:14}{:>9}{:>11}", "ms", "count", "mean");
    for (name, _) in QUANTILES {
        let _ = write!(text, "{name:>11}");
    }
    let _ = writeln!(text, "{:>11}", "max");
    for (name, times) in phases(outcome) {
        let _ = write!(text, "{name:14}{:>9}{:>11}", times.count(), ms(times.mean()));
        for (_, part) in QUANTILES {
            let _ = write!(text, "{:>11}", ms(percentile(times, part)));
        }
        let _ = writeln!(text, "{:>11}", ms(times.max()));
    }
    text + "\n"
}

fn connections(lines: &mut Lines, outcome: &LoadReport) {
    let (of, counts) = (&outcome.connections, &outcome.counts);
    let waited = match counts.waited {
        0 => String::new(),
        n => format!("; {n} requests waited for a free connection"),
    };
    let rtt = format!(
        "RTT median {} ms, p99 {} ms",
        ms(of.rtt.quantile(0.5)),
        ms(percentile(&of.rtt, 0.99))
    );
    lines.add(
        "connections",
        format!("{}; {rtt}; {} of {} sent packets were lost{waited}", of.opened, of.lost, of.sent),
    );
    if of.one_way > 0 {
        let queueing = &of.queueing;
        let (p50, p99) = (ms(queueing.quantile(0.5)), ms(percentile(queueing, 0.99)));
        let by = match (of.by_timestamp, of.by_receive_timestamps) {
            (0, 0) => String::new(),
            (n, 0) => format!(" ({n} of them with TIMESTAMP)"),
            (_, n) => format!(" ({n} of them with ACK_RECEIVE_TIMESTAMPS)"),
        };
        let negotiated = of.one_way;
        let text = format!(
            "measured on {negotiated} connections{by}; mean queueing delay towards the server: median {p50} ms, p99 {p99} ms"
        );
        lines.add("one-way delay", text);
    }
    if of.early_accepted + of.early_rejected + of.early_without > 0 {
        let text = format!(
            "{} accepted, {} rejected, {} without a session ticket",
            of.early_accepted, of.early_rejected, of.early_without
        );
        lines.add("0-RTT", text);
    }
}

pub(super) fn bits(rate: f64) -> String {
    match rate {
        rate if rate >= 1e9 => format!("{:.2} Gbps", rate / 1e9),
        rate if rate >= 1e6 => format!("{:.2} Mbps", rate / 1e6),
        rate => format!("{:.2} kbps", rate / 1e3),
    }
}

fn seconds(time: Option<Duration>) -> Value {
    time.map_or(Value::Null, |time| json!(time.as_secs_f64()))
}

fn of_times(times: &LatencyHistogram) -> Value {
    let mut object = json!({ "count": times.count(), "mean": seconds(times.mean()), "max": seconds(times.max()) });
    for (name, part) in QUANTILES {
        object[name] = seconds(times.quantile(part));
    }
    object
}

/// Returns the results as JSON, with times in seconds.
pub(super) fn json(outcome: &LoadReport) -> Value {
    let (counts, of, saturation) = (&outcome.counts, &outcome.connections, &outcome.saturation);
    let failures = FailureKind::ALL.iter().zip(&counts.failures).map(|(kind, (count, first))| {
        (kind.to_string().replace(' ', "_"), json!({ "count": count, "first": first }))
    });
    let statuses = counts.statuses.iter().map(|(status, count)| (status.to_string(), json!(count)));
    let times =
        phases(outcome).into_iter().map(|(name, times)| (name.replace(' ', "_"), of_times(times)));
    json!({
        "loop": if outcome.open_loop { "open" } else { "closed" },
        "seconds": outcome.window.as_secs_f64(),
        "requests": {
            "started": counts.started,
            "completed": counts.completed,
            "completed_in_time": counts.in_time,
            "failed": counts.failed(),
            "unfinished": counts.unfinished,
            "waited": counts.waited,
        },
        "failures": Value::Object(failures.collect()),
        "statuses": Value::Object(statuses.collect()),
        "bytes": counts.bytes,
        "responses_per_second": outcome.rate(),
        "goodput_bits_per_second": outcome.goodput(),
        "times": Value::Object(times.collect()),
        "connections": {
            "opened": of.opened,
            "packets_sent": of.sent,
            "packets_lost": of.lost,
            "server_blocked": of.server_blocked,
            "rtt": of_times(&of.rtt),
            "one_way": of.one_way,
            "by_timestamp": of.by_timestamp,
            "by_receive_timestamps": of.by_receive_timestamps,
            "queueing_to_server": of_times(&of.queueing),
            "zero_rtt": { "accepted": of.early_accepted, "rejected": of.early_rejected, "without": of.early_without },
        },
        "client": {
            "cpu_seconds": saturation.cpu.as_secs_f64(),
            "cores": saturation.cores,
            "utilisation": saturation.utilisation(),
            "machine_utilisation": saturation.machine,
            "unread_dropped_by_kernel": saturation.unread,
            "late_p50": outcome.open_loop.then(|| seconds(outcome.phases.lag.quantile(0.5))),
            "late_p99": seconds(saturation.late_p99),
            "late_max": seconds(saturation.late_max),
            "limit": saturation.is_limit(),
        },
        "note": (!outcome.open_loop).then_some(OMISSION),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_too_few_samples_are_omitted() {
        let mut times = LatencyHistogram::default();
        let shown =
            |times: &LatencyHistogram| QUANTILES.map(|(_, part)| percentile(times, part).is_some());
        for (count, enough) in [
            (99, [true, false, false, false]),
            (100, [true, true, false, false]),
            (1_000, [true, true, true, false]),
            (10_000, [true; 4]),
        ] {
            while times.count() < count {
                times.record(Duration::from_millis(1));
            }
            assert_eq!(shown(&times), enough, "{count}");
        }
    }
}
