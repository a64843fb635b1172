//! Tests of `fathom analyze` and `fathom qlog` from the command line: results are written as text,
//! JSON and page, and invalid input is reported in one line.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common;

fn fathom(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fathom")).args(args).output().expect("fathom runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes the log of a server and returns its path. The log has an RTT sample and a sent packet
/// every 10 ms, and one of `every` packets is lost. RTTs are multiplied by `stretch`.
fn log(folder: &Path, name: &str, stretch: f64, every: u32) -> PathBuf {
    let mut log = String::from(
        "\u{1e}{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"trace\":{\"vantage_point\":{\"type\":\"server\"}}}\n",
    );
    let mut lot: u32 = 1;
    for n in 0..2_000_u32 {
        lot = lot.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let rtt = stretch * (40.0 + f64::from(lot >> 24) / 20.0);
        let (at, sent) = (10 * n, 10 * n + 5);
        let mut event = |at: u32, name: &str, data: &str| {
            let _ =
                writeln!(log, "\u{1e}{{\"time\":{at},\"name\":\"{name}\",\"data\":{{{data}}}}}");
        };
        event(
            at,
            "recovery:metrics_updated",
            &format!("\"latest_rtt\":{rtt},\"congestion_window\":30000"),
        );
        let header = |packet: u32| {
            format!("\"header\":{{\"packet_type\":\"1RTT\",\"packet_number\":{packet}}}")
        };
        let frame = format!(
            ",\"frames\":[{{\"frame_type\":\"stream\",\"stream_id\":{},\"offset\":{},\"length\":1000}}]",
            n / 20 * 4,
            n % 20 * 1_000
        );
        event(sent, "transport:packet_sent", &(header(n) + &frame));
        if n >= 8 && (n - 8) % every == 3 {
            event(sent, "recovery:packet_lost", &header(n - 8));
        }
    }
    let path = folder.join(name);
    std::fs::write(&path, log).expect("written");
    path
}

fn arg(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn loss_and_delay_of_a_log_are_analyzed() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = log(dir.path(), "server.sqlog", 1.0, 40);
    let (json, page) = (dir.path().join("a.json"), dir.path().join("a.html"));
    let out = fathom(&[
        "analyze",
        "loss-delay",
        arg(&file),
        "--json",
        arg(&json),
        "--report",
        arg(&page),
    ]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let said = text(&out.stdout);
    assert!(
        said.contains("Delay did not predict loss here") && said.contains("95 % interval"),
        "{said}"
    );
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&json).expect("json")).expect("JSON");
    assert_eq!(
        (json["verdict"].as_str(), json["sent"].as_u64()),
        (Some("no-better-than-chance"), Some(2_000))
    );
    assert!(
        json["interval"][1].as_f64() > json["share"].as_f64()
            && json["cost"]["degradation_percent"].is_number()
    );
    let page = std::fs::read_to_string(&page).expect("page");
    assert_eq!((page.matches("<svg").count(), page.contains("<script")), (2, false));
    // The same file gives the same bytes.
    assert!(fathom(&["analyze", "loss-delay", arg(&file)]).stdout == said.into_bytes());
}

#[test]
fn response_times_in_logs_are_reported_and_compared() {
    let dir = tempfile::tempdir().expect("a folder");
    let (fast, slow) =
        (log(dir.path(), "fast.sqlog", 1.0, 40), log(dir.path(), "slow.sqlog", 2.0, 40));
    let out = fathom(&["analyze", "response", arg(&fast), "--json", "-"]);
    assert!(
        out.status.success() && text(&out.stderr).contains("Responses: all"),
        "{}",
        text(&out.stderr)
    );
    let json: serde_json::Value =
        serde_json::from_slice(&out.stdout).expect("standard output holds JSON and nothing else");
    assert_eq!(
        (json["classes"][0][0]["count"].as_u64(), json["classes"][0][2]["count"].as_u64()),
        (Some(100), Some(100))
    );
    let out = fathom(&["analyze", "compare", arg(&fast), arg(&slow)]);
    let said = text(&out.stdout);
    assert!(
        out.status.success()
            && said.contains("round trip, median +100 %")
            && said.contains("(x2.00"),
        "{said}"
    );
    // A folder stands for all its logs.
    let folder = fathom(&["analyze", "response", arg(dir.path()), "--json", "-"]);
    let json: serde_json::Value = serde_json::from_slice(&folder.stdout).expect("JSON");
    assert_eq!(json["classes"][0][0]["count"].as_u64(), Some(200));
    let table = dir.path().join("load.csv");
    let rows: String = (0..50).map(|n| format!("{n},{n},1,2,{},500,200,{n}\n", 10 + n)).collect();
    let head = "intended_s,start_s,connect_ms,first_byte_ms,total_ms,bytes,status,connection\n";
    std::fs::write(&table, format!("{head}{rows}")).expect("written");
    let out = fathom(&["analyze", "response", arg(&table)]);
    assert!(
        out.status.success() && text(&out.stdout).contains("Responses: below 10 kB"),
        "{}",
        text(&out.stdout)
    );
}

