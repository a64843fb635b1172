//! Divides the process's file descriptors. Served files and logs, which may need any number, have limits, so that some remain for sockets,
//! the metrics endpoint and everything else.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Reserve for standard streams, the runtime, the server's sockets, scrapes of the metrics, and everything else.
const RESERVE: u64 = 128;
/// More than this is not requested.
const ENOUGH: u64 = 1 << 16;

/// Descriptors by use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// Files that stay open for as long as they are sent.
    pub files: usize,
    /// Files that are open while something is read of them: always some, or nothing could be.
    pub reads: usize,
    /// Logs.
    pub logs: usize,
    /// Clients' connections over TCP.
    pub tcp: usize,
    /// Connections to an upstream server.
    pub upstream: usize,
}

impl Descriptors {
    /// Of what this process may have.
    pub fn of_process() -> Self {
        Self::within(getrlimit(Resource::Nofile).current.unwrap_or(ENOUGH).min(ENOUGH))
    }

    /// Raises the process's limit as far as it may: the low one is for programs that use `select`. Where that fails, it stays.
    pub fn raise_limit() {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let most = maximum.unwrap_or(ENOUGH).min(ENOUGH);
        if current.is_some_and(|current| current < most) {
            let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum });
        }
    }

    /// Of so many.
    pub fn within(limit: u64) -> Self {
        let ours = usize::try_from(limit.saturating_sub(RESERVE)).unwrap_or(usize::MAX);
        let (files, reads, logs) = (ours / 2, (ours / 8).clamp(1, 64), ours / 4);
        let rest = ours.saturating_sub(files + reads + logs);
        // Of 1,024: 448, 64, 224, 80 and 80, and 128 for the rest.
        Self { files, reads, logs, tcp: rest / 2, upstream: rest / 2 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_of_descriptors_always_remains() {
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
