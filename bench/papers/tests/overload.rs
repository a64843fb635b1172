//! The study of overload by short connections: `docs/collapse.md` shows the stored results.
//!
//! `make overload` builds stacks whose probes per timeout can be set, runs the plans of
//! `bench/overload`, and stores their results in `bench/results/overload`. The tests here need
//! neither: they check that the results belong to the current plans and edits of the stacks, and
//! that the tables and figures of the page are those of the results.
//! `FATHOM_WRITE=1 cargo test --release -p fathom-papers --test overload` writes them.

use fathom_metrics::{Bounds, Estimate};
use fathom_report::{Axis, Figure, Series, standalone};
use serde::Deserialize;
use std::collections::BTreeMap;

mod common;

use common::{
    Row, by_seed, cell, csv_rows, estimate, is_or_becomes, named, root, table, text, values,
    with_tables,
};

const HINT: &str = "FATHOM_WRITE=1 cargo test --release -p fathom-papers --test overload";
const PAGE: &str = "docs/collapse.md";
const LETTERS: &str = "bench/overload/letters.md";
const RESULTS: &str = "bench/results/overload";
const PLANS: &[&str] = &["loads", "resumed", "ramps", "shares", "losses"];
/// Senders of `loads` with their rules, and their names on the page.
const SENDERS: &[(&str, &str, &str)] = &[
    ("quinn", "stock", "quinn"),
    ("quinn", "1", "quinn, one probe"),
    ("noq", "stock", "noq"),
    ("noq", "1", "noq, one probe"),
    ("quiche", "stock", "quiche"),
    ("quiche", "1", "quiche, one probe"),
    ("TCP", "stock", "TCP"),
];
const STACKS: &[&str] = &["quinn", "noq", "quiche"];

#[derive(Deserialize)]
struct About {
    plan: String,
    edits: BTreeMap<String, String>,
    cpu_seconds: f64,
}

fn about(plan: &str) -> About {
    serde_json::from_str(&text(&format!("{RESULTS}/{plan}.json"))).expect("JSON")
}

fn rows(plan: &str) -> Vec<Row> {
    csv_rows(&format!("{RESULTS}/{plan}.csv"))
}

/// Returns a table of a measure: senders down, loads across.
fn by_load(column: &str, digits: usize) -> String {
    let rows = rows("loads");
    let loads = values(&rows, "load");
    let of = |(sender, rule, name): &(&str, &str, &str)| {
        let cells = loads.iter().map(|load| {
            let key = [("sender", *sender), ("probes", *rule), ("load", load)];
            cell(&rows, &key, column, digits)
        });
        named(*name, cells)
    };
    table(named("", percents(&loads)), SENDERS.iter().map(of))
}

fn percents(loads: &[String]) -> impl Iterator<Item = String> {
    loads.iter().map(|load| format!("{load} %"))
}

/// Returns the cells of some columns with both rules: as shipped, and with one probe.
fn by_rule(rows: &[Row], key: &[(&str, &str)], columns: &[(&str, usize)]) -> Vec<String> {
    let both = columns.iter().flat_map(|column| ["stock", "1"].map(|rule| (column, rule)));
    let of = |((column, digits), rule): (&(&str, usize), &'static str)| {
        let key: Vec<_> = key.iter().copied().chain([("probes", rule)]).collect();
        cell(rows, &key, column, *digits)
    };
    both.map(of).collect()
}

/// Returns the control on quinn: the same offered traffic with other packets at a timeout.
fn control() -> String {
    let rows = rows("loads");
    let head = [
        "at each timeout",
        "load",
        "bytes per connection",
        "arriving at the link, Mbps",
        "drops %",
        "delivered bodies, Mbps",
        "mean response ms",
    ];
    let cases = [
        ("stock", "two probes", "90"),
        ("1", "one probe", "90"),
        ("1", "one probe", "95"),
        ("1", "one probe", "100"),
        ("padding", "one probe and a datagram of padding", "80"),
        ("padding", "one probe and a datagram of padding", "90"),
    ];
    let columns = [
        ("bytes_per_connection", 0),
        ("arrived_mbps", 1),
        ("drops_percent", 1),
        ("body_mbps", 2),
        ("mean_ms", 0),
    ];
    let row = |(rule, name, load): (&str, &str, &str)| {
        let key = [("sender", "quinn"), ("probes", rule), ("load", load)];
        let cells = columns.map(|(column, digits)| cell(&rows, &key, column, digits));
        named(name, named(format!("{load} %"), cells))
    };
    table(head, cases.map(row))
}

