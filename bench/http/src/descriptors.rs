//! Division of the process's file descriptors. Served files and logs could use any number of
//! descriptors. Their limits leave some for sockets, the metrics endpoint and everything else.

use std::num::NonZeroU8;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Number of descriptors reserved for standard streams, the runtime, the server's sockets, metrics
/// scrapes and everything else.
const RESERVE: u64 = 128;
/// Number of descriptors of an event loop, with its socket.
const PER_LOOP: u64 = 5;
/// Largest number of descriptors that the process requests from the system.
const ENOUGH: u64 = 1 << 16;

/// Numbers of descriptors by use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// Files that stay open while they are sent.
    pub files: usize,
    /// Files that are open only during a read. The number is never 0, because then no file could be
    /// read.
    pub reads: usize,
    /// Log files.
    pub logs: usize,
    /// Clients' TCP connections.
    pub tcp: usize,
    /// Connections to an upstream server.
    pub upstream: usize,
}

impl Descriptors {
    /// Divides the descriptors that this process may have besides those of its event loops.
    pub fn of_process(loops: NonZeroU8) -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(ENOUGH).min(ENOUGH);
        Self::within(limit.saturating_sub(PER_LOOP * u64::from(loops.get())))
    }

    /// Raises the process's limit as far as permitted. The default limit is low for the sake of
    /// programs that use `select`. If raising fails, the limit stays.
    pub fn raise_limit() {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let most = maximum.unwrap_or(ENOUGH).min(ENOUGH);
        if current.is_some_and(|current| current < most) {
            let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum });
        }
    }

    /// Divides this number of descriptors.
    pub fn within(limit: u64) -> Self {
        let ours = usize::try_from(limit.saturating_sub(RESERVE)).unwrap_or(usize::MAX);
        let (files, reads, logs) = (ours / 2, (ours / 8).clamp(1, 64), ours / 4);
        let rest = ours.saturating_sub(files + reads + logs);
        // A limit of 1,024 gives 448, 64, 224, 80 and 80 descriptors, and leaves 128 for the rest.
        Self { files, reads, logs, tcp: rest / 2, upstream: rest / 2 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_descriptor_budget_always_leaves_a_reserve() {
        for limit in [0, 1, 16, 200, 1_024, 65_536, u64::MAX] {
            let Descriptors { files, reads, logs, tcp, upstream } = Descriptors::within(limit);
            assert!(reads > 0);
            let all = (files + reads + logs + tcp + upstream) as u64;
            assert!(limit <= RESERVE || all + RESERVE <= limit, "{all} of {limit}");
        }
        assert_eq!(
            Descriptors::within(1_024),
            Descriptors { files: 448, reads: 64, logs: 224, tcp: 80, upstream: 80 }
        );
    }
}
