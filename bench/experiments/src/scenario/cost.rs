//! CPU time and memory that a run takes.

use std::fmt;
use std::time::Duration;

/// Cost of a run on this machine. The cost is not part of any result.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// CPU time of the run's thread in seconds. It includes both ends, TLS, the network and the
    /// measurement.
    pub cpu_seconds: f64,
    /// Datagrams handed to the network.
    pub packets: u64,
    /// Connections opened.
    pub connections: u64,
    /// Largest number of simultaneous senders, summed over all controllers of all groups. A sender
    /// is a server's end of a connection, or a client's end for uploads. Memory grows with this
    /// number.
    pub at_once: u64,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu_seconds, packets, connections, at_once } = *self;
        let per_second = packets as f64 / cpu_seconds.max(1e-9);
        let each = 1e3 * cpu_seconds / connections.max(1) as f64;
        write!(f, "{cpu_seconds:.2} CPU s, {packets} packets ({per_second:.0} per CPU second), ")?;
        write!(f, "{connections} connections ({each:.3} ms of CPU each, at most {at_once} at once)")
    }
}

/// Returns the CPU time of this thread. A run uses one thread, so other work on the machine does
/// not count.
pub(super) fn thread_cpu_time() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec.unsigned_abs(), t.tv_nsec.unsigned_abs() as u32)
}
