//! Tests of a study that many processes execute: array tasks read their environment, interrupted
//! processes keep finished runs, and results are merged.

use std::path::Path;
use std::process::{Command, Output};

/// Twenty runs, each of which takes at most 0.2 s.
const STUDY: [&str; 5] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/bench/plans/cluster/study.toml"),
    "--scale=0.2",
    "--seeds=2",
    "--only=buffer=20",
    "--only=buffer=50",
];

fn command(verb: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fathom"));
    // The tests themselves may run in such a task.
    for (name, _) in std::env::vars()
        .filter(|(name, _)| name.starts_with("SLURM_") || name.starts_with("JOB_COMPLETION"))
    {
        command.env_remove(name);
    }
    command.args(verb).args(STUDY).arg("--results").arg(folder);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(command: &mut Command) -> Output {
    command.output().expect("fathom runs")
}

/// Returns the JSON of the whole study, and the text on standard error, with the results in this
/// folder.
fn whole(folder: &Path) -> (Vec<u8>, String) {
    let out = run(command(&["plan", "run"], folder).args(["--json", "-"]));
    assert!(out.status.success(), "{}", text(&out.stderr));
    (out.stdout, text(&out.stderr))
}

fn counts(folder: &Path) -> (Option<i32>, serde_json::Value) {
    let out = run(command(&["plan", "status"], folder).arg("--json"));
    (out.status.code(), serde_json::from_slice(&out.stdout).expect("JSON"))
}

#[test]
fn array_tasks_together_complete_a_study() {
    let folder = tempfile::tempdir().expect("a folder");
    let (alone, slurm, pods) =
        (folder.path().join("alone"), folder.path().join("slurm"), folder.path().join("pods"));
    assert_eq!(counts(&slurm).0, Some(1));
    let tasks = (0..4).flat_map(|i: u32| {
        let mut task = command(&["plan", "run"], &slurm);
        task.env("SLURM_JOB_ID", "7").env("SLURM_CPUS_PER_TASK", "1");
        // Task numbers 10, 12, 14 and 16.
        for (name, value) in
            [("ID", 10 + 2 * i), ("COUNT", 4), ("MIN", 10), ("MAX", 16), ("STEP", 2)]
        {
            task.env(format!("SLURM_ARRAY_TASK_{name}"), value.to_string());
        }
        let mut pod = command(&["plan", "run"], &pods);
        pod.env("JOB_COMPLETION_INDEX", i.to_string()).env("JOB_COMPLETIONS", "4");
        let says = format!("part {}/4 of 20 runs, as a task of a", i + 1);
        [(task, says.clone()), (pod, says)]
    });
    let tasks: Vec<_> = tasks
        .map(|(mut task, says)| {
            let child = task
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::piped())
                .spawn();
            (child.expect("fathom runs"), says)
        })
        .collect();
    for (task, says) in tasks {
        let out = task.wait_with_output().expect("an end");
        assert!(
            out.status.success() && text(&out.stderr).contains(&says),
            "{says}: {}",
            text(&out.stderr)
        );
    }
    let (expected, _) = whole(&alone);
    for folder in [&slurm, &pods] {
        let (code, counts) = counts(folder);
        assert_eq!(
            (code, &counts["done"], &counts["complete"]),
            (Some(0), &20.into(), &true.into()),
            "{counts}"
        );
        let (merged, said) = whole(folder);
        assert!(said.contains("0 runs to execute, 20 runs already stored"), "{said}");
        assert!(merged == expected, "what tasks made together is not what one process makes");
    }
}

#[test]
fn run_selected_by_fingerprint_is_executed_in_any_array_task() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = run(command(&["plan", "runs"], folder.path()).arg("--json"));
    let listed: Vec<serde_json::Value> = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(
        (listed.len(), &listed[3]["state"]),
        (20, &"missing".into()),
        "{}",
        text(&out.stderr)
    );
    let fingerprint = listed[3]["fingerprint"].as_str().expect("text");
    for index in ["0", "1"] {
        let mut task = command(&["plan", "run", "--only", fingerprint], folder.path());
        let out = run(task.env("JOB_COMPLETION_INDEX", index).env("JOB_COMPLETIONS", "2"));
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
    let lines = text(&run(&mut command(&["plan", "runs"], folder.path())).stdout);
    let done: Vec<&str> = lines.lines().filter(|line| line.contains("done")).collect();
    assert!(done.len() == 1 && done[0].starts_with(fingerprint), "{lines}");
}

