//! Describes a study: its question, one of its runs, its estimated cost.

use std::fmt::Write;
use std::time::Duration;

use super::estimate::{Estimate, base_round_trip, estimate};
use super::{Study, StudyRun, key_text};
use crate::scenario::{Access, Background, ChainLink, Load, MaxWindow, Scenario, Stop, Traffic};
use crate::stack::IDLE;

/// Returns the description of a study and the estimated cost of `runs`, on this number of `cores`.
/// `runs` may be a selection of the study's runs; `scale` is their scale.
pub fn explain(study: &Study, runs: &[StudyRun], scale: f64, cores: usize) -> String {
    let mut text = format!("{}: {}\n", study.name, study.question);
    let mut line = |s: String| {
        text += &s;
        text.push('\n');
    };
    if let Some(source) = &study.source {
        line(format!("source: {source}"));
    }
    for axis in &study.axes {
        line(format!("axis {}: {} ({})", axis.name, axis.values.join(", "), axis.values.len()));
    }
    let skipped = match (study.skipped, study.absent) {
        (0, 0) => String::new(),
        (n, 0) => format!(" ({n} left out)"),
        (0, absent) => format!(" ({absent} more combinations need a build with quiche)"),
        (n, absent) => format!(" ({n} left out, {absent} more need a build with quiche)"),
    };
    line(format!(
        "runs: {} combination{}{skipped} with {} seed{} each{}: {}",
        study.points.len(),
        plural(study.points.len()),
        study.seeds,
        plural(study.seeds as usize),
        if study.seed == 1 { String::new() } else { format!(", from seed {} on", study.seed) },
        runs.len()
    ));
    if scale < 1.0 {
        line(format!("scale: {scale} of the study's time or responses"));
    }
    if let Some(run) = runs.first() {
        line(format!("\none run ({}):", key_text(&run.key)));
        line(indented(&scenario(&run.scenario)));
        line(costs(runs, cores));
    }
    text
}

const fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

fn indented(text: &str) -> String {
    text.lines().map(|l| format!("  {l}")).collect::<Vec<_>>().join("\n")
}

/// Returns the description of a scenario.
fn scenario(s: &Scenario) -> String {
    let mut text = format!("network: {} routers in a row\n", s.chain.routers.len());
    let (first, rest) =
        s.chain.links.split_first().map_or((None, &[][..]), |(first, rest)| (Some(first), rest));
    match first {
        Some(first) if rest.iter().all(|l| l == first) => {
            let name = match rest.len() {
                0 => format!("link {}-{}", s.chain.routers[0], s.chain.routers[1]),
                n => format!("{} links, each", n + 1),
            };
            let _ = writeln!(text, "{name}: {}", link(first));
        }
        _ => {
            for (l, ends) in s.chain.links.iter().zip(s.chain.routers.windows(2)) {
                let _ = writeln!(text, "link {}: {}", ends.join("-"), link(l));
            }
        }
    }
    for t in &s.traffic {
        text += &group(s, t);
    }
    for b in &s.background {
        text += &background(s, b);
    }
    let warm_up = if s.warm_up.is_zero() {
        String::new()
    } else {
        format!("; measurement starts at {:?}", s.warm_up)
    };
    let end = match s.stop {
        Stop::Responses(n) => format!("after {n} responses"),
        Stop::At(end) => format!("at {end:?}"),
    };
    let stacks: Vec<&str> = s.stacks().iter().map(|stack| stack.name()).collect();
    text + &format!(
        "ends {end}{warm_up}; stack {}; one-way delays {}\n",
        stacks.join(", "),
        s.timestamps
    )
}

fn link(l: &ChainLink) -> String {
    let back =
        if l.back_queue == l.queue { String::new() } else { format!(" (back {})", l.back_queue) };
    format!("{}, {:?}, {}{back}", l.rate, l.delay, l.queue)
}

fn group(s: &Scenario, t: &Traffic) -> String {
    let routers = &s.chain.routers;
    let work = t.workload.model().words();
    let mix: Vec<String> = match &t.mix[..] {
        [(_, only)] => vec![only.spec()],
        several => {
            several.iter().map(|(part, c)| format!("{:.0}% {}", part * 100.0, c.spec())).collect()
        }
    };
    let window = match t.max_window {
        MaxWindow::Unlimited => String::new(),
        MaxWindow::Stack => ", windows as the stack sets them".into(),
        MaxWindow::Packets(packets) => format!(", windows up to {packets} packets"),
    };
    let clock =
        if t.drift == 0 { String::new() } else { format!(", clocks drift up to {} us/s", t.drift) };
    let patience =
        t.patience.map_or(String::new(), |patience| format!(", users wait {patience:?}"));
    let idle = if t.idle == IDLE { String::new() } else { format!(", idle timeout {:?}", t.idle) };
    let counted = if t.counted { "" } else { " (not counted)" };
    let (low, high) = base_round_trip(s, t);
    let hosts = t
        .access
        .hosts
        .map_or("a host per flow".to_owned(), |n| format!("{n} host{} a side", plural(n as usize)));
    format!(
        "group {}{counted}: {} to {}, {work}; {}; packets of {} bytes{window}{clock}{patience}{idle}\n  {hosts} on {}, {}; base round trip {}\n",
        t.name,
        routers[t.from],
        routers[t.to],
        mix.join(" + "),
        u32::from(t.datagram) + fathom_netsim::sim::WIRE_OVERHEAD,
        t.access.rate,
        range(t.access.delay.0, t.access.delay.1) + &access_queue(&t.access),
        range(low, high),
    )
}