/// Returns drops and delivered bodies of a stack with both rules, from 80 % of load on.
fn letter(stack: &str) -> String {
    let rows = rows("loads");
    let head = [
        "load",
        "drops %",
        "one packet",
        "delivered bodies, Mbps",
        "one packet",
        "mean response ms",
        "one packet",
    ];
    let columns = [("drops_percent", 1), ("body_mbps", 2), ("mean_ms", 0)];
    let loads = values(&rows, "load");
    let high = loads.iter().filter(|load| load.parse::<u32>().expect("a number") >= 80);
    let row = |load: &String| {
        named(
            format!("{load} %"),
            by_rule(&rows, &[("sender", stack), ("load", load.as_str())], &columns),
        )
    };
    table(head, high.map(row))
}

/// Returns what one probe changes at each load and on each stack: differences of pairs of runs with
/// the same seed.
fn pairs() -> String {
    let rows = rows("loads");
    let loads = values(&rows, "load");
    let difference = |stack: &str, load: &str| {
        let of = |rule: &str| {
            let key = [("sender", stack), ("probes", rule), ("load", load)];
            by_seed(&rows, &key, "drops_percent")
        };
        let (stock, one) = (of("stock"), of("1"));
        let both: Vec<f64> =
            one.iter().filter_map(|(seed, one)| Some(one - stock.get(seed)?)).collect();
        Estimate::of(&both).map_or_else(|| "-".to_owned(), |e| format!("{e:.1}"))
    };
    let row = |stack: &&str| named(*stack, loads.iter().map(|load| difference(stack, load)));
    table(named("", percents(&loads)), STACKS.iter().map(row))
}

/// Returns the drops and mean response times with 0-RTT.
fn resumed() -> String {
    let rows = rows("resumed");
    let head = ["", "drops %", "with one probe", "mean response ms", "with one probe"];
    let columns = [("drops_percent", 1), ("mean_ms", 0)];
    let row = |sender: String| {
        let cells = by_rule(&rows, &[("sender", &sender)], &columns);
        named(sender, cells)
    };
    table(head, values(&rows, "sender").into_iter().map(row))
}

/// Returns what one probe costs where loss is random.
fn losses() -> String {
    let rows = rows("losses");
    let head = ["loss", "sender", "mean response ms", "with one probe", "p99 ms", "with one probe"];
    let columns = [("mean_ms", 0), ("p99_ms", 0)];
    let losses = values(&rows, "loss");
    let cases = losses.iter().flat_map(|loss| STACKS.iter().map(move |stack| (loss, *stack)));
    let row = |(loss, stack): (&String, &str)| {
        let cells = by_rule(&rows, &[("sender", stack), ("loss", loss)], &columns);
        named(loss, named(stack, cells))
    };
    table(head, cases.map(row))
}

/// Returns the drops with a share of one-probe ends; the ends of the range are runs of `loads`.
fn shares() -> String {
    let (mixed, loads) = (rows("shares"), rows("loads"));
    let rules = ["stock", "25%", "50%", "75%", "1", "servers"];
    let names = ["", "as shipped", "25 %", "50 %", "75 %", "all", "servers only"];
    let row = |stack: &&str| {
        let cells = rules.map(|rule| {
            let key = [("sender", *stack), ("probes", rule)];
            match rule {
                "stock" | "1" => {
                    let at_90 = [key[0], key[1], ("load", "90")];
                    cell(&loads, &at_90, "drops_percent", 1)
                }
                _ => cell(&mixed, &key, "drops_percent", 1),
            }
        });
        named(*stack, cells)
    };
    table(names, STACKS.iter().map(row))
}

