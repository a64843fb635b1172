//! Tests that take seconds and run processes on real sockets. `make interop` runs the whole matrix.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn runner(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fathom-interop"));
    // Cargo builds both programs into the same directory.
    assert!(Path::new(env!("CARGO_BIN_EXE_fathom-endpoint")).is_file());
    command.current_dir(folder).arg("--installed").arg(folder.join("peers"));
    command
}

fn run_tests(arguments: &[&str]) -> (Output, serde_json::Value) {
    let folder = tempfile::tempdir().unwrap();
    let out = runner(folder.path()).args(arguments).args(["--json", "-"]).output().unwrap();
    let json = serde_json::from_slice(&out.stdout).unwrap_or_default();
    (out, json)
}

/// Runs tests and asserts that all of them pass.
fn pass(arguments: &[&str], count: usize) -> Vec<serde_json::Value> {
    let (out, json) = run_tests(arguments);
    let errors = String::from_utf8_lossy(&out.stderr);
    let results = json["results"].as_array().cloned().unwrap_or_default();
    assert_eq!(results.len(), count, "{errors}");
    for result in &results {
        assert_eq!(
            result["verdict"]["verdict"], "passed",
            "{arguments:?}: {}\n{errors}",
            result["verdict"]
        );
    }
    assert!(out.status.success(), "{errors}");
    results
}

#[test]
fn quinn_and_noq_interoperate() {
    let tests = "handshake,retry,zerortt,http3,chacha20";
    let results =
        pass(&["--client", "quinn", "--server", "noq", "--test", tests, "--jobs", "2"], 5);
    // The trace contains the extension of both sides and the decrypted frames.
    let first = &results[0]["connections"][0];
    assert_eq!(first["client_hello"]["parameters"]["sync_timestamp"], "lean");
    assert_eq!(first["extensions"]["parameters"]["sync_timestamp"], "lean");
    assert!(first["server"]["stamps"].as_u64() > Some(0), "{first}");
    pass(
        &[
            "--client",
            "noq",
            "--server",
            "quinn",
            "--test",
            "resumption,keyupdate,ecn",
            "--jobs",
            "2",
        ],
        3,
    );
}

#[test]
fn stock_quinn_does_not_negotiate_the_extension() {
    let results = pass(&["--client", "stock-quinn", "--server", "quinn", "--test", "handshake"], 1);
    let first = &results[0]["connections"][0];
    assert_eq!(first["client_hello"]["parameters"]["sync_timestamp"], serde_json::Value::Null);
    assert_eq!(
        first["extensions"]["parameters"]["sync_timestamp"], "lean",
        "the server offers it all the same"
    );
    assert_eq!((&first["server"]["stamps"], &first["client"]["stamps"]), (&0.into(), &0.into()));
}

#[cfg(feature = "quiche")]
#[test]
fn quiche_interoperates_with_quinn_and_noq() {
    pass(
        &[
            "--client",
            "quiche",
            "--server",
            "quinn",
            "--test",
            "handshake,zerortt,http3",
            "--jobs",
            "2",
        ],
        3,
    );
    pass(
        &["--client", "noq", "--server", "quiche", "--test", "retry,resumption,ecn", "--jobs", "2"],
        3,
    );
    let (out, json) =
        run_tests(&["--client", "quiche", "--server", "quiche", "--test", "chacha20,keyupdate"]);
    assert!(out.status.success());
    for result in json["results"].as_array().unwrap() {
        assert_eq!(result["verdict"]["verdict"], "unsupported", "{result}");
    }
}

/// Returns the results of both scenarios, or `None` if the machine was so busy that half of the
/// timestamps were off by 5 ms or more.
fn delays() -> Option<[serde_json::Value; 2]> {
    let (_, json) = run_tests(&["--measure", "delays", "--client", "quinn", "--server", "quinn"]);
    let scenarios: [_; 2] = json["results"].as_array().unwrap().clone().try_into().unwrap();
    for scenario in &scenarios {
        let direction = &scenario["ways"][0];
        assert_eq!(
            (&direction["from"], &direction["frame"]),
            (&"server".into(), &"SYNC_TIMESTAMP".into()),
            "{scenario}"
        );
        assert!(direction["samples"].as_u64() > Some(20), "{scenario}");
        assert!(direction["estimated"]["most"].as_f64() > Some(0.0), "{scenario}");
    }
    scenarios
        .iter()
        .all(|scenario| scenario["ways"][0]["error"][0].as_f64() < Some(5.0))
        .then_some(scenarios)
}

/// Repeats the measurement, because a busy machine spoils only some repetitions.
#[test]
fn interop_timestamps_yield_one_way_delays() {
    let scenarios =
        (0..20).find_map(|_| delays()).expect("accurate timestamps in one of 20 repetitions");
    let back = scenarios[1]["ways"][0]["back"]["most"].as_f64();
    assert!(back > Some(20.0), "no acknowledgement was queued: {scenarios:?}");
}

