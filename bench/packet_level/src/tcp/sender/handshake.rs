//! How a sender opens its connection: SYN, SYN-ACK, and what their loss changes (RFC 9293 §3.5,
//! RFC 6298 §5).

use std::time::Duration;

use fathom_cc::Time;

use super::super::segment::{TcpAck, TcpSegment};
use super::{Connection, TcpSender};

impl TcpSender {
    /// Opens the connection at once, before there are data to send.
    pub fn connect(&mut self) {
        self.opens = true;
    }

    /// Waits for the other end to open the connection. No segment leaves before
    /// [`TcpSender::accept`] is called.
    pub fn listen(&mut self) {
        self.connection = Connection::Listening;
    }

    /// Accepts the connection that the other end opened. `sample` is the time from the SYN-ACK to
    /// its answer. If several SYN-ACKs were sent, it is `None`, and the first window is one segment
    /// (RFC 5681 §3.1).
    pub fn accept(&mut self, sample: Option<Duration>) {
        if self.connection != Connection::Listening {
            return;
        }
        self.connection = Connection::Established;
        match sample {
            Some(sample) => self.rto.sample(sample),
            None => self.begin_after_lost_syn(),
        }
    }

    /// Returns whether both ends have answered, so that data may leave.
    pub fn is_established(&self) -> bool {
        self.connection == Connection::Established
    }

    pub(super) fn send_syn(&mut self, now: Time) -> TcpSegment {
        let left = if let Connection::SynSent(_, left) = self.connection {
            left.saturating_sub(1)
        } else {
            0
        };
        self.connection = Connection::SynSent(now, left);
        self.syns += 1;
        self.rto_at = Some(now + self.rto.rto());
        let retransmission = self.syns > 1;
        TcpSegment {
            syn: true,
            retransmission,
            size: self.options.handshake,
            ..self.segment(now, 0, 0)
        }
    }

    pub(super) fn on_syn_ack(&mut self, now: Time, ack: &TcpAck) {
        self.ack_owed = true;
        let Connection::SynSent(sent, _) = self.connection else { return };
        self.connection = Connection::Established;
        self.rto_at = None;
        if let Some(sent) = ack.echo.or(Some(sent).filter(|_| self.syns == 1)) {
            self.rto.sample(now.since(sent));
        }
        if self.syns > 1 {
            self.begin_after_lost_syn();
        }
    }

    /// Starts with a window of one segment after a lost SYN or SYN-ACK (RFC 5681 §3.1).
    pub(super) fn begin_after_lost_syn(&mut self) {
        if self.options.probes.is_some() {
            return; // RFC 9002 §4.9 and §7.2: QUIC keeps its window
        }
        self.rto.begin_after_lost_syn();
        self.cap = Some(u64::from(self.options.smss()));
    }
}
