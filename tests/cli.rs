//! Tests of the command line from end to end: results repeat, and invalid input is reported in one
//! line.

use std::path::Path;
use std::process::{Command, Output};

fn fathom(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fathom")).args(args).output().expect("fathom runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const SMALL: [&str; 7] = ["compare", "--responses", "300", "--seed", "5", "--seeds", "2"];

#[test]
fn same_seed_gives_the_same_bytes_in_two_processes() {
    let run = || {
        let out = fathom(&[&SMALL[..], &["--json", "-"]].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        out.stdout
    };
    let (a, b) = (run(), run());
    assert!(
        a == b,
        "two runs of one seed differ; repeat with: fathom {} --json -",
        SMALL.join(" ")
    );

    let json: serde_json::Value =
        serde_json::from_slice(&a).expect("standard output holds JSON and nothing else");
    let runs = json["runs"].as_array().expect("runs");
    let seeds: Vec<&serde_json::Value> = runs.iter().map(|run| &run["seed"]).collect();
    assert_eq!(seeds, [5, 6, 5, 6], "the seeds of each controller");
    for (i, run) in runs.iter().enumerate() {
        let requests =
            |run: &serde_json::Value| run["outcome"]["groups"]["forward"]["request_hash"].clone();
        assert_eq!(run["outcome"]["groups"]["forward"]["responses"], 300, "{run}");
        assert_eq!(requests(run), requests(&runs[i % 2]), "controllers got different requests");
        assert_eq!(
            requests(run) == json["request_hash"],
            i % 2 == 0,
            "each seed is another sequence"
        );
    }
    let [reno, sync] = [0, 2].map(|i| &runs[i]["outcome"]);
    assert_ne!(reno["trace_hash"], sync["trace_hash"], "reno and sync did the same");
    // All connections except those that were in their handshake when the run ended.
    let count = |what: &str| sync["groups"]["forward"][what].as_f64().expect("a number");
    assert!(count("hears_one_way") > 0.95 * count("accepted"), "sync ran without one-way delays");
}

/// Trace of a fixed run, packet by packet. It changes only if the stacks, the controllers or the
/// laboratory send different packets. If it changes, find out why, and record the new hashes. The
/// traffic is bulk, which involves no floating point.
#[test]
fn two_fixed_comparisons_keep_their_trace_hashes() {
    // reno and sync on quinn, then on noq.
    traces(
        "quinn,noq",
        &["d316f4e5622540db", "80a0fc285cf259e6", "a9f850e64a3cbb40", "e17c9abec25f2437"],
    );
    #[cfg(feature = "quiche")]
    traces("quiche", &["60ced7796e44b229", "cb7c384c5c44ee59"]);
}

fn traces(stacks: &str, wanted: &[&str]) {
    let args = [
        "compare",
        "--stack",
        stacks,
        "--workload",
        "bulk:3x400kB@50ms",
        "--seeds",
        "1",
        "--json",
        "-",
    ];
    let out = fathom(&args);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let hashes: Vec<_> = json["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .map(|r| r["outcome"]["trace_hash"].clone())
        .collect();
    assert_eq!(hashes, wanted, "repeat with: fathom {}", args.join(" "));
}

#[test]
fn compare_runs_persistent_connections_and_bulk_transfers() {
    let out = fathom(&[
        "compare",
        "--responses",
        "200",
        "--seeds",
        "1",
        "--connections",
        "persistent",
        "--controllers",
        "sync",
    ]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let out = fathom(&[
        "compare",
        "--workload",
        "bulk:3x200kB@10ms",
        "--seeds",
        "2",
        "--max-window",
        "none",
    ]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("sync"), "{}", text(&out.stdout));
}

#[test]
fn exit_code_is_1_if_all_requests_of_a_controller_fail() {
    let path = ["--rate", "1Mbps", "--rtt", "20ms", "--event", "blackout:200s@1s"];
    let what = ["compare", "--workload", "bulk:2x2MB@0ms", "--controllers", "reno", "--seeds", "1"];
    let out = fathom(&[&what[..], &path].concat());
    let (said, err) = (text(&out.stdout), text(&out.stderr));
    assert_eq!(out.status.code(), Some(1), "{said}{err}");
    assert!(said.starts_with("FAILED: all 2 requests failed under reno (2: timed out)"), "{said}");
    assert!(err.lines().count() == 1 && err.contains("all 2 requests failed under reno"), "{err}");
}

#[test]
fn comparison_report_is_one_self_contained_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (html, json) = (folder.path().join("r.html"), folder.path().join("r.json"));
    let paths = [html.to_str().expect("utf-8"), json.to_str().expect("utf-8")];
    let out = fathom(&[
        "compare",
        "--responses",
        "200",
        "--seeds",
        "2",
        "--report",
        paths[0],
        "--json",
        paths[1],
    ]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let page = std::fs::read_to_string(&html).expect("the report");
    assert!(page.contains("<svg") && page.contains("</html>"));
    for load in ["src=\"http", "href=\"http", "@import", "url(http"] {
        assert!(!page.contains(load), "the report loads something: {load}");
    }
    serde_json::from_str::<serde_json::Value>(&std::fs::read_to_string(&json).expect("the JSON"))
        .expect("JSON");
    // No other files are left behind.
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 2);
}

/// Checks that a command is refused: exit code 2, no standard output, and one line on standard
/// error that contains all of `says`.
fn refused(args: &[&str], says: &[&str]) {
    let out = fathom(args);
    let err = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "fathom {}: {err}", args.join(" "));
    assert_eq!(text(&out.stdout), "", "fathom {}", args.join(" "));
    assert_eq!(err.trim_end().lines().count(), 1, "fathom {}: {err}", args.join(" "));
    for s in says {
        assert!(err.contains(s), "fathom {}: '{s}' is not in: {err}", args.join(" "));
    }
}

#[test]
fn invalid_compare_input_gives_one_line_with_a_fix() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["--controllers", "rneo"], &["rneo", "reno"]),
        (&["--controllers", "sync:flor=1ms"], &["flor", "floor"]),
        (&["--controllers", "sync:floor=1h"], &["floor", "1h"]),
        (&["--controllers", ""], &["reno"]),
        (&["--controllers", "reno,reno"], &["twice"]),
        (&["--link", "0Mbps"], &["link", "100kbps"]),
        (&["--link", "ten"], &["link", "10Mbps"]),
        (&["--queue", "droptail:0p"], &["queue", "droptail:2p"]),
        (&["--load", "900%"], &["load", "200%"]),
        (&["--responses", "0"], &["responses", "1 to"]),
        (&["--responses", "many"], &["responses", "many"]),
        (&["--seeds", "0"], &["seeds", "1 to"]),
        (&["--workload", "bulky"], &["workload", "bulk:4x10MB"]),
        (&["--max-window", "0p"], &["max-window", "68p"]),
        (&["--connections", "kept"], &["kept", "persistent"]),
        (&["--report", "no/such/folder/r.html"], &["no/such/folder", "can write"]),
        (&["--report", "."], &["directory"]),
        (&["--report", "x.html", "--json", "x.html"], &["same file"]),
        (&["no-such-plan.toml"], &["no-such-plan.toml", "TOML"]),
        (&["--colour"], &["--colour", "--help"]),
        (&["--stack", "msquic"], &["msquic", "quinn or noq"]),
        #[cfg(not(feature = "quiche"))]
        (&["--stack", "quiche"], &["--features quiche", "cmake", "libclang-dev"]),
        (&["--stack", "quinn,quinn"], &["twice"]),
        (&["--controllers", "native:vegas"], &["native:cubic"]),
        (&["--controllers", "native:bbr3"], &["quinn", "native:bbr"]),
        (&["--controllers", "sdc", "--shaping", "off"], &["pacing", "fathom stacks"]),
        (&["--controllers", "packet-size", "--shaping", "off"], &["datagram size"]),
        (&["--controllers", "reno/sync"], &["packet-size/reno"]),
        (&["--controllers", "packet-size/packet-size"], &["itself"]),
        (&["--controllers", "sdc:factor=2"], &["factor", "0.99"]),
        (&["--shaping", "maybe"], &["auto or off"]),
        (&["--queue", "red:min=50p,max=5p"], &["min < max", "red:"]),
        (&["--workload", "bulk", "--load", "20%"], &["the numbers of bulk", "leave --load out"]),
        (&["--workload", "page:30%", "--load", "20%"], &["--load", "leave out one of the two"]),
        (
            &["--workload", "media", "--responses", "20"],
            &["responses: media", "leave --responses out"],
        ),
        (
            &["--path", "lte", "--reference", "1Gbps"],
            &["reference: only the built-in network", "leave it out"],
        ),
        (&["--kernel", "uml"], &["--kernel", "--backend netem"]),
        (&["--event", "mtu:9000@1s"], &["--event: 'mtu:9000@1s'", "mtu:1250@20s"]),
        (
            &["--rtt", "40ms", "--workload", "media:1 at 2Mbps 30fps deadline 20ms for 5s"],
            &["one-way delay of 20ms"],
        ),
        (&["--rate", "100Gbps", "--load", "200%"], &["load: ", "too many", "lower --load"]),
        (&["--link", "100kbps", "--load", "1%"], &["load: ", "too few", "raise --load"]),
    ];
    for (args, says) in cases {
        refused(&[&["compare"], *args].concat(), says);
    }
    refused(&["controllers", "syn"], &["syn", "sync"]);
    refused(&["compere"], &["compere", "compare"]);
}

