//! Kernel statistics of this process: datagrams dropped by its UDP sockets, the CPU time of its
//! threads, and the time that threads waited for a core.
//!
//! Linux reports these statistics in `/proc`. On other systems, or without `/proc`, the result is
//! `None`, which does not mean zero.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::time::Duration;

/// Maximum number of bytes read from one file of `/proc`. They suffice for about 50,000 sockets.
const LARGEST: u64 = 8 << 20;

/// Datagrams dropped because the receive buffer of one of this process's UDP sockets was full.
///
/// The kernel forgets a socket's count when the socket is closed. If sockets are closed while drops
/// are counted, call [`ReceiveDrops::update`] from time to time.
#[derive(Clone, Debug, Default)]
pub struct ReceiveDrops {
    /// Drops by socket, keyed by inode number.
    sockets: BTreeMap<u64, u64>,
}

impl ReceiveDrops {
    /// Reads the counts of all UDP sockets that the process has open now. Returns the sum over all
    /// sockets seen so far, or `None` if the system does not report the counts.
    pub fn update(&mut self) -> Option<u64> {
        let open = open_sockets()?;
        for table in ["/proc/self/net/udp", "/proc/self/net/udp6"] {
            let Some(text) = read(table) else { continue };
            for (inode, drops) in
                text.lines().filter_map(socket_drops).filter(|(inode, _)| open.contains(inode))
            {
                self.sockets.insert(inode, drops);
            }
        }
        Some(self.sockets.values().sum())
    }
}

/// Returns the inode numbers of the process's open sockets.
fn open_sockets() -> Option<Vec<u64>> {
    let files = std::fs::read_dir("/proc/self/fd").ok()?;
    let inode = |file: std::io::Result<std::fs::DirEntry>| {
        let target = std::fs::read_link(file.ok()?.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    Some(files.filter_map(inode).collect())
}

/// Returns the inode number and the drops from a line of `/proc/net/udp` (proc_net_udp(5)); `None`
/// for its heading.
fn socket_drops(line: &str) -> Option<(u64, u64)> {
    let mut columns = line.split_ascii_whitespace().skip(9);
    let inode = columns.next()?.parse().ok()?;
    Some((inode, columns.nth(2)?.parse().ok()?))
}

/// CPU time of a thread, and the time that it waited for a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Time in which the thread ran on a core.
    pub ran: Duration,
    /// Time in which the thread was runnable but no core was free; `None` if the system does not
    /// report it.
    pub waited: Option<Duration>,
}

impl CpuTime {
    /// Returns the calling thread's times so far.
    pub fn of_thread() -> Self {
        let ran = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let waited = read("/proc/thread-self/schedstat").as_deref().and_then(runqueue_wait);
        Self { ran: Duration::try_from(ran).unwrap_or_default(), waited }
    }

    /// Returns the time since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let waited = self.waited.zip(before.waited).map(|(now, then)| now.saturating_sub(then));
        Self { ran: self.ran.saturating_sub(before.ran), waited }
    }
}

/// Returns the second number of `schedstat` (proc(5)): time spent waiting on a run queue.
fn runqueue_wait(text: &str) -> Option<Duration> {
    text.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// CPU time of the whole machine so far, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineTime {
    busy: u64,
    idle: u64,
}

impl MachineTime {
    /// Returns the current times; `None` if the system does not report them.
    pub fn now() -> Option<Self> {
        machine_time(&read("/proc/stat")?)
    }

    /// Returns the fraction of all cores' time that was busy since `before`, from 0 to 1; `None` if
    /// no time has passed.
    pub fn busy_since(self, before: Self) -> Option<f64> {
        let (busy, idle) =
            (self.busy.saturating_sub(before.busy), self.idle.saturating_sub(before.idle));
        (busy + idle > 0).then(|| busy as f64 / (busy + idle) as f64)
    }
}

/// Parses the first line of `/proc/stat` (proc_stat(5)): user, nice, system, idle, iowait, irq,
/// softirq, steal.
fn machine_time(text: &str) -> Option<MachineTime> {
    let mut columns = text.lines().next()?.split_ascii_whitespace();
    let all: Vec<u64> = (columns.next()? == "cpu")
        .then(|| columns.take(8).map_while(|n| n.parse().ok()).collect())?;
    let idle = all.get(3)?.saturating_add(*all.get(4)?);
    Some(MachineTime { busy: all.iter().sum::<u64>().saturating_sub(idle), idle })
}

fn read(path: &str) -> Option<String> {
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(LARGEST).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn proc_net_udp_and_schedstat_lines_are_parsed_by_column() {
        let heading = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops";
        let line = "  731: 0100007F:115D 00000000:0000 07 00000000:00000A00 00:00000000 00000000  1000        0 48213 2 00000000c0ffee00 1742";
        assert_eq!((socket_drops(heading), socket_drops(line)), (None, Some((48_213, 1_742))));
        for broken in ["", "1 2 3", "0 1 2 3 4 5 6 7 8 x 10 11 12", "0 1 2 3 4 5 6 7 8 9 10 11"] {
            assert_eq!(socket_drops(broken), None, "{broken}");
        }
        assert_eq!(runqueue_wait("5012 733 9\n"), Some(Duration::from_nanos(733)));
        assert_eq!((runqueue_wait(""), runqueue_wait("1 x")), (None, None));
        let stat = |text| machine_time(text);
        let (before, after) = (
            stat("cpu 100 0 50 800 50 0 0 0 7 7\n").unwrap(),
            stat("cpu 190 0 60 800 50 0 0 0\n").unwrap(),
        );
        assert_eq!((after.busy_since(before), before.busy_since(before)), (Some(1.0), None));
        assert_eq!((stat(""), stat("cpu0 1 2 3 4 5"), stat("cpu 1 2 3")), (None, None, None));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn datagrams_dropped_by_a_full_socket_buffer_are_counted() {
        let (from, to) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let state = quinn_udp::UdpSocketState::new((&to).into()).unwrap();
        state.set_recv_buffer_size((&to).into(), 4_096).unwrap();
        let sent = 100;
        for _ in 0..sent {
            from.send_to(&[0; 1_000], to.local_addr().unwrap()).unwrap();
        }
        to.set_nonblocking(true).unwrap();
        let mut drops = ReceiveDrops::default();
        let counted = drops.update().expect("Linux says it");
        let read = std::iter::from_fn(|| to.recv(&mut [0; 2_000]).ok()).count() as u64;
        // Other tests of this process may also cause drops.
        assert!(read < sent && counted >= sent - read, "{counted} of {sent}, {read} read");
        // A closed socket keeps its count.
        drop(to);
        assert!(drops.update().unwrap() >= sent - read);
    }
}
