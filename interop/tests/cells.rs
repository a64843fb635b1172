//! Cells that take seconds, as processes on real sockets; the whole matrix is `make interop`.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn runner(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fathom-interop"));
    // The endpoint is built beside it: a package's programs are.
    assert!(Path::new(env!("CARGO_BIN_EXE_fathom-endpoint")).is_file());
    command.current_dir(folder).arg("--installed").arg(folder.join("peers"));
    command
}

fn cells(arguments: &[&str]) -> (Output, serde_json::Value) {
    let folder = tempfile::tempdir().unwrap();
    let out = runner(folder.path()).args(arguments).args(["--json", "-"]).output().unwrap();
    let json = serde_json::from_slice(&out.stdout).unwrap_or_default();
    (out, json)
}

/// Plays them and wants all passed.
fn pass(arguments: &[&str], count: usize) -> Vec<serde_json::Value> {
    let (out, json) = cells(arguments);
    let errors = String::from_utf8_lossy(&out.stderr);
    let results = json["results"].as_array().cloned().unwrap_or_default();
    assert_eq!(results.len(), count, "{errors}");
    for cell in &results {
        assert_eq!(cell["verdict"]["verdict"], "passed", "{arguments:?}: {}\n{errors}", cell["verdict"]);
    }
    assert!(out.status.success(), "{errors}");
    results
}

#[test]
fn quinn_and_noq_understand_each_other() {
    let tests = "handshake,retry,zerortt,http3,chacha20";
    let results = pass(&["--client", "quinn", "--server", "noq", "--test", tests, "--jobs", "2"], 5);
    // The witness has seen what it judges by: both sides' extension and frames, decrypted.
    let first = &results[0]["connections"][0];
    assert_eq!(first["client_hello"]["parameters"]["sync_timestamp"], "lean");
    assert_eq!(first["extensions"]["parameters"]["sync_timestamp"], "lean");
    assert!(first["server"]["stamps"].as_u64() > Some(0), "{first}");
    pass(&["--client", "noq", "--server", "quinn", "--test", "resumption,keyupdate,ecn", "--jobs", "2"], 3);
}

#[test]
fn stock_quinn_never_sees_the_extension() {
    let results = pass(&["--client", "stock-quinn", "--server", "quinn", "--test", "handshake"], 1);
    let first = &results[0]["connections"][0];
    assert_eq!(first["client_hello"]["parameters"]["sync_timestamp"], serde_json::Value::Null);
    assert_eq!(first["extensions"]["parameters"]["sync_timestamp"], "lean", "it is offered all the same");
    assert_eq!((&first["server"]["stamps"], &first["client"]["stamps"]), (&0.into(), &0.into()));
}

#[cfg(feature = "quiche")]
#[test]
fn quiche_and_the_others_understand_each_other() {
    pass(&["--client", "quiche", "--server", "quinn", "--test", "handshake,zerortt,http3", "--jobs", "2"], 3);
    pass(&["--client", "noq", "--server", "quiche", "--test", "retry,resumption,ecn", "--jobs", "2"], 3);
    let (out, json) = cells(&["--client", "quiche", "--server", "quiche", "--test", "chacha20,keyupdate"]);
    assert!(out.status.success());
    for cell in json["results"].as_array().unwrap() {
        assert_eq!(cell["verdict"]["verdict"], "unsupported", "{cell}");
    }
}

/// Both courses, unless the machine was so busy that the processes at the two ends got their packets late, half of them by 5 ms or more.
fn delays() -> Option<[serde_json::Value; 2]> {
    let (_, json) = cells(&["--measure", "delays", "--client", "quinn", "--server", "quinn"]);
    let courses: [_; 2] = json["results"].as_array().unwrap().clone().try_into().unwrap();
    for course in &courses {
        let way = &course["ways"][0];
        assert_eq!((&way["from"], &way["frame"]), (&"server".into(), &"SYNC_TIMESTAMP".into()), "{course}");
        assert!(way["samples"].as_u64() > Some(20), "{course}");
        assert!(way["estimated"]["most"].as_f64() > Some(0.0), "{course}");
    }
    courses.iter().all(|course| course["ways"][0]["error"][0].as_f64() < Some(5.0)).then_some(courses)
}

/// What is wrong by nature is so every time.
#[test]
fn stamps_tell_one_way_delays() {
    let courses = (0..20).find_map(|_| delays()).expect("stamps that are right for once");
    let back = courses[1]["ways"][0]["back"]["most"].as_f64();
    assert!(back > Some(20.0), "no acknowledgement waited: {courses:?}");
}

