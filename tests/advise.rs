//! Tests of `fathom advise` from the command line: logs give a scenario, a scenario gives advice,
//! and invalid input is reported in one line.

use std::process::{Command, Output};

fn fathom(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fathom")).args(args).output().expect("fathom runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Logs of four servers of other projects, behind 2 Mbps and 30 ms.
const LOGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/bench/advise/tests/logs");

#[test]
fn advise_turns_logs_into_a_scenario_and_advice() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (scenario, page, json) = (file("clients.toml"), file("advice.html"), file("advice.json"));
    let seen = fathom(&["advise", LOGS, "--dry-run", "--scenario", &scenario]);
    assert!(seen.status.success(), "{}", text(&seen.stderr));
    assert!(text(&seen.stdout).contains("Classes of clients"), "{}", text(&seen.stdout));
    let written = std::fs::read_to_string(&scenario).unwrap();
    assert!(
        written.starts_with(
            "# Summary of 4 connections in 4 files (4 connections filled their path)\n"
        ),
        "{written}"
    );
    let few = ["--controllers", "vegas", "--seeds", "2", "--responses", "4"];
    let advised = fathom(
        &[&["advise", "--from-scenario", &scenario, "--report", &page, "--json", &json][..], &few]
            .concat(),
    );
    assert!(advised.status.success(), "{}", text(&advised.stderr));
    let told = text(&advised.stdout);
    assert!(
        told.contains("Advice for native:cubic on quinn")
            && told.contains("fathom serve --stack quinn --controller "),
        "{told}"
    );
    assert!(std::fs::read_to_string(&page).unwrap().contains("How this was measured"));
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(json["advice"]["overall"].as_array().unwrap().len(), 2, "{json}");
}

#[test]
fn invalid_advise_input_gives_one_line_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (wrong, table) =
        (file("wrong.toml", "stack = 'quinn'\nloda = 1\n"), file("fast.csv", "rtt_ms\nfast\n"));
    let mute = file("mute.csv", "rtt_ms,bytes\n20,1000\n");
    for (args, says) in [
        (vec![], "name logs, --from-scenario FILE or a path"),
        (vec!["/nowhere.qlog"], "'/nowhere.qlog' cannot be read"),
        (vec![LOGS, "--rtt", "20ms"], "LOGS: the logs determine the paths"),
        (vec![LOGS, "--controllers", "speed", "--dry-run"], "--controllers: "),
        (vec![LOGS, "--workload", "nothing", "--dry-run"], "--workload: "),
        (vec!["--from-scenario", &wrong], "line 2: "),
        (vec![&table], "line 2: rtt_ms: 'fast'"),
        (vec![&mute], "describes no path: of its 1 connections"),
        (vec!["--path", "lte", "--dry-run"], "--dry-run: "),
        (vec!["--path", "mars"], "mars"),
    ] {
        let out = fathom(&[&["advise"][..], &args].concat());
        let line = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {line}");
        assert!(
            line.starts_with("fathom: ") && line.contains(says) && line.lines().count() == 1,
            "{args:?}: {line}"
        );
    }
}
