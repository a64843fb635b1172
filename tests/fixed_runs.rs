//! Runs that never change: a change that should not affect behaviour leaves their trace hashes
//! (time and size of every packet) as they are. Each line of `tests/fixed_runs/hashes.txt` has a
//! command and its hashes. A change that affects behaviour on purpose records the hashes anew and
//! explains the change in its commit:
//! `FATHOM_RECORD=1 cargo test --release --features quiche --test fathom-tests fixed_runs::`.

#![cfg(feature = "quiche")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Commands that are run. They cover every stack, each of Fathom's controllers, web and bulk
/// workloads, both ways to use connections, and most queues and timestamp frames. A study with
/// routers in a row and packet-level traffic is included.
const RUNS: [&str; 19] = [
    "compare --stack quinn --workload bulk:3x1MB@100ms --max-window none --controllers reno,cubic,sync,dca,vegas,dual,sdc,highspeed,gentle,ledbat,ledbat-pp,copa,dctcp,plumb,scream,gcc,packet-size/reno",
    "compare --stack quinn --controllers reno,sync,sdc,packet-size/reno",
    "compare --stack noq --workload bulk:3x1MB@100ms --max-window none --controllers reno,cubic,sync,dca,vegas,dual,sdc,highspeed,gentle,ledbat,ledbat-pp,copa,dctcp,plumb,scream,gcc,packet-size/reno",
    "compare --stack noq --controllers reno,sync,sdc,packet-size/reno",
    "compare --stack quiche --workload bulk:3x1MB@100ms --max-window none --controllers reno,cubic,sync,dca,vegas,dual,sdc,highspeed,gentle,ledbat,ledbat-pp,copa,dctcp,prague,plumb,scream,gcc,packet-size/reno",
    "compare --stack quiche --controllers reno,sync,sdc,packet-size/reno",
    "compare --stack quinn --controllers native:new-reno,native:cubic,native:bbr,sync:signal=rtt,sync:trust=full",
    "compare --stack noq --controllers native:new-reno,native:cubic,native:bbr3",
    "compare --stack quiche --controllers native:reno,native:cubic,native:bbr2",
    "compare --controllers sync --queue red",
    "compare --controllers sync --queue adaptive-red",
    "compare --controllers sync --queue gentle-ared",
    "compare --controllers sync --queue avq",
    "compare --controllers sync --queue codel:ecn=off",
    "compare --controllers sync --queue droptail:60kB",
    "compare --controllers sync --stack all --connections persistent --timestamps paper",
    "compare --controllers sync --stack all --timestamps timestamp",
    "compare --controllers sync,gentle --stack all --workload bulk:2x300kB@100ms",
    "plan run tests/fixed_runs/study.toml",
];

/// Collects every `trace_hash` in these results in order, except those of the reference network.
fn hashes(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| match value.as_str() {
            Some(hash) if name == "trace_hash" => found.push(hash.to_owned()),
            _ if name == "reference" => {}
            _ => hashes(value, found),
        }),
        Value::Array(values) => values.iter().for_each(|value| hashes(value, found)),
        _ => {}
    }
}

fn run(line: &str, folder: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fathom"));
    command.args(line.split(' ')).args(["--json", "-"]);
    if line.starts_with("compare") {
        command.args(["--seeds", "1"]);
    }
    match line.split(' ').next() {
        // A number of responses that is reached quickly; the size of a bulk workload is fixed.
        Some("compare") if !line.contains("bulk") => command.args(["--responses", "200"]),
        Some("plan") => command.arg("--results").arg(folder),
        _ => &mut command,
    };
    let out = command.output().expect("fathom runs");
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    let mut found = Vec::new();
    hashes(&serde_json::from_slice(&out.stdout).expect("JSON"), &mut found);
    assert!(!found.is_empty(), "{line}: no trace hash");
    found.join(" ")
}

#[test]
fn fixed_runs_keep_their_trace_hashes() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines = RUNS.map(|line| format!("{line}: {}\n", run(line, folder.path())));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixed_runs/hashes.txt");
    if std::env::var_os("FATHOM_RECORD").is_some() {
        std::fs::write(&path, lines.concat()).expect("written");
    }
    let kept = std::fs::read_to_string(&path).expect("recorded");
    let kept: Vec<&str> = kept.split_inclusive('\n').collect();
    for (now, line) in lines.iter().zip(RUNS) {
        let before = kept.iter().find(|kept| kept.starts_with(&format!("{line}: ")));
        assert_eq!(before, Some(&now.as_str()), "target/release/fathom {line}: another trace");
    }
    assert_eq!(kept.len(), RUNS.len(), "a run is gone, or its hashes are not");
}
