//! The study of overload by short connections: `docs/collapse.md` shows the stored results.
//!
//! `make overload` builds stacks whose probes per timeout can be set, runs the plans of
//! `bench/overload`, and stores their results in `bench/results/overload`. The tests here need
//! neither: they check that the results belong to the current plans and edits of the stacks, and
//! that the tables and figures of the page are those of the results.
//! `FATHOM_WRITE=1 cargo test --release -p fathom-papers --test overload` writes them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use fathom_metrics::{Bounds, Estimate};
use fathom_report::{Axis, Figure, Series, standalone};
use serde::Deserialize;

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

/// A row of results: column name to text.
type Row = BTreeMap<String, String>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the text of a file of the repository, with line ends normalised.
fn text(path: &str) -> String {
    let text = fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    text.replace("\r\n", "\n")
}

fn about(plan: &str) -> About {
    serde_json::from_str(&text(&format!("{RESULTS}/{plan}.json"))).expect("JSON")
}

fn rows(plan: &str) -> Vec<Row> {
    let text = text(&format!("{RESULTS}/{plan}.csv"));
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let head: Vec<String> = lines.next().expect("a head").collect();
    lines.map(|line| head.iter().cloned().zip(line).collect()).collect()
}

/// Returns the estimate of a column over the rows with these values, or `None` without such rows.
fn estimate(rows: &[Row], key: &[(&str, &str)], column: &str) -> Option<Estimate> {
    let has = |row: &&Row| key.iter().all(|(name, value)| row[*name] == *value);
    let values: Vec<f64> =
        rows.iter().filter(has).map(|row| row[column].parse().expect("a number")).collect();
    (!values.is_empty()).then(|| Estimate::of(&values).expect("numbers"))
}

/// Returns a cell of a table.
fn cell(rows: &[Row], key: &[(&str, &str)], column: &str, digits: usize) -> String {
    estimate(rows, key, column).map_or_else(|| "-".to_owned(), |e| format!("{e:.digits$}"))
}

/// Returns the distinct values of a column, in the order of the rows or of their numbers.
fn values(rows: &[Row], column: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for row in rows {
        if !all.contains(&row[column]) {
            all.push(row[column].clone());
        }
    }
    if all.iter().all(|value| value.parse::<f64>().is_ok()) {
        all.sort_by(|a, b| a.parse::<f64>().unwrap().total_cmp(&b.parse().unwrap()));
    }
    all
}

fn head(columns: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let columns: Vec<String> = columns.into_iter().map(|c| c.as_ref().to_owned()).collect();
    format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()))
}

/// Returns a table of a measure: senders down, loads across.
fn by_load(column: &str, digits: usize) -> String {
    let rows = rows("loads");
    let loads = values(&rows, "load");
    let mut table = head([String::new()].into_iter().chain(loads.iter().map(|l| format!("{l} %"))));
    for (sender, rule, name) in SENDERS {
        write!(table, "| {name} |").unwrap();
        for load in &loads {
            let key = [("sender", *sender), ("probes", *rule), ("load", load)];
            write!(table, " {} |", cell(&rows, &key, column, digits)).unwrap();
        }
        table += "\n";
    }
    table
}

/// Returns the control on quinn: the same offered traffic with other packets at a timeout.
fn control() -> String {
    let rows = rows("loads");
    let mut table = head([
        "at each timeout",
        "load",
        "bytes per connection",
        "arriving at the link, Mbps",
        "drops %",
        "delivered bodies, Mbps",
        "mean response ms",
    ]);
    let cases = [
        ("stock", "two probes", "90"),
        ("1", "one probe", "90"),
        ("1", "one probe", "95"),
        ("1", "one probe", "100"),
        ("padding", "one probe and a datagram of padding", "80"),
        ("padding", "one probe and a datagram of padding", "90"),
    ];
    for (rule, name, load) in cases {
        let key = [("sender", "quinn"), ("probes", rule), ("load", load)];
        write!(table, "| {name} | {load} % |").unwrap();
        for (column, digits) in [
            ("bytes_per_connection", 0),
            ("arrived_mbps", 1),
            ("drops_percent", 1),
            ("body_mbps", 2),
            ("mean_ms", 0),
        ] {
            write!(table, " {} |", cell(&rows, &key, column, digits)).unwrap();
        }
        table += "\n";
    }
    table
}

