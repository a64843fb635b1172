//! Tests of all faults at once. `fathom load` fetches files from `fathom serve` through a
//! `fathom link` that constantly loses, reorders, duplicates and corrupts datagrams. The link also
//! has a blackout, changes the clients' ports and lowers its MTU, while connections begin and end.
//! The SHA-256 of each body must be right, requests must complete at the former rate soon after the
//! last fault, and the server's memory must not grow.
//!
//! A short course runs with the other tests, on machines that may be busy. It checks the responses,
//! but not their times. `make soak` runs the long course and prints the figures.

#![cfg(target_os = "linux")]

use crate::common;

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{FathomProcess, fathom, serve, start};
use fathom_stacks::Stack;

/// Times of the faults in seconds since the relay began, and bounds.
struct Course {
    lasts: f64,
    /// Time at which connections with one request each begin.
    fresh: f64,
    /// Start and duration of the blackout.
    blackout: (f64, f64),
    rebind: f64,
    mtu: f64,
    /// Time from which requests must complete as they did before the blackout.
    recovered: f64,
    /// Time from which the server's memory is measured.
    warm: f64,
    /// Largest permitted resident set of the last third, as a multiple of that of the first third.
    growth: f64,
    /// Number of completed requests per permitted failure. A handshake does not survive a new port
    /// (RFC 9000 §9), nor every combination of the other faults.
    bearable: u64,
    /// Smallest permitted rate of completed requests afterwards, as a fraction of the former rate.
    former: f64,
    /// Time without a completed request that counts as a stall.
    stall: f64,
    name: &'static str,
}

const SHORT: Course = Course {
    lasts: 9.0,
    // On a machine that is not busy, no handshake is in progress when the port changes, and none
    // fails.
    fresh: 2.2,
    rebind: 2.0,
    blackout: (3.5, 0.5),
    mtu: 4.5,
    recovered: 6.0,
    warm: 1.0,
    // In the first seconds, the buffers of a few connections are visible, and occasionally a server
    // on quinn takes 200 MB more, for an unknown reason. Only the long course checks memory.
    growth: f64::INFINITY,
    bearable: 5,
    former: 0.0,
    stall: f64::INFINITY,
    name: "cargo test --test fathom-tests soak::",
};

const LONG: Course = Course {
    lasts: 60.0,
    fresh: 0.0,
    blackout: (15.0, 2.0),
    rebind: 25.0,
    mtu: 35.0,
    recovered: 38.0,
    warm: 10.0,
    growth: 1.2,
    bearable: 50,
    former: 0.8,
    stall: 2.0,
    name: "make soak",
};

/// Impairments of each datagram, in both directions.
const DAMAGE: [&str; 10] =
    ["--delay", "5ms", "--loss", "5%", "--reorder", "2%", "--duplicate", "2%", "--corrupt", "1%"];
/// Largest payload after the MTU has dropped: little more than QUIC needs (RFC 9000 §14.1).
const MTU: u32 = 1_250;
/// Files with their sizes, and the number of requests for each among twenty requests. The load is
/// below the throughput of connections over such a path; otherwise requests would queue.
const FILES: [(&str, usize, usize); 4] = [
    ("1k.bin", 1_000, 8),
    ("10k.bin", 10_000, 7),
    ("100k.bin", 100_000, 4),
    ("300k.bin", 300_000, 1),
];
/// Requests per second of each load.
const RATE: u32 = 20;
/// Longest time that a request may take. If packets of the handshake are lost, a client's first RTT
/// sample can be 1 s and its probe timeout 6 s. If the Finished message is lost too, it arrives 6 s
/// late (RFC 9002 §5.1, §6.2). This happens to one connection in 300, and one in 2,000 takes 15 s.
/// No server here abandons a handshake earlier.
const PATIENCE: &str = "30s";

/// Writes files of bytes that do not repeat: zeros would hide misplaced data.
fn write_files(root: &Path) {
    // Marsaglia's xorshift64.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    for (name, size, _) in FILES {
        let bytes: Vec<u8> = std::iter::repeat_with(&mut next).take(size).collect();
        std::fs::write(root.join(name), bytes).expect("written");
    }
}