#[test]
fn runs_that_another_process_executes_cause_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = run(command(&["plan", "runs"], folder.path()).arg("--json"));
    let listed: Vec<serde_json::Value> = serde_json::from_slice(&out.stdout).expect("JSON");
    let results = folder.path().join("study");
    std::fs::create_dir_all(&results).expect("a folder");
    let report = serde_json::json!({
        "process": "other-7",
        "fingerprints": [listed[3]["fingerprint"], listed[4]["fingerprint"]],
    });
    let file = results.join("other-7-0123456789abcdef.running");
    std::fs::write(file, report.to_string()).expect("written");
    let (_, said) = whole(folder.path());
    assert!(
        said.contains("warning: process other-7 is executing 2 of these runs")
            && said.contains("--part 1/2"),
        "{said}"
    );
}

#[cfg(unix)]
#[test]
fn sigterm_keeps_finished_runs_of_a_study() {
    use std::io::{BufRead, BufReader};

    let folder = tempfile::tempdir().expect("a folder");
    // Twenty thousand runs: the first ones end long before the last.
    let mut child = Command::new(env!("CARGO_BIN_EXE_fathom"))
        .args(["plan", "run", STUDY[0], "--seeds=1000", "--jobs=1", "--part=1/1", "--results"])
        .arg(folder.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("fathom runs");
    let mut said = BufReader::new(child.stderr.take().expect("standard error")).lines();
    assert!(said.any(|line| line.expect("text").starts_with("2/")), "no run ended");
    let kill =
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill runs");
    let rest: Vec<String> = said.map_while(Result::ok).collect();
    assert!(
        kill.success() && rest.iter().any(|line| line.contains("the same command continues")),
        "{rest:?}"
    );
    assert_eq!(child.wait().expect("an end").code(), Some(130));
    let stored = std::fs::read_dir(folder.path().join("study")).expect("results").flatten();
    let stored =
        stored.filter(|file| file.path().extension().is_some_and(|ext| ext == "json")).count();
    assert!((2..20_000).contains(&stored), "{stored} results");
}

#[test]
fn job_files_for_clusters_are_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let emit = |engine: &str| {
        let out =
            run(&mut command(&["plan", "emit", engine, "--tasks=3", "--cores=2"], folder.path()));
        assert!(out.status.success(), "{}", text(&out.stderr));
        text(&out.stdout)
    };
    let script = emit("slurm");
    for line in [
        "#SBATCH --array=0-2",
        "#SBATCH --cpus-per-task=2",
        "plan run",
        "--scale=0.2 --only=buffer=20",
        "--only=buffer=50 --seeds=2",
    ] {
        assert!(script.contains(line), "{line} is not in:\n{script}");
    }
    let file = folder.path().join("job.sh");
    std::fs::write(&file, &script).expect("written");
    assert!(
        Command::new("sh").arg("-n").arg(&file).status().is_ok_and(|status| status.success()),
        "{script}"
    );
    let manifest = emit("k8s");
    let study = std::fs::read_to_string(STUDY[0]).expect("the study");
    for line in [
        "completionMode: Indexed",
        "completions: 3",
        "JOB_COMPLETIONS, value: \"3\"",
        "\"/study/study.toml\"",
    ] {
        assert!(manifest.contains(line), "{line} is not in:\n{manifest}");
    }
    assert!(
        study.lines().all(|line| manifest.contains(&format!("    {line}").trim_end().to_owned())),
        "{manifest}"
    );
}

#[cfg(not(feature = "object-store"))]
#[test]
fn error_says_if_the_build_lacks_object_stores() {
    let out = Command::new(env!("CARGO_BIN_EXE_fathom"))
        .args(["plan", "status", STUDY[0], "--results", "s3://bucket/prefix"])
        .output()
        .expect("fathom runs");
    let said = text(&out.stderr);
    assert!(
        out.status.code() == Some(2)
            && said.contains("--features object-store")
            && said.lines().count() == 1,
        "{said}"
    );
}