/// A peer in a folder, whose `run` is this script.
fn peer(folder: &Path, name: &str, run: &str) {
    use std::os::unix::fs::PermissionsExt;
    let at = folder.join("folders").join(name);
    std::fs::create_dir_all(&at).unwrap();
    let manifest = format!("name = \"{name}\"\nroles = [\"client\", \"server\"]\ntests = [\"handshake\"]\n");
    std::fs::write(at.join("peer.toml"), manifest).unwrap();
    for (file, text) in [("install", "#!/bin/sh\necho 1\n"), ("run", run)] {
        std::fs::write(at.join(file), text).unwrap();
        std::fs::set_permissions(at.join(file), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn a_peer_that_fails_fails_the_run_unless_that_is_known_and_one_that_is_not_installed_is_skipped() {
    let folder = tempfile::tempdir().unwrap();
    peer(folder.path(), "idle", "#!/bin/sh\nexit 0\n");
    let play = |more: &[&str]| {
        let mut command = runner(folder.path());
        command.args(["--peers", "folders", "--client", "idle", "--server", "quinn", "--test", "handshake,retry"]);
        let out = command.args(more).output().unwrap();
        (out.status.code(), String::from_utf8(out.stdout).unwrap())
    };
    let (code, text) = play(&[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("skipped: idle: not installed; run with --install"), "{text}");
    // It says that all went well, and has fetched nothing. `retry` it does not claim.
    let (code, text) = play(&["--install"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("did not arrive") && text.contains("0 connections began"), "{text}");
    let row = text.lines().find(|line| line.starts_with("idle ")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["idle", "✕", "-"], "{text}");
    let known = "[[failure]]\nclient = \"idle\"\nserver = \"*\"\ntest = \"handshake\"\nwhy = \"it is idle\"\n";
    std::fs::write(folder.path().join("known.toml"), known).unwrap();
    let (code, text) = play(&["--install", "--known", "known.toml"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("known: idle with quinn, handshake:") && text.contains(": it is idle"), "{text}");
}

#[test]
fn a_signal_ends_the_run_and_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = runner(folder.path());
    command
        .args(["--client", "quinn", "--server", "quinn", "--test", "transfer", "--folder"])
        .arg(folder.path().join("f"));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let ours = || {
        let of = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap_or_default();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mine = folder.path().to_str().unwrap().to_owned();
        let names = processes.filter_map(|e| e.file_name().into_string().ok());
        names.filter(|pid| pid.parse::<u32>().is_ok() && of(pid).contains(&format!("LOGS={mine}"))).count()
    };
    wait("client and server", || ours() == 2);
    let told = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(told.success());
    wait("the end", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(ours(), 0, "children are left");
}

/// Waits until it holds.
// What is waited for happens in real time.
#[allow(clippy::disallowed_methods)]
fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}: not in time");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_is_wrong_is_named_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, mend) in [
        (&["--client", "nobody"][..], "there are quinn"),
        (&["--test", "flood"], "handshake, transfer"),
        (&["--measure", "speed"], "crosstraffic or delays"),
        (&["--jobs", "0"], "at least 1"),
        (&["--measure", "delays", "--controller", "reno"], "leave --controller out"),
        (&["--json", "/nowhere/x.json"], "no folder"),
        (&["--what"], "--help"),
    ] {
        let out = runner(folder.path()).args(arguments).output().unwrap();
        let line = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{arguments:?}: {line}");
        assert!(line.lines().count() == 1 && line.contains(mend), "{arguments:?}: {line}");
    }
    let endpoint = |vars: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fathom-endpoint"));
        let out = command.env_clear().envs(vars.iter().copied()).current_dir(folder.path()).output().unwrap();
        (out.status.code(), String::from_utf8(out.stderr).unwrap())
    };
    for (vars, code, mend) in [
        (&[][..], 2, "ROLE is not set"),
        (&[("ROLE", "server"), ("TESTCASE", "v2")], 127, "no test case 'v2'"),
        (&[("ROLE", "server"), ("TESTCASE", "transfer"), ("LOGS", "logs"), ("CERTS", "none")], 2, "none/cert.pem"),
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
        assert!(line.lines().count() == 1 && line.contains(mend), "{vars:?}: {line}");
    }
}