/// Two ways to use connections: one connection per request, and few connections that survive all
/// faults.
const LOADS: [(&str, &[&str]); 2] =
    [("fresh", &["--connections", "fresh"]), ("kept", &["-c", "6", "-m", "8"])];

struct Load {
    name: &'static str,
    rows: PathBuf,
    /// Start of the load, in the relay's time.
    began: f64,
}

fn load(
    which: usize,
    folder: &Path,
    stack: &str,
    relay: &str,
    lasts: f64,
    began: f64,
) -> (Load, Child) {
    let (name, how) = LOADS[which];
    let urls =
        FILES.iter().flat_map(|(file, _, times)| vec![format!("https://localhost/{file}"); *times]);
    let rows = folder.join(format!("{name}.csv"));
    let child = fathom()
        .arg("load")
        .args(urls)
        .args([
            "--insecure",
            "--check-digest",
            "--stack",
            stack,
            "--connect-to",
            relay,
            "--json",
            "-",
        ])
        .args([
            "--timeout",
            PATIENCE,
            "--rate",
            &RATE.to_string(),
            "--spacing",
            "even",
            "-d",
            &format!("{lasts}s"),
        ])
        .args(how)
        .arg("--csv")
        .arg(&rows)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("fathom runs");
    (Load { name, rows, began }, child)
}

/// Ends the relay and returns its counts.
fn counts(mut link: FathomProcess) -> serde_json::Value {
    let killed = Command::new("kill").args(["-INT", &link.child.id().to_string()]).status();
    assert!(killed.expect("kill runs").success());
    let mut text = String::new();
    link.child.stdout.take().expect("standard output").read_to_string(&mut text).expect("text");
    serde_json::from_str(&text).expect("JSON")
}

/// Returns a process's resident set in MB (proc(5), `VmRSS`).
fn resident(process: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? / 1e3)
}

/// A finished request: its intended start and its end in the relay's time, and whether its response
/// is complete.
struct Row {
    intended: f64,
    ended: f64,
    whole: bool,
}

fn rows(load: &Load) -> Vec<Row> {
    let text = std::fs::read_to_string(&load.rows).expect("the CSV");
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let [intended, response] =
            [0, 5].map(|column| fields[column].parse::<f64>().expect("a number"));
        let ended = load.began + intended + response;
        Row { intended: load.began + intended, ended, whole: fields[7].parse::<u16>().is_ok() }
    };
    text.lines().skip(1).map(row).collect()
}

/// Returns the number of complete responses per second in this time span.
fn rate(rows: &[Row], from: f64, to: f64) -> f64 {
    rows.iter().filter(|row| row.whole && (from..to).contains(&row.ended)).count() as f64
        / (to - from)
}

/// Returns the longest time without a completed response.
fn silence(rows: &[Row], from: f64, to: f64) -> f64 {
    let mut ends: Vec<f64> = rows.iter().filter(|row| row.whole).map(|row| row.ended).collect();
    ends.retain(|end| (from..to).contains(end));
    ends.extend([from, to]);
    ends.sort_by(f64::total_cmp);
    ends.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max)
}

/// Violations of the bounds (`wrong`), and measurements (`text`).
#[derive(Default)]
struct Report {
    text: String,
    wrong: Vec<String>,
}

impl Report {
    fn say(&mut self, line: impl std::fmt::Display) {
        let _ = writeln!(self.text, "{line}");
    }

    fn want(&mut self, holds: bool, what: impl std::fmt::Display) {
        if !holds {
            self.wrong.push(what.to_string());
        }
    }

