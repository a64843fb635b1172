//! Child processes, ended whatever happens.

use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// How often a child is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// From the request to end until it is not asked any more.
const GRACE: Duration = Duration::from_secs(10);

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// A server that was not told to.
    TooSoon,
    /// It was ended, as it took too long.
    Timeout,
    /// The whole run is to end.
    Stopped,
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::TooSoon => f.write_str("it ended by itself"),
            Self::Timeout => f.write_str("no end in time"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}

/// A child with a process group of its own, so that what it starts ends with it.
pub(super) struct Process {
    child: Child,
    ended: Option<Exit>,
}

impl Process {
    /// Starts it; what it says goes to a file.
    pub(super) fn start(mut command: Command, output: &Path) -> io::Result<Self> {
        let out = File::create(output)?;
        let err = out.try_clone()?;
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0).spawn()?;
        Ok(Self { child, ended: None })
    }

    /// How it has ended, if it has. What it started ends then, too.
    pub(super) fn ended(&mut self) -> Option<Exit> {
        if self.ended.is_none() && self.is_over() {
            // Until it is waited for, nobody else gets its number.
            self.signal(Signal::KILL);
            self.ended = self.child.wait().ok().map(exit);
        }
        self.ended
    }

    fn is_over(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.pid().is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), options), Ok(Some(_))))
    }

    /// Waits for its end, or ends it.
    // Children run in real time.
    #[allow(clippy::disallowed_methods)]
    pub(super) fn wait(&mut self, patience: Duration, stop: &AtomicBool) -> Exit {
        let begun = Instant::now();
        loop {
            if let Some(exit) = self.ended() {
                return exit;
            }
            if stop.load(Ordering::Relaxed) || begun.elapsed() > patience {
                self.end();
                return if stop.load(Ordering::Relaxed) { Exit::Stopped } else { Exit::Timeout };
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Asks it to end, waits a while, and makes it.
    #[allow(clippy::disallowed_methods)]
    pub(super) fn end(&mut self) -> Exit {
        if let Some(exit) = self.ended() {
            return exit;
        }
        self.signal(Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < GRACE {
            if let Some(exit) = self.ended() {
                return exit;
            }
            std::thread::sleep(LOOK);
        }
        self.signal(Signal::KILL);
        let _ = self.child.wait();
        *self.ended.insert(Exit::Timeout)
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.pid() {
            // It may be gone.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> (tempfile::TempDir, Process) {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let process = Process::start(command, &folder.path().join("out")).unwrap();
        (folder, process)
    }

    const NOW: Duration = Duration::from_millis(300);

    #[test]
    fn ends_are_told_apart_and_a_child_that_lingers_is_ended() {
        let go = AtomicBool::new(false);
        // Only what hangs takes so long.
        let long = Duration::from_secs(120);
        assert_eq!(shell("exit 7").1.wait(long, &go), Exit::Code(7));
        assert_eq!(shell("kill -9 $$").1.wait(long, &go), Exit::Signal(9));
        assert_eq!(shell("sleep 60").1.wait(NOW, &go), Exit::Timeout);
        assert_eq!(shell("sleep 60").1.wait(NOW, &AtomicBool::new(true)), Exit::Stopped);
        let (folder, mut process) = shell("trap 'exit 5' TERM; echo ready; while :; do sleep 0.02; done");
        said(&folder);
        assert_eq!(process.end(), Exit::Code(5));
    }

    /// Its first line.
    fn said(folder: &tempfile::TempDir) -> String {
        loop {
            let text = std::fs::read_to_string(folder.path().join("out")).unwrap();
            if let Some(line) = text.strip_suffix('\n') {
                return line.to_owned();
            }
            std::thread::sleep(LOOK);
        }
    }

    #[test]
    fn what_a_child_started_ends_with_it() {
        let (folder, mut process) = shell("sleep 60 & echo $! ; wait");
        let pid = said(&folder);
        process.end();
        let stat = format!("/proc/{pid}/stat");
        let gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z"));
        for _ in 0..12_000 {
            if gone() {
                return;
            }
            std::thread::sleep(LOOK);
        }
        panic!("process {pid} is still there");
    }
}