/// Writes a peer whose `run` is this script.
fn peer(folder: &Path, name: &str, run: &str) {
    use std::os::unix::fs::PermissionsExt;
    let at = folder.join("folders").join(name);
    std::fs::create_dir_all(&at).unwrap();
    let manifest =
        format!("name = \"{name}\"\nroles = [\"client\", \"server\"]\ntests = [\"handshake\"]\n");
    std::fs::write(at.join("peer.toml"), manifest).unwrap();
    for (file, text) in [("install", "#!/bin/sh\necho 1\n"), ("run", run)] {
        std::fs::write(at.join(file), text).unwrap();
        std::fs::set_permissions(at.join(file), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn new_failures_fail_the_run_and_missing_peers_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    peer(folder.path(), "idle", "#!/bin/sh\nexit 0\n");
    let run = |more: &[&str]| {
        let mut command = runner(folder.path());
        command.args([
            "--peers",
            "folders",
            "--client",
            "idle",
            "--server",
            "quinn",
            "--test",
            "handshake,retry",
        ]);
        let out = command.args(more).output().unwrap();
        (out.status.code(), String::from_utf8(out.stdout).unwrap())
    };
    let (code, text) = run(&[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("skipped: idle: not installed; run with --install"), "{text}");
    // The peer exits with 0 but fetches nothing, and does not support `retry`.
    let (code, text) = run(&["--install"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("did not arrive") && text.contains("0 connections started"), "{text}");
    let row = text.lines().find(|line| line.starts_with("idle ")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["idle", "✕", "-"], "{text}");
    let known = "[[failure]]\nclient = \"idle\"\nserver = \"*\"\ntest = \"handshake\"\nwhy = \"it is idle\"\n";
    std::fs::write(folder.path().join("known.toml"), known).unwrap();
    let (code, text) = run(&["--install", "--known", "known.toml"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("known: idle with quinn, handshake:") && text.contains(": it is idle"),
        "{text}"
    );
}

#[test]
fn signal_stops_the_interop_run_and_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = runner(folder.path());
    command
        .args(["--client", "quinn", "--server", "quinn", "--test", "transfer", "--folder"])
        .arg(folder.path().join("f"));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let ours = || {
        let of =
            |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap_or_default();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mine = folder.path().to_str().unwrap().to_owned();
        let names = processes.filter_map(|e| e.file_name().into_string().ok());
        names
            .filter(|pid| pid.parse::<u32>().is_ok() && of(pid).contains(&format!("LOGS={mine}")))
            .count()
    };
    wait("client and server", || ours() == 2);
    let signalled = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    wait("the end", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(ours(), 0, "child processes are left");
}

/// Waits until a condition holds.
// Processes run in real time.
#[allow(clippy::disallowed_methods)]
fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(120), "{what}: timed out");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn invalid_interop_arguments_are_reported_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, hint) in [
        (&["--client", "nobody"][..], "choose one of quinn"),
        (&["--test", "flood"], "handshake, transfer"),
        (&["--measure", "speed"], "crosstraffic or delays"),
        (&["--jobs", "0"], "at least 1"),
        (&["--measure", "delays", "--controller", "reno"], "leave --controller out"),
        (&["--json", "/nowhere/x.json"], "does not exist"),
        (&["--what"], "--help"),
    ] {
        let out = runner(folder.path()).args(arguments).output().unwrap();
        let line = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{arguments:?}: {line}");
        assert!(line.lines().count() == 1 && line.contains(hint), "{arguments:?}: {line}");
    }
    let endpoint = |vars: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fathom-endpoint"));
        let out = command
            .env_clear()
            .envs(vars.iter().copied())
            .current_dir(folder.path())
            .output()
            .unwrap();
        (out.status.code(), String::from_utf8(out.stderr).unwrap())
    };
    for (vars, code, hint) in [
        (&[][..], 2, "ROLE is not set"),
        (&[("ROLE", "server"), ("TESTCASE", "v2")], 127, "test case 'v2'"),
        (
            &[("ROLE", "server"), ("TESTCASE", "transfer"), ("LOGS", "logs"), ("CERTS", "none")],
            2,
            "none/cert.pem",
        ),
        (
            &[
                ("ROLE", "client"),
                ("TESTCASE", "transfer"),
                ("REQUESTS", "https://localhost/a"),
                ("LOGS", "/dev/null/x"),
            ],
            2,
            "LOGS is",
        ),
    ] {
        let (was, line) = endpoint(vars);
        assert_eq!(was, Some(code), "{vars:?}: {line}");
        assert!(line.lines().count() == 1 && line.contains(hint), "{vars:?}: {line}");
    }
}