#[test]
fn plan_with_an_unknown_field_is_refused_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.toml");
    let sound =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/bench/plans/web-90.toml"));
    let wrong = sound.expect("a plan").replace("stop = ", "stopp = ");
    std::fs::write(&plan, wrong).expect("written");
    refused(&["compare", plan.to_str().expect("utf-8")], &["line 10", "stopp", "stop"]);
    std::fs::write(&plan, "seed = 1\nresponses = 5\n").expect("written");
    refused(
        &["compare", plan.to_str().expect("utf-8")],
        &["line 2", "'responses'", "fathom compare --study"],
    );
}

#[test]
fn comparison_plans_in_the_repository_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench/plans");
    for entry in std::fs::read_dir(folder).expect("plans") {
        let path = entry.expect("a plan").path();
        if path.is_dir() {
            // Folders contain studies, which are tested with `fathom plan` below.
            continue;
        }
        // The size of a bulk workload is fixed.
        let web = std::fs::read_to_string(&path).expect("a plan").contains("\"web:");
        let short: &[&str] = if web { &["--responses", "20"] } else { &[] };
        let args =
            ["compare", path.to_str().expect("utf-8"), "--seeds", "1", "--controllers", "reno"];
        let out = fathom(&[&args[..], short].concat());
        assert!(out.status.success(), "{}: {}", path.display(), text(&out.stderr));
    }
}