/// Returns the drops at each step of the ramp.
fn ramps() -> String {
    let rows = rows("ramps");
    let steps = values(&rows, "step");
    let load = |step: &String| {
        rows.iter().find(|row| row["step"] == *step).expect("a step")["load"].clone()
    };
    let loads: Vec<String> = steps.iter().map(load).collect();
    let ran = values(&rows, "sender");
    let senders = SENDERS.iter().filter(|(sender, ..)| ran.iter().any(|s| s == sender));
    let row = |(sender, rule, name): &(&str, &str, &str)| {
        let cells = steps.iter().map(|step| {
            let key = [("sender", *sender), ("probes", *rule), ("step", step)];
            cell(&rows, &key, "drops_percent", 1)
        });
        named(*name, cells)
    };
    table(named("", percents(&loads)), senders.map(row))
}

/// Returns the bytes of a connection at 90 % of load by purpose.
fn bytes() -> String {
    let rows = rows("loads");
    let purposes = [
        ("bytes_per_connection", "all"),
        ("handshake_bytes_per_connection", "handshake"),
        ("acknowledgements_bytes_per_connection", "acknowledgements"),
        ("first_time_bytes_per_connection", "data, sent first"),
        ("duplicate_bytes_per_connection", "data, sent again"),
        ("after_close_bytes_per_connection", "after the client has closed"),
    ];
    // Packets of TCP are not classified.
    let senders = SENDERS.iter().filter(|(sender, ..)| *sender != "TCP");
    let row = |(sender, rule, name): &(&str, &str, &str)| {
        let key = [("sender", *sender), ("probes", *rule), ("load", "90")];
        named(*name, purposes.map(|(column, _)| cell(&rows, &key, column, 0)))
    };
    table(named("", purposes.map(|(_, name)| name.to_owned())), senders.map(row))
}

/// Runs of 60,000 responses with Reno and a changed rule: file in `bench/results/collapse`, and the
/// name of the rule.
const RULES: &[(&str, &str)] = &[
    ("quinn", "quinn"),
    ("quinn-one-probe", "quinn, one packet per probe timeout"),
    ("quinn-window-2", "quinn, window of 2 packets after a probe timeout of the handshake"),
    ("quinn-initial-2", "quinn, initial window of 2 packets"),
    ("quinn-paced", "quinn, initial window paced"),
    ("quinn-pto-1s", "quinn, probe timeout of at least 1 s"),
    ("quinn-unpadded", "quinn, Initial datagrams not padded, at 73 % of load"),
    ("quinn-persistent", "quinn, persistent connections"),
    ("quinn-queue-in-bytes", "quinn, queue of 193,120 bytes instead of 136 packets"),
    ("quinn-codel", "quinn, CoDel"),
    ("quinn-users-wait-10-s", "quinn, users give up after 10 s"),
    ("quinn-idle-timeout-30-s", "quinn, idle timeout of 30 s"),
    ("noq", "noq"),
    ("noq-one-probe", "noq, one packet per probe timeout"),
    ("noq-doubling", "noq, backoff doubles"),
    ("quiche", "quiche"),
    ("quiche-one-probe", "quiche, one packet per probe timeout"),
];

fn rules() -> String {
    let measures = [
        ("/links/r0-r1/drops_percent", 1),
        ("/groups/forward/median_ms", 0),
        ("/groups/forward/mean_ms", 0),
        ("/groups/forward/failed", 0),
    ];
    let row = |(file, name): &(&str, &str)| {
        let file = text(&format!("bench/results/collapse/{file}.json"));
        let file: serde_json::Value = serde_json::from_str(&file).expect("JSON");
        let runs = file["runs"].as_array().expect("runs");
        let cells = measures.map(|(path, digits)| {
            let value = |run: &serde_json::Value| run.pointer(path).and_then(|v| v.as_f64());
            let all: Vec<f64> = runs.iter().map(|run| value(run).expect("a number")).collect();
            format!("{:.digits$}", Estimate::of(&all).expect("numbers"))
        });
        named(*name, named(runs.len().to_string(), cells))
    };
    let head = ["", "seeds", "drops %", "median ms", "mean ms", "failed per run"];
    table(head, RULES.iter().map(row))
}

fn cost() -> String {
    let row = |plan: &&str| {
        // A run of a ramp has a row for each step.
        let first = |row: &&Row| row.get("step").is_none_or(|step| step == "1");
        let runs = rows(plan).iter().filter(first).count();
        let minutes = about(plan).cpu_seconds / 60.0;
        named(format!("`{plan}`"), [runs.to_string(), format!("{minutes:.0}")])
    };
    table(["plan", "runs", "CPU time in minutes"], PLANS.iter().map(row))
}

