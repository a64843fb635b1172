//! Tests of every example on every page: the program's own parser accepts it, `fathom plan check`
//! accepts it, or it runs. Otherwise the page must say why not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fmt, fs};

use super::blocks::{Block, Note, blocks};
use super::commands::{Words, commands, with_options};
use super::{pages_of, read, repository};

/// Languages whose blocks are examples.
const TESTED: [&str; 5] = ["sh", "console", "bash", "toml", "rust"];

fn pages() -> Vec<PathBuf> {
    let mut pages = pages_of("docs");
    pages.extend(pages_of("docs/papers"));
    pages.extend(["README.md", "CONTRIBUTING.md"].map(|name| repository().join(name)));
    pages.sort();
    pages
}

fn examples(page: &Path) -> Vec<Block> {
    blocks(page).into_iter().filter(|block| TESTED.contains(&&*block.language)).collect()
}

/// Returns the error in a command; `None` if none is found without running the command.
fn fault(words: &Words) -> Option<String> {
    let after =
        |mark: &str| words.iter().position(|word| word == mark).map(|at| words[at + 1..].to_vec());
    let parsed = |words: &[String]| fathom::check_command_line(words).err().map(|e| e.to_string());
    let (program, rest) = words.split_first()?;
    match program.as_str() {
        "fathom" | "target/release/fathom" => parsed(rest),
        "cargo" => {
            let named = after("--example").and_then(|rest| rest.first().cloned());
            if let Some(name) =
                named.filter(|name| !repository().join(format!("examples/{name}.rs")).exists())
            {
                return Some(format!("there is no example '{name}'"));
            }
            // After `cargo run`, these are arguments of the program, which is fathom with other
            // controllers. After `cargo test`, they belong to the test harness.
            let is_run = rest.first().is_some_and(|verb| verb == "run");
            after("--").filter(|_| is_run).and_then(|rest| parsed(&rest))
        }
        "make" => {
            let makefile = read(&repository().join("Makefile"));
            let there = |target: &String| {
                makefile.lines().any(|line| line.starts_with(&format!("{target}:")))
            };
            rest.iter()
                .find(|target| !there(target))
                .map(|target| format!("make has no target '{target}'"))
        }
        "python3" => rest
            .first()
            .filter(|file| !repository().join(file).exists())
            .map(|f| format!("'{f}' is not there")),
        other => Some(format!(
            "'{other}' is not parsed here; say why the block is not run: <!-- example: not run: REASON -->"
        )),
    }
}

fn is_fathom(words: &Words) -> bool {
    ["fathom", "target/release/fathom"].contains(&words[0].as_str())
}