#[test]
fn path_event_after_the_end_of_all_runs_is_an_error() {
    let args = [
        "compare",
        "--workload",
        "bulk:2x100kB@10ms",
        "--seeds",
        "1",
        "--event",
        "blackout:1s@500s",
    ];
    let out = fathom(&args);
    let err = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{err}");
    assert!(err.contains("came after the end of every run") && err.contains("earlier"), "{err}");
    assert!(
        text(&out.stdout).starts_with("NOTE: event 'blackout:1s@500s'"),
        "the results are there"
    );
}

#[test]
fn controllers_are_listed_with_options_needs_and_source() {
    let out = fathom(&["controllers"]);
    assert!(out.status.success());
    let list = text(&out.stdout);
    for said in
        ["reno", "RFC 9002", "sync", "Sync-TCP", "one-way delay", "signal=one-way", "floor=0"]
    {
        assert!(list.contains(said), "'{said}' is not in:\n{list}");
    }
}

#[test]
fn stacks_are_listed_with_capabilities_and_controllers() {
    let out = fathom(&["stacks"]);
    assert!(out.status.success());
    let list = text(&out.stdout);
    for stack in fathom_stacks::Stack::ALL {
        let line = list.lines().find(|l| l.starts_with(stack.name())).expect("a line per stack");
        for native in stack.natives() {
            assert!(line.contains(&format!("native:{native}")), "{line}");
        }
        let [with, without] =
            [stack.provided_with_shaping(), stack.provided()].map(|all| all.names().len());
        assert_eq!(line.matches("shaping").count(), with - without, "{line}");
        assert_eq!(line.matches(" yes").count(), without, "{line}");
    }
    for entry in fathom_cc::catalogue::CATALOGUE {
        let line = list
            .lines()
            .find(|l| l.starts_with(&format!("{} ", entry.name)))
            .expect("a line per controller");
        assert_eq!(line.matches("needs").count(), entry.required.names().len(), "{line}");
    }
}

