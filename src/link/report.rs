//! Reports of `fathom link`: a line while the link runs, and a table and JSON at the end.

use std::time::Duration;

use fathom_netsim::relay::{LineStats, LineTiming, RelayStats};
use serde_json::{Value, json};

pub(super) fn brief(stats: &RelayStats) -> String {
    let of = |l: &LineStats| {
        format!("{} ({} lost, {} dropped)", l.forwarded, l.impairments.lost, l.dropped)
    };
    let limit = if stats.limits().is_empty() { "" } else { "; THE RELAY IS THE LIMIT" };
    format!(
        "to clients {}, to the server {}, {} clients{limit}",
        of(&stats.down),
        of(&stats.up),
        stats.clients
    )
}

/// Name of a count, and the function that reads it.
type Count = (&'static str, fn(&LineStats) -> u64);

const COUNTS: [Count; 19] = [
    ("arrived", |l| l.impairments.arrived),
    ("bursts", |l| l.impairments.bursts),
    ("largest_burst", |l| l.impairments.largest_burst),
    ("lost", |l| l.impairments.lost),
    ("policed", |l| l.impairments.policed),
    ("cut_off", |l| l.impairments.cut_off),
    ("dropped", |l| l.dropped),
    ("marked", |l| l.marked),
    ("bleached", |l| l.impairments.bleached),
    ("remarked", |l| l.impairments.remarked),
    ("ce_set", |l| l.impairments.ce_set),
    ("hidden", |l| l.impairments.hidden),
    ("reordered", |l| l.impairments.reordered),
    ("displaced", |l| l.impairments.displaced),
    ("held", |l| l.impairments.held),
    ("duplicated", |l| l.impairments.duplicated),
    ("corrupted", |l| l.impairments.corrupted),
    ("forwarded", |l| l.forwarded),
    ("bytes", |l| l.bytes),
];

/// Name of a time, and the function that reads it.
type Time = (&'static str, fn(&LineTiming) -> Duration);

const TIMES: [Time; 3] =
    [("delay p50", |l| l.delay_p50), ("delay p95", |l| l.delay_p95), ("late p99", |l| l.late_p99)];

pub(super) fn table(stats: &RelayStats) -> String {
    let mut text = format!("{:14}{:>14}{:>14}\n", "datagrams", "to clients", "to server");
    for (name, of) in COUNTS {
        text +=
            &format!("{:14}{:>14}{:>14}\n", name.replace('_', " "), of(&stats.down), of(&stats.up));
    }
    for (name, of) in TIMES {
        let ms = |line: &LineTiming| match line.sent {
            0 => "-".to_owned(),
            _ => format!("{:.1} ms", of(line).as_secs_f64() * 1e3),
        };
        text += &format!("{name:14}{:>14}{:>14}\n", ms(&stats.down_timing), ms(&stats.up_timing));
    }
    text += &format!(
        "{} clients; {} datagrams dropped by events; {} datagrams dropped by the relay itself\n",
        stats.clients, stats.cut_off, stats.overrun
    );
    if stats.not_rebound > 0 {
        text += &format!(
            "{} times, a client kept its port because the system had no free socket\n",
            stats.not_rebound
        );
    }
    text + &verdict(stats)
}

/// Describes in one line whether the relay kept up.
pub(super) fn verdict(stats: &RelayStats) -> String {
    let limits: Vec<String> = stats.limits().iter().map(ToString::to_string).collect();
    if limits.is_empty() {
        let (sent, late) = [stats.down_timing, stats.up_timing]
            .iter()
            .fold((0, 0), |(sent, late), line| (sent + line.sent, late + line.late));
        return format!(
            "relay: {late} of {sent} datagrams more than 1 ms late; {:.0} % of a core used or \
             waited for; the relay was not the limit\n",
            stats.load.busy() * 100.0
        );
    }
    format!(
        "NOTE: the relay or this machine was a limit, so rates and delays are not those of the \
         path alone: {}. Use a lower rate, fewer other programs or more cores; 'fathom compare' in \
         virtual time has no such limit\n",
        limits.join("; ")
    )
}

pub(super) fn json(stats: &RelayStats) -> Value {
    let line = |l: &LineStats, timing: &LineTiming| {
        let counts = COUNTS.iter().map(|(name, of)| ((*name).to_owned(), json!(of(l))));
        let mut line = Value::Object(counts.collect());
        let seconds =
            |time: Duration| if timing.sent > 0 { json!(time.as_secs_f64()) } else { Value::Null };
        line["delay_seconds"] = json!({
            "p50": seconds(timing.delay_p50), "p95": seconds(timing.delay_p95), "max": seconds(timing.delay_max),
        });
        line["late"] = json!(timing.late);
        line["late_seconds"] =
            json!({ "p99": seconds(timing.late_p99), "max": seconds(timing.late_max) });
        line
    };
    let (load, limits) = (&stats.load, stats.limits());
    json!({
        "to_clients": line(&stats.down, &stats.down_timing),
        "to_server": line(&stats.up, &stats.up_timing),
        "clients": stats.clients,
        "cut_off": stats.cut_off,
        "overrun": stats.overrun,
        "not_rebound": stats.not_rebound,
        "relay": {
            "seconds": load.wall.as_secs_f64(),
            "cpu_seconds": load.cpu.ran.as_secs_f64(),
            "cpu_wait_seconds": load.cpu.waited.map(|waited| waited.as_secs_f64()),
            "unread_dropped_by_kernel": load.unread,
            "read": load.read,
            "read_late": load.read_late,
            "limit": !limits.is_empty(),
            "limits": limits.iter().map(ToString::to_string).collect::<Vec<_>>(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overloaded_relay_is_reported_in_table_and_json() {
        let down_timing =
            LineTiming { sent: 100, delay_p50: Duration::from_millis(20), ..LineTiming::default() };
        let mut stats = RelayStats { down_timing, ..RelayStats::default() };
        let text = table(&stats);
        assert!(text.contains("delay p50            20.0 ms             -"), "{text}");
        assert!(text.ends_with(
            "relay: 0 of 100 datagrams more than 1 ms late; 0 % of a core used or waited for; the \
             relay was not the limit\n"
        ));
        assert_eq!(
            (&json(&stats)["relay"]["limit"], &json(&stats)["to_server"]["delay_seconds"]["p50"]),
            (&json!(false), &Value::Null)
        );
        stats.down_timing.late = 40;
        stats.load.unread = Some(7);
        let text = table(&stats);
        assert!(text.contains("NOTE: the relay or this machine was a limit"), "{text}");
        assert!(
            text.contains("40.0 % of the datagrams left more than 1 ms late")
                && text.contains("the kernel dropped 7"),
            "{text}"
        );
        assert!(brief(&stats).ends_with("THE RELAY IS THE LIMIT"));
        let json = json(&stats);
        assert_eq!(
            (&json["relay"]["limit"], &json["to_clients"]["late"]),
            (&json!(true), &json!(40))
        );
    }
}
