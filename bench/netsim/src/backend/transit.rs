//! The packets of a running simulation that are on kernel hops.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use fathom_units::Time;
use quinn_udp::{EcnCodepoint, RecvMeta};

use super::kernel_hop::{HopKind, InTransit, KernelHop};
use super::real_time::BATCH;
use crate::ecn::Ecn;
use crate::link::Verdict;
use crate::sim::core::Core;
use crate::sim::network::{Packet, WIRE_OVERHEAD};

impl Core {
    /// Sends a packet over a kernel hop.
    pub(crate) fn send_to_kernel(&mut self, packet: u32, hop: usize) {
        let Some(real) = &mut self.real else { return };
        let p = &self.net.packets[packet as usize];
        let payload = p.payload() as usize;
        // Packets of agents store fewer bytes than their payload size. The missing bytes are sent
        // as zeros.
        let contents = if payload > p.data.len() {
            real.scratch[..p.data.len()].copy_from_slice(&p.data);
            real.scratch[p.data.len()..payload].fill(0);
            &real.scratch[..payload]
        } else {
            &p.data[..]
        };
        let hop = &mut real.kernel_hops[hop];
        let entrance = hop.entrance_of(p.flow);
        let in_transit = InTransit { packet, since: self.now, entrance };
        match hop.socket(entrance).send(hop.address, p.ecn.map(codepoint), contents) {
            Ok(()) => hop.in_transit.push_back(in_transit),
            Err(_) => {
                hop.lost += 1;
                let kind = hop.kind;
                self.lost(in_transit, kind);
            }
        }
    }

    /// Waits for datagrams, at most until `until`. Adds the hops that have datagrams to `ready`.
    pub(crate) fn wait(&mut self, until: Duration, ready: &mut Vec<usize>) {
        if let Some(real) = &self.real {
            real.wait(until, ready);
        }
    }

    /// Receives the datagrams of these hops and returns the tasks to wake.
    pub(crate) fn receive_ready(&mut self, ready: &mut Vec<usize>) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let Some(real) = &mut self.real else { return wakers };
        let mut buffers = std::mem::take(&mut real.buffers);
        for number in ready.drain(..) {
            let Some(to) = self.real.as_ref().map(|real| Arc::clone(&real.kernel_hops[number].to))
            else {
                break;
            };
            loop {
                let mut metas = [RecvMeta::default(); BATCH];
                let came = to.receive(&mut buffers, &mut metas);
                for (buffer, meta) in buffers.iter().zip(metas).take(came) {
                    for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
                        wakers.extend(self.on_kernel_datagram(number, meta, datagram));
                    }
                }
                // There were fewer datagrams than buffers, so no more are pending.
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

    /// Returns whether packets are in transit between sockets.
    pub(crate) fn in_transit(&self) -> bool {
        self.real
            .as_ref()
            .is_some_and(|real| real.kernel_hops.iter().any(|c| !c.in_transit.is_empty()))
    }

    /// Counts all packets in transit as lost.
    pub(crate) fn abandon_in_transit(&mut self) {
        let Some(real) = &mut self.real else { return };
        let all: Vec<(InTransit, HopKind)> =
            real.kernel_hops.iter_mut().flat_map(KernelHop::abandon_in_transit).collect();
        all.into_iter().for_each(|(in_transit, kind)| self.lost(in_transit, kind));
    }

    /// Finds the packet of a datagram that arrived over a kernel hop, and forwards it.
    fn on_kernel_datagram(
        &mut self,
        number: usize,
        meta: RecvMeta,
        datagram: &[u8],
    ) -> Option<Waker> {
        let real = self.real.as_mut()?;
        let packets = &self.net.packets;
        let hop = &mut real.kernel_hops[number];
        // Packets that left earlier through the same entrance and have not arrived are lost,
        // because neither loopback nor a link reorders packets of the same port.
        let entrance = (!hop.others.is_empty()).then(|| hop.entrance_at(meta.addr.port()));
        let is_it = |u: &InTransit| {
            entrance.is_none_or(|entrance| entrance == u.entrance)
                && is(&packets[u.packet as usize], datagram)
        };
        let Some(place) = hop.in_transit.iter().position(is_it) else {
            real.strays += 1;
            return None;
        };
        let kind = hop.kind;
        let (overtaken, found) = hop.take_until(place);
        let InTransit { packet, since, .. } = found?;
        overtaken.into_iter().for_each(|in_transit| self.lost(in_transit, kind));
        let p = &mut self.net.packets[packet as usize];
        let (wire, mark) = (p.wire, meta.ecn == Some(EcnCodepoint::Ce) && p.ecn != Some(Ecn::Ce));
        match kind {
            HopKind::Link { link, .. } if mark => self.net.mark(packet, link),
            _ if mark => p.ecn = Some(Ecn::Ce),
            _ => {}
        }
        match kind {
            HopKind::Ingress => self.set_off(packet),
            HopKind::Egress { socket } => return self.deliver_to_stack(packet, socket),
            HopKind::Link { link, delay } => {
                let out = self.now;
                let arrived = (since + delay).min(out);
                self.net.links[usize::from(link.0)].record_external(
                    arrived,
                    wire,
                    Verdict::Forward { out, mark },
                );
                self.leave_link(packet, link, out);
            }
        }
        None
    }

    /// Handles the loss of a packet on a kernel hop.
    fn lost(&mut self, InTransit { packet, since, .. }: InTransit, kind: HopKind) {
        match kind {
            HopKind::Ingress | HopKind::Egress { .. } => self.net.lose(packet),
            HopKind::Link { link, delay } => {
                let wire = self.net.packets[packet as usize].wire;
                self.net.links[usize::from(link.0)].record_external(
                    since + delay,
                    wire,
                    Verdict::Drop,
                );
                self.net.drop_packet(packet);
            }
        }
    }

    /// Returns the wall-clock time since the run began.
    pub(crate) fn wall(&mut self) -> Time {
        self.real.as_mut().map_or(self.now, |real| real.now())
    }

    /// Records the lateness of an event.
    pub(crate) fn record_lateness(&mut self, by: Duration) {
        if let Some(real) = &mut self.real {
            real.late.saturating_record((by.as_micros() as u64).max(1));
        }
    }
}

/// Returns whether a datagram contains this packet.
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