#[test]
fn help_of_fathom_and_compare_has_examples() {
    for args in [&["--help"][..], &["compare", "--help"]] {
        let out = fathom(args);
        assert!(out.status.success());
        assert!(text(&out.stdout).contains("Usage"), "{}", text(&out.stdout));
    }
    let help = text(&fathom(&["compare", "--help"]).stdout);
    for said in ["Examples", "--controllers", "--load", "droptail:136p", "--report"] {
        assert!(help.contains(said), "'{said}' is not in:\n{help}");
    }
}

#[test]
fn plan_command_lists_shows_and_checks_shipped_studies() {
    let list = fathom(&["plan", "list"]);
    assert!(list.status.success(), "{}", text(&list.stderr));
    let list = text(&list.stdout);
    for (name, toml) in fathom_experiments::study::shipped_studies() {
        assert!(list.contains(name), "'{name}' is not in:\n{list}");
        assert_eq!(text(&fathom(&["plan", "show", name]).stdout), *toml);
        let out = fathom(&["plan", "check", name]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        let said = text(&out.stdout);
        for words in [name, "source: ", "base round trip", "packets", "of CPU"] {
            assert!(said.contains(words), "'{words}' is not in:\n{said}");
        }
    }
}

#[test]
fn plan_check_reads_files_and_options() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mine.toml");
    let toml = text(&fathom(&["plan", "show", "sdc-figure-4"]).stdout);
    std::fs::write(&file, toml).expect("written");
    let path = file.to_str().expect("utf-8");
    let runs_of_part = |part: &str| {
        let out = fathom(&[
            "plan", "check", path, "--scale", "0.1", "--seeds", "2", "--part", part, "--stack",
            "noq",
        ]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        let said = text(&out.stdout);
        for words in ["mine: ", "with 2 seeds each: ", "scale: 0.1", "ends at 10s", "stack noq"] {
            assert!(said.contains(words), "'{words}' is not in:\n{said}");
        }
        let number = said
            .split_once("with 2 seeds each: ")
            .and_then(|(_, rest)| rest.lines().next())
            .expect("a number");
        number.parse::<usize>().expect("a number")
    };
    // 18 numbers of flows, two systems and two seeds make 72 runs. Each part has about half of the
    // runs.
    let parts = ["1/2", "2/2"].map(runs_of_part);
    assert!(
        parts[0] + parts[1] == 72 && parts.iter().all(|runs| (20..=52).contains(runs)),
        "{parts:?}"
    );
}

/// One file is a comparison for 'fathom compare' and a study for 'fathom plan'.
#[test]
fn plans_in_the_repository_are_comparisons_or_studies() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (again, third) = (&*inside("again.toml"), &*inside("third.toml"));
    let results = &*inside("results");
    for name in ["web-90", "sdc-100", "backends"] {
        let path = format!("{}/bench/plans/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let out = fathom(&["plan", "check", &path]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        let out = fathom(&["compare", &path, "--study", again]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        let runs = |path: &str| {
            let out = fathom(&["plan", "runs", path, "--json", "--results", results]);
            let runs: Vec<serde_json::Value> = serde_json::from_slice(&out.stdout).expect("JSON");
            runs.len()
        };
        assert_eq!(runs(&path), runs(again), "{name}");
        let out = fathom(&["compare", again, "--study", third]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        let read = |path: &str| std::fs::read_to_string(path).expect("a study");
        assert_eq!(read(again), read(third), "{name}");
    }
}

#[test]
fn invalid_plans_give_one_line_with_a_fix() {
    let folder = tempfile::tempdir().expect("a folder");
    let written = |name: &str, toml: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, toml).expect("written");
        path.to_str().expect("utf-8").to_owned()
    };
    let sound = text(&fathom(&["plan", "show", "sdc-figure-4"]).stdout);
    let unknown_parameter = written("hole.toml", &sound.replace("flows:$flows", "flows:$flow"));
    let field = written("field.toml", &sound.replace("packet = ", "paket = "));
    let syntax = written("syntax.toml", "question = \n");
    let plan = written("plan.toml", "seeds = 2\nstudy = \"compare\"\n");
    let cases: &[(&[&str], &[&str])] = &[
        (&["check", &unknown_parameter], &["line ", "$flow", "$flows"]),
        (&["run", &unknown_parameter], &["line ", "$flow", "$flows"]),
        (&["check", &field], &["line ", "paket", "packet"]),
        (&["check", &syntax], &["line 1"]),
        (&["check", &plan], &["line 2", "older versions", "fathom compare --study"]),
        (&["check", "no-such-study"], &["no-such-study", "fathom plan list"]),
        (&["show", "no-such-study"], &["no-such-study", "sdc-figure-4"]),
        (&["check", "sdc-figure-4", "--scale", "2"], &["scale", "at most 1"]),
        (&["check", "sdc-figure-4", "--seeds", "0"], &["seeds", "1 to"]),
        (&["check", "sdc-figure-4", "--part", "6/5"], &["6/5", "2/5"]),
        (&["check", "sdc-figure-4", "--stack", "msquic"], &["msquic", "quinn or noq"]),
        (&["run", "sdc-figure-4", "--results", &plan], &["results", "can write"]),
        (
            &["run", "sdc-figure-4", "--json", "no/such/folder/r.json"],
            &["no/such/folder", "can write"],
        ),
        (&["run", "sdc-figure-4", "--jobs", "0"], &["--jobs"]),
    ];
    for (args, says) in cases {
        refused(&[&["plan"], *args].concat(), says);
    }
}

