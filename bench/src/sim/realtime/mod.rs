//! The real-time backends: the clock is the wall clock, and packets travel through the kernel.
//!
//! Tasks, timers, stacks and measurements are those of virtual time. Two things differ: an event waits until its time has come, and packets
//! take *kernel hops*, from one UDP socket of the kernel to another. On the loopback backend each datagram of a stack takes a kernel hop
//! into the simulated network and one out of it; on the netem backend the links themselves are kernel hops, and delays, queues and drops
//! between their sockets are the kernel's.
//!
//! | file | what is in it |
//! |---|---|
//! | `kernel_hop.rs` | two sockets, and the packets in transit between them |

mod kernel_hop;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use quinn_udp::{EcnCodepoint, RecvMeta};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use self::kernel_hop::{HopKind, InTransit, KernelHop};
use super::executor::Core;
use super::net::{Ecn, LinkId, Packet, WIRE_OVERHEAD};
use crate::link::Verdict;
use crate::udp::Udp;

/// Largest datagram.
const LARGEST: usize = 1 << 16;
/// Datagrams read at once.
const BATCH: usize = 16;
/// Longest lateness told apart, in microseconds.
const LATEST: u64 = 60_000_000;

/// A link that the kernel emulates.
pub(crate) struct KernelLink {
    /// The link, for its counts.
    pub(crate) link: LinkId,
    /// Fixed delay that the kernel adds before its queue.
    pub(crate) delay: Duration,
    /// Where packets enter it.
    pub(crate) from: Udp,
    /// Where they leave it.
    pub(crate) to: Udp,
    /// What must live as long.
    pub(crate) keep: Box<dyn Any + Send>,
}

/// How well the machine kept up with a run in real time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Punctuality {
    /// Events, and how late they were: 99 of 100 at most so many milliseconds.
    pub p99_ms: f64,
    /// The latest of all.
    pub max_ms: f64,
    /// Datagrams that sockets on loopback lost: their buffers were full.
    pub lost: u64,
    /// Datagrams that came and had not been sent.
    pub strays: u64,
}

/// The clock on the wall and the kernel's sockets.
pub(super) struct RealTime {
    started: Option<Instant>,
    kernel_hops: Vec<KernelHop>,
    /// Into the network and out of it again, by socket; empty where links are kernel hops.
    edges: Vec<[usize; 2]>,
    /// The kernel hop of a link, by link.
    links: Vec<Option<usize>>,
    buffers: Vec<Vec<u8>>,
    scratch: Vec<u8>,
    late: Histogram<u64>,
    strays: u64,
    _keep: Vec<Box<dyn Any + Send>>,
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

    /// Every datagram of `sockets` sockets crosses loopback on its way in and on its way out.
    pub(super) fn edges(sockets: usize) -> io::Result<Self> {
        let mut kernel_hops = Vec::new();
        let mut edges = Vec::new();
        for socket in 0..sockets as u16 {
            let (end, relay) = loopback()?;
            edges.push([kernel_hops.len(), kernel_hops.len() + 1]);
            kernel_hops.push(KernelHop::new(Arc::clone(&end), Arc::clone(&relay), HopKind::Ingress)?);
            kernel_hops.push(KernelHop::new(relay, end, HopKind::Egress { socket })?);
        }
        Ok(Self { edges, ..Self::new(kernel_hops) })
    }

    /// These links are the kernel's.
    pub(super) fn links(kernel: Vec<KernelLink>) -> io::Result<Self> {
        let mut real = Self::new(Vec::new());
        for KernelLink { link, delay, from, to, keep } in kernel {
            let number = usize::from(link.0);
            real.links.resize(real.links.len().max(number + 1), None);
            real.links[number] = Some(real.kernel_hops.len());
            let kind = HopKind::Link { link, delay: delay.as_nanos() as u64 };
            real.kernel_hops.push(KernelHop::new(Arc::new(from), Arc::new(to), kind)?);
            real._keep.push(keep);
        }
        Ok(real)
    }

    /// Nanoseconds on the wall since the run began.
    // The real-time backends read the wall clock.
    #[allow(clippy::disallowed_methods)]
    fn now(&mut self) -> u64 {
        self.started.get_or_insert_with(Instant::now).elapsed().as_nanos() as u64
    }

