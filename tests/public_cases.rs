//! Tests with questions that were asked in public (`tests/public_cases/cases.toml`). The program
//! must answer each question as `cases.toml` states, and docs/public-cases.md shows the answers.
//! `FATHOM_WRITE=1` writes this page anew.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use crate::common::functions_by_module;

const PAGE: &str = "docs/public-cases.md";

#[derive(Deserialize)]
struct Cases {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    about: String,
    asks: String,
    /// A shell command.
    run: Option<String>,
    #[serde(default)]
    exit: i32,
    /// Texts that the answer has, in this order.
    #[serde(default)]
    says: Vec<String>,
    /// Misleading texts, which the answer must not have.
    #[serde(default)]
    lacks: Vec<String>,
    /// Test that covers the question, if a command on one machine cannot.
    test: Option<String>,
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn cases() -> Vec<Case> {
    let text =
        fs::read_to_string(repository().join("tests/public_cases/cases.toml")).expect("the cases");
    toml::from_str::<Cases>(&text).expect("cases.toml").case
}

/// Creates a folder with all files that the commands name.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for from in ["tests/public_cases/files", "bench/qlog/tests/logs"] {
        for file in fs::read_dir(repository().join(from)).expect("files").flatten() {
            fs::copy(file.path(), folder.path().join(file.file_name())).expect("a copy");
        }
    }
    folder
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the differences between the program's answer and the expected one; empty if there are
/// none.
fn wrong(case: &Case, command: &str) -> Vec<String> {
    let folder = folder();
    let program = Path::new(env!("CARGO_BIN_EXE_fathom")).parent().expect("a folder");
    let path = std::env::join_paths(
        std::iter::once(program.to_owned())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let out = Command::new("sh")
        .args(["-c", command])
        .current_dir(folder.path())
        .env("PATH", path.expect("paths"))
        .output()
        .expect("a shell");
    let answer =
        one_line(&(String::from_utf8_lossy(&out.stderr) + String::from_utf8_lossy(&out.stdout)));
    let mut wrong = Vec::new();
    if out.status.code() != Some(case.exit) {
        wrong.push(format!("exit code {:?}, not {}", out.status.code(), case.exit));
    }
    let mut rest = answer.as_str();
    for text in &case.says {
        match rest.split_once(text.as_str()) {
            Some((_, after)) => rest = after,
            None => wrong.push(format!("it does not say (there): {text}")),
        }
    }
    wrong.extend(
        case.lacks
            .iter()
            .filter(|text| answer.contains(*text))
            .map(|text| format!("it says: {text}")),
    );
    if !wrong.is_empty() {
        wrong.insert(0, format!("{}\n  {command}\n  {answer}", case.asks));
    }
    wrong
}

#[test]
#[cfg_attr(not(feature = "quiche"), ignore = "some questions are about quiche")]
fn commands_answer_the_public_questions_as_documented() {
    let wrong: Vec<String> =
        cases().iter().filter_map(|case| Some(wrong(case, case.run.as_ref()?))).flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n  "));
}

#[test]
fn every_public_question_has_a_command_or_an_existing_test() {
    let functions = functions_by_module(repository());
    for case in cases() {
        assert!(case.run.is_some() != case.test.is_some(), "{}: write run or test", case.asks);
        assert!(
            case.run.is_none() || !(case.says.is_empty() && case.lacks.is_empty()),
            "{}: nothing is asked",
            case.asks
        );
        let Some(test) = &case.test else { continue };
        let name = test.rsplit("::").next().unwrap_or(test);
        assert!(
            functions.iter().any(|function| function.rsplit("::").next() == Some(name)),
            "{}: there is no test {test}",
            case.asks
        );
    }
}

#[test]
fn public_cases_page_matches_the_case_file() {
    let mut page = HEAD.to_owned();
    let mut about = String::new();
    let cell = |text: &str| text.replace('|', "\\|");
    for case in cases() {
        if case.about != about {
            about.clone_from(&case.about);
            let _ = write!(
                page,
                "\n## {about}\n\n| question | command, or test | the answer says |\n|---|---|---|\n"
            );
        }
        let asked = case.run.as_ref().map(|run| format!("`{}`", cell(run)));
        let asked =
            asked.unwrap_or_else(|| format!("test `{}`", case.test.as_deref().unwrap_or_default()));
        let quoted = |texts: &[String]| {
            texts.iter().map(|text| format!("\"{}\"", cell(text))).collect::<Vec<_>>().join(", ")
        };
        let mut says = quoted(&case.says);
        if !case.lacks.is_empty() {
            let _ = write!(
                says,
                "{}not {}",
                if says.is_empty() { "" } else { "; " },
                quoted(&case.lacks)
            );
        }
        if case.exit != 0 {
            let _ = write!(says, "; exit code {}", case.exit);
        }
        let _ = writeln!(page, "| {} | {asked} | {says} |", cell(&case.asks));
    }
    let place = repository().join(PAGE);
    if std::env::var_os("FATHOM_WRITE").is_some() {
        fs::write(&place, page).expect("docs can be written");
    } else {
        let stored = fs::read_to_string(&place).unwrap_or_default();
        assert!(
            stored == page,
            "{PAGE} is not made of the cases; write it: FATHOM_WRITE=1 cargo test --release public_cases"
        );
    }
}

const HEAD: &str = "\
# Public questions and their answers

People who run servers, write congestion controllers or read logs asked these questions in issues,
on mailing lists and in forums. For each question, the tables have a command that answers it, and
the part of the command's output that names the cause. If one command cannot answer a question, the
table names the test that covers it.

`make test` runs every command in a folder with the files of `tests/public_cases/files` and
`bench/qlog/tests/logs`, and fails if an answer changes. The transfers are small, so that all
commands together take half a minute of CPU time. Most commands have one or two seeds, so their
results show a cause, but do not rank controllers.
";
