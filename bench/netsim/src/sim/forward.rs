//! Forwarding of a packet from its sender over each link to its receiver.

use std::net::{IpAddr, SocketAddr};
use std::task::Waker;

use fathom_units::Time;

use super::core::{Core, Event};
use super::direction::Direction;
use super::network::{LinkId, SocketId, WIRE_OVERHEAD};
use crate::ecn::Ecn;
use crate::hash::StableHash;
use crate::link::{Purpose, Verdict};
use crate::path::{Departure, Leaving};

impl Core {
    /// Sends one datagram of a stack into the network through this socket. As in a real network, a
    /// datagram without a receiver is lost.
    pub(crate) fn send(
        &mut self,
        socket: SocketId,
        to: SocketAddr,
        from: Option<IpAddr>,
        ecn: Option<Ecn>,
        bytes: &[u8],
    ) {
        let Some((flow, direction)) = self.net.resolve(socket, to, from) else {
            self.net.stats.sent += 1;
            self.net.stats.unroutable += 1;
            return;
        };
        let from_server = direction == Direction::Down;
        let wire = bytes.len() as u32 + WIRE_OVERHEAD;
        let Some(packet) = self.take(from_server, flow, ecn, wire, bytes) else { return };
        match self.real.as_ref().and_then(|real| real.edge(socket.0, false)) {
            Some(hop) => self.send_to_kernel(packet, hop),
            None => self.hand_over(packet, flow, from_server, bytes.len()),
        }
    }

    /// Sends an agent's packet into the network. The packet counts `wire` bytes, including headers,
    /// whatever it stores.
    pub(crate) fn send_sized(
        &mut self,
        from_server: bool,
        flow: u32,
        ecn: Option<Ecn>,
        wire: u32,
        bytes: &[u8],
    ) {
        if let Some(packet) = self.take(from_server, flow, ecn, wire, bytes) {
            self.set_off(packet);
        }
    }

    /// Stores a packet if its flow exists.
    fn take(
        &mut self,
        from_server: bool,
        flow: u32,
        ecn: Option<Ecn>,
        wire: u32,
        bytes: &[u8],
    ) -> Option<u32> {
        self.net.stats.sent += 1;
        let Some(state) = self.net.flows.get(flow as usize) else {
            self.net.stats.unroutable += 1;
            return None;
        };
        // The stored bytes of an agent's packet are not a QUIC datagram.
        let quic = state.local.is_none();
        if from_server {
            self.net.show(flow, |tap| tap.sent(self.now, bytes));
        }
        let direction = if from_server { Direction::Down } else { Direction::Up };
        self.net.count(flow, direction, self.now, |counts| counts.sent += 1);
        let purpose = match self.net.needs_of(flow) {
            Some(needs) if quic => needs.on_sent(direction, bytes, wire),
            _ => Purpose::Other,
        };
        let packet = self.net.store(self.now, flow, direction, ecn, wire, bytes);
        self.net.packets[packet as usize].purpose = purpose;
        Some(packet)
    }

    /// Starts a packet on its path.
    pub(crate) fn set_off(&mut self, index: u32) {
        let p = &self.net.packets[index as usize];
        let (path, first, _) = self.net.way(p);
        let wait = first + self.net.wait(p);
        if wait.is_zero() && !path.hops.is_empty() {
            // Without a delay before the first link, the packet enters the link at once. A drop at
            // this link wakes no task.
            self.enter_link(index);
        } else {
            self.schedule(self.now + wait, Event::Packet(index));
        }
    }

    /// Handles a packet that reaches its next link or its receiver. Returns the task to wake.
    pub(crate) fn packet_arrives(&mut self, index: u32) -> Option<Waker> {
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
        if p.direction == Direction::Down && p.client != self.net.client_address(group) {
            self.net.drop_unroutable(index);
            return None;
        }
        if let Some(hop) = self.real.as_ref().and_then(|real| real.edge(receiver.0, true)) {
            self.send_to_kernel(index, hop);
            return None;
        }
        self.deliver_to_stack(index, receiver.0)
    }

    /// Counts a packet that is at its receiver, and shows it to its observer.
    fn arrived(&mut self, index: u32, receiver: SocketId) {
        let p = &self.net.packets[index as usize];
        let (flow, direction, payload) = (p.flow, p.direction, u64::from(p.payload()));
        self.net.count(flow, direction, self.now, |counts| counts.delivered += payload);
        let p = &self.net.packets[index as usize];
        if direction == Direction::Down {
            self.net.show(p.flow, |tap| tap.arrived(self.now, &p.data));
        }
        self.net.stats.delivered += 1;
        note(&mut self.net.hash, self.now, u32::from(receiver.0) | 0x1_0000, p.flow, p.payload());
    }

    /// Delivers a packet to the stack behind a socket. Returns the task to wake.
    pub(crate) fn deliver_to_stack(&mut self, index: u32, socket: u16) -> Option<Waker> {
        self.arrived(index, SocketId(socket));
        let socket = &mut self.net.sockets[usize::from(socket)];
        socket.inbox.push_back(index);
        socket.waker.take()
    }

