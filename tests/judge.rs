//! Tests of `fathom judge` and `fathom league` from end to end: two runs write the same bytes, an
//! interrupted run continues, and the written files are complete.

use crate::common;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::{fathom, when};

fn run(folder: &Path, args: &[&str]) -> Output {
    fathom().args(args).current_dir(folder).output().expect("fathom runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A judgement with a few tests, which take a second or two.
const JUDGE: &[&str] =
    &["judge", "cubic", "--only", "7.2", "--only", "7.7", "--only", "5.1.1", "--json", "card.json"];

#[test]
fn two_judgements_write_the_same_bytes() {
    let (one, two) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let files = ["card.json", "card.html", "junit.xml"];
    let more = ["--report", "card.html", "--junit", "junit.xml"];
    for folder in [one.path(), two.path()] {
        let out = run(folder, &[JUDGE, &more].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
    let read = |folder: &Path, file: &str| std::fs::read(folder.join(file)).expect(file);
    for file in files {
        assert!(read(one.path(), file) == read(two.path(), file), "{file} differs");
    }
    assert!(text(&read(one.path(), "junit.xml")).starts_with("<?xml"));
    let again = run(one.path(), &["judge", "cubic", "--only", "7.7", "--baseline", "card.json"]);
    assert!(text(&again.stdout).contains("no verdict changed"), "{}", text(&again.stdout));
}

#[test]
fn judge_fails_if_a_result_is_worse_than_the_baseline() {
    let folder = tempfile::tempdir().expect("a folder");
    let only = ["--only", "7.7"];
    let out = run(folder.path(), &[&["judge", "cubic", "--json", "old.json"], &only[..]].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    let vegas = [&["judge", "vegas", "--baseline", "old.json"], &only[..]].concat();
    let out = run(folder.path(), &vegas);
    assert_eq!(out.status.code(), Some(2), "a baseline of another controller is refused");
    assert!(text(&out.stderr).contains("another controller"), "{}", text(&out.stderr));
    // Vegas is worse than CUBIC if packets overtake others, as if a change of Vegas had made it so.
    let old = folder.path().join("old.json");
    let card = std::fs::read_to_string(&old).expect("a scorecard");
    std::fs::write(&old, card.replace("\"controller\": \"cubic\"", "\"controller\": \"vegas\""))
        .expect("written");
    let out = run(folder.path(), &vegas);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    assert!(
        text(&out.stderr).contains("became worse than in the baseline"),
        "{}",
        text(&out.stderr)
    );
    assert!(text(&out.stdout).contains("worse: 7.7/some-overtake"), "{}", text(&out.stdout));
}

#[test]
fn interrupted_judgement_can_be_continued() {
    let (stopped, whole) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let args = [JUDGE, &["--only", "6.1", "--jobs", "1"]].concat();
    let mut child = fathom()
        .args(&args)
        .current_dir(stopped.path())
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("fathom runs");
    let stored = || {
        let folder = std::fs::read_dir(stopped.path().join(".fathom/results/judge"));
        folder.map_or(0, |files| {
            files.flatten().filter(|f| f.path().extension().is_some_and(|e| e == "json")).count()
        })
    };
    when("three runs are stored", || stored() >= 3);
    let kill =
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(kill.success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let before = stored();
    let partial =
        run(stopped.path(), &[&["judge", "cubic", "--only-stored"][..], &JUDGE[2..]].concat());
    assert!(
        text(&partial.stdout).contains("runs without a result yet"),
        "{}",
        text(&partial.stdout)
    );
    let out = run(stopped.path(), &args);
    let said = text(&out.stderr);
    assert!(said.contains(&format!("{before} ")), "{before} runs were there: {said}");
    let _ = run(whole.path(), &args);
    let card = |folder: &Path| std::fs::read(folder.join("card.json")).expect("a scorecard");
    assert!(card(stopped.path()) == card(whole.path()), "an interrupted run has another result");
}

#[test]
fn scorecards_are_combined_into_a_league_table() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["cubic", "vegas"] {
        let json = format!("{name}.json");
        run(folder.path(), &["judge", name, "--only", "7.5", "--only", "7.7", "--json", &json]);
    }
    let out = run(folder.path(), &["league", "vegas.json", "cubic.json"]);
    let table = text(&out.stdout);
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
    assert!(rows.len() == 2 && rows[0].starts_with("| `cubic` | quinn | 2 | 0 |"), "{table}");
    assert!(
        table.contains(
            "fathom judge 'vegas' --stack quinn --against 'cubic,reno' --quick --only 7.7"
        ),
        "{table}"
    );

    run(folder.path(), &["judge", "reno", "--only", "7.7", "--json", "reno.json"]);
    for (args, says) in [
        (&["league", "cubic.json", "reno.json"][..], "judge both in the same way"),
        (&["league", "cubic.json", "cubic.json"], "given twice"),
        (&["league", "nothing.json"], "'nothing.json'"),
        (&["league"], "SCORECARD.json"),
        (&["judge", "cubic", "--baseline", "nothing.json"], "--baseline 'nothing.json'"),
        (&["judge", "cubic", "--only", "9.9"], "'9.9' is neither a section nor a test"),
        (&["judge", "cubic", "--against", "cubic,cubic"], "named twice"),
    ] {
        let out = run(folder.path(), args);
        let said = text(&out.stderr);
        assert!(out.status.code() == Some(2) && said.contains(says), "{args:?}: {said}");
    }
}
