//! Two endpoints with a link each way, in one thread.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::host::{self, ConnectionRng};

/// A client or server of either crate, with its application.
pub(crate) trait End {
    /// Lets the application write and read.
    fn work(&mut self, now: Duration);
    /// Returns the next datagram and when it may leave.
    fn send(&mut self, to: &mut [u8]) -> Option<(usize, Duration)>;
    fn receive(&mut self, datagram: &mut [u8]);
    /// Returns the time until [`End::time_out`] is due.
    fn timeout(&mut self) -> Option<Duration>;
    fn time_out(&mut self);
    /// Returns the time at which the application wants to be woken.
    fn wake(&self) -> Option<Duration>;
    fn closed(&self) -> bool;
    fn stats(&self) -> ConnectionStats;
}

/// Statistics of a connection at its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ConnectionStats {
    pub(crate) sent: usize,
    pub(crate) received: usize,
    pub(crate) lost: usize,
    pub(crate) spurious: usize,
    pub(crate) retransmitted: u64,
    pub(crate) ptos: usize,
    pub(crate) cwnd: usize,
    pub(crate) mtu: usize,
    pub(crate) rtt: Duration,
    pub(crate) variation: Duration,
    /// Bytes that the application read.
    pub(crate) read: u64,
}

/// A datagram as passed to the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Departure {
    pub(crate) handed_over: Duration,
    /// Time at which pacing releases the datagram.
    pub(crate) leaves: Duration,
    pub(crate) by_server: bool,
    pub(crate) size: usize,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) trace: Vec<Departure>,
    pub(crate) client: ConnectionStats,
    pub(crate) server: ConnectionStats,
}

/// One direction of the path: random loss, then a FIFO queue.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) bytes_per_second: u64,
    pub(crate) delay: Duration,
    pub(crate) queue_bytes: u64,
    /// Maximum length of a datagram; longer ones are lost.
    pub(crate) longest: usize,
    /// One in this many datagrams is lost; 0 means none.
    pub(crate) one_lost_in: u64,
    /// Interval during which no datagram passes.
    pub(crate) outage: [Duration; 2],
}

struct Pipe {
    link: Link,
    seed: u64,
    free_at: Duration,
}

impl Pipe {
    /// Returns the arrival time, or `None` if the datagram is lost.
    fn pass(&mut self, now: Duration, size: usize) -> Option<Duration> {
        let (seed, luck) = host::split_mix(self.seed);
        self.seed = seed;
        let unlucky = self.link.one_lost_in > 0 && luck.is_multiple_of(self.link.one_lost_in);
        let takes =
            |bytes: u64| Duration::from_nanos(bytes * 1_000_000_000 / self.link.bytes_per_second);
        let start = self.free_at.max(now);
        let full = start - now > takes(self.link.queue_bytes);
        let [from, to] = self.link.outage;
        if unlucky || full || size > self.link.longest || (from..to).contains(&now) {
            return None;
        }
        self.free_at = start + takes(size as u64);
        Some(self.free_at + self.link.delay)
    }
}

/// A datagram in flight.
struct Datagram {
    by: usize,
    /// Whether the datagram has passed the link, or is still held back by pacing.
    passed: bool,
    bytes: Vec<u8>,
}

/// Runs until both ends have closed. The seed determines the link's losses and the ends' random
/// numbers.
pub(crate) fn run(make: [&dyn Fn() -> Box<dyn End>; 2], link: &Link, seed: u64) -> Outcome {
    let mut rng = [ConnectionRng(seed), ConnectionRng(!seed)];
    let mut pipes = [1, 2].map(|n| Pipe {
        link: link.clone(),
        seed: seed.rotate_left(n),
        free_at: Duration::ZERO,
    });
    let mut now = Duration::ZERO;
    let mut ends = [0, 1].map(|i| host::within(now, &mut rng[i], make[i]));
    // Ordered by time, then in the order of scheduling.
    let mut under_way: BTreeMap<(Duration, u64), Datagram> = BTreeMap::new();
    let mut order = 0;
    let mut trace = Vec::new();
    let mut out = [0; 1500];
    for _ in 0..1_000_000 {
        for i in [0, 1] {
            host::within(now, &mut rng[i], || {
                ends[i].work(now);
                while let Some((size, leaves)) = ends[i].send(&mut out) {
                    let leaves = leaves.max(now);
                    trace.push(Departure { handed_over: now, leaves, by_server: i == 1, size });
                    order += 1;
                    under_way.insert(
                        (leaves, order),
                        Datagram { by: i, passed: false, bytes: out[..size].to_vec() },
                    );
                }
            });
        }
        if ends.iter().all(|end| end.closed()) {
            return Outcome { trace, client: ends[0].stats(), server: ends[1].stats() };
        }
        let due = [0, 1]
            .map(|i| host::within(now, &mut rng[i], || ends[i].timeout()).map(|left| now + left));
        let times = due.into_iter().chain([0, 1].map(|i| ends[i].wake())).flatten();
        let next = under_way.keys().map(|(at, _)| *at).next().into_iter().chain(times).min();
        now = next.expect("an open connection has something to wait for");
        if under_way.keys().next().is_some_and(|(at, _)| *at == now) {
            let (_, mut datagram) = under_way.pop_first().expect("seen above");
            let by = datagram.by;
            if datagram.passed {
                host::within(now, &mut rng[1 - by], || ends[1 - by].receive(&mut datagram.bytes));
            } else if let Some(arrives) = pipes[by].pass(now, datagram.bytes.len()) {
                order += 1;
                under_way.insert((arrives, order), Datagram { passed: true, ..datagram });
            }
            continue;
        }
        for i in [0, 1] {
            if due[i] == Some(now) {
                host::within(now, &mut rng[i], || ends[i].time_out());
            }
        }
    }
    panic!("seed {seed}: no end after a million events, at {now:?}");
}
