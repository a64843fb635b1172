//! A packet's hop through the kernel: two UDP sockets, and the packets in transit between them.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fathom_units::Time;

use crate::sim::network::LinkId;
use crate::udp::Udp;

/// Type of a kernel hop, by its start and end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HopKind {
    /// A hop from a stack into the simulated network.
    Ingress,
    /// A hop from the simulated network to the stack behind this socket.
    Egress { socket: u16 },
    /// A hop over a link that the kernel emulates, after a fixed delay.
    Link { link: LinkId, delay: Duration },
}

/// A packet in transit between two sockets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InTransit {
    /// Number of the packet in the network's store.
    pub(crate) packet: u32,
    /// Time at which the packet was sent.
    pub(crate) since: Time,
    /// Entrance through which the packet was sent into the hop.
    pub(crate) entrance: usize,
}

/// Two connected sockets that are used in one direction.
///
/// If the kernel's queue distinguishes flows by ports, the hop has additional sockets to send from,
/// called entrances. Order is kept only among the packets of one entrance.
#[derive(Debug)]
pub(crate) struct KernelHop {
    pub(crate) from: Arc<Udp>,
    /// Additional sockets to send from. `ports` holds their ports.
    pub(crate) others: Vec<Udp>,
    ports: Vec<u16>,
    pub(crate) to: Arc<Udp>,
    /// Address of `to`.
    pub(crate) address: SocketAddr,
    /// Packets in transit, in the order in which they were sent. Packets of one entrance arrive in
    /// this order.
    pub(crate) in_transit: VecDeque<InTransit>,
    pub(crate) kind: HopKind,
    /// Number of packets that were lost on the hop.
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

    /// Adds more sockets to send from.
    pub(crate) fn with_others(mut self, others: Vec<Udp>) -> io::Result<Self> {
        // The address is looked up only once, because each lookup is a system call.
        let ports = others.iter().map(|other| Ok(other.io().local_addr()?.port()));
        self.ports = ports.collect::<io::Result<_>>()?;
        self.others = others;
        Ok(self)
    }

    /// Returns the entrance of a flow's packets.
    pub(crate) fn entrance_of(&self, flow: u32) -> usize {
        flow as usize % (1 + self.others.len())
    }

    /// Returns the socket of an entrance.
    pub(crate) fn socket(&self, entrance: usize) -> &Udp {
        entrance.checked_sub(1).and_then(|other| self.others.get(other)).unwrap_or(&self.from)
    }

    /// Returns the entrance with this port.
    pub(crate) fn entrance_at(&self, port: u16) -> usize {
        self.ports.iter().position(|other| *other == port).map_or(0, |other| other + 1)
    }

    /// Removes the packet at `place`, and the earlier packets of the same entrance, which this
    /// packet has overtaken. Returns all of them.
    pub(crate) fn take_until(&mut self, place: usize) -> (Vec<InTransit>, Option<InTransit>) {
        let Some(entrance) = self.in_transit.get(place).map(|found| found.entrance) else {
            return (Vec::new(), None);
        };
        let overtaken: Vec<InTransit> = if self.others.is_empty() {
            self.in_transit.drain(..place).collect()
        } else {
            let of_entrance = |at: &usize| self.in_transit[*at].entrance == entrance;
            let places: Vec<usize> = (0..place).filter(of_entrance).collect();
            // Packets are removed from the back, so that the positions of the remaining ones stay
            // valid.
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
