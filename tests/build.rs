//! Tests of the builds of the README's two commands. `make demo` and `make test` compile no crate
//! twice, and every test file belongs to a test program. A checkout on Windows and `cargo package`
//! see the same sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::common::{files_below, functions_by_module};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn cargo(args: &[&str]) -> String {
    let out = Command::new(env!("CARGO"))
        .args(args)
        .args(["--locked", "--offline"])
        .current_dir(ROOT)
        .output();
    let out = out.expect("cargo runs");
    assert!(
        out.status.success(),
        "{}\nrun 'cargo fetch --locked'",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).expect("text")
}

/// Returns the sets of features with which each package is built for one command. Build scripts and
/// macros may have another set than programs.
fn features(args: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::<_, BTreeSet<_>>::new();
    for line in
        cargo(&[&["tree", "--prefix", "none", "--format", "{p}|{f}"], args].concat()).lines()
    {
        let Some((package, features)) = line.trim_end_matches(" (*)").split_once('|') else {
            continue;
        };
        all.entry(package.to_owned()).or_default().insert(features.to_owned());
    }
    assert!(all.len() > 100, "cargo lists {} packages only", all.len());
    all
}

/// The commands of `make demo`, in their order, and of `make test`, as arguments of `cargo tree`.
const COMMANDS: &[(&str, &[&str])] = &[
    ("first look", &["-p", "fathom-experiments", "--features", "quiche", "-e", "normal,build"]),
    ("make demo", &["-p", "fathom", "--features", "quiche", "-e", "normal,build"]),
    ("make test", &["--workspace", "--features", "quiche", "-e", "normal,build,dev"]),
];

#[test]
fn demo_and_test_builds_compile_no_crate_twice() {
    let sets: Vec<_> = COMMANDS.iter().map(|(name, args)| (name, features(args))).collect();
    let mut twice = BTreeSet::new();
    for (later, (name, with)) in sets.iter().enumerate().skip(1) {
        for (earlier, before) in &sets[..later] {
            for (package, had) in before {
                let has = &with[package];
                if !had.is_subset(has) {
                    twice.insert(format!(
                        "{package}: {earlier} builds it with {had:?}, {name} with {has:?}"
                    ));
                }
            }
        }
    }
    let hint =
        "name the features of both in the workspace's Cargo.toml, or in bench/features/Cargo.toml";
    assert!(twice.is_empty(), "{}\n{hint}", twice.into_iter().collect::<Vec<_>>().join("\n"));
}