/// Sixty connections, each randomly assigned one of two controllers. Fewer than ten go to either
/// one about once in 30 million runs.
#[test]
fn logs_of_a_server_with_two_controllers_are_grouped() {
    let dir = tempfile::tempdir().expect("a folder");
    let logs = dir.path().join("logs");
    let (mut server, port) =
        common::serve(&["--controller", "native:cubic=50,reno=50", "--qlog", arg(&logs)]);
    let url = format!("https://localhost:{port}/bytes/20000");
    let load = ["load", &url, "--insecure", "-n", "60", "--rate", "200", "--connections", "fresh"];
    let out = fathom(&load);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let ended = Command::new("kill")
        .args(["-TERM", &server.child.id().to_string()])
        .status()
        .expect("kill runs");
    assert!(ended.success() && server.child.wait().expect("an end").success());
    let out = fathom(&["analyze", "compare", arg(&logs), "--by", "controller", "--json", "-"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("reno − native:cubic"), "{}", text(&out.stderr));
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let group = |n: usize, field: &str| json["controllers"][n][field].clone();
    assert_eq!(
        (group(0, "controller"), group(1, "controller")),
        ("native:cubic".into(), "reno".into())
    );
    let responses = |n: usize| group(n, "responses").as_u64().expect("a count");
    assert_eq!(responses(0) + responses(1), 60);
    let mean = json["tables"][0]["measures"]
        .as_array()
        .expect("rows")
        .iter()
        .find(|m| m["name"] == "mean (ms)");
    let reno = &mean.expect("a mean")["controllers"][1];
    assert!(
        reno["interval"][0].as_f64() < reno["value"].as_f64()
            && reno["difference_interval"][1].is_number(),
        "{reno}"
    );
}

#[test]
fn qlog_file_is_exported_for_qvis() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = log(dir.path(), "server.sqlog", 1.0, 40);
    let out = fathom(&["qlog", "export", arg(&file), "--to", "qvis"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let made = std::fs::read(dir.path().join("server.qvis.qlog")).expect("beside the log");
    let json: serde_json::Value = serde_json::from_slice(&made).expect("JSON");
    assert_eq!(json["qlog_version"], "0.3");
    assert!(json["traces"][0]["events"].as_array().expect("events").len() > 4_000);
    let out = fathom(&["qlog", "export", arg(&file), "--to", "qvis", "--output", "-"]);
    assert!(out.stdout == made);
}

#[test]
fn invalid_analyze_input_gives_one_line_with_a_hint() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        arg(&path).to_owned()
    };
    let (empty, table) = (file("empty.qlog", ""), file("t.csv", "total_ms,bytes\n5,1\n"));
    let broken =
        file("broken.sqlog", "\u{1e}{\"qlog_version\":\"0.3\",\"trace\":{}}\n\u{1e}{\"time\":1,\n");
    let odd = file("odd.csv", "a,b\n1,2\n");
    let good = log(dir.path(), "good.sqlog", 1.0, 40);
    let blocked = file("file", "");
    let nothing = dir.path().join("nothing");
    std::fs::create_dir(&nothing).expect("made");
    let cases: [(&[&str], &str); 13] = [
        (&["analyze", "loss-delay", "/nowhere.qlog"], "cannot be read"),
        (&["analyze", "loss-delay", arg(&nothing)], "name such files"),
        (&["analyze", "loss-delay", &empty], "empty"),
        (&["analyze", "loss-delay", &broken], "no event"),
        (&["analyze", "loss-delay", &table], "fathom analyze response"),
        (&["analyze", "response", &odd], "total_ms"),
        (&["analyze", "compare", arg(&good)], "two files"),
        (&["analyze", "compare", &table, "--by", "controller"], "contains a table"),
        (&["analyze", "compare", arg(&good), "--by", "controller"], "no log names its controller"),
        (&["analyze", "loss-delay"], "FILE"),
        (&["analyze", "loss-delay", arg(&good), "--json", "/nowhere/x.json"], "folder"),
        (&["qlog", "export", &empty, "--to", "qvis"], "empty"),
        (
            &["serve", "--listen", "127.0.0.1:0", "--qlog", &format!("{blocked}/logs")],
            "name a folder",
        ),
    ];
    // A name that would clear the screen is shown escaped.
    let out = fathom(&["analyze", "response", "\u{1b}[2Jnowhere.csv"]);
    let line = text(&out.stderr);
    assert!(line.contains("\\u{1b}[2Jnowhere.csv") && !line.contains('\u{1b}'), "{line:?}");
    for (args, hint) in cases {
        let out = fathom(args);
        let line = text(&out.stderr);
        assert_eq!((out.status.code(), line.lines().count()), (Some(2), 1), "{args:?}: {line}");
        assert!(line.contains(hint), "{args:?}: {line}");
    }
}
