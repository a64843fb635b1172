//! A hop of a packet through the kernel: two UDP sockets, and the packets in transit between them.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::sim::net::LinkId;
use crate::udp::Udp;

/// Where a kernel hop leads.
#[derive(Clone, Copy, Debug)]
pub(super) enum HopKind {
    /// From a stack into the simulated network.
    Ingress,
    /// Out of the simulated network to the stack behind this socket.
    Egress { socket: u16 },
    /// Over a link that the kernel emulates, after a fixed delay in nanoseconds.
    Link { link: LinkId, delay: u64 },
}

/// A packet between two sockets.
#[derive(Clone, Copy, Debug)]
pub(super) struct InTransit {
    /// Its number in the network's store.
    pub(super) packet: u32,
    /// When it was sent, in nanoseconds.
    pub(super) since: u64,
}

/// Two sockets that are connected, in one direction.
#[derive(Debug)]
pub(super) struct KernelHop {
    pub(super) from: Arc<Udp>,
    pub(super) to: Arc<Udp>,
    /// Of `to`.
    pub(super) address: SocketAddr,
    /// In the order in which they were sent, which is the order in which they come.
    pub(super) in_transit: VecDeque<InTransit>,
    pub(super) kind: HopKind,
    /// Packets that did not come.
    pub(super) lost: u64,
}

impl KernelHop {
    pub(super) fn new(from: Arc<Udp>, to: Arc<Udp>, kind: HopKind) -> io::Result<Self> {
        let address = to.io().local_addr()?;
        Ok(Self { from, to, address, in_transit: VecDeque::new(), kind, lost: 0 })
    }

    /// Counts the packets in transit as lost and returns them.
    pub(super) fn abandon_in_transit(&mut self) -> Vec<(InTransit, HopKind)> {
        self.lost += self.in_transit.len() as u64;
        let kind = self.kind;
        self.in_transit.drain(..).map(|in_transit| (in_transit, kind)).collect()
    }
}
