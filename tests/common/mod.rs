//! `fathom` as a process that goes on while a test asks it for things.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};

/// A process, ended when this is dropped, and its standard error: it may write more, which must not fail.
pub(crate) struct Going {
    pub(crate) child: Child,
    _stderr: BufReader<ChildStderr>,
}

impl Drop for Going {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn fathom() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fathom"))
}

/// A server on a port of its own, and that port.
pub(crate) fn serve(more: &[&str]) -> (Going, String) {
    let (child, address) = start(fathom().args(["serve", "--listen", "127.0.0.1:0"]).args(more), "https://");
    let port = address.rsplit(':').next().expect("a port").to_owned();
    (child, port)
}

/// Starts it and gives the word of its first line of standard error that stands after `before`.
pub(crate) fn start(command: &mut Command, before: &str) -> (Going, String) {
    let mut child = command.stderr(Stdio::piped()).spawn().expect("fathom runs");
    let mut stderr = BufReader::new(child.stderr.take().expect("standard error"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("a line");
    let word = line.split_once(before).and_then(|(_, rest)| rest.split(['/', ' ']).next());
    let word = word.unwrap_or_else(|| panic!("no '{before}' in '{line}'")).to_owned();
    (Going { child, _stderr: stderr }, word)
}
