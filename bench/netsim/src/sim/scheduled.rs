//! Forwarding over a link whose queue schedules. A packet waits in the queue until the link is free
//! and the queue chooses the packet.

use super::core::{Core, Event};
use super::direction::Direction;
use super::forward::note;
use super::network::LinkId;
use crate::link::Verdict;
use crate::queue::Queued;

/// Code in trace hashes for a packet that joins a queue, in addition to the verdict codes of
/// [`Verdict::code`].
const WAITS: u32 = 4;

impl Core {
    /// Enqueues a packet that reaches a link whose queue schedules.
    pub(super) fn enter_scheduled_link(&mut self, index: u32, link: LinkId) {
        let net = &mut self.net;
        let p = &net.packets[index as usize];
        let flow = u64::from(p.flow) << 1 | u64::from(p.direction == Direction::Down);
        let queued = Queued { packet: index, bytes: p.wire, flow, ecn: p.ecn, arrived: self.now };
        note(&mut net.hash, self.now, u32::from(link.0) | WAITS << 20, p.flow, p.wire);
        if net.links[link.0 as usize].keeps_bytes() {
            net.record_waiting_purpose(index, link);
        }
        let at = &mut net.links[link.0 as usize];
        at.enqueue(queued);
        let idle = at.is_idle();
        self.drop_from_queue(link);
        if idle {
            self.transmit_next(link);
        }
    }

    /// Sends the packet that the queue of a scheduling link chooses, when the link becomes free.
    pub(super) fn transmit_next(&mut self, link: LinkId) {
        let next = self.net.links[link.0 as usize].dequeue(self.now);
        self.drop_from_queue(link);
        let Some(sent) = next else { return };
        let (index, out, mark) = (sent.packet.packet, sent.out, sent.mark);
        let net = &mut self.net;
        if mark {
            net.mark(index, link);
        }
        let p = &net.packets[index as usize];
        let verdict = Verdict::Forward { out, mark };
        note(&mut net.hash, self.now, u32::from(link.0) | verdict.code() << 20, p.flow, p.wire);
        self.schedule(out, Event::LinkFree(link));
        self.leave_link(index, link, out);
    }

    /// Drops the packets that the queue of a scheduling link has dropped.
    fn drop_from_queue(&mut self, link: LinkId) {
        let net = &mut self.net;
        while let Some(queued) = net.links[link.0 as usize].take_dropped() {
            let p = &net.packets[queued.packet as usize];
            note(
                &mut net.hash,
                self.now,
                u32::from(link.0) | Verdict::Drop.code() << 20,
                p.flow,
                p.wire,
            );
            let (purpose, wire) = (p.purpose, p.wire);
            net.links[link.0 as usize].record_dropped_purpose(purpose, wire);
            net.drop_packet(queued.packet);
        }
    }
}
