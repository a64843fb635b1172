//! Network namespaces without a name.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

/// A network namespace. It lives as long as this, or any socket or process in it.
#[derive(Debug)]
pub(crate) struct Namespace(File);

impl Namespace {
    /// An empty one, with a loopback interface that is down.
    pub(super) fn new() -> io::Result<Self> {
        in_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net").map(Self)
        })
    }

    /// Does `work` inside; the sockets it opens and the programs it starts are there.
    pub(super) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        in_thread(|| {
            setns(&self.0, CloneFlags::CLONE_NEWNET)?;
            Ok(work())
        })
    }

    /// A path by which `ip` finds it while this lives.
    pub(super) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

/// A thread has a namespace of its own, and takes it with it when it ends.
fn in_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        scope
            .spawn(work)
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace panicked")))
    })
}