    fn enter_link(&mut self, index: u32) {
        let p = &self.net.packets[index as usize];
        let link = self.net.way(p).0.hops[p.hop as usize].link;
        let net = &mut self.net;
        let p = &mut net.packets[index as usize];
        let size = p.wire;
        if let Some(impairer) = &mut net.impairers[usize::from(link.0)] {
            if impairer.enter(self.now, p.payload(), size).is_err() {
                note(&mut net.hash, self.now, u32::from(link.0) | IMPAIRED << 20, p.flow, size);
                return net.impair_packet(index);
            }
            p.ecn = impairer.ecn(p.ecn);
        }
        if let Some(hop) = self.real.as_ref().and_then(|real| real.link(link)) {
            self.send_to_kernel(index, hop);
            return;
        }
        let net = &mut self.net;
        if net.links[link.0 as usize].schedules() {
            return self.enter_scheduled_link(index, link);
        }
        let p = &net.packets[index as usize];
        let verdict = net.links[link.0 as usize].arrive(self.now, size, p.ecn.is_some());
        note(&mut net.hash, self.now, u32::from(link.0) | verdict.code() << 20, p.flow, size);
        if net.links[link.0 as usize].keeps_bytes() {
            net.record_purpose(index, link, verdict == Verdict::Drop);
        }
        let out = match verdict {
            Verdict::Drop => return net.drop_packet(index),
            Verdict::Forward { out, mark } => {
                if mark {
                    net.mark(index, link);
                }
                out
            }
        };
        self.leave_link(index, link, out);
    }

    /// Handles a packet whose last bit leaves a link at `out`, which may be in the future.
    pub(crate) fn leave_link(&mut self, index: u32, link: LinkId, out: Time) {
        let net = &mut self.net;
        let p = &mut net.packets[index as usize];
        net.links[link.0 as usize].credit(out, p.flow, p.payload());
        p.hop += 1;
        if net.impairers[usize::from(link.0)].is_some() {
            return self.leave_impaired(index, link, out);
        }
        let wait = net.wait(&net.packets[index as usize]);
        self.schedule(out + wait, Event::Packet(index));
    }

    /// Handles a packet that has left a link with impairments.
    fn leave_impaired(&mut self, index: u32, link: LinkId, out: Time) {
        let net = &mut self.net;
        let Some(impairer) = &mut net.impairers[usize::from(link.0)] else { return };
        let p = &net.packets[index as usize];
        let packet =
            Leaving { out, payload: p.payload(), flow: p.flow.into(), ecn: p.ecn, number: index };
        let departure = impairer.leave(packet);
        let waits = impairer.next_release().is_some();
        if let Some(departure) = departure {
            self.depart(index, link, departure);
        }
        if waits {
            self.release_waiting(link);
        }
    }

    /// Forwards packets that waited behind a link until later packets had passed.
    pub(crate) fn release_waiting(&mut self, link: LinkId) {
        let place = usize::from(link.0);
        while let Some((packet, departure)) =
            self.net.impairers[place].as_mut().and_then(|impairer| impairer.take_released(self.now))
        {
            self.depart(packet.number, link, departure);
        }
        // One event is enough for all waiting packets, because each release schedules the next one.
        if let Some(at) =
            self.net.impairers[place].as_ref().and_then(|impairer| impairer.next_release())
            && self.net.releases[place] != at
        {
            self.net.releases[place] = at;
            self.schedule(at, Event::Release(link));
        }
    }

    /// Forwards a packet behind a link with impairments. Its departure includes the link's own
    /// propagation delay.
    fn depart(&mut self, index: u32, link: LinkId, departure: Departure) {
        let net = &mut self.net;
        let Some(impairer) = &net.impairers[usize::from(link.0)] else { return };
        let delay = impairer.base_delay();
        let arrives = departure.at + net.wait(&net.packets[index as usize]).saturating_sub(delay);
        let p = &mut net.packets[index as usize];
        if let Some(bit) = departure.flip {
            match p.data.get_mut(bit as usize / 8) {
                Some(byte) if net.flows[p.flow as usize].local.is_none() => *byte ^= 1 << (bit % 8),
                // The stored bytes of an agent's packet are not a datagram, so a checksum is
                // assumed to have detected the flipped bit.
                _ => return net.impair_packet(index),
            }
        }
        if departure.duplicated {
            let twin = net.duplicate_packet(index);
            self.schedule(arrives, Event::Packet(twin));
        }
        self.schedule(arrives, Event::Packet(index));
    }
}

/// Code in trace hashes for a packet dropped by impairments, in addition to the codes of verdicts.
const IMPAIRED: u32 = 5;

pub(super) fn note(hash: &mut StableHash, now: Time, place: u32, flow: u32, size: u32) {
    hash.add(now.as_nanos());
    hash.add(u64::from(place));
    hash.add(u64::from(flow) << 32 | u64::from(size));
}