/// Returns drops and delivered bodies of a stack with both rules, from 80 % of load on.
fn letter(stack: &str) -> String {
    let rows = rows("loads");
    let mut table = head([
        "load",
        "drops %",
        "one packet",
        "delivered bodies, Mbps",
        "one packet",
        "mean response ms",
        "one packet",
    ]);
    let high = |load: &&String| load.parse::<u32>().expect("a number") >= 80;
    for load in values(&rows, "load").iter().filter(high) {
        write!(table, "| {load} % |").unwrap();
        for (column, digits) in [("drops_percent", 1), ("body_mbps", 2), ("mean_ms", 0)] {
            for rule in ["stock", "1"] {
                let key = [("sender", stack), ("probes", rule), ("load", load)];
                write!(table, " {} |", cell(&rows, &key, column, digits)).unwrap();
            }
        }
        table += "\n";
    }
    table
}

/// Returns what one probe changes at each load and on each stack: differences of pairs of runs with
/// the same seed.
fn pairs() -> String {
    let rows = rows("loads");
    let loads = values(&rows, "load");
    let mut table = head([String::new()].into_iter().chain(loads.iter().map(|l| format!("{l} %"))));
    for stack in STACKS {
        write!(table, "| {stack} |").unwrap();
        for load in &loads {
            let of = |rule: &str| -> BTreeMap<&str, f64> {
                let key = [("sender", *stack), ("probes", rule), ("load", load.as_str())];
                let has = |row: &&Row| key.iter().all(|(name, value)| row[*name] == *value);
                let drops = |row: &Row| row["drops_percent"].parse().expect("a number");
                rows.iter().filter(has).map(|row| (row["seed"].as_str(), drops(row))).collect()
            };
            let (stock, one) = (of("stock"), of("1"));
            let both: Vec<f64> =
                one.iter().filter_map(|(seed, one)| Some(one - stock.get(seed)?)).collect();
            match Estimate::of(&both) {
                Some(difference) => write!(table, " {difference:.1} |").unwrap(),
                None => table += " - |",
            }
        }
        table += "\n";
    }
    table
}

/// Returns the drops and mean response times with 0-RTT.
fn resumed() -> String {
    let rows = rows("resumed");
    let columns = ["", "drops %", "with one probe", "mean response ms", "with one probe"];
    let mut table = head(columns);
    for sender in values(&rows, "sender") {
        write!(table, "| {sender} |").unwrap();
        for (column, digits) in [("drops_percent", 1), ("mean_ms", 0)] {
            for rule in ["stock", "1"] {
                let key = [("sender", sender.as_str()), ("probes", rule)];
                write!(table, " {} |", cell(&rows, &key, column, digits)).unwrap();
            }
        }
        table += "\n";
    }
    table
}

/// Returns what one probe costs where loss is random.
fn losses() -> String {
    let rows = rows("losses");
    let mut table =
        head(["loss", "sender", "mean response ms", "with one probe", "p99 ms", "with one probe"]);
    for loss in values(&rows, "loss") {
        for stack in STACKS {
            write!(table, "| {loss} | {stack} |").unwrap();
            for column in ["mean_ms", "p99_ms"] {
                for rule in ["stock", "1"] {
                    let key = [("sender", *stack), ("probes", rule), ("loss", &loss)];
                    write!(table, " {} |", cell(&rows, &key, column, 0)).unwrap();
                }
            }
            table += "\n";
        }
    }
    table
}

/// Returns the drops with a share of one-probe ends; the ends of the range are runs of `loads`.
fn shares() -> String {
    let (mixed, loads) = (rows("shares"), rows("loads"));
    let rules = ["stock", "25%", "50%", "75%", "1", "servers"];
    let names = ["as shipped", "25 %", "50 %", "75 %", "all", "servers only"];
    let mut table = head([""].into_iter().chain(names));
    for stack in STACKS {
        write!(table, "| {stack} |").unwrap();
        for rule in rules {
            let key = [("sender", *stack), ("probes", rule)];
            let at_90 = [key[0], key[1], ("load", "90")];
            let text = match rule {
                "stock" | "1" => cell(&loads, &at_90, "drops_percent", 1),
                _ => cell(&mixed, &key, "drops_percent", 1),
            };
            write!(table, " {text} |").unwrap();
        }
        table += "\n";
    }
    table
}

