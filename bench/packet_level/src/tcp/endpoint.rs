//! One end of a connection with data in both directions. A sender and a receiver share its packets,
//! as with HTTP over TCP.

use fathom_cc::{Controller, ControllerMetrics, Time};
use fathom_netsim::sim::Ecn;

use super::options::TcpOptions;
use super::receiver::{TcpReceiver, TcpReceiverOptions};
use super::segment::{TcpAck, TcpSegment, read_packet, store_packet};
use super::sender::{TcpCounts, TcpSender};
use crate::packet::Stored;

/// An outgoing packet.
pub(crate) struct TcpPacket {
    /// Size of the IP packet in bytes, including headers.
    pub(crate) size: u32,
    pub(crate) ecn: Option<Ecn>,
    segment: Option<TcpSegment>,
    ack: Option<TcpAck>,
}

impl TcpPacket {
    /// Returns the stored form of the packet. `epoch` distinguishes the connections of a flow.
    pub(crate) fn stored(&self, epoch: u32) -> Stored {
        store_packet(epoch, self.segment.as_ref(), self.ack.as_ref())
    }
}

/// Size in bytes of the IP packet that closes a connection at once: a CONNECTION_CLOSE frame in a
/// short QUIC packet.
const CLOSE: u16 = 65;

/// One of the two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientOrServer {
    /// The end that opened the connection.
    Client,
    /// The end that accepted the connection.
    Server,
}

/// Options for creating one end of a connection.
#[derive(Debug)]
pub struct TcpEnd {
    /// Controller of this end.
    pub controller: Box<dyn Controller>,
    /// Options of the sender.
    pub sender: TcpOptions,
    /// Options of the receiver.
    pub receiver: TcpReceiverOptions,
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct TcpEndpoint {
    side: ClientOrServer,
    sender: TcpSender,
    receiver: TcpReceiver,
    /// Time of the last SYN-ACK, and the number of SYN-ACKs sent.
    syn_ack: Option<Time>,
    syn_acks: u32,
    /// Number of acknowledgements to send now. It is above one if they are SYN-ACKs sent as probes.
    acks_now: u32,
    /// Whether to send the packet that closes the connection at once (`closing`), and whether the
    /// connection no longer exists (`gone`).
    closing: bool,
    gone: bool,
    options: TcpOptions,
    heard: Time,
}

impl TcpEndpoint {
    /// Creates one end. The client's end opens the connection at once, and the server's end waits
    /// for this.
    pub(crate) fn new(now: Time, side: ClientOrServer, end: TcpEnd) -> Self {
        let mut sender = TcpSender::new(end.controller, end.sender);
        match side {
            ClientOrServer::Client => sender.connect(),
            ClientOrServer::Server => sender.listen(),
        }
        Self {
            side,
            sender,
            receiver: TcpReceiver::new(end.receiver),
            syn_ack: None,
            syn_acks: 0,
            acks_now: 0,
            closing: false,
            gone: false,
            options: end.sender,
            heard: now,
        }
    }

    /// Adds `bytes` bytes to the data to send.
    pub(crate) fn offer(&mut self, bytes: u64) {
        self.sender.offer(bytes);
    }

    /// Closes the sending side, so that a FIN follows the data. If connections close at once, the
    /// client's end closes the connection here, and the server's end does nothing.
    pub(crate) fn finish(&mut self) {
        match self.options.idle {
            None => self.sender.finish(),
            Some(_) => self.closing = self.side == ClientOrServer::Client && !self.gone,
        }
    }

    /// Returns whether the data of this end are followed by a FIN.
    pub(crate) const fn has_fin(&self) -> bool {
        self.options.idle.is_none()
    }

    pub(crate) fn is_established(&self) -> bool {
        self.sender.is_established()
    }

    /// Returns the number of data bytes that arrived in order.
    pub(crate) fn received(&self) -> u64 {
        self.receiver.received()
    }

    /// Returns whether the connection is over: either all data were sent and acknowledged and the
    /// other end's FIN arrived, or the connection was closed at once.
    pub(crate) fn is_over(&self) -> bool {
        self.gone || self.receiver.is_finished() && self.sender.is_done()
    }

    /// Returns whether the other end's FIN and all data before it arrived, or the connection was
    /// closed at once.
    pub(crate) fn is_finished(&self) -> bool {
        self.gone || self.receiver.is_finished()
    }

    pub(crate) const fn counts(&self) -> TcpCounts {
        self.sender.counts()
    }

    pub(crate) fn metrics(&self) -> ControllerMetrics {
        self.sender.metrics()
    }

    /// Processes a packet. Returns false if the packet belongs to another connection.
    pub(crate) fn on_packet(&mut self, now: Time, body: &[u8], epoch: u32, marked: bool) -> bool {
        let Some((_, segment, ack)) = read_packet(body).filter(|(of, ..)| *of == epoch) else {
            return false;
        };
        if self.gone {
            return true;
        }
        self.heard = now;
        if let Some(segment) = segment {
            if segment.reset {
                self.gone = true;
                return true;
            }
            self.acks_now =
                self.acks_now.max(u32::from(self.receiver.on_segment(now, &segment, marked)));
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

    /// Returns the next packet to send now. Call this function repeatedly until it returns `None`.
    pub(crate) fn poll_send(&mut self, now: Time) -> Option<TcpPacket> {
        if std::mem::take(&mut self.closing) {
            self.gone = true;
            let segment = TcpSegment { reset: true, size: CLOSE, ..TcpSegment::bare(now) };
            return Some(TcpPacket {
                size: u32::from(CLOSE),
                ecn: None,
                segment: Some(segment),
                ack: None,
            });
        }
        if self.gone {
            return None;
        }
        if let Some(segment) = self.sender.poll_send(now) {
            let ecn = self.sender.ecn_of(&segment);
            // A segment also carries the acknowledgement, so no separate acknowledgement is due.
            // SACK blocks would not fit next to data.
            let ack = (!segment.syn).then(|| self.receiver.ack(now).beside(segment.len > 0));
            if ack.is_some() {
                self.acks_now = 0;
            }
            return Some(TcpPacket {
                size: u32::from(segment.size),
                ecn,
                segment: Some(segment),
                ack,
            });
        }
        self.acks_now = self.acks_now.checked_sub(1)?;
        let mut least = 0;
        if self.receiver.answers_syn() {
            self.syn_ack = Some(now);
            self.syn_acks += 1;
            least = self.options.handshake;
        }
        let ack = self.receiver.ack(now);
        Some(TcpPacket {
            size: u32::from(ack.size().max(least)),
            ecn: None,
            segment: None,
            ack: Some(ack),
        })
    }

    /// Returns the time at which to call [`TcpEndpoint::on_timeout`], or to call
    /// [`TcpEndpoint::poll_send`] again.
    pub(crate) fn timeout(&self) -> Option<Time> {
        if self.gone {
            return None;
        }
        let idle = self.options.idle.map(|idle| self.heard + idle);
        [self.sender.timeout(), self.receiver.timeout(), idle].into_iter().flatten().min()
    }

    /// Handles an expired timer.
    pub(crate) fn on_timeout(&mut self, now: Time) {
        if self.options.idle.is_some_and(|idle| now.since(self.heard) >= idle) {
            self.gone = true;
            return;
        }
        if self.receiver.timeout().is_some_and(|at| at <= now) {
            let probes = self.options.probes.filter(|_| self.receiver.answers_syn());
            self.acks_now = self.acks_now.max(probes.map_or(1, |probes| probes.count));
        }
        self.sender.on_timeout(now);
    }
}
