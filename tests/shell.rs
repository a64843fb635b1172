//! Tests of the support for shells, packagers and scripts: completions, manual pages, versions, and
//! output without colours.

use std::path::Path;
use std::process::{Command, Output};

fn fathom(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fathom")).args(args).output().expect("fathom runs")
}

fn stdout(args: &[&str]) -> String {
    let out = fathom(args);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("text")
}

#[test]
fn shell_completions_name_commands_and_options() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = stdout(&["completions", shell]);
        for word in ["new-controller", "max-per-client", "reproduce"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
    }
    let out = fathom(&["completions", "tcsh"]);
    assert_eq!(out.status.code(), Some(2));
}

#[test]
fn bash_accepts_the_completions() {
    let script = stdout(&["completions", "bash"]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("fathom");
    std::fs::write(&file, script).expect("written");
    let ask = "source \"$1\"; COMP_WORDS=(fathom jud); COMP_CWORD=1; _fathom fathom jud fathom; echo \"${COMPREPLY[@]}\"";
    let out = Command::new("bash")
        .args(["--norc", "-c", ask, "-"])
        .arg(&file)
        .output()
        .expect("bash runs");
    assert_eq!(
        String::from_utf8_lossy(&out.stdout).trim(),
        "judge",
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

#[test]
fn manual_has_a_page_for_every_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("man1");
    stdout(&["man", &pages.to_string_lossy()]);
    for (page, words) in [
        ("fathom.1", &["judge", "serve"][..]),
        ("fathom-serve.1", &[".TH fathom-serve 1", "max\\-per\\-client"]),
        ("fathom-plan-run.1", &[".TH fathom-plan-run 1", "results"]),
    ] {
        let text =
            std::fs::read_to_string(pages.join(page)).unwrap_or_else(|e| panic!("{page}: {e}"));
        for word in words {
            assert!(text.contains(word), "{page} has no {word}: {}", &text[..200]);
        }
    }
    assert!(!Path::new(&pages).join("fathom-help.1").exists());
}

#[test]
fn version_output_names_commit_and_stacks() {
    assert_eq!(stdout(&["-V"]).trim(), format!("fathom {}", env!("CARGO_PKG_VERSION")));
    let long = stdout(&["--version"]);
    for part in ["quinn 0.11.", "noq 1."] {
        assert!(long.contains(part), "{long}");
    }
    let commit = long.lines().next().and_then(|line| line.split_once('(')).expect("a commit").1;
    // In a checkout, the version names the commit. A build without Git says that the commit is
    // unknown.
    let known = commit.chars().take(10).all(|c| c.is_ascii_hexdigit());
    assert!(known || commit == "unknown commit)", "{long}");
}

#[test]
fn errors_and_help_have_no_colours_in_a_pipe_or_with_no_color() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fathom"));
    let help = command
        .arg("--help")
        .env("NO_COLOR", "1")
        .env("CLICOLOR_FORCE", "1")
        .output()
        .expect("fathom runs");
    let error = fathom(&["compare", "--nothing"]);
    for bytes in [help.stdout, error.stderr] {
        assert!(!bytes.contains(&0x1b), "{}", String::from_utf8_lossy(&bytes));
    }
}
