//! The virtual network: sockets, flows, and the links that their packets cross. The module `sim`
//! describes flows and their addresses.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use fathom_units::Time;
use parking_lot::Mutex;

use super::addresses::{PORT, client_address, flow_of};
use super::direction::Direction;
use super::flow_counts::{FlowCounts, FlowSpans};
use super::needs::Needs;
use crate::ecn::Ecn;
use crate::hash::StableHash;
use crate::link::{Link, Purpose};
use crate::path::Impairer;

/// Bytes of the IP and UDP headers that a datagram has on the wire (IPv4 20 + UDP 8).
pub const WIRE_OVERHEAD: u32 = 28;

/// Virtual time before the number of a retired flow is reused. It is longer than the longest round
/// trip plus the idle timeout after which the last endpoint forgets a connection.
const QUARANTINE: Duration = Duration::from_secs(300);

/// Identifier of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(crate) u16);

/// Identifier of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketId(pub(crate) u16);

/// Identifier of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentId(pub(crate) u16);

/// Agent that owns a flow, and the agent's own number for the flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local {
    pub(crate) agent: AgentId,
    pub(crate) index: u32,
}

/// Identifier of a group of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(pub(crate) u16);

/// A link of a path. A packet enters the link `delay` after it left the previous link.
#[derive(Clone, Copy, Debug)]
pub struct Hop {
    /// Fixed delay before the link.
    pub delay: Duration,
    /// The link.
    pub link: LinkId,
}

/// Links of one direction, and the fixed delay after the last one.
#[derive(Clone, Debug, Default)]
pub struct Path {
    /// Links in order.
    pub hops: Vec<Hop>,
    /// Fixed delay from the last link to the receiver.
    pub tail: Duration,
}

impl Path {
    /// Returns a path without links, with only this delay.
    pub const fn direct(delay: Duration) -> Self {
        Self { hops: Vec::new(), tail: delay }
    }

    /// Returns a path over one link, with this delay behind it.
    pub fn over(link: LinkId, delay: Duration) -> Self {
        Self { hops: vec![Hop { delay: Duration::ZERO, link }], tail: delay }
    }
}

/// Flows that share sockets and links. A socket may be the client of some groups and the server of
/// others.
#[derive(Clone, Debug)]
pub struct Group {
    /// Socket that opens connections, made by [`SimHandle::client_socket`] or by
    /// [`SimHandle::server_socket`].
    ///
    /// [`SimHandle::client_socket`]: super::SimHandle::client_socket
    /// [`SimHandle::server_socket`]: super::SimHandle::server_socket
    pub client: SocketId,
    /// Socket that accepts connections, made by either of these functions.
    pub server: SocketId,
    /// Path from server to client.
    pub down: Path,
    /// Path from client to server.
    pub up: Path,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) group: GroupId,
    pub(crate) client_half: Duration,
    pub(crate) server_half: Duration,
    /// Time at which the flow was added.
    pub(crate) began: Time,
    /// Direction of the datagrams that are counted.
    pub(crate) counted: Direction,
    pub(crate) counts: FlowSpans,
    /// Owner of the flow; `None` if the flow ends at the group's sockets instead of at an agent.
    pub(crate) local: Option<Local>,
}

/// Address of a flow's client as servers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientAddress {
    pub(crate) socket: SocketId,
    pub(crate) port: u16,
}

pub(crate) struct Packet {
    pub(crate) flow: u32,
    pub(crate) direction: Direction,
    /// Address of the client when the packet was sent.
    pub(crate) client: ClientAddress,
    pub(crate) hop: u16,
    pub(crate) ecn: Option<Ecn>,
    /// Time at which the sender sent the packet.
    pub(crate) sent: Time,
    /// Number of bytes that the packet counts on the wire, including headers. It may store fewer
    /// bytes.
    pub(crate) wire: u32,
    /// Purpose of the packet; `None` if no link keeps bytes by purpose.
    pub(crate) purpose: Purpose,
    pub(crate) data: Vec<u8>,
}

impl Packet {
    /// Returns the UDP payload that the packet represents, in bytes.
    pub(crate) fn payload(&self) -> u32 {
        self.wire.saturating_sub(WIRE_OVERHEAD)
    }
}

pub(crate) struct Socket {
    pub(crate) inbox: VecDeque<u32>,
    pub(crate) waker: Option<Waker>,
    /// Port at which servers see the socket.
    pub(crate) port: u16,
}

/// Observer of every datagram of one flow's server.
pub trait Tap: Send {
    /// Handles a datagram when it is sent into the network.
    fn sent(&mut self, now: Time, datagram: &[u8]);
    /// Handles a datagram when it reaches the client.
    fn arrived(&mut self, now: Time, datagram: &[u8]);
}

