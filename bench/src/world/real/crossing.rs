//! Two sockets of the kernel's, and the packets under way between them.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::udp::Udp;
use crate::world::net::LinkId;

/// Where a crossing leads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Leads {
    /// From a stack into the network.
    In,
    /// Out of the network to the stack behind this socket.
    Out { socket: u16 },
    /// Through a link that the kernel is, after a delay of so many nanoseconds.
    Through { link: LinkId, delay: u64 },
}

/// A packet between two sockets.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnderWay {
    /// Its number in the network's store.
    pub(super) packet: u32,
    /// When it was sent, in nanoseconds.
    pub(super) since: u64,
}

/// Two sockets that are connected, in one direction.
#[derive(Debug)]
pub(super) struct Crossing {
    pub(super) from: Arc<Udp>,
    pub(super) to: Arc<Udp>,
    /// Of `to`.
    pub(super) address: SocketAddr,
    /// In the order in which they were sent, which is the order in which they come.
    pub(super) under_way: VecDeque<UnderWay>,
    pub(super) leads: Leads,
    /// Packets that did not come.
    pub(super) lost: u64,
}

impl Crossing {
    pub(super) fn new(from: Arc<Udp>, to: Arc<Udp>, leads: Leads) -> io::Result<Self> {
        let address = to.io().local_addr()?;
        Ok(Self { from, to, address, under_way: VecDeque::new(), leads, lost: 0 })
    }

    /// What is under way will not come any more.
    pub(super) fn give_up(&mut self) -> Vec<(UnderWay, Leads)> {
        self.lost += self.under_way.len() as u64;
        let leads = self.leads;
        self.under_way.drain(..).map(|under_way| (under_way, leads)).collect()
    }
}
