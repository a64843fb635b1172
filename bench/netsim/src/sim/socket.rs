//! Sockets of the simulation, which `crate::adapters` hands to the stacks. The module `sim`
//! describes their addresses.

use std::fmt;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use fathom_units::Time;
use parking_lot::Mutex;

use crate::link::{Link, LinkStats, Logged};
use crate::path::{Impairer, ImpairmentCounts};

use super::addresses::{PORT, client_address, server_address, server_ip};
use super::direction::Direction;
use super::flow_counts::{FlowCounts, FlowSpans};
use super::handle::SimHandle;
use super::network::{Group, GroupId, LinkId, NetStats, SocketId, Tap};
use crate::ecn::Ecn;

/// Maximum number of datagrams that a stack may send at once (Linux GSO allows 64; quinn uses at
/// most 10).
pub const SEGMENTS: usize = 10;

impl SimHandle {
    /// Adds a link.
    pub fn add_link(&self, link: Link) -> LinkId {
        self.core().net.add_link(link)
    }

    /// Adds a socket at an address of a client. As the server of a [`Group`], it also accepts
    /// connections.
    pub fn client_socket(&self) -> SimSocket {
        self.socket(false)
    }

    /// Adds a socket at the addresses of servers. As the client of a [`Group`], it also opens
    /// connections.
    pub fn server_socket(&self) -> SimSocket {
        self.socket(true)
    }

    fn socket(&self, server_side: bool) -> SimSocket {
        let id = self.core().net.add_socket();
        SimSocket { sim: self.clone(), id, server_side }
    }

    /// Adds a group of flows.
    pub fn add_group(&self, group: Group) -> GroupId {
        self.core().net.add_group(group)
    }

    /// Moves a socket to a new port, like a NAT that has forgotten its mappings. Servers then see
    /// the socket's datagrams come from the new port, and datagrams to the old port are lost. This
    /// only affects flows of which the socket is the client.
    pub fn rebind(&self, socket: SocketId) {
        let port = &mut self.core().net.sockets[usize::from(socket.0)].port;
        *port = port.checked_add(1).unwrap_or(PORT);
    }

    /// Replaces the paths of a group, or its client. A client that migrates sends through another
    /// socket, and datagrams to the old socket are lost. Packets that have not entered their next
    /// hop take the new paths.
    pub fn set_group(&self, id: GroupId, group: Group) {
        self.core().net.set_group(id, group);
    }

    /// Returns the log of a link so far ([`Link::log`]).
    pub fn link_log(&self, link: LinkId) -> Vec<Logged> {
        self.core().net.links[link.0 as usize].log().to_vec()
    }

    /// Adds a flow. Returns its number, for [`server_address`].
    pub fn add_flow(&self, group: GroupId) -> u32 {
        self.add_flow_with_delays(group, Duration::ZERO, Duration::ZERO)
    }

    /// Adds a flow with its own delays (DelayBox: half of each in each direction). Returns its
    /// number, for [`server_address`].
    pub fn add_flow_with_delays(
        &self,
        group: GroupId,
        client_rtt: Duration,
        server_rtt: Duration,
    ) -> u32 {
        let mut core = self.core();
        let now = core.now;
        core.net.add_flow(now, group, client_rtt, server_rtt)
    }

    /// Retires a flow. Its number may be reused after 5 minutes of virtual time, so that memory
    /// does not grow with the run.
    pub fn retire_flow(&self, flow: u32) {
        let mut core = self.core();
        let now = core.now;
        core.net.retire_flow(now, flow);
    }

    /// Adds bytes that a flow's server (`down`) and client (`up`) need to send, including HTTP's
    /// frames. If a link keeps bytes by purpose, bytes sent beyond the needs count as duplicates.
    pub fn add_needs(&self, flow: u32, down: u64, up: u64) {
        if let Some(needs) = self.core().net.needs_of(flow) {
            needs.add(down, up);
        }
    }

    /// Returns the counts of the datagrams that a flow's server sent, over the whole life of the
    /// flow.
    pub fn flow_counts(&self, flow: u32) -> FlowCounts {
        self.flow_spans(flow).whole
    }

    /// Returns the counts of the datagrams that a flow's server sent, by span of time: whole life,
    /// after the warm-up, start.
    pub fn flow_spans(&self, flow: u32) -> FlowSpans {
        self.core().net.flow_spans(flow)
    }

    /// Sets the end of the warm-up, at which [`FlowSpans::counted`] begins to count. Call this
    /// function before packets are sent.
    pub fn count_from(&self, at: Time) {
        self.core().net.counted_from = at;
    }

    /// Counts the datagrams of this flow's client instead of its server's, for uploads. Call this
    /// function before packets are sent.
    pub fn count_client(&self, flow: u32) {
        if let Some(flow) = self.core().net.flows.get_mut(flow as usize) {
            flow.counted = Direction::Up;
        }
    }