/// Counts of whole datagrams, for the conservation check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetStats {
    /// Datagrams sent into the network.
    pub sent: u64,
    /// Datagrams put into a receiver's inbox.
    pub delivered: u64,
    /// Datagrams dropped by a link's queue.
    pub dropped: u64,
    /// Datagrams dropped by a link's impairments (loss, a policer, a blackout, an MTU), and
    /// corrupted datagrams of agents.
    pub impaired: u64,
    /// Duplicates made by impairments, in addition to the datagrams sent.
    pub duplicated: u64,
    /// Datagrams to an address that belongs to no flow of their socket, or that no longer belongs
    /// to a client.
    pub unroutable: u64,
    /// Datagrams lost by the kernel's sockets, in a real-time run.
    pub lost: u64,
    /// Datagrams still in transit.
    pub in_transit: u64,
}

/// Sockets, flows, links and the packets between them.
#[derive(Default)]
pub(crate) struct Network {
    pub(crate) links: Vec<Link>,
    /// Impairments of each link; `None` for a link without impairments.
    pub(crate) impairers: Vec<Option<Box<Impairer>>>,
    /// For each link, the time of the last scheduled event that releases packets behind the link.
    pub(crate) releases: Vec<Time>,
    pub(crate) sockets: Vec<Socket>,
    pub(crate) groups: Vec<Group>,
    pub(crate) flows: Vec<Flow>,
    /// Time from which flows are counted, which is the end of the warm-up.
    pub(crate) counted_from: Time,
    pub(crate) packets: Vec<Packet>,
    pub(crate) free: Vec<u32>,
    pub(crate) stats: NetStats,
    /// Retired flows, with the times at which they were retired.
    pub(crate) retired: VecDeque<(Time, u32)>,
    /// Flows whose drops on the way to the client are recorded, with the times at which the dropped
    /// packets were sent.
    pub(crate) watched: Vec<(u32, Vec<Time>)>,
    /// Observers of every datagram of a flow's server.
    pub(crate) tapped: Vec<(u32, Arc<Mutex<dyn Tap>>)>,
    /// Bytes that each flow needs to send; `None` if no link keeps bytes by purpose.
    pub(crate) needs: Option<Vec<Needs>>,
    /// Hash over (time, place and verdict, flow, size) of every step. Payloads are left out because
    /// they are ciphertext.
    pub(crate) hash: StableHash,
}

impl Network {
    pub(crate) fn add_link(&mut self, link: Link) -> LinkId {
        if link.keeps_bytes() {
            self.needs.get_or_insert_with(|| vec![Needs::default(); self.flows.len()]);
        }
        self.links.push(link);
        self.impairers.push(None);
        self.releases.push(Time::ZERO);
        LinkId(self.links.len() as u16 - 1)
    }

    pub(crate) fn add_group(&mut self, group: Group) -> GroupId {
        self.groups.push(group);
        GroupId(self.groups.len() as u16 - 1)
    }

    /// Replaces a group. Packets in transit keep their position in the path, so the new paths must
    /// have as many links as the old ones.
    pub(crate) fn set_group(&mut self, id: GroupId, group: Group) {
        let old = &mut self.groups[id.0 as usize];
        assert_eq!(
            (old.down.hops.len(), old.up.hops.len()),
            (group.down.hops.len(), group.up.hops.len()),
            "the paths of a group must keep their number of links"
        );
        *old = group;
    }

    pub(crate) fn add_socket(&mut self) -> SocketId {
        self.sockets.push(Socket { inbox: VecDeque::new(), waker: None, port: PORT });
        SocketId(self.sockets.len() as u16 - 1)
    }

    pub(crate) fn add_flow(
        &mut self,
        now: Time,
        group: GroupId,
        client_rtt: Duration,
        server_rtt: Duration,
    ) -> u32 {
        let flow = Flow {
            group,
            client_half: client_rtt / 2,
            server_half: server_rtt / 2,
            began: now,
            counted: Direction::Down,
            counts: FlowSpans::default(),
            local: None,
        };
        if let Some(&(since, number)) = self.retired.front()
            && now >= since + QUARANTINE
        {
            self.retired.pop_front();
            self.flows[number as usize] = flow;
            if let Some(needs) = self.needs_of(number) {
                *needs = Needs::default();
            }
            return number;
        }
        self.flows.push(flow);
        if let Some(needs) = &mut self.needs {
            needs.resize_with(self.flows.len(), Needs::default);
        }
        self.flows.len() as u32 - 1
    }