/// Checks that the Makefile runs the commands that the test above compares.
#[test]
fn makefile_runs_the_builds_that_are_compared() {
    let makefile = std::fs::read_to_string(Path::new(ROOT).join("Makefile")).expect("the Makefile");
    for command in [
        "run --release --locked -p fathom-experiments --features quiche --bin first-look",
        "build --release --locked --features quiche",
        "test --release --workspace --features quiche --locked --no-fail-fast",
    ] {
        assert!(makefile.contains(command), "the Makefile has no '{command}'");
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: String,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    src_path: String,
}

#[test]
fn every_test_file_belongs_to_a_test_program() {
    let metadata: Metadata =
        serde_json::from_str(&cargo(&["metadata", "--format-version", "1", "--no-deps"]))
            .expect("metadata");
    let mut missing = Vec::new();
    for package in metadata.packages {
        let folder = Path::new(&package.manifest_path).with_file_name("tests");
        if !folder.is_dir() {
            continue;
        }
        let programs: Vec<_> =
            package.targets.iter().filter(|t| t.kind.iter().any(|kind| kind == "test")).collect();
        let main = std::fs::read_to_string(folder.join("main.rs")).unwrap_or_default();
        for file in files_below(&folder) {
            let path = file.strip_prefix(&folder).expect("inside").to_str().expect("text");
            let name = path.strip_suffix("/main.rs").or(path.strip_suffix(".rs"));
            let Some(name) = name.filter(|name| *name != "main" && !name.contains('/')) else {
                continue;
            };
            let alone = programs.iter().any(|t| Path::new(&t.src_path) == file);
            if !alone && !main.contains(&format!("mod {name};")) {
                missing.push(format!(
                    "{}: {} belongs to no test program; name it in tests/main.rs",
                    package.name,
                    file.display()
                ));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Returns the tracked files, with their modes.
fn tracked() -> Vec<(String, PathBuf)> {
    let out = Command::new("git").args(["ls-files", "-s", "-z"]).current_dir(ROOT).output();
    let out = out.expect("git runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let listed = String::from_utf8(out.stdout).expect("text");
    let entry = |line: &str| {
        let (meta, path) = line.split_once('\t')?;
        Some((meta.split(' ').next()?.to_owned(), PathBuf::from(path)))
    };
    let files: Vec<_> = listed.split('\0').filter_map(entry).collect();
    assert!(files.len() > 500, "git lists {} files only", files.len());
    files
}

/// Git writes a symbolic link as a text file on Windows.
#[test]
fn no_tracked_file_is_a_symbolic_link() {
    let links: Vec<_> = tracked().into_iter().filter(|(mode, _)| mode == "120000").collect();
    assert!(links.is_empty(), "{links:?}");
}

/// Crates with modules in another crate's folder, and that folder.
const BORROWED: [(&str, &str); 1] = [
    // quiche's driver, on stock quiche, which cannot be linked beside the derived one.
    ("bench/stacks/stock", "bench/stacks/src/quiche"),
];

/// Returns the path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(normal.pop(), "{}", path.display()),
            part => normal.push(part),
        }
    }
    normal
}

/// Returns the folder of the crate that contains this file.
fn crate_of(file: &Path) -> &Path {
    let holds_manifest = |folder: &&Path| Path::new(ROOT).join(folder).join("Cargo.toml").exists();
    file.ancestors().skip(1).find(holds_manifest).expect("the workspace's manifest")
}

/// A package contains the files of its folder only.
#[test]
fn no_module_is_outside_its_crate() {
    let mut outside = Vec::new();
    let mut modules = 0;
    for (_, file) in tracked() {
        if file.extension().is_none_or(|e| e != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(Path::new(ROOT).join(&file)).unwrap_or_default();
        for line in text.lines() {
            let Some(path) = line.trim_start().strip_prefix("#[path = \"") else { continue };
            let path = path.split('"').next().expect("a first part");
            let module = normal(&file.with_file_name(path));
            let own = crate_of(&file);
            let borrowed =
                |(to, from): &(&str, &str)| own == Path::new(to) && module.starts_with(from);
            modules += 1;
            if crate_of(&module) != own && !BORROWED.iter().any(borrowed) {
                outside.push(format!("{}: {path}", file.display()));
            }
        }
    }
    assert!(modules > 20, "{modules} modules with a path only");
    assert!(outside.is_empty(), "{}", outside.join("\n"));
}

/// Returns the test filters of a command line after `cargo test`.
fn filters(command: &str) -> Vec<&str> {
    const WITH_VALUE: [&str; 7] =
        ["-p", "--test", "--features", "--profile", "--test-threads", "--bench", "--bin"];
    let mut found = Vec::new();
    let mut words = command.split_whitespace();
    while let Some(word) = words.next() {
        if WITH_VALUE.contains(&word) {
            words.next();
        } else if word.starts_with(|c: char| c.is_ascii_lowercase()) {
            found.push(word);
        }
    }
    found
}

/// `cargo test` succeeds if its filter matches no test, so a renamed test would no longer run.
#[test]
fn every_test_filter_in_makefile_and_pages_matches_a_test() {
    let functions = functions_by_module(Path::new(ROOT));
    let pages = tracked().into_iter().map(|(_, file)| file);
    let pages = pages.filter(|file| {
        file == Path::new("Makefile") || file.extension().is_some_and(|e| e == "md")
    });
    let (mut unmatched, mut checked) = (Vec::new(), 0);
    for file in pages {
        let text = std::fs::read_to_string(Path::new(ROOT).join(&file)).unwrap_or_default();
        let text = text.replace("\\\n", " ").replace("$(CARGO) test", "cargo test");
        for command in text.split("cargo test ").skip(1) {
            let end = |c: char| ['\n', '`', '#', ')', ';', '|'].contains(&c);
            for filter in filters(command.split(end).next().unwrap_or_default()) {
                checked += 1;
                if !functions.iter().any(|function| function.contains(filter)) {
                    unmatched.push(format!("{}: {filter}", file.display()));
                }
            }
        }
    }
    assert!(checked > 15, "only {checked} filters were found");
    assert!(unmatched.is_empty(), "these filters match no test:\n{}", unmatched.join("\n"));
}

/// Each published crate has its own copy of the licences, for its package.
#[test]
fn licence_files_of_crates_equal_those_of_the_workspace() {
    for (_, file) in tracked() {
        let name = file.file_name().expect("a name").to_string_lossy();
        if name.starts_with("LICENSE-") {
            let read = |path: &Path| std::fs::read(Path::new(ROOT).join(path)).expect("a licence");
            assert!(read(&file) == read(Path::new(&*name)), "{} differs", file.display());
        }
    }
}