    /// Records, from now on, the send times of lost packets that this flow's server sent. The
    /// record grows with the losses.
    pub fn watch_drops(&self, flow: u32) {
        self.core().net.watch(flow);
    }

    /// Shows every datagram of this flow's server to `tap` from now on.
    pub fn tap(&self, flow: u32, tap: Arc<Mutex<dyn Tap>>) {
        self.core().net.tap(flow, tap);
    }

    /// Returns the send times of the lost packets of a watched flow, in the order in which they
    /// were dropped.
    pub fn drops(&self, flow: u32) -> Vec<Time> {
        self.core().net.drops(flow).to_vec()
    }

    /// Returns the counts of the whole network.
    pub fn net_stats(&self) -> NetStats {
        self.core().net.stats()
    }

    /// Returns the counts and series of one link up to now.
    pub fn link_stats(&self, link: LinkId) -> LinkStats {
        let mut core = self.core();
        let now = core.now;
        core.net.links[link.0 as usize].stats(now)
    }

    /// Gives a link impairments. Paths over the link must include the impairer's propagation delay
    /// in their own delays.
    pub fn impair(&self, link: LinkId, impairer: Impairer) {
        self.core().net.impairers[link.0 as usize] = Some(Box::new(impairer));
    }

    /// Returns the counts of a link's impairments so far; `None` if the link has no impairments.
    pub fn impairment_counts(&self, link: LinkId) -> Option<ImpairmentCounts> {
        self.core().net.impairers[link.0 as usize].as_ref().map(|impairer| impairer.counts())
    }

    /// Returns the number of packets in a link's queue now, including the one in transmission.
    pub fn queue_length(&self, link: LinkId) -> usize {
        let mut core = self.core();
        let now = core.now;
        core.net.links[link.0 as usize].queue_length(now)
    }

    /// Returns the queueing delay that a packet entering `link` now would have.
    pub fn queueing_delay(&self, link: LinkId) -> Duration {
        let core = self.core();
        core.net.links[link.0 as usize].queueing_delay(core.now)
    }

    /// Returns a hash over every step of every packet so far. Two runs with the same hash are the
    /// same run.
    pub fn trace_hash(&self) -> u64 {
        self.core().net.trace_hash()
    }
}

/// A socket of one end, which any number of flows can share. It is a handle, so clones are the same
/// socket.
#[derive(Clone)]
pub struct SimSocket {
    sim: SimHandle,
    id: SocketId,
    server_side: bool,
}

impl fmt::Debug for SimSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimSocket({})", self.id.0)
    }
}

/// Metadata of a received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// UDP payload in bytes.
    pub len: usize,
    /// ECN field on arrival.
    pub ecn: Option<Ecn>,
    /// Address of the sender.
    pub from: SocketAddr,
    /// Address to which the datagram was sent, if the socket has several addresses.
    pub to: Option<IpAddr>,
}

impl SimSocket {
    /// Returns the socket's identifier, for a [`Group`].
    pub fn id(&self) -> SocketId {
        self.id
    }

    /// Returns the address to which the socket is bound.
    pub fn address(&self) -> SocketAddr {
        if self.server_side { server_address(0) } else { client_address(self.id.0, PORT) }
    }

    /// Sends `contents`, split into datagrams of `segment` bytes. A server passes the address at
    /// which it was contacted as `from`. Datagrams without a receiver are lost
    /// ([`NetStats::unroutable`]).
    pub fn send(
        &self,
        to: SocketAddr,
        from: Option<IpAddr>,
        ecn: Option<Ecn>,
        contents: &[u8],
        segment: Option<usize>,
    ) {
        let mut core = self.sim.core();
        for datagram in contents.chunks(segment.unwrap_or(contents.len()).max(1)) {
            core.send(self.id, to, from, ecn, datagram);
        }
    }