    /// Returns the needs of a flow; `None` if no link keeps bytes by purpose.
    pub(crate) fn needs_of(&mut self, flow: u32) -> Option<&mut Needs> {
        self.needs.as_mut()?.get_mut(flow as usize)
    }

    /// Retires a flow. Its number is reused once none of its packets can be in transit any more.
    pub(crate) fn retire_flow(&mut self, now: Time, flow: u32) {
        self.retired.push_back((now, flow));
        if let Some(needs) = self.needs_of(flow) {
            needs.closed = true;
        }
    }

    pub(crate) fn flow_spans(&self, flow: u32) -> FlowSpans {
        self.flows.get(flow as usize).map_or_else(FlowSpans::default, |f| f.counts)
    }

    /// Counts a datagram of a flow, or the fate of a datagram, in the spans that contain the time
    /// `at`.
    pub(crate) fn count(
        &mut self,
        flow: u32,
        direction: Direction,
        at: Time,
        count: impl Fn(&mut FlowCounts),
    ) {
        let flow = &mut self.flows[flow as usize];
        if direction == flow.counted {
            flow.counts.count((flow.began, self.counted_from), at, count);
        }
    }

    pub(crate) fn watch(&mut self, flow: u32) {
        self.watched.push((flow, Vec::new()));
    }

    pub(crate) fn tap(&mut self, flow: u32, tap: Arc<Mutex<dyn Tap>>) {
        self.tapped.push((flow, tap));
    }

    /// Shows a datagram of a flow's server to its observer.
    pub(crate) fn show(&self, flow: u32, show: impl FnOnce(&mut dyn Tap)) {
        if let Some((_, tap)) = self.tapped.iter().find(|(tapped, _)| *tapped == flow) {
            show(&mut *tap.lock());
        }
    }

    pub(crate) fn drops(&self, flow: u32) -> &[Time] {
        self.watched.iter().find(|(watched, _)| *watched == flow).map_or(&[], |(_, drops)| drops)
    }

    /// Delivers the packets of `flow` to an agent from now on.
    pub(crate) fn give_to(&mut self, flow: u32, local: Local) {
        self.flows[flow as usize].local = Some(local);
    }

    pub(crate) fn stats(&self) -> NetStats {
        NetStats {
            in_transit: self.packets.len() as u64 - self.free.len() as u64 - self.waiting(),
            ..self.stats
        }
    }

    pub(crate) fn trace_hash(&self) -> u64 {
        self.hash.value()
    }

    /// Returns the group of a flow, if the flow exists.
    pub(crate) fn group_of(&self, flow: u32) -> Option<&Group> {
        Some(&self.groups[self.flows.get(flow as usize)?.group.0 as usize])
    }

    /// Returns the address at which servers see the client of a group.
    pub(crate) fn client_address(&self, group: &Group) -> ClientAddress {
        let port = self.sockets[usize::from(group.client.0)].port;
        ClientAddress { socket: group.client, port }
    }

    /// Returns the flow and direction of a datagram that `socket` sends; `None` if it has no
    /// receiver.
    pub(crate) fn resolve(
        &self,
        socket: SocketId,
        to: SocketAddr,
        from: Option<IpAddr>,
    ) -> Option<(u32, Direction)> {
        if let Some(flow) = flow_of(to.ip()) {
            let sends = self.group_of(flow)?.client == socket && to.port() == PORT;
            return sends.then_some((flow, Direction::Up));
        }
        let flow = from.and_then(flow_of)?;
        let group = self.group_of(flow)?;
        let client = self.client_address(group);
        let sends = group.server == socket && to == client_address(client.socket.0, client.port);
        sends.then_some((flow, Direction::Down))
    }

    /// Handles a packet whose destination address no longer belongs to the client.
    pub(crate) fn drop_unroutable(&mut self, index: u32) {
        self.stats.unroutable += 1;
        self.release(index);
    }

    pub(crate) fn clear_wakers(&mut self) -> Vec<Option<Waker>> {
        self.sockets.iter_mut().map(|s| s.waker.take()).collect()
    }

    fn waiting(&self) -> u64 {
        self.sockets.iter().map(|s| s.inbox.len() as u64).sum()
    }

    /// Frees the storage of a packet that was read or dropped.
    pub(crate) fn release(&mut self, index: u32) {
        self.free.push(index);
    }

    /// Returns the path of a packet, and the delays that its own flow adds before and after the
    /// path.
    pub(crate) fn way(&self, p: &Packet) -> (&Path, Duration, Duration) {
        let flow = &self.flows[p.flow as usize];
        let group = &self.groups[flow.group.0 as usize];
        match p.direction {
            Direction::Down => (&group.down, flow.server_half, flow.client_half),
            Direction::Up => (&group.up, flow.client_half, flow.server_half),
        }
    }

