//! The virtual network: sockets, flows, and the links their packets cross.
//!
//! A flow is one connection. It belongs to a [`Group`], which names its sockets and the links of its path; its own part is the
//! DelayBox: half of its client-side and half of its server-side delay in each direction (PackMime's use of DelayBox, ns-2).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use fathom_cc::Time;

use crate::hash::StableHash;
use crate::link::{Link, Verdict};

use super::agent::Local;
use super::executor::{Core, Event};

/// Bytes of IP and UDP header that a datagram adds on the wire (IPv4 20 + UDP 8).
pub const WIRE_OVERHEAD: u32 = 28;

/// A flow's number rests for so many nanoseconds of virtual time before another flow gets it: longer than the idle timeout after which
/// the last endpoint forgets a connection, and the longest round trip besides.
const QUARANTINE: u64 = 300_000_000_000;

/// ECN codepoint of a packet that is ECN-capable (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// ECT(0).
    Ect0,
    /// ECT(1).
    Ect1,
    /// Congestion experienced.
    Ce,
}

/// Names a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkId(pub(super) u16);

/// Names a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketId(pub(super) u16);

/// Names a group of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(pub(super) u16);

/// One link of a path, entered `delay` after the link before it was left.
#[derive(Clone, Copy, Debug)]
pub struct Hop {
    /// Fixed delay before the link.
    pub delay: Duration,
    /// The link.
    pub link: LinkId,
}

/// The links of one direction, and the fixed delay after the last one.
#[derive(Clone, Debug, Default)]
pub struct Path {
    /// Links in order.
    pub hops: Vec<Hop>,
    /// Fixed delay from the last link to the receiver.
    pub tail: Duration,
}

/// Flows that share sockets and links.
#[derive(Clone, Debug)]
pub struct Group {
    /// Where connections are opened.
    pub client: SocketId,
    /// Where they are accepted.
    pub server: SocketId,
    /// Server to client.
    pub down: Path,
    /// Client to server.
    pub up: Path,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    group: GroupId,
    client_half: u64,
    server_half: u64,
    counts: FlowCounts,
    /// Whose it is, when it ends at an agent and not at the group's sockets.
    local: Option<Local>,
}

/// What one flow's server sent, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Datagrams sent by the server.
    pub sent: u64,
    /// Of them, those that a queue dropped.
    pub dropped: u64,
    /// UDP payload in bytes that reached the client.
    pub delivered: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

pub(super) struct Packet {
    pub(super) flow: u32,
    pub(super) direction: Direction,
    pub(super) hop: u16,
    pub(super) ecn: Option<Ecn>,
    /// When its sender handed it over, in nanoseconds.
    pub(super) sent: u64,
    /// Bytes it counts on the wire, headers included. What it stores may be less.
    pub(super) wire: u32,
    pub(super) data: Vec<u8>,
}

impl Packet {
    /// UDP payload it stands for, in bytes.
    pub(super) fn payload(&self) -> u32 {
        self.wire.saturating_sub(WIRE_OVERHEAD)
    }
}

pub(super) struct Socket {
    pub(super) inbox: VecDeque<u32>,
    pub(super) waker: Option<Waker>,
}

/// Looks at every datagram of one flow's server.
pub trait Tap: Send {
    /// It is handed to the network.
    fn sent(&mut self, now: Time, datagram: &[u8]);
    /// It reaches the client.
    fn arrived(&mut self, now: Time, datagram: &[u8]);
}

/// Counts of whole datagrams, for the conservation check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetStats {
    /// Handed to the network.
    pub sent: u64,
    /// Put into a receiver's inbox.
    pub delivered: u64,
    /// Dropped by a link's queue.
    pub dropped: u64,
    /// Sent for a flow that does not exist.
    pub unroutable: u64,
    /// Lost by the kernel's sockets, in a real-time run.
    pub lost: u64,
    /// Still on their way.
    pub in_transit: u64,
}