    /// Waits for a datagram. Returns its contents and metadata.
    pub async fn recv(&self) -> (Vec<u8>, Received) {
        poll_fn(|cx| {
            let mut datagram = None;
            self.receive(1, cx.waker(), |_, bytes, received| {
                datagram = Some((bytes.to_vec(), received));
            });
            datagram.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Takes up to `room` datagrams, and calls `copy` with the index, bytes and metadata of each.
    /// Returns the number of datagrams. If there are none, returns `None` and keeps `waker` for the
    /// next datagram.
    pub fn receive(
        &self,
        room: usize,
        waker: &Waker,
        mut copy: impl FnMut(usize, &[u8], Received),
    ) -> Option<usize> {
        let mut core = self.sim.core();
        let net = &mut core.net;
        let mut count = 0;
        while count < room {
            let Some(index) = net.sockets[self.id.0 as usize].inbox.pop_front() else { break };
            let p = &net.packets[index as usize];
            let (from, to) = match p.direction {
                // The server sees all clients of a group at the same address. It distinguishes
                // flows by its own address.
                Direction::Up => {
                    (client_address(p.client.socket.0, p.client.port), Some(server_ip(p.flow)))
                }
                Direction::Down => (server_address(p.flow), None),
            };
            copy(count, &p.data, Received { len: p.data.len(), ecn: p.ecn, from, to });
            net.release(index);
            count += 1;
        }
        if count > 0 {
            return Some(count);
        }
        let socket = &mut net.sockets[self.id.0 as usize];
        match &mut socket.waker {
            Some(kept) if kept.will_wake(waker) => {}
            kept => *kept = Some(waker.clone()),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Ended, Executor, Path};

    const LIMIT: Time = Time::from_millis(10_000);

    /// Adds a flow of `client` to `server` over 10 ms each way.
    fn flow(sim: &SimHandle, client: &SimSocket, server: &SimSocket) -> (GroupId, u32) {
        let [down, up] = [(); 2].map(|()| Path::direct(Duration::from_millis(10)));
        let group = sim.add_group(Group { client: client.id(), server: server.id(), down, up });
        (group, sim.add_flow(group))
    }

    fn send(socket: &SimSocket, to: SocketAddr, from: Option<IpAddr>, text: &str) {
        socket.send(to, from, None, text.as_bytes(), None);
    }

    #[test]
    fn simulated_server_can_open_connections() {
        let mut executor = Executor::new();
        let sim = executor.sim();
        let (client, server) = (sim.client_socket(), sim.server_socket());
        let (_, there) = flow(&sim, &client, &server);
        let (_, back) = flow(&sim, &server, &client);
        let talk = async {
            send(&client, server_address(there), None, "a");
            let (text, asked) = server.recv().await;
            assert_eq!((&text[..], asked.from), (&b"a"[..], client.address()));
            send(&server, asked.from, asked.to, "b");
            let (text, answer) = client.recv().await;
            assert_eq!((&text[..], answer.from), (&b"b"[..], server_address(there)));
            send(&server, server_address(back), None, "c");
            let (text, asked) = client.recv().await;
            assert_eq!((&text[..], asked.to), (&b"c"[..], Some(server_ip(back))));
            send(&client, asked.from, asked.to, "d");
            assert_eq!(server.recv().await.1.from, server_address(back));
            sim.time()
        };
        assert_eq!(executor.block_on(talk, LIMIT), Ok(Time::from_millis(40)));
    }

    #[test]
    fn datagrams_to_unknown_addresses_are_discarded() {
        let mut executor = Executor::new();
        let sim = executor.sim();
        let (client, server) = (sim.client_socket(), sim.server_socket());
        let (_, number) = flow(&sim, &client, &server);
        send(&client, server_address(number + 1), None, "no such flow");
        send(&client, "192.0.2.1:443".parse().unwrap(), None, "no address of the network");
        send(&sim.client_socket(), server_address(number), None, "a flow of another socket");
        send(&server, client.address(), None, "no flow is open from here");
        assert_eq!(executor.block_on(server.recv(), LIMIT).map(|_| ()), Err(Ended::Idle));
        let stats = sim.net_stats();
        assert_eq!((stats.sent, stats.unroutable, stats.in_transit), (4, 4, 0));
    }

    #[test]
    fn rebound_client_has_a_new_port_and_loses_old_datagrams() {
        let mut executor = Executor::new();
        let sim = executor.sim();
        let (client, server) = (sim.client_socket(), sim.server_socket());
        let (group, number) = flow(&sim, &client, &server);
        let talk = async {
            send(&client, server_address(number), None, "before");
            let old = server.recv().await.1;
            send(&server, old.from, old.to, "in transit");
            sim.rebind(client.id());
            send(&server, old.from, old.to, "too late");
            send(&client, server_address(number), None, "after");
            let new = server.recv().await.1;
            assert_ne!(new.from, old.from);
            assert_eq!(new.from.ip(), old.from.ip());
            send(&server, new.from, new.to, "arrives");
            assert_eq!(client.recv().await.0, b"arrives");

            let other = sim.client_socket();
            let [down, up] = [(); 2].map(|()| Path::direct(Duration::from_millis(10)));
            sim.set_group(group, Group { client: other.id(), server: server.id(), down, up });
            send(&other, server_address(number), None, "migrated");
            let migrated = server.recv().await.1;
            assert_eq!(migrated.from, other.address());
            send(&server, migrated.from, migrated.to, "arrives");
            assert_eq!(other.recv().await.0, b"arrives");
        };
        assert_eq!(executor.block_on(talk, LIMIT), Ok(()));
        assert_eq!(sim.net_stats().unroutable, 2);
    }
}