    /// Checks one load.
    fn load(&mut self, stack: &str, course: &Course, load: &Load, out: &std::process::Output) {
        let name = load.name;
        let Ok(found) = serde_json::from_slice::<serde_json::Value>(&out.stdout) else {
            self.want(false, format!("{name}: the load ended with {} and no results", out.status));
            return;
        };
        let number = |value: &serde_json::Value| value.as_u64().unwrap_or_default();
        let requests = &found["requests"];
        let (whole, failed) = (number(&requests["completed"]), number(&requests["failed"]));
        let wrong = number(&found["failures"]["digest"]["count"])
            + number(&found["failures"]["short_body"]["count"]);
        let kinds: Vec<String> = found["failures"]
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(_, of)| number(&of["count"]) > 0)
            .map(|(kind, of)| {
                format!("{kind} {} ({})", of["count"], of["first"].as_str().unwrap_or_default())
            })
            .collect();
        let rows = rows(load);
        let (before, after) = ((2.0, course.blackout.0), (course.recovered, course.lasts));
        let (then, now) = (rate(&rows, before.0, before.1), rate(&rows, after.0, after.1));
        let quiet = silence(&rows, after.0, after.1);
        let failed_at: Vec<String> = rows
            .iter()
            .filter(|row| !row.whole)
            .map(|row| format!("{:.1}", row.intended))
            .collect();
        let late = rows.iter().filter(|row| !row.whole && row.intended >= course.recovered).count();
        self.say(format_args!(
            "  {name:6}{whole} whole with the right digest, {failed} failed{}{}{}; {} connections",
            if kinds.is_empty() { "" } else { ": " },
            kinds.join(", "),
            if failed_at.is_empty() {
                String::new()
            } else {
                format!(", begun at {} s", failed_at.join(", "))
            },
            found["connections"]["opened"],
        ));
        self.say(format_args!(
            "        {then:.1} responses/s before the faults, {now:.1} after them, the longest silence then {quiet:.2} s; p50 {} s, p99 {} s, max {} s",
            found["times"]["response"]["p50"], found["times"]["response"]["p99"], found["times"]["response"]["max"],
        ));
        self.want(
            whole > 0 && wrong == 0,
            format!("{name}: {wrong} bodies are wrong, {whole} right"),
        );
        self.want(
            now >= course.former * then,
            format!("{name}: {now:.1} responses/s after the faults, {then:.1} before them"),
        );
        self.want(
            quiet < course.stall,
            format!("{name}: nothing ended for {quiet:.1} s after the last fault"),
        );
        self.want(
            failed * course.bearable <= whole,
            format!("{name}: {failed} of {} requests failed", whole + failed),
        );
        // An established connection must survive the constant impairments; `bearable` bounds the
        // failed handshakes. On quiche, one connection in fifty is dead if packets are lost at a
        // port change; the reason is not known.
        let stands = name == "kept" && stack != "quiche";
        self.want(
            late == 0 || !stands,
            format!("{name}: {late} requests failed that began when all faults were over"),
        );
    }

    /// Checks that the relay's faults occurred: a soak without them proves nothing.
    fn damage(&mut self, counts: &serde_json::Value) {
        let both = |what: &str| {
            ["to_clients", "to_server"].map(|way| counts[way][what].as_u64().unwrap_or_default())
        };
        let mut line = "  datagrams to clients and to the server:".to_owned();
        for what in ["arrived", "lost", "reordered", "duplicated", "corrupted"] {
            let [down, up] = both(what);
            let _ = write!(line, " {down} and {up} {what},");
            self.want(down > 0 && up > 0, format!("the relay has {what} none"));
        }
        let cut_off = counts["cut_off"].as_u64().unwrap_or_default();
        self.say(format_args!("{line} {cut_off} cut off by faults"));
        self.want(cut_off > 0, "the faults hit nothing");
    }

    /// Checks the server's memory.
    fn memory(&mut self, course: &Course, samples: &[(f64, f64)]) {
        let third = (course.lasts - course.warm) / 3.0;
        let most = |from: f64| {
            let of = samples
                .iter()
                .filter(|(at, _)| (from..from + third).contains(at))
                .map(|(_, mb)| *mb);
            of.fold(0.0, f64::max)
        };
        let [first, second, last] = [0.0, 1.0, 2.0].map(|n| most(course.warm + n * third));
        let peak = samples.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
        self.say(format_args!(
            "  server's memory, most in each third after {} s: {first:.1}, {second:.1}, {last:.1} MB; its peak {:.1} MB at {:.1} s",
            course.warm, peak.1, peak.0,
        ));
        self.want(
            first > 0.0 && last <= course.growth * first,
            format!("the server's memory grew from {first:.1} to {last:.1} MB"),
        );
    }
}