/// Sockets, flows, links and the packets between them.
#[derive(Default)]
pub(super) struct Network {
    pub(super) links: Vec<Link>,
    pub(super) sockets: Vec<Socket>,
    groups: Vec<Group>,
    flows: Vec<Flow>,
    pub(super) packets: Vec<Packet>,
    free: Vec<u32>,
    stats: NetStats,
    /// Flows that are over, and since when.
    retired: VecDeque<(u64, u32)>,
    /// A flow of which every drop on the way to the client is noted, and when the dropped packets were sent.
    watched: Vec<(u32, Vec<u64>)>,
    /// Who is shown every datagram of a flow's server.
    tapped: Vec<(u32, Arc<Mutex<dyn Tap>>)>,
    /// Over (time, place and verdict, flow, size) of every step; payloads are ciphertext and stay out.
    hash: StableHash,
}

impl Network {
    pub(super) fn add_link(&mut self, link: Link) -> LinkId {
        self.links.push(link);
        LinkId(self.links.len() as u16 - 1)
    }

    pub(super) fn add_group(&mut self, group: Group) -> GroupId {
        self.groups.push(group);
        GroupId(self.groups.len() as u16 - 1)
    }

    /// A packet on its way keeps its hop number, so the new paths must have as many links as the old.
    pub(super) fn set_group(&mut self, id: GroupId, group: Group) {
        let old = &mut self.groups[id.0 as usize];
        assert_eq!(
            (old.down.hops.len(), old.up.hops.len()),
            (group.down.hops.len(), group.up.hops.len()),
            "a group's paths keep their number of links"
        );
        *old = group;
    }

    pub(super) fn add_socket(&mut self) -> SocketId {
        self.sockets.push(Socket { inbox: VecDeque::new(), waker: None });
        SocketId(self.sockets.len() as u16 - 1)
    }

    pub(super) fn add_flow(&mut self, now: u64, group: GroupId, client_rtt: Duration, server_rtt: Duration) -> u32 {
        let half = |d: Duration| u64::try_from(d.as_nanos() / 2).unwrap_or(u64::MAX);
        let (client_half, server_half) = (half(client_rtt), half(server_rtt));
        let flow = Flow { group, client_half, server_half, counts: FlowCounts::default(), local: None };
        if let Some(&(since, number)) = self.retired.front()
            && now - since >= QUARANTINE
        {
            self.retired.pop_front();
            self.flows[number as usize] = flow;
            return number;
        }
        self.flows.push(flow);
        self.flows.len() as u32 - 1
    }

    /// A flow is over: its number goes to another one once nothing of it can be on its way any more.
    pub(super) fn retire_flow(&mut self, now: u64, flow: u32) {
        self.retired.push_back((now, flow));
    }

    pub(super) fn flow_counts(&self, flow: u32) -> FlowCounts {
        self.flows.get(flow as usize).map_or_else(FlowCounts::default, |f| f.counts)
    }

    pub(super) fn watch(&mut self, flow: u32) {
        self.watched.push((flow, Vec::new()));
    }

    pub(super) fn tap(&mut self, flow: u32, tap: Arc<Mutex<dyn Tap>>) {
        self.tapped.push((flow, tap));
    }