/// Returns a figure of a measure against the load.
fn figure(column: &str, label: &str) -> String {
    let rows = rows("loads");
    let loads = values(&rows, "load");
    let mut series = Vec::new();
    for (sender, rule, name) in SENDERS {
        let point = |load: &String| {
            let key = [("sender", *sender), ("probes", *rule), ("load", load)];
            Some((load.parse().ok()?, estimate(&rows, &key, column)?))
        };
        series.push(Series::of_estimates(*name, loads.iter().filter_map(point)));
    }
    let x = Axis::linear("offered load in % of the link");
    standalone(&Figure { x, y: Axis::linear(label).within(Bounds::NOT_NEGATIVE), series })
        .expect("curves")
}

/// Returns the figure of drops against the load on the way up and down.
fn ramp_figure() -> String {
    let rows = rows("ramps");
    let mut series = Vec::new();
    for (sender, rule, name) in SENDERS {
        for (ways, suffix) in [(["up", "top"], "up"), (["top", "down"], "down")] {
            let mut points: Vec<(f64, Estimate)> = Vec::new();
            for (way, load) in
                ways.iter().flat_map(|way| values(&rows, "load").into_iter().map(move |l| (way, l)))
            {
                let key = [("sender", *sender), ("probes", *rule), ("way", *way), ("load", &load)];
                points.extend(
                    estimate(&rows, &key, "drops_percent").map(|e| (load.parse().unwrap(), e)),
                );
            }
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            if *rule == "stock" && !points.is_empty() {
                series.push(Series::of_estimates(format!("{name}, {suffix}"), points));
            }
        }
    }
    let x = Axis::linear("offered load in % of the link");
    standalone(&Figure { x, y: Axis::linear("drops in %").within(Bounds::PERCENT), series })
        .expect("curves")
}

/// Returns the page with the tables of the results between their marks.
fn page(page: &str) -> String {
    let tables = [
        ("drops", by_load("drops_percent", 1)),
        ("bodies", by_load("body_mbps", 2)),
        ("responses", by_load("mean_ms", 0)),
        ("pairs", pairs()),
        ("control", control()),
        ("bytes", bytes()),
        ("resumed", resumed()),
        ("losses", losses()),
        ("shares", shares()),
        ("ramps", ramps()),
        ("rules", rules()),
        ("cost", cost()),
    ];
    with_tables(page, &tables)
}

/// Returns the reports to maintainers with their tables.
fn letters(page: &str) -> String {
    let tables = STACKS.iter().map(|stack| (format!("letter {stack}"), letter(stack)));
    with_tables(page, &tables.collect::<Vec<_>>())
}

#[test]
fn overload_results_belong_to_the_current_plans() {
    for plan in PLANS {
        let about = about(plan);
        let again = "repeat the runs: make overload";
        assert!(about.plan == text(&format!("bench/overload/{plan}.toml")), "{plan}: {again}");
        for (file, used) in &about.edits {
            let now = text(&format!("bench/overload/{file}"));
            assert!(now.contains(used), "{plan}: {file}: {again}");
        }
        let seeds = values(&rows(plan), "seed").len();
        assert!(seeds >= 3, "{plan} has {seeds} seeds");
    }
}

#[test]
fn overload_page_shows_the_results() {
    let figures = [
        ("bodies", figure("body_mbps", "delivered bodies in Mbps")),
        ("drops", figure("drops_percent", "drops in %")),
        ("ramps", ramp_figure()),
    ];
    let figures = figures.map(|(name, svg)| (format!("{RESULTS}/{name}.svg"), svg));
    let pages =
        [(PAGE.to_owned(), page(&text(PAGE))), (LETTERS.to_owned(), letters(&text(LETTERS)))];
    for (path, should) in figures.into_iter().chain(pages) {
        is_or_becomes(&path, &should, HINT);
    }
}

/// Otherwise, a new version of a stack would make `make overload` fail unnoticed.
#[test]
fn overload_edits_fit_the_stacks() {
    let script = root().join("bench/overload/stacks.py");
    let run = std::process::Command::new("python3").arg(&script).arg("--check").output();
    let Ok(run) = run else { return }; // Only this study needs Python.
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}
