//! Tests of `fathom load` from the command line: it measures, writes its files, ends on a signal,
//! and names errors. `bench/http/tests` tests how the load counts.

use crate::common;

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::{serve, start};

fn fathom(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fathom")).args(args).output().expect("fathom runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(out: &Output) -> serde_json::Value {
    json_and(out, 0)
}

/// Checks the exit code and returns the JSON on standard output.
fn json_and(out: &Output, code: i32) -> serde_json::Value {
    assert_eq!(out.status.code(), Some(code), "{}", text(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("standard output holds JSON and nothing else")
}

#[test]
fn closed_loop_load_writes_all_its_files() {
    let (_server, port) = serve(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (csv, hgrm, hlog, keys) = (file("a.csv"), file("a.hgrm"), file("a.hlog"), file("keys"));
    let page = file("a.html");
    let urls = ["bytes/1000", "bytes/2000", "nothing"]
        .map(|path| format!("https://localhost:{port}/{path}"));
    let args = [
        "load",
        &urls[0],
        &urls[1],
        &urls[2],
        "--insecure",
        "-c",
        "2",
        "-m",
        "3",
        "-n",
        "60",
        "--json",
        "-",
    ];
    let out = Command::new(env!("CARGO_BIN_EXE_fathom"))
        .args(args)
        .args([
            "--csv",
            &csv,
            "--hgrm",
            &hgrm,
            "--hlog",
            &hlog,
            "--report",
            &page,
            "--timeout",
            "120s",
        ])
        .env("SSLKEYLOGFILE", &keys)
        .output()
        .expect("fathom runs");
    let found = json(&out);
    assert_eq!(
        (&found["loop"], &found["requests"]["completed"]),
        (&"closed".into(), &40.into()),
        "{found}"
    );
    assert_eq!(
        (&found["statuses"]["404"], &found["failures"]["status"]["count"]),
        (&20.into(), &20.into())
    );
    assert_eq!(
        (&found["times"]["service"]["count"], &found["connections"]["opened"]),
        (&40.into(), &2.into())
    );
    assert_eq!(
        (&found["connections"]["one_way"], &found["times"]["response"]),
        (&2.into(), &serde_json::Value::Null)
    );
    assert!(found["note"].as_str().expect("a note").contains("coordinated omission"));
    // Standard error has the warning about --insecure and the location of the page.
    assert_eq!(text(&out.stderr).lines().count(), 2, "{}", text(&out.stderr));
    let read = |path: &str| std::fs::read_to_string(path).expect("a file");
    assert_eq!(read(&csv).lines().count(), 61);
    assert!(read(&hgrm).contains("Total count    =           40]"), "{}", read(&hgrm));
    assert!(read(&hlog).contains("Tag=response,"), "{}", read(&hlog));
    assert!(read(&keys).contains("CLIENT_TRAFFIC_SECRET_0 "));
    let page = read(&page);
    assert!(
        page.contains("</html>") && !page.contains("<script") && !page.contains("src="),
        "{page}"
    );
    assert!(page.contains("60 requests in") && page.contains("20 failed (33.33 %)"), "{page}");
    assert!(page.contains("coordinated omission"), "{page}");
    assert!(
        page.contains("Distribution of times") && page.contains("<code>https://localhost:"),
        "{page}"
    );
}

#[test]
fn open_loop_load_runs_through_a_link() {
    let (_server, port) = serve(&["--stack", "noq"]);
    let to = format!("127.0.0.1:{port}");
    let (_link, relay) = start(
        common::fathom().args(["link", "--listen", "127.0.0.1:0", "--to", &to, "--delay", "20ms"]),
        "relaying ",
    );
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.csv");
    std::fs::write(&trace, "0,/bytes/10\n0.1,/delay/5/bytes/7\n0.1,/bytes/0\n").expect("written");
    let trace = trace.to_string_lossy().into_owned();
    let url = format!("https://localhost:{port}/");
    let common = [
        "load",
        &url,
        "--insecure",
        "--connect-to",
        &relay,
        "--connections",
        "fresh",
        "--json",
        "-",
    ];
    let common = [&common[..], &["--timeout", "120s"]].concat();
    for (more, requests) in [
        (&["--rate", "50", "-n", "20", "--stack", "noq", "--timestamps", "paper"][..], 20),
        (
            &[
                "--rate",
                "50",
                "--spacing",
                "even",
                "-n",
                "10",
                "--timestamps",
                "off",
                "--warm-up",
                "200ms",
            ],
            10,
        ),
        (&["--model", "packmime=40", "-n", "20"], 20),
        (&["--trace", &trace], 3),
    ] {
        // '/' does not exist, and a run fails if every request failed.
        let found = json_and(&fathom(&[&common[..], more].concat()), i32::from(more[1] == "50"));
        let times = &found["times"];
        let (started, failed) = (&found["requests"]["started"], &found["requests"]["failed"]);
        assert_eq!(
            (started, failed),
            (&requests.into(), &if more[1] == "50" { requests } else { 0 }.into()),
            "{found}"
        );
        if *failed == 0 {
            // A handshake and a request take a round trip of 40 ms each.
            let fastest = times["response"]["p50"].as_f64().expect("a time");
            assert!(
                fastest >= 0.08 && times["connect"]["p50"].as_f64().expect("a time") >= 0.04,
                "{found}"
            );
            assert_eq!(
                (&times["response"]["count"], &found["loop"]),
                (&requests.into(), &"open".into())
            );
        }
        assert!(found["client"]["late_max"].is_number() && found["client"]["limit"].is_boolean());
    }
}

#[test]
fn load_table_reports_saturation_and_0rtt() {
    let (_server, port) = serve(&["--zero-rtt"]);
    let url = format!("https://127.0.0.1:{port}/bytes/100");
    let args = [
        "load",
        &url,
        "--insecure",
        "-r",
        "40",
        "-d",
        "500ms",
        "--connections",
        "fresh",
        "--zero-rtt",
    ];
    let out = fathom(&[&args[..], &["--timeout", "120s"]].concat());
    let table = text(&out.stdout);
    assert!(out.status.success(), "{}", text(&out.stderr));
    for line in [
        "open loop",
        "complete, 0 failed",
        "\nresponse ",
        "\nservice ",
        "0-RTT",
        " accepted, 0 rejected",
        "client ",
        "limit",
    ] {
        assert!(table.contains(line), "'{line}' is not in\n{table}");
    }
    assert!(!table.contains("coordinated omission"));
}

#[test]
fn interrupted_load_prints_the_results_so_far() {
    let (_server, port) = serve(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let (url, rows) =
        (format!("https://localhost:{port}/bytes/100"), folder.path().join("rows.csv"));
    let child = Command::new(env!("CARGO_BIN_EXE_fathom"))
        .args(["load", &url, "--insecure", "-d", "600s", "--csv"])
        .arg(&rows)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("fathom runs");
    common::when("something is measured", || {
        std::fs::metadata(&rows).is_ok_and(|rows| rows.len() > 1_000)
    });
    let kill =
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    let out = child.wait_with_output().expect("an end");
    assert!(kill.success() && out.status.success(), "{}", text(&out.stderr));
    assert!(
        text(&out.stdout).contains("responses/s")
            && text(&out.stderr).contains("again to end at once")
    );
}

#[test]
fn load_accepts_option_names_of_curl() {
    let (_server, port) = serve(&[]);
    let url = format!("https://Nowhere.Invalid:{port}/bytes/100");
    let resolve = format!("nowhere.invalid:{port}:127.0.0.1");
    let out = fathom(&[
        "load",
        &url,
        "-k",
        "--resolve",
        &resolve,
        "-H",
        "Accept: */*",
        "-n",
        "3",
        "--json",
        "-",
    ]);
    assert_eq!(json(&out)["requests"]["completed"], 3);
}

#[test]
fn invalid_load_input_gives_one_line_with_a_hint() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.csv");
    std::fs::write(&trace, "0,/a\nsoon,/b\n").expect("written");
    let trace = trace.to_string_lossy().into_owned();
    let here =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml").to_string_lossy().into_owned();
    let url = "https://127.0.0.1:9/";
    let cases: [(&[&str], &str); 34] = [
        (&["http://127.0.0.1:9/"], "https"),
        (&["127.0.0.1:9"], "https://localhost:4433/"),
        (&[url, "https://127.0.0.1:10/"], "of one server"),
        (&["https://nowhere.invalid/"], "--connect-to"),
        (&[url, "--connect-to", "127.0.0.1"], "HOST:PORT"),
        (&[url, "--trace", &trace], "line 2: 'soon'"),
        (&[url, "--trace", "/nowhere"], "name a file you can read"),
        (&[url, url, "--model", "packmime=5"], "one URL"),
        (&[url, "--model", "web=5"], "packmime=50"),
        (&[url, "--model", "packmime=0"], "choose a rate"),
        (&[url, "--rate", "0"], "such as 200"),
        (&[url, "--rate", "5", "--trace", &trace], "cannot be used with"),
        (&[url, "--rate", "5", "--spacing", "odd"], "poisson or even"),
        (&[url, "--connections", "fresh"], "add --rate"),
        (&[url, "--zero-rtt"], "--connections fresh"),
        (&[url, "-c", "0"], "1 to 1000000"),
        (&[url, "--timeout", "0s"], "such as 10s"),
        (&[url, "--stack", "msquic"], "quinn or noq"),
        (&[url, "--timestamps", "fat"], "any, lean, paper, timestamp, receive or off"),
        (&[url, "--ca", &here], "PEM"),
        (&[url, "--csv", "/nowhere/x.csv"], "cannot write"),
        (&["https://127.0.0.1:99999/"], "1 to 65535"),
        (&[url, "-d", "0s"], "such as 10s"),
        (&[url, "-n", "0"], "1 to"),
        (&[url, "-m", "99999999999999999999"], "out of range; write 1 to 1000000"),
        (&[url, "--seed", "-1"], "'--seed': the number is negative"),
        (&[url, "--csv", "-", "--json", "-"], "standard output takes only one"),
        (&[url, "--max-failed", "2"], "such as 1%"),
        (&[url, "-H", "accept"], "write 'Name: value'"),
        (&[url, "-H", "a b: c"], "a field name"),
        (&[url, "-H", "Host: other"], "leave it out"),
        (&[url, "--resolve", "127.0.0.1:9"], "HOST:PORT:ADDRESS"),
        (&[url, "--resolve", "127.0.0.1:0:127.0.0.1"], "HOST:PORT:ADDRESS"),
        (&[url, "--resolve", "127.0.0.1:10:127.0.0.1"], "the URL's host and port"),
    ];
    for (args, hint) in cases {
        let out = fathom(&[&["load"][..], args].concat());
        let line = text(&out.stderr);
        assert_eq!((out.status.code(), line.lines().count()), (Some(2), 1), "{args:?}: {line}");
        assert!(line.contains(hint), "{args:?}: {line}");
    }
    assert_eq!(fathom(&["load"]).status.code(), Some(2));
}

#[test]
fn load_fails_if_requests_fail() {
    let (_server, port) = serve(&[]);
    let [missing, there] =
        ["nothing", "bytes/10"].map(|path| format!("https://localhost:{port}/{path}"));
    for (urls, more, code, says) in [
        (
            &[&missing][..],
            &[][..],
            1,
            "no request completed with a status below 400: 20 of 20 failed",
        ),
        (&[&missing, &there], &[], 0, ""),
        (&[&missing, &there], &["--max-failed", "50%"], 0, ""),
        (
            &[&missing, &there],
            &["--max-failed", "0.1"],
            1,
            "10 of 20 requests failed, more than --max-failed 10%",
        ),
    ] {
        let urls: Vec<&str> = urls.iter().map(|url| url.as_str()).collect();
        let out = fathom(&[&["load", "--insecure", "-n", "20"], &urls[..], more].concat());
        let err = text(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{urls:?} {more:?}: {err}");
        assert!(err.contains(says) && text(&out.stdout).contains("404: "), "{err}");
    }
}

#[test]
fn load_reports_an_unreachable_server_in_one_line() {
    let nobody = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let at = nobody.local_addr().expect("an address").to_string();
    let out = fathom(&["load", &format!("https://{at}/"), "--insecure", "--timeout", "300ms"]);
    let lines = text(&out.stderr);
    assert_eq!((out.status.code(), lines.lines().count()), (Some(1), 2), "{lines}");
    assert!(
        lines
            .lines()
            .nth(1)
            .is_some_and(|line| line.contains("cannot reach") && line.contains(&at)),
        "{lines}"
    );
}