    /// The kernel hop into the network from a socket, or out of it to one.
    pub(super) fn edge(&self, socket: u16, out: bool) -> Option<usize> {
        self.edges.get(usize::from(socket)).map(|edges| edges[usize::from(out)])
    }

    /// The kernel hop of a link.
    pub(super) fn link(&self, link: LinkId) -> Option<usize> {
        self.links.get(usize::from(link.0)).copied().flatten()
    }

    fn wait(&self, until: Duration, ready: &mut Vec<usize>) {
        let timeout = Timespec { tv_sec: until.as_secs() as i64, tv_nsec: i64::from(until.subsec_nanos()) };
        // Only hops with packets in transit can receive.
        let (numbers, mut polled): (Vec<usize>, Vec<PollFd<'_>>) = (self.kernel_hops.iter().enumerate())
            .filter(|(_, c)| !c.in_transit.is_empty())
            .map(|(number, c)| (number, PollFd::new(c.to.io(), PollFlags::IN)))
            .unzip();
        // A wait that a signal ends is over, no more; nothing else can be wrong with sockets that are open.
        let _ = poll(&mut polled, Some(&timeout));
        ready.extend(polled.iter().zip(numbers).filter(|(fd, _)| !fd.revents().is_empty()).map(|(_, number)| number));
    }

    /// How punctual it was.
    pub(super) fn punctuality(&self) -> Punctuality {
        let ms = |micros: u64| micros as f64 / 1e3;
        let lost = self.kernel_hops.iter().filter(|c| !matches!(c.kind, HopKind::Link { .. })).map(|c| c.lost).sum();
        Punctuality {
            p99_ms: ms(self.late.value_at_quantile(0.99)),
            max_ms: ms(self.late.max()),
            lost,
            strays: self.strays,
        }
    }
}

/// Two connected sockets on loopback.
fn loopback() -> io::Result<(Arc<Udp>, Arc<Udp>)> {
    let (a, b) = (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
    a.connect(b.local_addr()?)?;
    b.connect(a.local_addr()?)?;
    Ok((Arc::new(Udp::new(a)?), Arc::new(Udp::new(b)?)))
}

impl Core {
    /// Sends a packet over a kernel hop.
    pub(super) fn send_to_kernel(&mut self, packet: u32, hop: usize) {
        let Some(real) = &mut self.real else { return };
        let p = &self.net.packets[packet as usize];
        let payload = p.payload() as usize;
        // Packets of agents store less than they count: the rest is zeros.
        let contents = if payload > p.data.len() {
            real.scratch[..p.data.len()].copy_from_slice(&p.data);
            real.scratch[p.data.len()..payload].fill(0);
            &real.scratch[..payload]
        } else {
            &p.data[..]
        };
        let hop = &mut real.kernel_hops[hop];
        let in_transit = InTransit { packet, since: self.now };
        match hop.from.send(hop.address, p.ecn.map(codepoint), contents) {
            Ok(()) => hop.in_transit.push_back(in_transit),
            Err(_) => {
                hop.lost += 1;
                let kind = hop.kind;
                self.lost(in_transit, kind);
            }
        }
    }

    /// Waits for datagrams, at most so long; adds the hops that have some to `ready`.
    pub(super) fn wait(&mut self, until: Duration, ready: &mut Vec<usize>) {
        if let Some(real) = &self.real {
            real.wait(until, ready);
        }
    }

    /// Receives the datagrams of these hops; returns the tasks to wake.
    pub(super) fn receive_ready(&mut self, ready: &mut Vec<usize>) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let Some(real) = &mut self.real else { return wakers };
        let mut buffers = std::mem::take(&mut real.buffers);
        for number in ready.drain(..) {
            let Some(to) = self.real.as_ref().map(|real| Arc::clone(&real.kernel_hops[number].to)) else { break };
            loop {
                let mut metas = [RecvMeta::default(); BATCH];
                let came = to.receive(&mut buffers, &mut metas);
                for (buffer, meta) in buffers.iter().zip(metas).take(came) {
                    for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
                        wakers.extend(self.on_kernel_datagram(number, meta.ecn, datagram));
                    }
                }
                // Fewer than there was room for: there are no more.
                if came < BATCH {
                    break;
                }
            }
        }
        if let Some(real) = &mut self.real {
            real.buffers = buffers;
        }
        wakers
    }

