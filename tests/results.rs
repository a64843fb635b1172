//! Tests of the files that `--csv`, `--parquet`, `--distributions` and `--response-log` write. The
//! programs shown in docs/results.md read the files, and `make test-results` installs these
//! programs.

use std::path::Path;
use std::process::{Command, Stdio};

/// Returns the code blocks of a language in docs/results.md.
fn blocks(language: &str) -> Vec<String> {
    let page = include_str!("../docs/results.md");
    let start = format!("```{language}\n");
    page.split(&start)
        .skip(1)
        .map(|rest| rest.split("```").next().expect("an end").to_owned())
        .collect()
}

fn fathom(args: &[&str], folder: &Path) -> Vec<u8> {
    let out = Command::new(env!("CARGO_BIN_EXE_fathom"))
        .args(args)
        .current_dir(folder)
        .output()
        .expect("fathom runs");
    assert!(
        out.status.success(),
        "fathom {}: {}",
        args.join(" "),
        String::from_utf8_lossy(&out.stderr)
    );
    out.stdout
}

/// Returns a command for a program, which is searched for in the folder `FATHOM_READERS` first.
/// Cargo's PATH does not contain the folder, because BoringSSL is built anew if the PATH changes.
fn reader(program: &str) -> Command {
    let folder = std::env::var_os("FATHOM_READERS").map(|folder| Path::new(&folder).join(program));
    Command::new(folder.filter(|path| path.exists()).unwrap_or_else(|| program.into()))
}

/// Returns whether the program exists and `probe` succeeds.
fn has(program: &str, probe: &[&str]) -> bool {
    let out = reader(program).args(probe).stdout(Stdio::null()).stderr(Stdio::null()).status();
    out.is_ok_and(|status| status.success())
}

fn compare(folder: &Path) {
    let files = "--csv runs.csv --parquet runs.parquet --distributions distributions.parquet --response-log responses.parquet";
    let files: Vec<&str> = files.split(' ').collect();
    let plan =
        ["compare", "--seeds", "5", "--responses", "200", "--controllers", "reno,sync,vegas"];
    fathom(&[&plan[..], &files].concat(), folder);
}

#[test]
fn result_files_have_a_row_per_run_and_units_in_column_names() {
    let folder = tempfile::tempdir().expect("a folder");
    compare(folder.path());
    let csv = std::fs::read_to_string(folder.path().join("runs.csv")).expect("the runs");
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 1 + 3 * 5, "{csv}");
    for column in [
        "controller",
        "seed",
        "link_bps",
        "load_fraction",
        "response_time_mean_ms",
        "drops_percent",
    ] {
        assert!(
            lines[0].split(',').any(|name| name == column),
            "'{column}' is not in {}",
            lines[0]
        );
    }
    let parquet = std::fs::read(folder.path().join("runs.parquet")).expect("the runs");
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    let json =
        fathom(&["compare", "--seeds", "2", "--responses", "100", "--json", "-"], folder.path());
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!((&json["schema"], &json["parameters"]["link_bps"]), (&4.into(), &10_000_000.into()));
    assert_eq!(json["fathom"], env!("CARGO_PKG_VERSION"));
    assert!(json["stack_versions"]["quinn"].as_str().expect("a version").starts_with("quinn 0."));
    let best = &json["summary"]["ranking"][0];
    assert!(
        best["rank"] == 1 && best["measures"]["response_time_mean_ms"]["half_width_95"].is_number(),
        "{best}"
    );
}

/// Returns the rows of a CSV file without quotes, by the names of their columns.
fn rows(csv: &str) -> Vec<std::collections::HashMap<&str, &str>> {
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().expect("names").split(',').collect();
    lines.map(|line| names.iter().copied().zip(line.split(',')).collect()).collect()
}

