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
    /// By which of the hop's entrances.
    pub(crate) entrance: usize,
}

/// Two sockets that are connected, in one direction. Where the kernel's queue tells flows apart by ports there are more to send from, and the
/// order is kept only among those of one entrance.
#[derive(Debug)]
pub(crate) struct KernelHop {
    pub(crate) from: Arc<Udp>,
    /// More sockets to send from, and their ports.
    pub(crate) others: Vec<Udp>,
    ports: Vec<u16>,
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
        Ok(Self {
            from,
            others: Vec::new(),
            ports: Vec::new(),
            to,
            address,
            in_transit: VecDeque::new(),
            kind,
            lost: 0,
        })
    }

    /// With more sockets to send from.
    pub(crate) fn with_others(mut self, others: Vec<Udp>) -> io::Result<Self> {
        // Asked once: each answer is a system call.
        let ports = others.iter().map(|other| Ok(other.io().local_addr()?.port()));
        self.ports = ports.collect::<io::Result<_>>()?;
        self.others = others;
        Ok(self)
    }

    /// The entrance of a flow's packets.
    pub(crate) fn entrance_of(&self, flow: u32) -> usize {
        flow as usize % (1 + self.others.len())
    }

    /// The socket of an entrance.
    pub(crate) fn socket(&self, entrance: usize) -> &Udp {
        entrance.checked_sub(1).and_then(|other| self.others.get(other)).unwrap_or(&self.from)
    }

    /// The entrance with this port.
    pub(crate) fn entrance_at(&self, port: u16) -> usize {
        self.ports.iter().position(|other| *other == port).map_or(0, |other| other + 1)
    }

    /// Takes out the one at `place`, and those before it that left by the same entrance: it has overtaken them.
    pub(crate) fn take_until(&mut self, place: usize) -> (Vec<InTransit>, Option<InTransit>) {
        let Some(entrance) = self.in_transit.get(place).map(|found| found.entrance) else {
            return (Vec::new(), None);
        };
        let overtaken: Vec<InTransit> = if self.others.is_empty() {
            self.in_transit.drain(..place).collect()
        } else {
            let of_entrance = |at: &usize| self.in_transit[*at].entrance == entrance;
            let places: Vec<usize> = (0..place).filter(of_entrance).collect();
            // From behind, so that the places hold.
            places.into_iter().rev().filter_map(|at| self.in_transit.remove(at)).collect()
        };
        self.lost += overtaken.len() as u64;
        let found = self.in_transit.remove(place - overtaken.len());
        (overtaken, found)
    }

    /// Counts the packets in transit as lost and returns them.
    pub(crate) fn abandon_in_transit(&mut self) -> Vec<(InTransit, HopKind)> {
        self.lost += self.in_transit.len() as u64;
        let kind = self.kind;
        self.in_transit.drain(..).map(|in_transit| (in_transit, kind)).collect()
    }
}
