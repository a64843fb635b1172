//! Child processes, which are terminated when they are dropped.

use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Interval at which a child's state is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Time from SIGTERM to SIGKILL.
const TERM_TIMEOUT: Duration = Duration::from_secs(10);

/// Reason why a child process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// The child exited with this code.
    Code(i32),
    /// The child was killed by this signal.
    Signal(i32),
    /// A server exited before it was stopped.
    Premature,
    /// The child ran too long and was terminated.
    Timeout,
    /// The whole run was interrupted.
    Interrupted,
}

impl std::fmt::Display for ExitReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Premature => f.write_str("exited before it was stopped"),
            Self::Timeout => f.write_str("timed out"),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

fn exit_reason(status: ExitStatus) -> ExitReason {
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitReason::Code(code),
        (None, signal) => ExitReason::Signal(signal.unwrap_or_default()),
    }
}

/// A child in its own process group, so that its descendants end with the child.
pub(super) struct Process {
    child: Child,
    ended: Option<ExitReason>,
}

impl Process {
    /// Starts the command, with standard output and standard error redirected to a file.
    pub(super) fn start(mut command: Command, output: &Path) -> io::Result<Self> {
        let out = File::create(output)?;
        let err = out.try_clone()?;
        let child =
            command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0).spawn()?;
        Ok(Self { child, ended: None })
    }

    /// Returns the reason why the child ended; `None` while it runs. If it has ended, kills its
    /// descendants.
    pub(super) fn try_wait(&mut self) -> Option<ExitReason> {
        if self.ended.is_none() && self.is_over() {
            // The process ID is not reused before `wait`.
            self.signal(Signal::KILL);
            self.ended = self.child.wait().ok().map(exit_reason);
        }
        self.ended
    }

    fn is_over(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.pid().is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), options), Ok(Some(_))))
    }

    /// Waits until the child exits. Terminates the child if it exceeds the timeout or if `stop` is
    /// set.
    // Children run in real time.
    #[allow(clippy::disallowed_methods)]
    pub(super) fn wait(&mut self, timeout: Duration, stop: &AtomicBool) -> ExitReason {
        let started = Instant::now();
        loop {
            if let Some(exit) = self.try_wait() {
                return exit;
            }
            if stop.load(Ordering::Relaxed) || started.elapsed() > timeout {
                self.terminate();
                return if stop.load(Ordering::Relaxed) {
                    ExitReason::Interrupted
                } else {
                    ExitReason::Timeout
                };
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Sends SIGTERM and waits. Then sends SIGKILL if the child still runs.
    #[allow(clippy::disallowed_methods)]
    pub(super) fn terminate(&mut self) -> ExitReason {
        if let Some(exit) = self.try_wait() {
            return exit;
        }
        self.signal(Signal::TERM);
        let signalled = Instant::now();
        while signalled.elapsed() < TERM_TIMEOUT {
            if let Some(exit) = self.try_wait() {
                return exit;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        self.signal(Signal::KILL);
        let _ = self.child.wait();
        *self.ended.insert(ExitReason::Timeout)
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.pid() {
            // The process group may already have ended.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.try_wait().is_none() {
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
    fn exit_reasons_are_distinguished_and_hung_child_is_killed() {
        let go = AtomicBool::new(false);
        // This limit is reached only if the child hangs.
        let long = Duration::from_secs(120);
        assert_eq!(shell("exit 7").1.wait(long, &go), ExitReason::Code(7));
        assert_eq!(shell("kill -9 $$").1.wait(long, &go), ExitReason::Signal(9));
        assert_eq!(shell("sleep 60").1.wait(NOW, &go), ExitReason::Timeout);
        assert_eq!(shell("sleep 60").1.wait(NOW, &AtomicBool::new(true)), ExitReason::Interrupted);
        let (folder, mut process) =
            shell("trap 'exit 5' TERM; echo ready; while :; do sleep 0.02; done");
        first_line(&folder);
        assert_eq!(process.terminate(), ExitReason::Code(5));
    }

    /// Waits for the first line of output.
    fn first_line(folder: &tempfile::TempDir) -> String {
        loop {
            let text = std::fs::read_to_string(folder.path().join("out")).unwrap();
            if let Some(line) = text.strip_suffix('\n') {
                return line.to_owned();
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    #[test]
    fn descendants_are_killed_with_the_child() {
        let (folder, mut process) = shell("sleep 60 & echo $! ; wait");
        let pid = first_line(&folder);
        process.terminate();
        let stat = format!("/proc/{pid}/stat");
        let gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z"));
        for _ in 0..12_000 {
            if gone() {
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        panic!("process {pid} is still there");
    }
}