/// Returns the faults of the relay, as `fathom link --fault` takes them.
fn faults(stack: &str, course: &Course) -> Vec<String> {
    let mut faults = vec![
        format!("blackout:{}ms@{}ms", course.blackout.1 * 1e3, course.blackout.0 * 1e3),
        format!("mtu:{MTU}@{}ms", course.mtu * 1e3),
    ];
    // noq 1.4.0 abandons a client's new port if its PATH_CHALLENGE was lost. `migrate` keeps the
    // former path only if that path was not validated, so noq has no other path and sends at most
    // three times the bytes that it receives. One in eight connections over this path then stalls
    // for good.
    if stack != "noq" {
        faults.push(format!("rebind@{}ms", course.rebind * 1e3));
    }
    faults
}

/// Starts the relay, and returns it with its address.
fn start_relay(server: &str, course: &Course, faults: &[String]) -> (FathomProcess, String) {
    let mut link = fathom();
    link.args(["link", "--listen", "127.0.0.1:0", "--to", server, "--json", "-"])
        .args(DAMAGE)
        .stdout(Stdio::piped());
    link.args(["--for", &format!("{}s", course.lasts + 30.0)])
        .args(faults.iter().flat_map(|fault| ["--fault", fault]));
    start(&mut link, "relaying ")
}

// The processes of a soak run in real time.
#[allow(clippy::disallowed_methods)]
fn soak(stack: &str, course: &Course) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("www");
    std::fs::create_dir(&root).expect("a folder");
    write_files(&root);
    // Half of the connections use Fathom's controller with one-way delays, the others the stack's
    // own controller.
    let halves = ["--controller", "sync:signal=either=50,native:cubic=50"];
    let (server, port) = serve(
        &[&["--stack", stack, "--root", root.to_str().expect("UTF-8")], &halves[..]].concat(),
    );
    let faults = faults(stack, course);
    let (link, relay) = start_relay(&format!("127.0.0.1:{port}"), course, &faults);
    let began = Instant::now();
    // `fathom load` does not support quiche.
    let client = if stack == "quiche" { "quinn" } else { stack };
    let loads: Vec<(Load, Child)> = (0..LOADS.len())
        .rev()
        .map(|which| {
            if LOADS[which].0 == "fresh" {
                std::thread::sleep(
                    Duration::from_secs_f64(course.fresh).saturating_sub(began.elapsed()),
                );
            }
            let now = began.elapsed().as_secs_f64();
            load(which, folder.path(), client, &relay, course.lasts - course.fresh.min(now), now)
        })
        .collect();

    let over = AtomicBool::new(false);
    let process = server.child.id();
    let (loads, samples) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut samples = Vec::new();
            while !over.load(Ordering::Relaxed) {
                samples.extend(resident(process).map(|mb| (began.elapsed().as_secs_f64(), mb)));
                std::thread::sleep(Duration::from_millis(200));
            }
            samples
        });
        let loads: Vec<_> =
            loads.into_iter().map(|(load, child)| (load, child.wait_with_output())).collect();
        over.store(true, Ordering::Relaxed);
        (loads, sampler.join().expect("samples"))
    });
    let counts = counts(link);

    let mut report = Report::default();
    report.say(format_args!(
        "{stack}, {} s with {}, {}",
        course.lasts,
        DAMAGE.join(" "),
        faults.join(" ")
    ));
    for (load, out) in &loads {
        report.load(stack, course, load, out.as_ref().expect("an end"));
    }
    report.memory(course, &samples);
    report.damage(&counts);
    println!("{}", report.text);
    assert!(
        report.wrong.is_empty(),
        "{}\n{}run again: {}",
        report.wrong.join("\n"),
        report.text,
        course.name
    );
}

/// All stacks run at once, because they wait more than they work.
#[test]
fn every_stack_survives_a_short_soak_test() {
    std::thread::scope(|scope| {
        for stack in Stack::ALL {
            scope.spawn(|| soak(stack.name(), &SHORT));
        }
    });
}

#[test]
#[ignore = "takes a minute: make soak"]
fn quinn_survives_a_one_minute_soak_test() {
    soak("quinn", &LONG);
}

#[test]
#[ignore = "takes a minute: make soak"]
fn noq_survives_a_one_minute_soak_test() {
    soak("noq", &LONG);
}

#[cfg(feature = "quiche")]
#[test]
#[ignore = "takes a minute: make soak"]
fn quiche_survives_a_one_minute_soak_test() {
    soak("quiche", &LONG);
}
