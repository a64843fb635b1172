//! The real-time backends: the clock is the wall clock, and packets travel through the kernel.
//!
//! Tasks, timers, stacks and measurements are the same as in virtual time. Two things differ:
//! events wait until their time has come, and packets take *kernel hops* (`kernel_hop.rs`), from
//! one UDP socket of the kernel to another. On the loopback backend, each datagram of a stack takes
//! one kernel hop into the simulated network and one out of it. On the netem backend, the links
//! themselves are kernel hops, and the kernel adds the delays, queues and drops between their
//! sockets.

use std::any::Any;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_units::Time;
use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::kernel_hop::{HopKind, KernelHop};
use crate::sim::network::LinkId;
use crate::udp::Udp;

/// Size of the largest datagram, in bytes.
const LARGEST: usize = 1 << 16;
/// Number of datagrams read at once.
pub(crate) const BATCH: usize = 16;
/// Largest lateness that is distinguished, in microseconds.
const LATEST: u64 = 60_000_000;

/// A link that the kernel emulates.
pub struct KernelLink {
    /// The simulated link, which keeps the counts.
    pub(crate) link: LinkId,
    /// Fixed delay that the kernel adds before its queue.
    pub(crate) delay: Duration,
    /// Socket through which packets enter the link.
    pub(crate) from: Udp,
    /// Additional sockets through which packets enter, if the link's queue distinguishes flows by
    /// port.
    pub(crate) others: Vec<Udp>,
    /// Socket through which packets leave the link.
    pub(crate) to: Udp,
    /// Resources that must live as long as the link.
    pub(crate) keep: Box<dyn Any + Send>,
}

/// Timeliness of a run in real time: how well the machine kept up with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Punctuality {
    /// 99th percentile of the lateness of events, in milliseconds.
    pub p99_ms: f64,
    /// Largest lateness of an event, in milliseconds.
    pub max_ms: f64,
    /// Datagrams lost by sockets on loopback because their buffers were full.
    pub lost: u64,
    /// Datagrams received that match no packet in transit.
    pub strays: u64,
}

/// The wall clock and the kernel's sockets.
pub(crate) struct RealTime {
    pub(crate) started: Option<Instant>,
    pub(crate) kernel_hops: Vec<KernelHop>,
    /// Kernel hops into and out of the network, by socket. Empty if links are kernel hops.
    pub(crate) edges: Vec<[usize; 2]>,
    /// Kernel hop of each link, by link number.
    pub(crate) links: Vec<Option<usize>>,
    pub(crate) buffers: Vec<Vec<u8>>,
    pub(crate) scratch: Vec<u8>,
    pub(crate) late: Histogram<u64>,
    pub(crate) strays: u64,
    pub(crate) _keep: Vec<Box<dyn Any + Send>>,
}

impl RealTime {
    fn new(kernel_hops: Vec<KernelHop>) -> Self {
        let late = Histogram::new_with_bounds(1, LATEST, 3).expect("the bounds are sound");
        Self {
            started: None,
            kernel_hops,
            edges: Vec::new(),
            links: Vec::new(),
            buffers: vec![vec![0; LARGEST]; BATCH],
            scratch: vec![0; LARGEST],
            late,
            strays: 0,
            _keep: Vec::new(),
        }
    }

    /// Creates two kernel hops for each of `sockets` sockets. Every datagram crosses loopback on
    /// its way in and on its way out.
    pub(crate) fn edges(sockets: usize) -> io::Result<Self> {
        let mut kernel_hops = Vec::new();
        let mut edges = Vec::new();
        for socket in 0..sockets as u16 {
            let (end, relay) = loopback()?;
            edges.push([kernel_hops.len(), kernel_hops.len() + 1]);
            kernel_hops.push(KernelHop::new(
                Arc::clone(&end),
                Arc::clone(&relay),
                HopKind::Ingress,
            )?);
            kernel_hops.push(KernelHop::new(relay, end, HopKind::Egress { socket })?);
        }
        Ok(Self { edges, ..Self::new(kernel_hops) })
    }

    /// Makes these links kernel hops.
    pub(crate) fn links(kernel: Vec<KernelLink>) -> io::Result<Self> {
        let mut real = Self::new(Vec::new());
        for KernelLink { link, delay, from, others, to, keep } in kernel {
            let number = usize::from(link.0);
            real.links.resize(real.links.len().max(number + 1), None);
            real.links[number] = Some(real.kernel_hops.len());
            let kind = HopKind::Link { link, delay };
            real.kernel_hops
                .push(KernelHop::new(Arc::new(from), Arc::new(to), kind)?.with_others(others)?);
            real._keep.push(keep);
        }
        Ok(real)
    }

    /// Returns the wall-clock time since the run began.
    // The real-time backends need the wall clock.
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn now(&mut self) -> Time {
        Time::ZERO + self.started.get_or_insert_with(Instant::now).elapsed()
    }

    /// Returns the kernel hop from a socket into the network or, if `out` is true, from the network
    /// to the socket.
    pub(crate) fn edge(&self, socket: u16, out: bool) -> Option<usize> {
        self.edges.get(usize::from(socket)).map(|edges| edges[usize::from(out)])
    }

    /// Returns the kernel hop of a link.
    pub(crate) fn link(&self, link: LinkId) -> Option<usize> {
        self.links.get(usize::from(link.0)).copied().flatten()
    }

    pub(crate) fn wait(&self, until: Duration, ready: &mut Vec<usize>) {
        let timeout =
            Timespec { tv_sec: until.as_secs() as i64, tv_nsec: i64::from(until.subsec_nanos()) };
        // Only hops with packets in transit can receive.
        let (numbers, mut polled): (Vec<usize>, Vec<PollFd<'_>>) =
            (self.kernel_hops.iter().enumerate())
                .filter(|(_, c)| !c.in_transit.is_empty())
                .map(|(number, c)| (number, PollFd::new(c.to.io(), PollFlags::IN)))
                .unzip();
        // A signal may end the wait early, which is harmless. There is no other possible error
        // while the sockets are open.
        let _ = poll(&mut polled, Some(&timeout));
        ready.extend(
            polled
                .iter()
                .zip(numbers)
                .filter(|(fd, _)| !fd.revents().is_empty())
                .map(|(_, number)| number),
        );
    }

    /// Returns how well the machine kept up.
    pub(crate) fn punctuality(&self) -> Punctuality {
        let ms = |micros: u64| micros as f64 / 1e3;
        let lost = self
            .kernel_hops
            .iter()
            .filter(|c| !matches!(c.kind, HopKind::Link { .. }))
            .map(|c| c.lost)
            .sum();
        Punctuality {
            p99_ms: ms(self.late.value_at_quantile(0.99)),
            max_ms: ms(self.late.max()),
            lost,
            strays: self.strays,
        }
    }
}

/// Returns two connected sockets on loopback.
fn loopback() -> io::Result<(Arc<Udp>, Arc<Udp>)> {
    let (a, b) =
        (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
    a.connect(b.local_addr()?)?;
    b.connect(a.local_addr()?)?;
    Ok((Arc::new(Udp::new(a)?), Arc::new(Udp::new(b)?)))
}
