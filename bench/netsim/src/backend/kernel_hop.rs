//! A hop of a packet through the kernel: two UDP sockets, and the packets in transit between them.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::sim::network::LinkId;
use crate::udp::Udp;

/// Where a kernel hop leads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HopKind {
    /// From a stack into the simulated network.
    Ingress,
    /// Out of the simulated network to the stack behind this socket.
    Egress { socket: u16 },
    /// Over a link that the kernel emulates, after a fixed delay in nanoseconds.
    Link { link: LinkId, delay: u64 },
}

/// A packet between two sockets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InTransit {
    /// Its number in the network's store.
    pub(crate) packet: u32,
    /// When it was sent, in nanoseconds.
    pub(crate) since: u64,
}

/// Two sockets that are connected, in one direction.
#[derive(Debug)]
pub(crate) struct KernelHop {
    pub(crate) from: Arc<Udp>,
    pub(crate) to: Arc<Udp>,
    /// Of `to`.
    pub(crate) address: SocketAddr,
    /// In the order in which they were sent, which is the order in which they come.
    pub(crate) in_transit: VecDeque<InTransit>,
    pub(crate) kind: HopKind,
    /// Packets that did not come.
    pub(crate) lost: u64,
}

impl KernelHop {
    pub(crate) fn new(from: Arc<Udp>, to: Arc<Udp>, kind: HopKind) -> io::Result<Self> {
        let address = to.io().local_addr()?;
        Ok(Self { from, to, address, in_transit: VecDeque::new(), kind, lost: 0 })
    }

    /// Counts the packets in transit as lost and returns them.
    pub(crate) fn abandon_in_transit(&mut self) -> Vec<(InTransit, HopKind)> {
        self.lost += self.in_transit.len() as u64;
        let kind = self.kind;
        self.in_transit.drain(..).map(|in_transit| (in_transit, kind)).collect()
    }
}