#[test]
fn measures_can_be_computed_from_response_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = |workload: &str, file: &str| {
        let args = format!(
            "compare --seeds 2 --controllers reno,sync --workload {workload} --csv runs.csv --response-log {file} --json -"
        );
        let args: Vec<&str> = args.split(' ').collect();
        fathom(
            &if workload == "packmime" {
                [&args[..], &["--responses", "150"]].concat()
            } else {
                args
            },
            folder.path(),
        )
    };
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a file");
    args("packmime", "responses.csv");
    let (runs, responses) = (read("runs.csv"), read("responses.csv"));
    let responses = rows(&responses);
    for run in rows(&runs) {
        let of_run = |row: &&std::collections::HashMap<&str, &str>| {
            ["label", "seed"].iter().all(|name| row[name] == run[name]) && row["group"] == "forward"
        };
        let of_run: Vec<_> =
            responses.iter().filter(of_run).filter(|row| row["result"] == "completed").collect();
        assert_eq!(of_run.len(), 150);
        let times =
            of_run.iter().map(|row| row["response_time_ms"].parse::<f64>().expect("a number"));
        let (mean, said) = (
            times.sum::<f64>() / 150.0,
            run["response_time_mean_ms"].parse::<f64>().expect("a number"),
        );
        assert!((mean - said).abs() < 0.002, "{mean} and {said}");
        let ordered = |row: &&std::collections::HashMap<&str, &str>| {
            let number = |name: &str| row[name].parse::<f64>().expect("a number");
            number("first_byte_ms") <= number("response_time_ms") && number("body_bytes") >= 0.0
        };
        assert!(of_run.iter().copied().all(|row| ordered(&row) && row["kind"] == "response"));
    }
    // The same plan gives the same bytes; then another format.
    let first = read("responses.csv");
    args("packmime", "again.csv");
    assert!(first == read("again.csv"), "the same plan, the same rows");
    args("packmime", "responses.parquet");
    let parquet = std::fs::read(folder.path().join("responses.parquet")).expect("the responses");
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    // Objects of a page have their own rows beside that of the page.
    args("pages:1/s --responses 6", "pages.csv");
    let pages = read("pages.csv");
    let count = |csv: &str, kind: &str| rows(csv).iter().filter(|row| row["kind"] == kind).count();
    assert!(
        count(&pages, "page") == 4 * 6 && count(&pages, "object") > 20 * 4 * 6,
        "{}",
        count(&pages, "object")
    );
    args("uploads:4x100kB@1s", "uploads.csv");
    assert_eq!(count(&read("uploads.csv"), "upload"), 4 * 4);
}

#[test]
fn study_writes_a_page_and_rows_of_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let study = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixed_runs/study.toml");
    let files =
        ["--report", "s.html", "--csv", "s.csv", "--parquet", "s.parquet", "--json", "s.json"];
    fathom(&[&["plan", "run", study, "--results", "results"][..], &files].concat(), folder.path());
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a file");
    let json: serde_json::Value = serde_json::from_str(&read("s.json")).expect("JSON");
    let results = json["results"].as_array().expect("results");
    assert_eq!(read("s.csv").lines().count(), 1 + results.len());
    assert!(
        json["schema"] == 4
            && json["plan"]["scenario"].is_object()
            && results[0]["parameters"].is_object()
    );
    let page = read("s.html");
    assert!(page.contains("</html>") && !page.contains("<script") && !page.contains("src="));
}

#[test]
#[ignore = "needs pandas, polars, pyarrow and R, which it installs: make test-results"]
fn pandas_polars_and_r_read_the_result_files() {
    let folder = tempfile::tempdir().expect("a folder");
    compare(folder.path());
    let read = |program: &str, args: &[&str], code: &str| {
        let out = reader(program)
            .args(args)
            .arg(code)
            .current_dir(folder.path())
            .output()
            .expect("it runs");
        let (shown, said) =
            (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert!(out.status.success() && shown.contains("sync"), "{program}: {said}\n{shown}");
    };
    let python = has("python3", &["-c", "import pandas, polars, pyarrow"]);
    assert!(python, "python3 has no pandas, polars and pyarrow: make test-results installs them");
    assert!(has("Rscript", &["--version"]), "there is no Rscript: make test-results installs it");
    blocks("python").iter().for_each(|code| read("python3", &["-c"], code));
    blocks("r").iter().for_each(|code| read("Rscript", &["-e"], code));
    assert_eq!((blocks("python").len(), blocks("r").len()), (3, 1));
}