#[test]
fn commands_in_documentation_are_valid() {
    let (mut faults, mut parsed) = (Vec::new(), 0);
    for block in
        pages().iter().flat_map(|page| examples(page)).filter(|block| block.language != "toml")
    {
        match (&block.note, &*block.language) {
            (Note::Unknown(text), _) => {
                faults.push(format!("{}: '{text}' says nothing of the block", block.place()))
            }
            (Note::Quoted | Note::NotRun(_), "rust") => {}
            (_, "rust") => faults.push(format!(
                "{}: neither quoted from an example nor with a reason",
                block.place()
            )),
            (note, _) => {
                let may_be_other = matches!(note, Note::NotRun(_));
                for words in
                    commands(&block.text).iter().filter(|words| !may_be_other || is_fathom(words))
                {
                    parsed += 1;
                    faults.extend(
                        fault(words).map(|fault| {
                            format!("{}: {}: {fault}", block.place(), words.join(" "))
                        }),
                    );
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(parsed > 100, "{parsed} commands");
}

/// Replaces tables of `whole` with those of `part`, field by field.
fn merge(whole: &mut toml::Table, part: &toml::Table) {
    for (key, value) in part {
        match (whole.get_mut(key), value) {
            (Some(toml::Value::Table(whole)), toml::Value::Table(part)) => merge(whole, part),
            _ => drop(whole.insert(key.clone(), value.clone())),
        }
    }
}

/// Writes the plans of a page to a folder under their names, checks them and returns their errors.
fn plans(page: &Path, folder: &Path) -> Vec<String> {
    let of_file = |block: Block| match block.note {
        Note::File(name) => Some((name, block.text.parse().ok()?)),
        _ => None,
    };
    let named: BTreeMap<String, toml::Table> =
        examples(page).into_iter().filter_map(of_file).collect();
    let mut faults = Vec::new();
    for (i, block) in
        examples(page).iter().enumerate().filter(|(_, block)| block.language == "toml")
    {
        let table: toml::Table = match block.text.parse() {
            Ok(table) => table,
            Err(e) => {
                faults.push(format!("{}: {e}", block.place()));
                continue;
            }
        };
        let (name, text) = match &block.note {
            Note::NotRun(_) => continue,
            Note::Default => (format!("example-{i}.toml"), block.text.clone()),
            Note::File(name) => (name.clone(), block.text.clone()),
            Note::PartOf(name) => match named.get(name) {
                Some(whole) => {
                    let mut whole = whole.clone();
                    merge(&mut whole, &table);
                    (format!("example-{i}.toml"), toml::to_string(&whole).expect("TOML"))
                }
                None => {
                    faults.push(format!(
                        "{}: no block of the page is the file '{name}'",
                        block.place()
                    ));
                    continue;
                }
            },
            note => {
                faults.push(format!("{}: {note:?} is nothing for a plan", block.place()));
                continue;
            }
        };
        fs::write(folder.join(&name), text).expect("written");
        let out = fathom(&["plan".into(), "check".into(), name], folder);
        if let Err(e) = out {
            faults.push(format!("{}: {e}", block.place()));
        }
    }
    faults
}

/// A command that failed.
#[derive(Debug)]
struct FailedCommand {
    words: Vec<String>,
    stderr: String,
}

impl fmt::Display for FailedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fathom {}: {}", self.words.join(" "), self.stderr)
    }
}

/// Runs a command. A feature that this build lacks is not an error of the page.
fn fathom(words: &[String], folder: &Path) -> Result<(), FailedCommand> {
    let out = Command::new(env!("CARGO_BIN_EXE_fathom"))
        .args(words)
        .current_dir(folder)
        .output()
        .expect("fathom runs");
    let stderr = String::from_utf8_lossy(&out.stderr).trim().to_owned();
    let lacks_feature = stderr.contains("this build lacks");
    let is_ok = out.status.success() || lacks_feature;
    is_ok.then_some(()).ok_or_else(|| FailedCommand { words: words.to_owned(), stderr })
}

#[test]
fn plans_in_documentation_are_valid() {
    let mut faults = Vec::new();
    for page in pages() {
        let folder = tempfile::tempdir().expect("a folder");
        faults.extend(plans(&page, folder.path()));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Runs take virtual time, and the comment above a block makes them short.
#[test]
fn documentation_examples_marked_to_run_succeed() {
    let mut ran = 0;
    for page in pages() {
        let to_run: Vec<Block> =
            examples(&page).into_iter().filter(|b| matches!(b.note, Note::Run(_))).collect();
        if to_run.is_empty() {
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(plans(&page, folder.path()), Vec::<String>::new());
        for block in to_run {
            let Note::Run(options) = &block.note else { continue };
            for words in commands(&block.text) {
                assert!(
                    is_fathom(&words),
                    "{}: only fathom is run here, not '{}'",
                    block.place(),
                    words[0]
                );
                let accepted = |words: &Words| fathom::check_command_line(words).is_ok();
                let words = with_options(&words[1..].to_vec(), options, accepted);
                fathom(&words, folder.path()).unwrap_or_else(|e| panic!("{}: {e}", block.place()));
                ran += 1;
            }
        }
    }
    assert!(ran > 10, "{ran} commands ran");
}
