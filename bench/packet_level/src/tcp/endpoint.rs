//! One end of a connection whose both ends have data: a sender and a receiver whose packets travel together, as HTTP over TCP has them.

use fathom_cc::{Controller, ControllerMetrics, Time};
use fathom_netsim::sim::Ecn;

use super::options::TcpOptions;
use super::receiver::{TcpReceiver, TcpReceiverOptions};
use super::segment::{TcpAck, TcpSegment, read_packet, store_packet};
use super::sender::{TcpCounts, TcpSender};
use crate::packet::Stored;

/// A packet on its way out.
pub(crate) struct TcpPacket {
    /// IP packet in bytes, headers included.
    pub(crate) size: u32,
    pub(crate) ecn: Option<Ecn>,
    segment: Option<TcpSegment>,
    ack: Option<TcpAck>,
}

impl TcpPacket {
    /// What is stored of it; `epoch` tells a flow's connections apart.
    pub(crate) fn stored(&self, epoch: u32) -> Stored {
        store_packet(epoch, self.segment.as_ref(), self.ack.as_ref())
    }
}

/// One end.
#[derive(Debug)]
pub(crate) struct TcpEndpoint {
    sender: TcpSender,
    receiver: TcpReceiver,
    /// When the SYN-ACK left, and how many did.
    syn_ack: Option<Time>,
    syn_acks: u32,
    /// An acknowledgement is to leave now.
    ack_now: bool,
}

impl TcpEndpoint {
    /// The end that opens the connection, at once.
    pub(crate) fn connect(controller: Box<dyn Controller>, sender: TcpOptions, receiver: TcpReceiverOptions) -> Self {
        let mut end = Self::new(controller, sender, receiver);
        end.sender.connect();
        end
    }

    /// The end that waits for it.
    pub(crate) fn listen(controller: Box<dyn Controller>, sender: TcpOptions, receiver: TcpReceiverOptions) -> Self {
        let mut end = Self::new(controller, sender, receiver);
        end.sender.listen();
        end
    }

    fn new(controller: Box<dyn Controller>, sender: TcpOptions, receiver: TcpReceiverOptions) -> Self {
        Self {
            sender: TcpSender::new(controller, sender),
            receiver: TcpReceiver::new(receiver),
            syn_ack: None,
            syn_acks: 0,
            ack_now: false,
        }
    }

    /// So many bytes more to send.
    pub(crate) fn offer(&mut self, bytes: u64) {
        self.sender.offer(bytes);
    }

    /// Nothing more is to be sent: a FIN follows.
    pub(crate) fn finish(&mut self) {
        self.sender.finish();
    }

    pub(crate) fn is_established(&self) -> bool {
        self.sender.is_established()
    }

    /// Data bytes that arrived in order.
    pub(crate) fn received(&self) -> u64 {
        self.receiver.received()
    }

    /// Everything was sent and acknowledged, and the other end's FIN arrived.
    pub(crate) fn is_over(&self) -> bool {
        self.receiver.is_finished() && self.sender.is_done()
    }

    /// The other end's FIN arrived, and all before it.
    pub(crate) fn is_finished(&self) -> bool {
        self.receiver.is_finished()
    }

    pub(crate) const fn counts(&self) -> TcpCounts {
        self.sender.counts()
    }

    pub(crate) fn metrics(&self) -> ControllerMetrics {
        self.sender.metrics()
    }

    /// A packet arrived: false when it is of another connection.
    pub(crate) fn on_packet(&mut self, now: Time, body: &[u8], epoch: u32, marked: bool) -> bool {
        let Some((_, segment, ack)) = read_packet(body).filter(|(of, ..)| *of == epoch) else { return false };
        if let Some(segment) = segment {
            self.ack_now |= self.receiver.on_segment(now, &segment, marked);
            if !segment.syn {
                let once = self.syn_ack.filter(|_| self.syn_acks == 1);
                self.sender.accept(once.map(|sent| now.since(sent)));
            }
        }
        if let Some(ack) = ack {
            self.sender.on_ack(now, &ack);
        }
        true
    }

    /// The next packet to send now, if there is one. Call it until there is none.
    pub(crate) fn poll_send(&mut self, now: Time) -> Option<TcpPacket> {
        if let Some(segment) = self.sender.poll_send(now) {
            let ecn = segment.ecn_capable.then_some(Ecn::Ect0);
            // A segment acknowledges what has come, and what was due is done by it; blocks would not fit beside data.
            let ack = (!segment.syn).then(|| self.receiver.ack(now).beside(segment.len > 0));
            self.ack_now &= ack.is_none();
            return Some(TcpPacket { size: u32::from(segment.size), ecn, segment: Some(segment), ack });
        }
        if !std::mem::take(&mut self.ack_now) {
            return None;
        }
        if self.receiver.answers_syn() {
            self.syn_ack = Some(now);
            self.syn_acks += 1;
        }
        let ack = self.receiver.ack(now);
        Some(TcpPacket { size: u32::from(ack.size()), ecn: None, segment: None, ack: Some(ack) })
    }

    /// When [`TcpEndpoint::on_timeout`] is to be called, or [`TcpEndpoint::poll_send`] again.
    pub(crate) fn timeout(&self) -> Option<Time> {
        [self.sender.timeout(), self.receiver.timeout()].into_iter().flatten().min()
    }

    /// A timer came up.
    pub(crate) fn on_timeout(&mut self, now: Time) {
        self.ack_now |= self.receiver.timeout().is_some_and(|at| at <= now);
        self.sender.on_timeout(now);
    }
}