    /// Shows a datagram of a flow's server to who asked for it.
    fn show(&self, flow: u32, show: impl FnOnce(&mut dyn Tap)) {
        if let Some((_, tap)) = self.tapped.iter().find(|(tapped, _)| *tapped == flow) {
            show(&mut *tap.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    pub(super) fn drops(&self, flow: u32) -> &[u64] {
        self.watched.iter().find(|(watched, _)| *watched == flow).map_or(&[], |(_, drops)| drops)
    }

    /// What arrives for `flow` goes to an agent from now on.
    pub(super) fn give_to(&mut self, flow: u32, local: Local) {
        self.flows[flow as usize].local = Some(local);
    }

    pub(super) fn stats(&self) -> NetStats {
        NetStats { in_transit: self.packets.len() as u64 - self.free.len() as u64 - self.waiting(), ..self.stats }
    }

    pub(super) fn trace_hash(&self) -> u64 {
        self.hash.value()
    }

    pub(super) fn client_of(&self, flow: u32) -> SocketId {
        self.groups[self.flows[flow as usize].group.0 as usize].client
    }

    pub(super) fn clear_wakers(&mut self) -> Vec<Option<Waker>> {
        self.sockets.iter_mut().map(|s| s.waker.take()).collect()
    }

    fn waiting(&self) -> u64 {
        self.sockets.iter().map(|s| s.inbox.len() as u64).sum()
    }

    /// Gives a packet's storage back once it was read or dropped.
    pub(super) fn release(&mut self, index: u32) {
        self.free.push(index);
    }

    /// A packet's path, and its flow's own delays before and after it, in nanoseconds.
    fn way(&self, p: &Packet) -> (&Path, u64, u64) {
        let flow = &self.flows[p.flow as usize];
        let group = &self.groups[flow.group.0 as usize];
        match p.direction {
            Direction::Down => (&group.down, flow.server_half, flow.client_half),
            Direction::Up => (&group.up, flow.client_half, flow.server_half),
        }
    }

    /// Fixed delays between where a packet is and its next link, or its receiver, in nanoseconds.
    fn wait(&self, p: &Packet) -> u64 {
        let (path, _, last) = self.way(p);
        path.hops.get(p.hop as usize).map_or(nanos(path.tail) + last, |hop| nanos(hop.delay))
    }

    /// A queue drops a packet.
    pub(super) fn drop_packet(&mut self, index: u32) {
        let p = &self.packets[index as usize];
        self.stats.dropped += 1;
        if p.direction == Direction::Down {
            self.flows[p.flow as usize].counts.dropped += 1;
            if let Some((_, drops)) = self.watched.iter_mut().find(|(watched, _)| *watched == p.flow) {
                drops.push(p.sent);
            }
        }
        self.release(index);
    }

    /// The kernel's sockets lost a packet.
    pub(super) fn lose(&mut self, index: u32) {
        self.stats.lost += 1;
        self.release(index);
    }

    fn store(&mut self, sent: u64, flow: u32, direction: Direction, ecn: Option<Ecn>, wire: u32, bytes: &[u8]) -> u32 {
        if let Some(index) = self.free.pop() {
            let p = &mut self.packets[index as usize];
            p.flow = flow;
            p.direction = direction;
            p.hop = 0;
            p.ecn = ecn;
            p.sent = sent;
            p.wire = wire;
            p.data.clear();
            p.data.extend_from_slice(bytes);
            return index;
        }
        self.packets.push(Packet { flow, direction, hop: 0, ecn, sent, wire, data: bytes.to_vec() });
        self.packets.len() as u32 - 1
    }
}

impl Core {
    /// A stack hands one datagram to the network, through this socket.
    pub(super) fn send(&mut self, socket: SocketId, from_server: bool, flow: u32, ecn: Option<Ecn>, bytes: &[u8]) {
        let wire = bytes.len() as u32 + WIRE_OVERHEAD;
        let Some(packet) = self.take(from_server, flow, ecn, wire, bytes) else { return };
        match self.real.as_ref().and_then(|real| real.edge(socket.0, false)) {
            Some(hop) => self.send_to_kernel(packet, hop),
            None => self.set_off(packet),
        }
    }

    /// An agent hands a packet to the network that counts `wire` bytes, headers included, whatever it stores.
    pub(super) fn send_sized(&mut self, from_server: bool, flow: u32, ecn: Option<Ecn>, wire: u32, bytes: &[u8]) {
        if let Some(packet) = self.take(from_server, flow, ecn, wire, bytes) {
            self.set_off(packet);
        }
    }

    /// Stores a packet, where its flow exists.
    fn take(&mut self, from_server: bool, flow: u32, ecn: Option<Ecn>, wire: u32, bytes: &[u8]) -> Option<u32> {
        self.net.stats.sent += 1;
        let Some(state) = self.net.flows.get_mut(flow as usize) else {
            self.net.stats.unroutable += 1;
            return None;
        };
        state.counts.sent += u64::from(from_server);
        if from_server {
            self.net.show(flow, |tap| tap.sent(Time::from_nanos(self.now), bytes));
        }
        let direction = if from_server { Direction::Down } else { Direction::Up };
        Some(self.net.store(self.now, flow, direction, ecn, wire, bytes))
    }

    /// A packet begins its path.
    pub(super) fn set_off(&mut self, index: u32) {
        let p = &self.net.packets[index as usize];
        let (path, first, _) = self.net.way(p);
        let wait = first + self.net.wait(p);
        if wait == 0 && !path.hops.is_empty() {
            // Nothing lies between the sender and its first link: a drop here wakes nobody.
            self.enter_link(index);
        } else {
            self.schedule(self.now + wait, Event::Packet(index));
        }
    }

    /// A packet reaches its next link or its receiver; whom to wake.
    pub(super) fn packet_arrives(&mut self, index: u32) -> Option<Waker> {
        let p = &self.net.packets[index as usize];
        let flow = &mut self.net.flows[p.flow as usize];
        let group = &self.net.groups[flow.group.0 as usize];
        let (path, receiver) = match p.direction {
            Direction::Down => (&group.down, group.client),
            Direction::Up => (&group.up, group.server),
        };
        if (p.hop as usize) < path.hops.len() {
            self.enter_link(index);
            return None;
        }
        if let Some(local) = flow.local {
            self.arrived(index, receiver);
            self.deliver_to_agent(index, local);
            return None;
        }
        if let Some(hop) = self.real.as_ref().and_then(|real| real.edge(receiver.0, true)) {
            self.send_to_kernel(index, hop);
            return None;
        }
        self.deliver_to_stack(index, receiver.0)
    }

    /// A packet is at its receiver: counts and who is shown.
    fn arrived(&mut self, index: u32, receiver: SocketId) {
        let p = &self.net.packets[index as usize];
        if p.direction == Direction::Down {
            self.net.flows[p.flow as usize].counts.delivered += p.data.len() as u64;
            self.net.show(p.flow, |tap| tap.arrived(Time::from_nanos(self.now), &p.data));
        }
        self.net.stats.delivered += 1;
        note(&mut self.net.hash, self.now, u32::from(receiver.0) | 0x1_0000, p.flow, p.payload());
    }

    /// A packet is there for the stack behind a socket; whom to wake.
    pub(super) fn deliver_to_stack(&mut self, index: u32, socket: u16) -> Option<Waker> {
        self.arrived(index, SocketId(socket));
        let socket = &mut self.net.sockets[usize::from(socket)];
        socket.inbox.push_back(index);
        socket.waker.take()
    }

    fn enter_link(&mut self, index: u32) {
        let p = &self.net.packets[index as usize];
        let link = self.net.way(p).0.hops[p.hop as usize].link;
        if let Some(hop) = self.real.as_ref().and_then(|real| real.link(link)) {
            self.send_to_kernel(index, hop);
            return;
        }
        let net = &mut self.net;
        let p = &mut net.packets[index as usize];
        let size = p.wire;
        let verdict = net.links[link.0 as usize].arrive(self.now, size, p.ecn.is_some());
        note(&mut net.hash, self.now, u32::from(link.0) | verdict.code() << 20, p.flow, size);
        let out = match verdict {
            Verdict::Drop => return net.drop_packet(index),
            Verdict::Forward { out, mark } => {
                if mark {
                    p.ecn = Some(Ecn::Ce);
                }
                out
            }
        };
        self.leave_link(index, link, out);
    }

    /// A packet's last bit has left a link at `out`, or will have.
    pub(super) fn leave_link(&mut self, index: u32, link: LinkId, out: u64) {
        let net = &mut self.net;
        let p = &mut net.packets[index as usize];
        net.links[link.0 as usize].credit(out, p.flow, p.payload());
        p.hop += 1;
        let wait = net.wait(&net.packets[index as usize]);
        self.schedule(out + wait, Event::Packet(index));
    }
}

fn nanos(d: Duration) -> u64 {
    d.as_nanos() as u64
}

fn note(hash: &mut StableHash, now: u64, place: u32, flow: u32, size: u32) {
    hash.add(now);
    hash.add(u64::from(place));
    hash.add(u64::from(flow) << 32 | u64::from(size));
}