    /// Returns the fixed delays between a packet's position and its next link, or its receiver.
    pub(crate) fn wait(&self, p: &Packet) -> Duration {
        let (path, _, last) = self.way(p);
        path.hops.get(p.hop as usize).map_or_else(|| path.tail + last, |hop| hop.delay)
    }

    /// Marks a packet that the queue of a link marks.
    pub(crate) fn mark(&mut self, index: u32, link: LinkId) {
        let p = &mut self.packets[index as usize];
        p.ecn = match &mut self.impairers[usize::from(link.0)] {
            Some(impairer) => impairer.marked(p.ecn),
            None => Some(Ecn::Ce),
        };
    }

    /// Handles a packet dropped by a queue.
    pub(crate) fn drop_packet(&mut self, index: u32) {
        self.stats.dropped += 1;
        self.lost(index, |counts| counts.dropped += 1);
    }

    /// Handles a packet dropped by impairments.
    pub(crate) fn impair_packet(&mut self, index: u32) {
        self.stats.impaired += 1;
        self.lost(index, |counts| counts.impaired += 1);
    }

    fn lost(&mut self, index: u32, count: impl Fn(&mut FlowCounts)) {
        let Packet { flow, direction, sent, .. } = self.packets[index as usize];
        self.count(flow, direction, sent, count);
        if direction == Direction::Down
            && let Some((_, drops)) = self.watched.iter_mut().find(|(watched, _)| *watched == flow)
        {
            drops.push(sent);
        }
        self.release(index);
    }

    /// Adds a copy of this packet at the same position.
    pub(crate) fn duplicate_packet(&mut self, index: u32) -> u32 {
        self.stats.duplicated += 1;
        let p = &mut self.packets[index as usize];
        let (sent, flow, direction, ecn, wire) = (p.sent, p.flow, p.direction, p.ecn, p.wire);
        let (hop, purpose, client) = (p.hop, p.purpose, p.client);
        let data = std::mem::take(&mut p.data);
        let copy = self.store(sent, flow, direction, ecn, wire, &data);
        self.packets[index as usize].data = data;
        let twin = &mut self.packets[copy as usize];
        (twin.hop, twin.purpose, twin.client) = (hop, purpose, client);
        copy
    }

    /// Records the purpose of a packet that reached a link, if the link keeps bytes by purpose.
    pub(crate) fn record_purpose(&mut self, index: u32, link: LinkId, dropped: bool) {
        let p = &self.packets[index as usize];
        let closed = self
            .needs
            .as_ref()
            .and_then(|all| all.get(p.flow as usize))
            .is_some_and(|needs| needs.closed);
        let purpose = if closed { Purpose::AfterClose } else { p.purpose };
        self.links[link.0 as usize].record_purpose(purpose, p.wire, dropped);
    }

    /// Records the purpose like [`Network::record_purpose`], for a packet that waits and may be
    /// dropped later. The packet keeps the purpose that it had on arrival.
    pub(crate) fn record_waiting_purpose(&mut self, index: u32, link: LinkId) {
        let p = &mut self.packets[index as usize];
        if self
            .needs
            .as_ref()
            .and_then(|all| all.get(p.flow as usize))
            .is_some_and(|needs| needs.closed)
        {
            p.purpose = Purpose::AfterClose;
        }
        self.links[link.0 as usize].record_purpose(p.purpose, p.wire, false);
    }

    /// Handles a packet lost by the kernel's sockets.
    pub(crate) fn lose(&mut self, index: u32) {
        self.stats.lost += 1;
        self.release(index);
    }

    pub(crate) fn store(
        &mut self,
        sent: Time,
        flow: u32,
        direction: Direction,
        ecn: Option<Ecn>,
        wire: u32,
        bytes: &[u8],
    ) -> u32 {
        let group = self.flows[flow as usize].group;
        let client = self.client_address(&self.groups[usize::from(group.0)]);
        if let Some(index) = self.free.pop() {
            let p = &mut self.packets[index as usize];
            p.flow = flow;
            p.direction = direction;
            p.client = client;
            p.hop = 0;
            p.ecn = ecn;
            p.sent = sent;
            p.wire = wire;
            p.purpose = Purpose::Other;
            p.data.clear();
            p.data.extend_from_slice(bytes);
            return index;
        }
        self.packets.push(Packet {
            flow,
            direction,
            client,
            hop: 0,
            ecn,
            sent,
            wire,
            purpose: Purpose::Other,
            data: bytes.to_vec(),
        });
        self.packets.len() as u32 - 1
    }
}
