//! Tests of the same plan in virtual time, over loopback and over a kernel's links. Machines that
//! run tests are busy, so upper bounds apply only in virtual time; `make backends` measures the
//! accuracy.

use crate::common;

use std::path::Path;
use std::process::{Command, Stdio};

fn fathom() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fathom"));
    command.stdin(Stdio::null());
    command
}

/// Ten responses of 60 kB, one every 200 ms, over 10 Mbps.
const PLAN: [&str; 9] = [
    "compare",
    "--controllers",
    "reno",
    "--workload",
    "bulk:10x60kB@200ms",
    "--max-window",
    "none",
    "--seeds",
    "1",
];

fn runs(folder: &Path, more: &[&str]) -> Vec<serde_json::Value> {
    let json = folder.join("out.json");
    let done = fathom()
        .args(PLAN)
        .args(more)
        .arg("--json")
        .arg(&json)
        .env("TMPDIR", folder)
        .output()
        .unwrap();
    assert!(done.status.success(), "{more:?}: {}", String::from_utf8_lossy(&done.stderr));
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    report["runs"].as_array().unwrap().clone()
}

/// Checks the properties that the runs must have on every backend.
fn hold(runs: &[serde_json::Value], backends: &[&str]) {
    assert_eq!(runs.len(), backends.len());
    for (run, backend) in runs.iter().zip(backends) {
        assert_eq!(run["label"], format!("reno, {backend}"));
        let (group, link) =
            (&run["outcome"]["groups"]["forward"], &run["outcome"]["links"]["left-right"]);
        assert_eq!(
            (group["responses"].as_u64(), group["failed"].as_u64()),
            (Some(10), Some(0)),
            "{backend}"
        );
        assert_eq!(
            group["request_hash"], runs[0]["outcome"]["groups"]["forward"]["request_hash"],
            "{backend}"
        );
        // 60 kB take 51 ms at 10 Mbps, and the handshake and the request take a round trip of 14 ms
        // each.
        let median = group["times"]["median_ms"].as_f64().unwrap();
        assert!(
            median >= 75.0 && (median < 200.0 || *backend != "virtual"),
            "{backend}: {median} ms"
        );
        let arrived = link["arrived"].as_u64().unwrap();
        assert!(
            arrived >= 430 && (arrived < 900 || *backend != "virtual"),
            "{backend}: {arrived} packets"
        );
    }
}

#[test]
fn virtual_and_loopback_runs_complete_the_same_requests() {
    let folder = tempfile::tempdir().unwrap();
    let runs = runs(folder.path(), &["--backend", "virtual,loopback"]);
    hold(&runs, &["virtual", "loopback"]);
    let [virtually, really] = [0, 1].map(|i| &runs[i]["outcome"]["punctuality"]);
    assert!(virtually.is_null());
    assert_eq!((really["lost"].as_u64(), really["strays"].as_u64()), (Some(0), Some(0)));
}

/// Returns the number of processes of guests that keep their files in this folder.
fn guests(folder: &Path) -> usize {
    let at = folder.join("fathom-uml-").display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let command =
        |p: std::fs::DirEntry| std::fs::read(p.path().join("cmdline")).unwrap_or_default();
    processes.map(command).filter(|line| String::from_utf8_lossy(line).contains(&at)).count()
}

/// Needs `user-mode-linux`, which `make test` installs.
#[test]
fn netem_runs_in_user_mode_linux_and_cleans_up() {
    let folder = tempfile::tempdir().unwrap();
    let uml = ["--backend", "virtual,netem", "--kernel", "uml"];
    hold(&runs(folder.path(), &uml), &["virtual", "netem"]);
    hold(&runs(folder.path(), &[&uml[..], &["--queue", "codel"]].concat()), &["virtual", "netem"]);
    assert_eq!(guests(folder.path()), 0, "a guest is left over");

    let mut long = fathom()
        .args([
            "compare",
            "--controllers",
            "reno",
            "--workload",
            "bulk:100x1MB@1s",
            "--backend",
            "netem",
            "--kernel",
            "uml",
        ])
        .env("TMPDIR", folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    common::when("a guest begins", || guests(folder.path()) > 0);
    let interrupted = Command::new("kill").args(["-INT", &long.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    assert_eq!(long.wait().unwrap().code(), Some(130));
    assert_eq!(guests(folder.path()), 0, "a guest is left over");
    let folders = std::fs::read_dir(folder.path()).unwrap().flatten();
    let left =
        folders.filter(|f| f.file_name().to_string_lossy().starts_with("fathom-uml-")).count();
    assert_eq!(left, 0, "a folder is left over");
}

#[test]
fn unknown_backends_are_refused() {
    for (args, hint) in [
        (["--backend", "earth"], "virtual, loopback or netem"),
        (["--backend", "loopback,loopback"], "once"),
        (["--world", "relay"], "now called 'loopback'"),
        (["--kernel", "bsd"], "[possible values: auto, host, uml]"),
    ] {
        let done = fathom().args(PLAN).args(args).output().unwrap();
        let error = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{error}");
        assert!(error.contains(hint) && error.trim().lines().count() == 1, "{error}");
    }
    let done = fathom().args(PLAN).args(["--backend", "netem", "--queue", "avq"]).output().unwrap();
    let error = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.code() == Some(2) && error.contains("--backend loopback"), "{error}");
}

/// Tests whose queue no kernel has are left out. A criterion that fails in the guest is a verdict,
/// not an error.
#[test]
fn judge_uses_the_queues_of_the_guests_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("card.json");
    let done = fathom()
        .args([
            "judge",
            "vegas",
            "--against",
            "cubic",
            "--only",
            "7.1",
            "--seeds",
            "2",
            "--scale",
            "0.03",
        ])
        .args(["--backend", "netem", "--kernel", "uml", "--results"])
        .arg(folder.path())
        .arg("--json")
        .arg(&json)
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let card: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap_or_default())
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&done.stderr)));
    let failed = card["counts"]["failed"].as_u64().unwrap() > 0;
    assert_eq!(
        done.status.code(),
        Some(i32::from(failed)),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert_eq!((&card["backend"], &card["scale"]), (&"netem".into(), &0.03.into()));
    let checks = card["criteria"][0]["tests"][0]["checks"].as_array().unwrap();
    let queues: Vec<_> =
        checks.iter().step_by(3).map(|check| check["at"]["queue"].as_str().unwrap()).collect();
    assert_eq!(queues, ["codel", "fq-codel", "pie"]);
    assert!(checks.iter().all(|check| check["value"]["n"] == 2), "{checks:?}");
}
