//! Both endpoints of a reliable flow, QUIC-like or TCP, as the host uses them. The endpoints take
//! and return packets in their stored form.

use fathom_cc::{Controller, ControllerMetrics, Time};
use fathom_netsim::sim::{Ecn, WIRE_OVERHEAD};

use super::flow::PacketLevelFlow;
use super::packet::{Stored, read_ack, read_data, store_ack, store_data};
use super::receiver::Receiver;
use super::report::TcpReport;
use super::sender::Sender;
use super::tcp::{self, TcpReceiver, TcpSender};

/// An outgoing packet: its bytes on the wire, its ECN codepoint and its stored form.
pub(super) struct Outgoing {
    pub(super) size: u32,
    pub(super) ecn: Option<Ecn>,
    pub(super) stored: Stored,
}

/// The sender and the receiver of a flow.
pub(super) enum Endpoints {
    Quic(Box<Sender>, Box<Receiver>),
    Tcp(Box<TcpSender>, Box<TcpReceiver>),
}

impl Endpoints {
    pub(super) fn new(flow: &PacketLevelFlow, controller: Box<dyn Controller>) -> Self {
        match flow.tcp_options() {
            None => Self::Quic(
                Box::new(Sender::new(controller, flow.sender_options())),
                Box::new(flow.receiver()),
            ),
            Some((sender, receiver)) => Self::Tcp(
                Box::new(TcpSender::new(controller, sender)),
                Box::new(TcpReceiver::new(receiver)),
            ),
        }
    }

    /// Replaces the connection by a new one.
    pub(super) fn restart(&mut self, flow: &PacketLevelFlow, controller: Box<dyn Controller>) {
        match self {
            Self::Quic(sender, receiver) => {
                sender.restart(controller);
                **receiver = flow.receiver();
            }
            Self::Tcp(sender, receiver) => {
                sender.restart(controller);
                if let Some((_, options)) = flow.tcp_options() {
                    **receiver = TcpReceiver::new(options);
                }
            }
        }
    }

    pub(super) fn offer(&mut self, bytes: u64) {
        match self {
            Self::Quic(sender, _) => sender.offer(bytes),
            Self::Tcp(sender, _) => sender.offer(bytes),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        match self {
            Self::Quic(sender, _) => sender.is_done(),
            Self::Tcp(sender, _) => sender.is_done(),
        }
    }

    pub(super) fn metrics(&self) -> ControllerMetrics {
        match self {
            Self::Quic(sender, _) => sender.metrics(),
            Self::Tcp(sender, _) => sender.metrics(),
        }
    }

    pub(super) fn sender_timeout(&self) -> Option<Time> {
        match self {
            Self::Quic(sender, _) => sender.timeout(),
            Self::Tcp(sender, _) => sender.timeout(),
        }
    }

    pub(super) fn receiver_timeout(&self) -> Option<Time> {
        match self {
            Self::Quic(_, receiver) => receiver.timeout(),
            Self::Tcp(_, receiver) => receiver.timeout(),
        }
    }

    pub(super) fn on_sender_timeout(&mut self, now: Time) {
        match self {
            Self::Quic(sender, _) => sender.on_timeout(now),
            Self::Tcp(sender, _) => sender.on_timeout(now),
        }
    }

    /// Returns the next packet to send now; `None` if no packet may be sent.
    pub(super) fn poll_send(&mut self, now: Time, epoch: u32, ecn: bool) -> Option<Outgoing> {
        match self {
            Self::Quic(sender, _) => sender.poll_send(now).map(|packet| Outgoing {
                size: u32::from(packet.size) + WIRE_OVERHEAD,
                ecn: ecn.then_some(Ecn::Ect0),
                stored: store_data(epoch, &packet),
            }),
            Self::Tcp(sender, _) => sender.poll_send(now).map(|segment| Outgoing {
                size: u32::from(segment.size),
                ecn: sender.ecn_of(&segment),
                stored: tcp::store_segment(epoch, &segment),
            }),
        }
    }

    /// Processes a data packet. Returns whether to acknowledge it at once; `None` if the packet
    /// belongs to another connection.
    pub(super) fn on_data(
        &mut self,
        now: Time,
        body: &[u8],
        epoch: u32,
        marked: bool,
    ) -> Option<bool> {
        match self {
            Self::Quic(_, receiver) => {
                let (_, number, sent) = read_data(body).filter(|(e, ..)| *e == epoch)?;
                Some(receiver.on_data(now, number, sent, marked))
            }
            Self::Tcp(_, receiver) => {
                let (_, segment) = tcp::read_segment(body).filter(|(e, _)| *e == epoch)?;
                Some(receiver.on_segment(now, &segment, marked))
            }
        }
    }

    /// Processes an acknowledgement. Returns false if it belongs to another connection.
    pub(super) fn on_ack(&mut self, now: Time, body: &[u8], epoch: u32) -> bool {
        match self {
            Self::Quic(sender, _) => {
                let ack = read_ack(body).filter(|(e, _)| *e == epoch);
                ack.map(|(_, ack)| sender.on_ack(now, &ack)).is_some()
            }
            Self::Tcp(sender, _) => {
                let ack = tcp::read_ack(body).filter(|(e, _)| *e == epoch);
                ack.map(|(_, ack)| sender.on_ack(now, &ack)).is_some()
            }
        }
    }

    /// Builds the acknowledgement to send now.
    pub(super) fn ack(&mut self, now: Time, epoch: u32) -> Outgoing {
        match self {
            Self::Quic(_, receiver) => {
                let ack = receiver.ack(now);
                let size = u32::from(ack.size()) + WIRE_OVERHEAD;
                Outgoing { size, ecn: None, stored: store_ack(epoch, &ack) }
            }
            Self::Tcp(_, receiver) => {
                let ack = receiver.ack(now);
                Outgoing {
                    size: u32::from(ack.size()),
                    ecn: None,
                    stored: tcp::store_ack(epoch, &ack),
                }
            }
        }
    }

    /// Returns `report` with the sender's counts filled in. For TCP, `lost` counts retransmitted
    /// segments. Every timeout of TCP also counts as persistent congestion, because it collapses
    /// the window.
    pub(super) fn report(&self, report: TcpReport) -> TcpReport {
        match self {
            Self::Quic(sender, _) => {
                let counts = sender.counts();
                TcpReport {
                    sent: counts.sent,
                    lost: counts.lost,
                    probe_timeouts: counts.probe_timeouts,
                    persistent: counts.persistent,
                    delivered: counts.delivered,
                    ..report
                }
            }
            Self::Tcp(sender, _) => {
                let counts = sender.counts();
                TcpReport {
                    sent: counts.sent,
                    lost: counts.retransmitted,
                    probe_timeouts: counts.timeouts,
                    persistent: counts.timeouts,
                    delivered: counts.delivered,
                    ..report
                }
            }
        }
    }
}
