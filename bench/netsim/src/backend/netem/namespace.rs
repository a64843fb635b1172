//! Unnamed network namespaces.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

/// A network namespace. It exists as long as this value, or any socket or process in it.
#[derive(Debug)]
pub(crate) struct Namespace(File);

impl Namespace {
    /// Creates an empty namespace, with a loopback interface that is down.
    pub(super) fn new() -> io::Result<Self> {
        in_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net").map(Self)
        })
    }

    /// Runs `work` in the namespace. The sockets that `work` opens and the programs it starts
    /// belong to the namespace.
    pub(super) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        in_thread(|| {
            setns(&self.0, CloneFlags::CLONE_NEWNET)?;
            Ok(work())
        })
    }

    /// Returns a path by which `ip` finds the namespace while this value lives.
    pub(super) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

/// Runs `work` in its own thread. A thread is in one namespace, so this namespace is left when the
/// thread ends.
fn in_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        scope
            .spawn(work)
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace panicked")))
    })
}