fn background(s: &Scenario, b: &Background) -> String {
    let routers = &s.chain.routers;
    let mix: Vec<String> = match &b.mix[..] {
        [(_, only)] => vec![only.spec()],
        several => {
            several.iter().map(|(part, c)| format!("{:.0}% {}", part * 100.0, c.spec())).collect()
        }
    };
    let work = match b.load {
        Load::Users { count, idle: (low, high) } => {
            let delay = if b.rtt.1.is_zero() {
                String::new()
            } else {
                format!(", each with an additional delay of {}", range(b.rtt.0, b.rtt.1))
            };
            format!(
                "{count} packet-level web users, idle for {}; {}{delay}",
                range(low, high),
                mix.join(" + ")
            )
        }
        Load::Udp { count, rate, on, off } => {
            format!(
                "{count} UDP source{} of {rate}, on for {on:?} and off for {off:?} on average",
                plural(count as usize)
            )
        }
    };
    let size = u32::from(b.datagram) + fathom_netsim::sim::WIRE_OVERHEAD;
    format!(
        "background {}: {} to {}, {work}; packets of {size} bytes\n",
        b.name, routers[b.from], routers[b.to]
    )
}

fn access_queue(access: &Access) -> String {
    // An access queue of a million packets stands for an unlimited queue, because the papers give
    // no limit. Such a queue is not shown.
    match access.queue.packet_limit(access.rate) {
        Some(n) if n >= 1_000_000 => String::new(),
        _ => format!(", {}", access.queue),
    }
}

fn range(low: Duration, high: Duration) -> String {
    if high.is_zero() {
        "no delay".to_owned()
    } else if low == high {
        format!("{low:?}")
    } else {
        format!("{low:?} to {high:?}")
    }
}

fn costs(runs: &[StudyRun], cores: usize) -> String {
    let each: Vec<Estimate> = runs.iter().map(|c| estimate(&c.scenario)).collect();
    let span = |f: fn(&Estimate) -> f64, show: fn(f64) -> String| {
        let (low, high) =
            each.iter().map(f).fold((f64::INFINITY, 0f64), |(l, h), x| (l.min(x), h.max(x)));
        let (low, high) = (show(low), show(high));
        if low == high { low } else { format!("{low} to {high}") }
    };
    let cpu: f64 = each.iter().map(|e| e.cpu_seconds).sum();
    // The last run may be alone on the machine, so the total takes at least as long as the longest
    // run.
    let longest = each.iter().map(|e| e.cpu_seconds).fold(0.0, f64::max);
    // Worst case: sum of the memory of the largest runs, one per core.
    let mut memory: Vec<f64> = each.iter().map(|e| e.memory).collect();
    memory.sort_by(|a, b| b.total_cmp(a));
    let memory: f64 = memory.iter().take(cores.max(1)).sum();
    let wall = (cpu / cores.max(1) as f64).max(longest);
    format!(
        "\nestimated cost: a run takes {} of virtual time, {} packets, {} connections, {} of CPU\n\
         all {}: {} of CPU, {} on {cores} core{}, up to {:.0} MB of memory",
        span(|e| e.seconds, time_text),
        span(|e| e.packets, count),
        span(|e| e.connections, count),
        span(|e| e.cpu_seconds, time_text),
        runs.len(),
        time_text(cpu),
        time_text(wall),
        plural(cores),
        memory / 1e6,
    )
}

/// Returns an estimated number in words, rounded.
fn count(n: f64) -> String {
    match n {
        n if n >= 9.95e6 => format!("{:.0} million", n / 1e6),
        n if n >= 9.95e5 => format!("{:.1} million", n / 1e6),
        n if n >= 9_950.0 => format!("{:.0} thousand", n / 1e3),
        n if n >= 995.0 => format!("{:.1} thousand", n / 1e3),
        n => format!("{n:.0}"),
    }
}

/// Returns an estimated time in words, rounded.
pub fn time_text(seconds: f64) -> String {
    match seconds {
        s if s >= 5_400.0 => format!("{:.1} h", s / 3_600.0),
        s if s >= 600.0 => format!("{:.0} min", s / 60.0),
        s if s >= 9.95 => format!("{s:.0} s"),
        s => format!("{s:.1} s"),
    }
}
