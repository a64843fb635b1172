//! Fingerprints of runs with a user's own controller depend on the build of the program.

use std::process::Command;

use fathom_experiments::study::Study;

const STUDY: &str = r#"question = "Does it?"
source = "a test"
[sweep]
system = ["reno", "packet-size/reno", "never-grows", "packet-size/never-grows"]
[scenario]
stop = "10s"
[scenario.network]
topology = "dumbbell"
[[scenario.traffic]]
name = "flows"
from = "left"
to = "right"
workload = "flows:2@1s"
controller = "$system"
"#;

/// Prints each fingerprint on its own line.
#[test]
fn each_run_prints_its_fingerprint() {
    crate::extend_catalogue();
    let study = Study::from_toml("test", STUDY).unwrap_or_else(|e| panic!("{e}"));
    for run in study.runs(1.0).unwrap_or_else(|e| panic!("{e}")) {
        println!("\n{}: {}", run.key["system"], run.fingerprint);
    }
}

#[test]
fn rebuild_changes_only_fingerprints_of_own_controllers() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = std::env::current_exe().expect("this program");
    let other = folder.path().join("other");
    let mut bytes = std::fs::read(&program).expect("this program");
    // Bytes after the sections of a program do not change how it runs.
    bytes.push(0);
    std::fs::copy(&program, &other).expect("copied, with its mode");
    std::fs::write(&other, bytes).expect("written");
    let told = |program: &std::path::Path| {
        let out = Command::new(program)
            .args(["--exact", "own_code::each_run_prints_its_fingerprint", "--nocapture"])
            .output()
            .expect("it runs");
        let text = String::from_utf8(out.stdout).expect("text");
        let of = |system: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(system)?.strip_prefix(": "));
            line.unwrap_or_else(|| panic!("no {system}: {text}")).to_owned()
        };
        ["reno", "packet-size/reno", "never-grows", "packet-size/never-grows"].map(of)
    };
    let ([reno, wrapped, own, own_wrapped], there) = (told(&program), told(&other));
    assert_eq!([&reno, &wrapped], [&there[0], &there[1]]);
    assert!(own != there[2] && own_wrapped != there[3], "{own} {own_wrapped}");
    assert_eq!(told(&program)[2], own);
}
