//! Provides the commit of this build for `fathom --version`.

use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let out =
        Command::new("git").args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?.trim().to_owned();
    (out.status.success() && !text.is_empty()).then_some(text)
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=FATHOM_COMMIT");
    // Packagers build without a repository and name the commit themselves.
    let commit = std::env::var("FATHOM_COMMIT")
        .ok()
        .or_else(|| git(&["log", "-1", "--format=%h %cs", "--abbrev=10"]));
    // A commit, or a change of branch, writes to this file.
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    println!("cargo::rustc-env=FATHOM_COMMIT={}", commit.as_deref().unwrap_or("unknown commit"));
}
