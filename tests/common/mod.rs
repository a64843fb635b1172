//! Helpers of several test files. They run `fathom` as a process to which a test sends requests,
//! and list the files of a folder.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

/// A process, which is ended on drop, and its standard error. The pipe stays open, because the
/// process may write more, and its writes must not fail.
pub(crate) struct FathomProcess {
    pub(crate) child: Child,
    stderr: BufReader<ChildStderr>,
}

impl FathomProcess {
    /// Returns the remaining text on standard error, until the process ends.
    pub(crate) fn rest(&mut self) -> String {
        let mut text = String::new();
        self.stderr.read_to_string(&mut text).expect("text");
        text
    }
}

impl Drop for FathomProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the files below a folder, in order, without those in hidden folders and in `target`.
/// Links to folders are not followed.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let name = entry.file_name();
            let skipped = name == "target" || name.to_string_lossy().starts_with('.');
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true if skipped => {}
                true => folders.push(entry.path()),
                false => files.push(entry.path()),
            }
        }
    }
    files.sort();
    files
}

/// Returns the functions of all Rust files below `folder` as `module::name`, where the module is the
/// innermost file or folder.
pub(crate) fn functions_by_module(folder: &Path) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let files = files_below(folder).into_iter();
    for file in files.filter(|file| file.extension().is_some_and(|e| e == "rs")) {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let parent = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let module = if stem == "main" || stem == "mod" { parent } else { stem };
        let functions = text.split("fn ").skip(1).filter_map(|rest| rest.split_once('('));
        all.extend(functions.map(|(name, _)| format!("{module}::{name}")));
    }
    all
}

pub(crate) fn fathom() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fathom"))
}

/// Starts a server on a port of its own, and returns the process and the port.
pub(crate) fn serve(more: &[&str]) -> (FathomProcess, String) {
    let (child, address) =
        start(fathom().args(["serve", "--listen", "127.0.0.1:0"]).args(more), "https://");
    let port = address.rsplit(':').next().expect("a port").to_owned();
    (child, port)
}

/// Starts a process. Returns it with the word after `before` in the first line of its standard
/// error.
pub(crate) fn start(command: &mut Command, before: &str) -> (FathomProcess, String) {
    let mut child = command.stderr(Stdio::piped()).spawn().expect("fathom runs");
    let mut stderr = BufReader::new(child.stderr.take().expect("standard error"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("a line");
    let word = line.split_once(before).and_then(|(_, rest)| rest.split(['/', ' ']).next());
    let word = word.unwrap_or_else(|| panic!("no '{before}' in '{line}'")).to_owned();
    (FathomProcess { child, stderr }, word)
}

/// Waits until `holds` returns true. The wait is so long that only a hanging process exceeds it.
// Processes run in real time.
#[allow(clippy::disallowed_methods)]
pub(crate) fn when(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(120), "not within two minutes: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until a process catches this signal (proc(5), `SigCgt`). Before that, the signal would
/// kill it.
pub(crate) fn when_it_catches(signal: &str, process: u32) {
    let number = match signal {
        "INT" => 2,
        "TERM" => 15,
        other => panic!("which number has {other}?"),
    };
    when("it catches the signal", || {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        caught.is_some_and(|mask| mask & 1 << (number - 1) != 0)
    });
}