#[test]
fn reproduce_lists_papers_and_refuses_unknown_papers() {
    use fathom_papers::PAPERS;

    let out = fathom(&["reproduce"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let list = text(&out.stdout);
    for paper in PAPERS {
        assert!(list.contains(&format!("{}: ", paper.name)), "'{}' is not in:\n{list}", paper.name);
        let of_one = fathom(&["reproduce", paper.name, "--list", "--scale", "0.1"]);
        let of_one = text(&of_one.stdout);
        let mut ids = Vec::new();
        for wanted in paper.artefacts {
            assert!(
                list.contains(wanted.shows) && of_one.contains(wanted.id),
                "'{}' is not in:\n{of_one}",
                wanted.id
            );
            ids.push(wanted.id);
        }
        assert!(of_one.contains("of CPU") && of_one.contains("at scale 0.1"), "{of_one}");
        refused(&["reproduce", paper.name, "--figure", "99"], &["no figure '99'", &ids.join(", ")]);
    }
    refused(&["reproduce", "no-such-paper"], &["no-such-paper"]);
    refused(&["reproduce", "no-such-paper", "--figure", "4"], &["no-such-paper"]);
    refused(&["reproduce", "--only-stored"], &["need a paper"]);
    refused(&["reproduce", "sdc", "--list", "--json", "-"], &["--list", "--json"]);
    refused(&["reproduce", "sdc", "--stack", "msquic"], &["msquic", "quinn or noq"]);
    refused(&["reproduce", "sdc", "--jobs", "0"], &["--jobs"]);
}

#[cfg(unix)]
#[test]
fn interrupted_comparison_keeps_finished_runs() {
    use std::io::{BufRead, BufReader, Read};
    use std::process::Stdio;

    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("utf-8").to_owned();
    let (json, html) = (at("r.json"), at("r.html"));
    // More runs than any machine makes at once: when the first is done, most are left.
    let controllers: Vec<String> = (1..=300).map(|ms| format!("sync:floor={ms}ms")).collect();
    let mut child = Command::new(env!("CARGO_BIN_EXE_fathom"))
        .args([
            "compare",
            "-v",
            "--responses",
            "200",
            "--seeds",
            "2",
            "--controllers",
            &controllers.join(","),
        ])
        .args(["--json", &json, "--report", &html])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("fathom runs");
    let mut said = BufReader::new(child.stderr.take().expect("standard error"));
    let mut line = String::new();
    while !line.contains("run finished: sync") {
        line.clear();
        assert!(said.read_line(&mut line).expect("text") > 0, "it ended before a run was done");
    }
    let kill =
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(kill.success());
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("text");
    let out = child.wait_with_output().expect("an end");
    assert_eq!(out.status.code(), Some(130), "{rest}");
    let last = rest.lines().last().expect("a line");
    assert!(
        last.contains("interrupted: ") && last.contains("the same command with --controllers sync"),
        "{last}"
    );
    let (table, page) = (text(&out.stdout), std::fs::read_to_string(html).expect("the report"));
    let found: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(json).expect("JSON")).expect("JSON");
    let count = |what: &str| found[what].as_array().map_or(0, Vec::len);
    assert!(
        count("runs") > 0 && count("incomplete") > 0 && count("runs") + count("incomplete") == 600,
        "{last}"
    );
    assert!(
        table.contains("INCOMPLETE: no results of sync")
            && page.contains("INCOMPLETE: no results of sync")
    );
    assert!(table.contains(found["runs"][0]["label"].as_str().expect("a label")), "{table}");
}

#[cfg(unix)]
#[test]
fn interrupted_study_prints_the_command_that_continues_it() {
    use std::io::{BufRead, BufReader, Read};
    use std::process::Stdio;

    let folder = tempfile::tempdir().expect("a folder");
    let mut child = Command::new(env!("CARGO_BIN_EXE_fathom"))
        .args(["plan", "run", "sdc-figure-4", "--jobs", "1", "--results"])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("fathom runs");
    let mut said = BufReader::new(child.stderr.take().expect("standard error"));
    let mut line = String::new();
    said.read_line(&mut line).expect("text");
    assert!(line.contains("runs to execute"), "{line}");
    let kill =
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("text");
    let out = child.wait_with_output().expect("an end");
    assert_eq!((kill.success(), out.status.code()), (true, Some(130)), "{rest}");
    assert!(rest.contains("the same command continues"), "{rest}");
}

#[test]
fn comparison_reuses_stored_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let results = folder.path().to_str().expect("text");
    let run = |seeds: &str| {
        let plan = ["compare", "--responses", "300", "--seed", "5", "--seeds", seeds];
        let out = fathom(&[&plan[..], &["--results", results, "--json", "-"]].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
        json["runs"].as_array().expect("runs").clone()
    };
    let files = || std::fs::read_dir(folder.path()).expect("a folder").count();
    let (first, kept) = (run("2"), files());
    // There are four runs, and one run on the uncongested network.
    assert_eq!((first.len(), kept), (4, 5));
    assert_eq!((run("2"), files()), (first.clone(), kept));
    // A third seed adds the runs of that seed.
    let more = run("3");
    assert_eq!((more.len(), files()), (6, 7));
    assert!(first.iter().all(|run| more.contains(run)), "other results with another seed");
}

#[test]
fn comparison_and_its_study_share_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (study, results, of_study) = (inside("mine.toml"), inside("kept"), inside("kept/mine"));
    let plan = "compare --stack quinn,noq --controllers native:bbr,reno --workload bulk:2x50kB@10ms --seeds 2";
    let run = |args: &[&str]| {
        let out = fathom(args);
        assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    };
    let files = || std::fs::read_dir(&of_study).expect("a folder").count();
    let plan: Vec<&str> = plan.split(' ').collect();
    run(&[&plan[..], &["--study", &study]].concat());
    run(&[&plan[..], &["--results", &of_study]].concat());
    let kept = files();
    run(&["plan", "run", &study, "--results", &results]);
    assert_eq!((kept, files()), (8, 8), "'plan run' made other runs");
}