    /// Whether packets are between sockets.
    pub(super) fn in_transit(&self) -> bool {
        self.real.as_ref().is_some_and(|real| real.kernel_hops.iter().any(|c| !c.in_transit.is_empty()))
    }

    /// Counts all packets in transit as lost.
    pub(super) fn abandon_in_transit(&mut self) {
        let Some(real) = &mut self.real else { return };
        let all: Vec<(InTransit, HopKind)> =
            real.kernel_hops.iter_mut().flat_map(KernelHop::abandon_in_transit).collect();
        all.into_iter().for_each(|(in_transit, kind)| self.lost(in_transit, kind));
    }

    /// A datagram arrived over a kernel hop: finds its packet and forwards it.
    fn on_kernel_datagram(&mut self, number: usize, ecn: Option<EcnCodepoint>, datagram: &[u8]) -> Option<Waker> {
        let real = self.real.as_mut()?;
        let packets = &self.net.packets;
        let hop = &mut real.kernel_hops[number];
        // What left before it and has not come is lost: neither loopback nor a link changes the order.
        let is_it = |u: &InTransit| is(&packets[u.packet as usize], datagram);
        let Some(place) = hop.in_transit.iter().position(is_it) else {
            real.strays += 1;
            return None;
        };
        let kind = hop.kind;
        let overtaken: Vec<InTransit> = hop.in_transit.drain(..place).collect();
        hop.lost += overtaken.len() as u64;
        let InTransit { packet, since } = hop.in_transit.pop_front()?;
        overtaken.into_iter().for_each(|in_transit| self.lost(in_transit, kind));
        let p = &mut self.net.packets[packet as usize];
        let mark = ecn == Some(EcnCodepoint::Ce) && p.ecn != Some(Ecn::Ce);
        if mark {
            p.ecn = Some(Ecn::Ce);
        }
        match kind {
            HopKind::Ingress => self.set_off(packet),
            HopKind::Egress { socket } => return self.deliver_to_stack(packet, socket),
            HopKind::Link { link, delay } => {
                let (wire, out) = (p.wire, self.now);
                let arrived = (since + delay).min(out);
                self.net.links[usize::from(link.0)].record_external(arrived, wire, Verdict::Forward { out, mark });
                self.leave_link(packet, link, out);
            }
        }
        None
    }

    /// A packet was lost on a kernel hop.
    fn lost(&mut self, InTransit { packet, since }: InTransit, kind: HopKind) {
        match kind {
            HopKind::Ingress | HopKind::Egress { .. } => self.net.lose(packet),
            HopKind::Link { link, delay } => {
                let wire = self.net.packets[packet as usize].wire;
                self.net.links[usize::from(link.0)].record_external(since + delay, wire, Verdict::Drop);
                self.net.drop_packet(packet);
            }
        }
    }

    /// Nanoseconds on the wall since the run began.
    pub(super) fn wall(&mut self) -> u64 {
        self.real.as_mut().map_or(self.now, |real| real.now())
    }

    /// An event happens `by` nanoseconds late.
    pub(super) fn record_lateness(&mut self, by: u64) {
        if let Some(real) = &mut self.real {
            real.late.saturating_record((by / 1_000).max(1));
        }
    }
}

/// Whether a datagram is this packet.
fn is(packet: &Packet, datagram: &[u8]) -> bool {
    let stored = packet.data.len();
    datagram.len() == stored.max((packet.wire.saturating_sub(WIRE_OVERHEAD)) as usize)
        && datagram[..stored] == packet.data[..]
}

const fn codepoint(ecn: Ecn) -> EcnCodepoint {
    match ecn {
        Ecn::Ect0 => EcnCodepoint::Ect0,
        Ecn::Ect1 => EcnCodepoint::Ect1,
        Ecn::Ce => EcnCodepoint::Ce,
    }
}
