//! The sender's response to marks of classic and accurate ECN (RFC 3168 §6.1,
//! draft-ietf-tcpm-accurate-ecn).

use fathom_cc::{Cause, CongestionEvent, EcnDelta, Time};
use fathom_netsim::sim::Ecn;

use super::super::segment::{TcpAck, TcpSegment};
use super::TcpSender;

impl TcpSender {
    /// Handles the first echo of a mark in this window (RFC 3168 §6.1.2). If the window may fall to
    /// one segment, it is halved to whole segments even below the controller's minimum. If it may
    /// fall below one segment, it is halved exactly.
    pub(super) fn on_mark(&mut self, now: Time) {
        let smss = u64::from(self.options.smss());
        let halved = match self.options.least_window {
            0 => self.window() / 2,
            _ => (self.window() / 2 / smss).max(1) * smss,
        };
        self.reduced = Some(self.board.high());
        self.cwr_owed = true;
        self.tell_mark(now);
        if self.options.least_window < 2 && halved < self.window() {
            self.cap = Some(halved);
        }
        if self.is_stalled() {
            self.rto_at = self.rto_at.or_else(|| Some(self.timer(now)));
        }
    }

    /// Returns whether a mark left a window below one segment and nothing is outstanding. The
    /// sender then waits for the timer, and continues with one segment.
    pub(super) fn is_stalled(&self) -> bool {
        self.options.least_window == 0
            && self.pending > 0
            && self.board.is_empty()
            && self.window() < u64::from(self.options.smss())
    }

    pub(super) fn tell_mark(&mut self, now: Time) {
        let sent = self.newly.packets.last().map_or(now, |p| p.sent);
        self.controller.on_congestion_event(&CongestionEvent { now, sent, cause: Cause::Mark });
    }

    /// Returns the counts that accurate ECN reports in addition to earlier ACKs. An older ACK that
    /// arrives out of order adds nothing.
    pub(super) fn new_marks(&mut self, ack: &TcpAck) -> Option<EcnDelta> {
        let (arrived, marked) = ack.marks.filter(|_| self.options.accurate_ecn)?;
        let before = self.marks;
        self.marks = (arrived.saturating_sub(marked).max(before.0), marked.max(before.1));
        let [ect, ce] = [self.marks.0 - before.0, self.marks.1 - before.1].map(u64::from);
        let (ect0, ect1) = if self.options.ect1 { (0, ect) } else { (ect, 0) };
        Some(EcnDelta { ect0, ect1, ce })
    }

    /// Returns the ECN field with which a segment leaves.
    pub(crate) fn ecn_of(&self, segment: &TcpSegment) -> Option<Ecn> {
        let ect = if self.options.ect1 { Ecn::Ect1 } else { Ecn::Ect0 };
        segment.ecn_capable.then_some(ect)
    }
}