/// Returns the drops at each step of the ramp.
fn ramps() -> String {
    let rows = rows("ramps");
    let steps = values(&rows, "step");
    let load =
        |step: &str| rows.iter().find(|row| row["step"] == step).expect("a step")["load"].clone();
    let mut table =
        head([String::new()].into_iter().chain(steps.iter().map(|s| format!("{} %", load(s)))));
    let ran = values(&rows, "sender");
    for (sender, rule, name) in
        SENDERS.iter().filter(|(sender, ..)| ran.iter().any(|s| s == sender))
    {
        write!(table, "| {name} |").unwrap();
        for step in &steps {
            let key = [("sender", *sender), ("probes", *rule), ("step", step)];
            write!(table, " {} |", cell(&rows, &key, "drops_percent", 1)).unwrap();
        }
        table += "\n";
    }
    table
}

/// Returns the bytes of a connection at 90 % of load by purpose.
fn bytes() -> String {
    let rows = rows("loads");
    let purposes = [
        ("handshake", "handshake"),
        ("acknowledgements", "acknowledgements"),
        ("first_time", "data, sent first"),
        ("duplicate", "data, sent again"),
        ("after_close", "after the client has closed"),
    ];
    let mut table = head(["", "all"].into_iter().chain(purposes.map(|(_, name)| name)));
    // Packets of TCP are not classified.
    for (sender, rule, name) in SENDERS.iter().filter(|(sender, ..)| *sender != "TCP") {
        let key = [("sender", *sender), ("probes", *rule), ("load", "90")];
        write!(table, "| {name} | {} |", cell(&rows, &key, "bytes_per_connection", 0)).unwrap();
        for (purpose, _) in purposes {
            let column = format!("{purpose}_bytes_per_connection");
            write!(table, " {} |", cell(&rows, &key, &column, 0)).unwrap();
        }
        table += "\n";
    }
    table
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
    let columns = ["", "seeds", "drops %", "median ms", "mean ms", "failed per run"];
    let mut table = head(columns);
    for (file, name) in RULES {
        let file = text(&format!("bench/results/collapse/{file}.json"));
        let file: serde_json::Value = serde_json::from_str(&file).expect("JSON");
        let runs = file["runs"].as_array().expect("runs");
        let of = |path: &str, digits: usize| {
            let value = |run: &serde_json::Value| run.pointer(path).and_then(|v| v.as_f64());
            let all: Vec<f64> = runs.iter().map(|run| value(run).expect("a number")).collect();
            format!("{:.digits$}", Estimate::of(&all).expect("numbers"))
        };
        writeln!(
            table,
            "| {name} | {} | {} | {} | {} | {} |",
            runs.len(),
            of("/links/r0-r1/drops_percent", 1),
            of("/groups/forward/median_ms", 0),
            of("/groups/forward/mean_ms", 0),
            of("/groups/forward/failed", 0),
        )
        .unwrap();
    }
    table
}

fn cost() -> String {
    let mut table = head(["plan", "runs", "CPU time in minutes"]);
    for plan in PLANS {
        // A run of a ramp has a row for each step.
        let first = |row: &&Row| row.get("step").is_none_or(|step| step == "1");
        let runs = rows(plan).iter().filter(first).count();
        let minutes = about(plan).cpu_seconds / 60.0;
        writeln!(table, "| `{plan}` | {runs} | {minutes:.0} |").unwrap();
    }
    table
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

/// Returns the page with tables between their marks.
fn with_tables(page: &str, tables: &[(impl AsRef<str>, String)]) -> String {
    let mut page = page.to_owned();
    for (name, table) in tables {
        let name = name.as_ref();
        let (start, end) = (format!("<!-- table: {name} -->\n"), "<!-- end of table -->");
        let (before, rest) = page.split_once(&start).unwrap_or_else(|| panic!("no table {name}"));
        let (_, after) = rest.split_once(end).expect("the end of a table");
        page = format!("{before}{start}{table}{end}{after}");
    }
    page
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
        if std::env::var_os("FATHOM_WRITE").is_some() {
            fs::write(root().join(&path), should).expect("written");
        } else {
            assert!(text(&path) == should, "{path} differs from the results: {HINT}");
        }
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
