//! What a load brought, as a table and as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use fathom_net::load::{Kind, Outcome, Times};
use serde_json::{Value, json};

use crate::output;

/// Said of every closed loop.
const OMISSION: &str = "closed loop: a server that stalls is asked less, so percentiles leave out what coordinated omission hides; \
    for response times use --rate";

/// The columns of times.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

fn ms(time: Option<Duration>) -> String {
    time.map_or_else(|| "-".into(), |time| format!("{:.2}", time.as_secs_f64() * 1e3))
}

/// Everything, for people.
pub(super) fn table(load: &str, outcome: &Outcome) -> String {
    let mut lines = Lines::default();
    lines.add("load", load);
    requests(&mut lines, outcome);
    let counts = &outcome.counts;
    lines.add(
        "rate",
        format!("{:.1} responses/s, {} of bodies, {} B", outcome.rate(), bits(outcome.goodput()), counts.bytes),
    );
    lines.0 += &times(outcome);
    connections(&mut lines, outcome);
    lines.add("client", outcome.strain);
    if counts.failed() + counts.unfinished > 0 {
        lines.add("note", "requests that failed or were not over are in no percentile");
    }
    if !outcome.open_loop {
        lines.add("note", OMISSION);
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

fn requests(lines: &mut Lines, outcome: &Outcome) {
    let counts = &outcome.counts;
    let unfinished = match counts.unfinished {
        0 => String::new(),
        n => format!(", {n} not over"),
    };
    let (whole, failed) = (counts.completed, counts.failed());
    let seconds = outcome.window.as_secs_f64();
    lines.add(
        "requests",
        format!("{} in {seconds:.1} s: {whole} complete, {failed} failed{unfinished}", counts.started),
    );
    for (kind, (count, first)) in Kind::ALL.iter().zip(&counts.failures) {
        if *count > 0 {
            let why = output::plain(first.as_deref().unwrap_or_default());
            lines.add("  failed", format!("{}: {count}, the first: {why}", kind.name()));
        }
    }
    let statuses: Vec<String> = counts.statuses.iter().map(|(status, count)| format!("{status}: {count}")).collect();
    if !statuses.is_empty() {
        lines.add("status", statuses.join(", "));
    }
}

fn phases(outcome: &Outcome) -> Vec<(&'static str, &Times)> {
    let phases = &outcome.phases;
    // In a closed loop nothing is intended: response times would be service times under a name that promises more.
    let response = outcome.open_loop.then_some(("response", &phases.response));
    let others = [("service", &phases.service), ("first byte", &phases.first_byte), ("connect", &phases.connect)];
    response.into_iter().chain(others).collect()
}

/// A percentile, unless it would be no more than the slowest of too few.
fn percentile(times: &Times, part: f64) -> Option<Duration> {
    // A hundred times a hundredth is a little less than one.
    let beyond = times.count() as f64 * (1.0 - part);
    times.quantile(part).filter(|_| beyond > 0.999)
}

fn times(outcome: &Outcome) -> String {
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

fn connections(lines: &mut Lines, outcome: &Outcome) {
    let (of, counts) = (&outcome.connections, &outcome.counts);
    let waited = match counts.waited {
        0 => String::new(),
        n => format!("; {n} requests waited for one"),
    };
    let rtt = format!("RTT {} ms in the median, {} ms at p99", ms(of.rtt.quantile(0.5)), ms(of.rtt.quantile(0.99)));
    lines
        .add("connections", format!("{}; {rtt}; {} of {} packets sent were lost{waited}", of.opened, of.lost, of.sent));
    if of.one_way > 0 {
        let queueing = &of.queueing;
        let (p50, p99) = (ms(queueing.quantile(0.5)), ms(queueing.quantile(0.99)));
        let by = match of.by_timestamp {
            0 => String::new(),
            n => format!(", on {n} of them by TIMESTAMP"),
        };
        let told = of.one_way;
        let text =
            format!("told on {told}{by}; mean queueing towards the server {p50} ms in the median, {p99} ms at p99");
        lines.add("one-way delay", text);
    }
    if of.early_accepted + of.early_rejected + of.early_without > 0 {
        let text = format!(
            "{} accepted, {} rejected, {} without a ticket that allows it",
            of.early_accepted, of.early_rejected, of.early_without
        );
        lines.add("0-RTT", text);
    }
}

fn bits(rate: f64) -> String {
    match rate {
        rate if rate >= 1e9 => format!("{:.2} Gbps", rate / 1e9),
        rate if rate >= 1e6 => format!("{:.2} Mbps", rate / 1e6),
        rate => format!("{:.2} kbps", rate / 1e3),
    }
}

fn seconds(time: Option<Duration>) -> Value {
    time.map_or(Value::Null, |time| json!(time.as_secs_f64()))
}

fn of_times(times: &Times) -> Value {
    let mut object = json!({ "count": times.count(), "mean": seconds(times.mean()), "max": seconds(times.max()) });
    for (name, part) in QUANTILES {
        object[name] = seconds(times.quantile(part));
    }
    object
}

/// Everything, for programs; times are seconds.
pub(super) fn json(outcome: &Outcome) -> Value {
    let (counts, of, strain) = (&outcome.counts, &outcome.connections, &outcome.strain);
    let failures = Kind::ALL
        .iter()
        .zip(&counts.failures)
        .map(|(kind, (count, first))| (kind.name().replace(' ', "_"), json!({ "count": count, "first": first })));
    let statuses = counts.statuses.iter().map(|(status, count)| (status.to_string(), json!(count)));
    let times = phases(outcome).into_iter().map(|(name, times)| (name.replace(' ', "_"), of_times(times)));
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
            "rtt": of_times(&of.rtt),
            "one_way": of.one_way,
            "by_timestamp": of.by_timestamp,
            "queueing_to_server": of_times(&of.queueing),
            "zero_rtt": { "accepted": of.early_accepted, "rejected": of.early_rejected, "without": of.early_without },
        },
        "client": {
            "cpu_seconds": strain.cpu.as_secs_f64(),
            "cores": strain.cores,
            "utilisation": strain.utilisation(),
            "late_p50": outcome.open_loop.then(|| seconds(outcome.phases.lag.quantile(0.5))),
            "late_p99": seconds(strain.late_p99),
            "late_max": seconds(strain.late_max),
            "limit": strain.is_limit(),
        },
        "note": (!outcome.open_loop).then_some(OMISSION),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_of_too_few_is_left_out() {
        let mut times = Times::default();
        let shown = |times: &Times| QUANTILES.map(|(_, part)| percentile(times, part).is_some());
        for (count, enough) in [(9, [true, false, false, false]), (10, [true, true, false, false]), (1_000, [true; 4])]
        {
            while times.count() < count {
                times.record(Duration::from_millis(1));
            }
            assert_eq!(shown(&times), enough, "{count}");
        }
    }
}
